// tilewright draw: a program, or the kernels of its plan, as Neural Circuit Diagrams.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "tilewright/diagram/svg.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/map/atom.h"

namespace tilewright::cli {

namespace {

struct Drawing {
  std::string output, theme = "auto", kernel;
  double width = 700;
  bool plan = false;
};

Theme theme_of(const std::string& name) {
  expect_one_of(name, {"auto", "light", "dark"}, "theme");
  return name == "light" ? Theme::Light : name == "dark" ? Theme::Dark : Theme::Auto;
}

/// The kernels that --kernel names: by the whole of its name or one of the arrays in it; all where it is empty.
std::vector<size_t> kernels_named(const CompiledProgram& c, const std::string& name) {
  std::vector<size_t> found;
  std::vector<std::string> names;
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    const std::string all = c.name_of(k);
    names.push_back(all);
    if (name.empty() || (", " + all + ",").find(", " + name + ",") != std::string::npos) found.push_back(k);
  }
  if (found.empty()) expect_one_of(name, names, "kernel");
  return found;
}

std::string title_of(const CompiledProgram& c, size_t kernel) {
  if (!c.several()) return c.program.name;
  return fmt::format("{}, kernel {} of {}: {}", c.program.name, kernel + 1, c.kernels.size(),
                     c.name_of(kernel));
}

/// The definitions of the program that a kernel computes; empty where it computes what the program does not name.
std::vector<Sym> definitions_of(const CompiledProgram& c, size_t kernel) {
  std::vector<Sym> all;
  for (const Definition& d : c.kernels[kernel].program.definitions) {
    const auto& own = c.program.definitions;
    const auto it = std::find_if(own.begin(), own.end(),
                                 [&](const Definition& x) { return x.sym.name() == d.sym.name(); });
    if (it == own.end()) return {};
    all.push_back(it->sym);
  }
  return all;
}

/// Tiles that a matrix unit computes, where the target has one.
std::vector<Sym> on_matrix_unit(const Compilation& c, const TileProgram& tiles,
                                const CompileOptions& options) {
  Target target = options.target == Target::InterpMapped ? options.mapping : options.target;
  if (target == Target::Interp) return {};
  std::vector<Sym> found;
  const MappedProgram mapped = lower_mapped(c, tiles, target, LayoutClass::Aligned);
  for (const MappedKernel& kernel : mapped.kernels)
    for (const Role& role : kernel.roles)
      for_each_op(role.body, [&](const MappedOp& op) {
        const Mma* m = std::get_if<Mma>(&op.node);
        if (!m || (m->atom.rfind("wgmma", 0) != 0 && m->atom.rfind("bf16_tiles", 0) != 0)) return;
        for (const TileKernel& k : tiles.kernels)
          for (const Tile& t : k.tiles)
            if (t.sym == m->d || t.sym.name() == m->d.name()) found.push_back(t.sym);
      });
  return found;
}

std::vector<Diagram> plan_diagrams(const CompiledProgram& c, size_t kernel, const CompileOptions& options,
                                   const std::map<std::string, int64_t>& sizes) {
  const Compilation& compiled = c.kernels[kernel];
  const Plan& plan = plan_for(compiled, sizes);
  const TileProgram tiles = lower(compiled, plan);
  KernelDrawing drawing;
  drawing.on_matrix_unit = on_matrix_unit(compiled, tiles, options);
  for (const Axis& a : compiled.program.axes)
    if (const auto it = sizes.find(a.name()); it != sizes.end()) drawing.sizes[a.index.size()] = it->second;
  std::vector<Diagram> all;
  for (size_t k = 0; k < tiles.kernels.size(); ++k) {
    drawing.title = title_of(c, kernel);
    drawing.notes.clear();
    if (tiles.kernels.size() > 1)
      drawing.title += fmt::format(", part {} of {}", k + 1, tiles.kernels.size());
    drawing.notes.push_back("plan " + print(compiled.program, plan));
    all.push_back(diagram_of(compiled.elaborated, compiled.derivation, tiles, k, drawing));
  }
  return all;
}

}  // namespace

void add_draw(CLI::App& app, int& status) {
  auto o = std::make_shared<Options>();
  auto drawing = std::make_shared<Drawing>();
  CLI::App* verb =
      app.add_subcommand("draw", "draw the program, or its plan, as an SVG picture (docs/diagrams.md)");
  add_program(*verb, *o);
  verb->add_flag(
      "--plan", drawing->plan,
      "draw the kernels of the plan: levels of memory, blocks and chunks, loops with their state, bytes");
  verb->add_option("--target", o->target, "what to plan for")
      ->type_name("cpu|cuda|interp|interp-mapped")
      ->capture_default_str();
  add_schedule(*verb, *o);
  add_map(*verb, *o);
  verb->add_option("--kernel", drawing->kernel, "one kernel of several, by the array that it stores")
      ->type_name("NAME");
  verb->add_option("-o,--output", drawing->output, "write the picture here (default: standard output)")
      ->type_name("FILE");
  verb->add_option("--theme", drawing->theme, "colours; auto follows whoever looks at it")
      ->type_name("auto|light|dark")
      ->capture_default_str();
  add_integer(
      *verb, "--width", [drawing](int64_t n) { drawing->width = static_cast<double>(n); }, 300, 10000, 700,
      "pixels; what is wider continues in a further row");
  add_json(*verb, o->json);
  add_examples(*verb,
               {"tilewright draw examples/pf_causal.tw -o causal.svg",
                "tilewright draw examples/pf_causal.tw --plan --target cuda --size b=1,h=8,i=4096,j=4096 -o "
                "plan.svg",
                "tilewright draw examples/llama_block.tw --kernel o --theme light -o attention.svg"});
  verb->callback([=, &status] {
    status = [&] {
      const Theme theme = theme_of(drawing->theme);
      if (!drawing->output.empty()) {
        check_writable("--output", drawing->output);
        files_read(*o).writes("--output", drawing->output);
      }
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      const CompileOptions options = compile_options(*o, p);
      for (const char* option : {"--target", "--schedule"})
        expect_effect(*verb, option, drawing->plan || !drawing->kernel.empty(),
                      "it is for --plan and --kernel");
      expect_effect(*verb, "--stream", drawing->plan || !drawing->kernel.empty(),
                    "it is for --plan and --kernel");
      if (!drawing->plan && !sizes.empty())
        throw UserError(
            Span{},
            fmt::format("--size {}={} has no effect here", sizes.begin()->first, sizes.begin()->second),
            "it is for --plan; without it only an axis with a literal length takes another");
      expect_effect(*verb, "--map", options.target == Target::InterpMapped,
                    "it is for --target interp-mapped");

      std::vector<std::pair<std::string, Diagram>> diagrams;
      if (drawing->plan || !drawing->kernel.empty()) {
        const CompiledProgram c = compile_program(p, options);
        for (size_t k : kernels_named(c, drawing->kernel)) {
          if (drawing->plan) {
            for (Diagram& d : plan_diagrams(c, k, options, sizes))
              diagrams.emplace_back(c.name_of(k), std::move(d));
            continue;
          }
          const std::vector<Sym> own = definitions_of(c, k);
          Diagram d = own.empty() ? diagram_of(c.kernels[k].program) : diagram_of(c.program, &own);
          d.title = title_of(c, k);
          diagrams.emplace_back(c.name_of(k), std::move(d));
        }
      } else {
        diagrams.emplace_back("", diagram_of(p));
      }

      LayoutOptions layout;
      layout.width = drawing->width;
      std::vector<Picture> pictures;
      nlohmann::json j{{"program", p.name}, {"pictures", nlohmann::json::array()}};
      for (const auto& [kernel, d] : diagrams) {
        pictures.push_back(lay_out(d, layout));
        nlohmann::json one{{"title", d.title},
                           {"width", pictures.back().width},
                           {"height", pictures.back().height},
                           {"boxes", d.boxes.size()}};
        if (!kernel.empty()) one["kernel"] = kernel;
        j["pictures"].push_back(one);
      }
      const std::string svg = to_svg(pictures, theme, p.name);
      if (!drawing->output.empty()) {
        write_text(drawing->output, svg);
        j["file"] = drawing->output;
      } else if (o->json) {
        j["svg"] = svg;
      } else {
        put(svg);
      }
      if (o->json) put_json(j);
      return 0;
    }();
  });
}

}  // namespace tilewright::cli
