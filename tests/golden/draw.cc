// Pictures of programs.
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include "tilewright/diagram/svg.h"
#include "tilewright/driver/compiled.h"

namespace tilewright::testing::draw_test {
namespace {

void expect_picture(const std::string& name, Theme theme = Theme::Auto) {
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw");
  expect_golden("draw/" + name + (theme == Theme::Dark ? ".dark" : "") + ".svg",
                to_svg({lay_out(diagram_of(p))}, theme, p.name));
}

TEST(Draw, Programs) {
  for (const char* name :
       {"pf_global", "pf_causal", "softmax", "rmsnorm_matmul", "layernorm_matmul", "gated_mlp", "paged",
        "swiglu", "llama_block", "moe_routing", "cross_entropy_linear", "variance", "packed", "respelled"})
    expect_picture(name);
}
/// The plans of a GPU, which do not depend on this machine.
TEST(Draw, Plans) {
  for (const char* name : {"pf_causal", "layernorm_matmul", "swiglu"}) {
    CompileOptions o;
    o.target = Target::Interp;
    const Program p = load_program(std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw");
    const CompiledProgram c = compile_program(p, o);
    std::vector<Picture> pictures;
    for (size_t k = 0; k < c.kernels.size(); ++k) {
      const Compilation& kernel = c.kernels[k];
      const TileProgram tiles = lower(kernel, kernel.plans.back().plan);
      KernelDrawing drawing;
      drawing.title = c.name_of(k);
      for (const TileKernel& t : tiles.kernels)
        for (const Tile& tile : t.tiles)
          if (tile.sym.name() == "S") drawing.on_matrix_unit.push_back(tile.sym);
      for (const Axis& a : p.axes) drawing.sizes[a.index.size()] = 512;
      pictures.push_back(lay_out(diagram_of(kernel.elaborated, kernel.derivation, tiles, 0, drawing)));
    }
    expect_golden(std::string("draw/") + name + ".plan.svg", to_svg(pictures, Theme::Light, p.name));
  }
}
TEST(Draw, Dark) { expect_picture("pf_causal", Theme::Dark); }

}  // namespace
}  // namespace tilewright::testing::draw_test
