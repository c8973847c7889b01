// Pictures of all examples: nothing overlaps, wires end at ports, every name of the program can be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/support/picture.h"
#include "tilewright/diagram/text.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/tile/lifetime.h"

namespace tilewright::testing::draw_layout_test {
namespace {

std::vector<std::string> examples() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples"))
    if (entry.path().extension() == ".tw") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(DrawLayout, ProgramsKeepTheRules) {
  ASSERT_GT(examples().size(), 40u);
  for (const std::string& path : examples())
    for (double width : {700.0, 420.0, 2000.0}) {
      LayoutOptions o;
      o.width = width;
      const Picture picture = lay_out(diagram_of(load_program(path)), o);
      EXPECT_EQ(breaches(picture), "") << path << " at " << width;
      EXPECT_FALSE(picture.texts.empty()) << path;
      if (width == 700) {
        EXPECT_LE(picture.width, 701) << path;
      }
    }
}

/// All plans of all kernels. Every column's live bytes are at most M, and some column's are M.
TEST(DrawLayout, PlansKeepTheRules) {
  for (const std::string& path : examples())
    for (Target target : {Target::Interp, Target::Cpu}) {
      // Those of a CPU have other sizes and guards; a few will do.
      if (target == Target::Cpu && path.find("/pf_causal") == std::string::npos &&
          path.find("/paged") == std::string::npos && path.find("/layernorm") == std::string::npos)
        continue;
      CompileOptions o;
      o.target = target;
      const CompiledProgram c = compile_program(load_program(path), o);
      for (const Compilation& kernel : c.kernels)
        for (const GuardedPlan& g : kernel.plans) {
          const TileProgram tiles = lower(kernel, g.plan);
          for (size_t k = 0; k < tiles.kernels.size(); ++k) {
            const Diagram d = diagram_of(kernel.elaborated, kernel.derivation, tiles, k, {});
            const Picture picture = lay_out(d);
            const std::string where = path + " " + print(kernel.program, g.plan);
            EXPECT_EQ(breaches(picture), "") << where;
            EXPECT_LE(picture.width, 760) << where;
            EXPECT_FALSE(d.loops.empty()) << where;
            const Peak peak = live_peak(tiles.kernels[k]);
            std::set<std::string> shared, registers;
            for (const auto& column : d.table.of_column) {
              shared.insert(column.at(1));
              registers.insert(column.at(2));
            }
            EXPECT_TRUE(shared.count(bytes_text(peak.shared))) << where;
            EXPECT_TRUE(registers.count(bytes_text(peak.registers))) << where;
          }
        }
    }
}

/// Words of all texts.
std::set<std::string> words(const Picture& p) {
  std::set<std::string> out;
  for (const PictureText& t : p.texts) {
    std::string word;
    for (char c : t.text + " " + t.sub + " " + t.tail + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
        word += c;
      } else {
        if (!word.empty()) out.insert(word);
        word.clear();
      }
    }
  }
  return out;
}

TEST(DrawLayout, NamesAndParamsCanBeRead) {
  for (const std::string& path : examples()) {
    const Program p = load_program(path);
    const std::set<std::string> shown = words(lay_out(diagram_of(p)));
    const auto expect = [&](const std::string& name) {
      EXPECT_TRUE(shown.count(name)) << path << ": " << name;
    };
    for (const Axis& a : p.axes) expect(a.name());
    for (const Param& x : p.params) expect(x.sym.name());
    for (const Input& x : p.inputs) expect(x.sym.name());
    for (const Output& x : p.outputs) expect(x.sym.name());
    // A softmax that is written out is drawn as one: the definitions of its parts are not.
    if (path.find("respelled") == std::string::npos)
      for (const Definition& x : p.definitions) expect(x.sym.name());
  }
}

}  // namespace
}  // namespace tilewright::testing::draw_layout_test
