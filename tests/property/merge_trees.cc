// States run in f32, as kernels hold them, by merge trees of random shape: a hundred for every state of every example agree with the whole within
// 16 units in the last place of what was added up, sorted lists pair by pair.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/derived.h"
#include "tests/support/f32_state.h"
#include "tilewright/driver/compiled.h"

namespace tilewright::testing::merge_trees_test {
namespace {

double ulp(double scale) { return scale == 0 ? 0x1p-149 : std::ldexp(1.0, std::ilogb(scale) - 23); }

/// The sizes of a program's "# try: --size a=1,b=2 …" line.
std::map<std::string, int64_t> tried_sizes(const std::string& path) {
  std::ifstream in(path);
  std::map<std::string, int64_t> out;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("# try: ")) continue;
    std::istringstream words(line.substr(7));
    for (std::string word; words >> word;) {
      if (word != "--size" || !(words >> word)) continue;
      std::istringstream all(word);
      for (std::string one; std::getline(all, one, ',');)
        out[one.substr(0, one.find('='))] = std::stoll(one.substr(one.find('=') + 1));
    }
  }
  return out;
}

/// Sizes of a kernel's axes: as given by name, products of them for axes joined into one.
Sizes sizes_of(const Program& p, const std::map<std::string, int64_t>& given) {
  Sizes out;
  Bindings known;
  for (const Axis& a : p.axes) {
    if (a.size) continue;
    int64_t n = 1;
    for (const std::string& name : a.joined.empty() ? std::vector<std::string>{a.name()} : a.joined)
      n *= given.count(name) ? given.at(name) : 3;
    out[a.index.size()] = n;
    known[a.index.size()] = double(n);
  }
  for (int round = 0; round < 3; ++round)  // sizes may refer to later ones
    for (const Axis& a : p.axes) {
      if (!a.size || out.count(a.index.size())) continue;
      const std::vector<Sym> needed = free_symbols(a.size);
      if (!std::all_of(needed.begin(), needed.end(), [&](Sym s) { return known.count(s) != 0; })) continue;
      known[a.index.size()] = evaluate(a.size, known);
      out[a.index.size()] = int64_t(known[a.index.size()]);
    }
  return out;
}

TEST(MergeTrees, OfEveryExampleAgree) {
  constexpr int trees = 100;
  constexpr int64_t longest = 64;  // in place of literal sizes of more than 256
  size_t states = 0, values = 0, lists = 0;
  double worst = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples")) {
    if (file.path().extension() != ".tw") continue;
    const std::string path = file.path().string();
    SCOPED_TRACE(file.path().stem().string());
    const std::map<std::string, int64_t> given = tried_sizes(path);
    Overrides literals;
    const Program as_written = load_program(path);
    for (const Axis& a : as_written.axes) {
      if (!a.baked()) continue;
      const double n = *a.size.number();
      if (given.count(a.name()))
        literals.literal_sizes[a.name()] = given.at(a.name());
      else if (n > 256)
        literals.literal_sizes[a.name()] = longest;
    }
    CompileOptions o;
    o.target = Target::Interp;
    const CompiledProgram compiled = compile_program(load_program(path, literals), o);
    for (const Compilation& kernel : compiled.kernels) {
      const Program& p = kernel.elaborated;
      const Derivation& d = kernel.derivation;
      const Sizes sizes = sizes_of(p, given);
      const RandomInputs data(p, sizes, 1);
      const int64_t n = sizes.at(d.cascade.axis.size());
      Streamed whole(p, d, sizes, data);  // gives what a pass reads of earlier ones
      whole.follow({Step{.begin = 0, .end = n}});
      std::mt19937_64 random(7);
      Bindings at;
      for (const Axis& a : p.axes) at[a.index] = double(random() % uint64_t(sizes.at(a.index.size())));
      for (const Pass& pass : d.passes) {
        if (pass.state.components.empty() && pass.state.points.empty()) continue;
        ++states;
        const auto element = [&](Expr e, int64_t j) {
          at[d.cascade.axis] = double(j);
          return whole.value(e, at);
        };
        std::map<Sym, int64_t> ranks;
        for (const Component& c : pass.state.components)
          if (c.rank) ranks[c.rank] = sizes.at(c.rank.size());
        const F32State state(pass.state, n, element, ranks);
        // What lists order, with many equal keys.
        const F32State coarse(
            pass.state, n, [&](Expr e, int64_t j) { return std::round(2 * element(e, j)) / 2; }, ranks);
        lists += ranks.size();
        for (int tree = 0; tree < (ranks.empty() ? trees : 2 * trees); ++tree) {
          const F32State& run = tree < trees ? state : coarse;
          for (const F32State::Held& h : run.compare(run.run(random_tree(random, n, 6)))) {
            ++values;
            if (h.exact || !std::isfinite(h.want) || !std::isfinite(h.got)) {
              EXPECT_EQ(h.got, h.want) << h.name << ", tree " << tree;
              continue;
            }
            const double error = std::abs(h.got - h.want) / ulp(std::max(h.scale, std::abs(h.want)));
            worst = std::max(worst, error);
            EXPECT_LE(error, 16) << h.name << " is " << h.got << " in place of " << h.want << ", tree "
                                 << tree;
          }
        }
      }
    }
  }
  fmt::print("{} states, {} trees each, {} values: at most {:.1f} ulp of their scale from the whole\n",
             states, trees, values, worst);
  EXPECT_GE(states, 50u);
  EXPECT_GE(lists, 1u);
}

/// A reciprocal, a root or a running sum inside of a state would have to be repaired: a lift holds points and results of earlier passes alone.
TEST(MergeTrees, NoStateHoldsAResultOfItsPass) {
  for (const auto& file : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples")) {
    if (file.path().extension() != ".tw") continue;
    SCOPED_TRACE(file.path().stem().string());
    CompileOptions o;
    o.target = Target::Interp;
    const CompiledProgram compiled = compile_program(load_program(file.path().string()), o);
    for (const Compilation& kernel : compiled.kernels)
      for (size_t k = 0; k < kernel.derivation.passes.size(); ++k)
        for (const Component& c : kernel.derivation.passes[k].state.components)
          for (Sym s : tensors_read(c.lift))
            for (const Reduction& r : kernel.derivation.cascade.reductions)
              EXPECT_FALSE(r.result == s && r.pass > int(k)) << c.var.name() << " holds " << s.name();
  }
}

}  // namespace
}  // namespace tilewright::testing::merge_trees_test
