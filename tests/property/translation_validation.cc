// Every tile program of the examples, run on symbols at small ragged sizes, is its definition (tests/support/symbolic_tiles.h); and faults that are put into
// tile programs are noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include <fmt/format.h>

#include "tests/support/examples.h"
#include "tests/support/symbolic_tiles.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/plan/axes.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/tile/statements.h"

namespace tilewright::testing::translation_validation_test {
namespace {

/// An example with its literal sizes made small, but for those that its text relies on; a streamed axis has three chunks.
Program small_example(const std::string& name) {
  std::map<std::string, int64_t> literals;
  const Program p = load_program(fmt::format("{}/examples/{}.tw", TW_SOURCE_DIR, name));
  const std::vector<Sym> streams = stream_candidates(elaborate(p));
  for (const Axis& a : p.axes)
    if (a.baked() && a.size.rational()->num() > 2 && name != "rope" && a.name() != "t")
      literals[a.name()] = !streams.empty() && a.index == streams.front() ? 5 : 2;
  return example(name, DType::f32, literals);
}

/// Images do not know that log l + ρ is the same for every ρ, nor a root both in an exponent and squared beside it.
bool by_images(const Program& p, const Plan& plan) {
  bool logarithm = false, root = false, sigmoid = false;
  for (const Definition& d : p.definitions)
    rewrite(d.value, [&](Expr e) {
      logarithm = logarithm || e.is(Op::Log);
      root = root || e.is(Op::Rsqrt) || e.is(Op::Sqrt);
      sigmoid = sigmoid || e.is(Op::Sigmoid);
      return e;
    });
  return !(logarithm && plan.guard != Guard::Always) && !(root && sigmoid);
}

std::vector<std::string> examples() {
  std::vector<std::string> names;
  for (const auto& f : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples"))
    if (f.path().extension() == ".tw") names.push_back(f.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

/// Three chunks of the streamed axis, the last of one element; of the other axes two are cut into blocks of which the last is not full.
Sizes small_sizes(const Program& p, Sym stream) {
  std::map<std::string, int64_t> given;
  // An axis of 64 elements for each of another, as blocks have, is long enough at its shortest.
  const bool multiples = std::any_of(p.axes.begin(), p.axes.end(), [](const Axis& a) {
    return a.size && !a.baked() && !a.size.is(Op::Symbol);
  });
  int cut = multiples ? 2 : 0;
  for (size_t k = p.axes.size(); k-- > 0;) {
    const Axis& a = p.axes[k];
    if (!a.size) given[a.name()] = a.index == stream && !multiples ? 5 : cut++ < 2 ? 3 : 1;
  }
  return bind_sizes(p, {}, given);
}

/// Plans with tiles of one and two elements: lazy guard, always, split, resident. Those that the program does not have are left out.
std::vector<TileProgram> small_tiles(const Compilation& c, const Sizes& sizes) {
  Plan plan = c.plans.back().plan;
  plan.resident = false;
  plan.split = 0;
  plan.chunk = 2;
  plan.stages = 1;
  if (plan.bounds != BoundsBy::None) plan.bounds = BoundsBy::Tested;
  for (Cut& cut : plan.group) cut.block = std::min<int64_t>(cut.block, 2), cut.piece = 1;
  std::vector<Plan> plans(5, plan);
  plans[1].guard = Guard::Always;
  plans[2].split = 4;
  plans[3].resident = true;
  plans[3].chunk = sizes.at(plan.stream.size());
  plans[3].bounds = BoundsBy::None;
  plans[4].guard = Guard::Threshold;
  std::vector<TileProgram> tiles;
  for (const Plan& p : plans) {
    try {
      check_plan(c.elaborated, c.derivation, p);
      tiles.push_back(build_tiles(c.elaborated, c.derivation, p));
    } catch (const UserError&) {
      continue;
    }
  }
  return tiles;
}

std::vector<Compilation> kernels_of(const Program& p) {
  CompileOptions o;
  o.target = Target::Cpu;
  CompiledProgram c = compile_program(p, o);
  std::vector<Compilation> all = std::move(c.kernels);
  if (c.whole) all.push_back(std::move(*c.whole));
  return all;
}

TEST(TranslationValidation, TileProgramsOfExamplesAreTheirDefinitions) {
  int elements = 0, programs = 0;
  for (const std::string& name : examples()) {
    if (name == "block_sparse") continue;  // its least size is a block of 64 by 64
    for (const Compilation& c : kernels_of(small_example(name))) {
      const Sizes sizes = small_sizes(c.elaborated, c.derivation.cascade.axis);
      const std::vector<TileProgram> tiles = small_tiles(c, sizes);
      EXPECT_FALSE(tiles.empty()) << name;
      for (const TileProgram& t : tiles) {
        ++programs;
        for (uint64_t seed : {1, 2}) {
          const auto result =
              SymbolicRun(c.elaborated, sizes, seed).compare(t, by_images(c.elaborated, t.plan));
          EXPECT_EQ(result.difference, "")
              << name << ", " << print(c.elaborated, t.plan) << ", seed " << seed;
          elements += result.elements;
        }
      }
    }
  }
  std::printf("%d tile programs, %d elements\n", programs, elements);
  EXPECT_GE(programs, 150);
}

// ---- faults ----

struct Fault {
  std::string what;
  TileProgram tiles;
};

std::vector<Fault> faults(const TileProgram& t) {
  std::vector<Fault> all;
  const auto add = [&](const std::string& what,
                       const std::function<bool(TileKernel&, Body&, size_t)>& change) {
    // The n-th statement of all bodies for which `change` does something.
    for (int n = 0;; ++n) {
      Fault f{what, t};
      int seen = -1;
      bool done = false;
      for (TileKernel& k : f.tiles.kernels) {
        std::function<void(Body&)> visit = [&](Body& body) {
          for (size_t s = 0; s < body.size() && !done; ++s) {
            Body copy = body;
            TileKernel probe = k;
            if (change(probe, copy, s) && ++seen == n) {
              change(k, body, s);
              f.what += fmt::format(" in {}, statement {}", k.name, s);
              done = true;
              return;
            }
            if (Body* inside = inner_body(body[s])) visit(*inside);
          }
        };
        visit(k.body);
      }
      if (!done) return;
      all.push_back(std::move(f));
    }
  };
  add("repair dropped", [](TileKernel&, Body& body, size_t s) {
    if (body[s].comment != "repair") return false;
    body.erase(body.begin() + std::ptrdiff_t(s));
    return true;
  });
  add("first chunks dropped", [](TileKernel&, Body& body, size_t s) {
    auto* loop = std::get_if<Loop>(&body[s].node);
    if (!loop) return false;
    for (Segment& g : loop->segments) g.lo = g.lo + 1;
    return true;
  });
  add("last chunks dropped", [](TileKernel&, Body& body, size_t s) {
    auto* loop = std::get_if<Loop>(&body[s].node);
    if (!loop) return false;
    for (Segment& g : loop->segments) g.hi = g.hi - 1;
    return true;
  });
  add("sum begun anew", [](TileKernel&, Body& body, size_t s) {
    if (auto* dot = std::get_if<Dot>(&body[s].node); dot && dot->accumulate)
      return !(dot->accumulate = false);
    if (auto* sum = std::get_if<Reduce>(&body[s].node); sum && sum->accumulate)
      return !(sum->accumulate = false);
    return false;
  });
  add("operands of one tile", [](TileKernel& k, Body& body, size_t s) {
    auto* dot = std::get_if<Dot>(&body[s].node);
    if (!dot) return false;
    for (const Tile& other : k.tiles)
      if (other.sym != dot->a && other.sym != dot->b && other.sym != dot->tile &&
          other.axes == k.tile(dot->b).axes && other.use == Tile::Use::Operand) {
        dot->b = other.sym;
        return true;
      }
    return false;
  });
  add("another sign", [](TileKernel&, Body& body, size_t s) {
    auto* map = std::get_if<Map>(&body[s].node);
    if (!map || !map->value.is(Op::Mul) || body[s].comment == "repair") return false;
    map->value = -map->value;
    if (map->masked) map->masked = -map->masked;
    return true;
  });
  return all;
}

TEST(TranslationValidation, FaultsAreNoticed) {
  int made = 0, missed = 0, harmless = 0;
  for (const std::string name :
       {"pf_causal", "pf_alibi", "dc_gqa", "layernorm_matmul", "variance", "covariance", "affine_quant_gemm",
        "softmax_backward_one_pass", "rmsnorm_swiglu", "moe_routing", "logsumexp", "gated_mlp", "argmax",
        "window_two_sided"}) {
    for (const Compilation& c : kernels_of(small_example(name))) {
      const Sizes sizes = small_sizes(c.elaborated, c.derivation.cascade.axis);
      const std::vector<TileProgram> tiles = small_tiles(c, sizes);
      for (size_t k = 0; k < std::min<size_t>(tiles.size(), 3); ++k)
        for (const Fault& f : faults(tiles[k])) {
          ++made;
          bool noticed = false;
          for (uint64_t seed : {1, 2, 4, 6, 8})
            noticed = noticed || !SymbolicRun(c.elaborated, sizes, seed).compare(f.tiles).difference.empty();
          if (noticed) continue;
          // Results do not depend on where the point of a mean is, so what moves it may be wrong.
          bool mean = false;
          for (const Pass& pass : c.derivation.passes)
            for (const Point& point : pass.state.points) mean = mean || point.kind == Point::Kind::Mean;
          harmless += mean;
          missed += !mean;
          std::printf("not noticed in %s: %s\n", name.c_str(), f.what.c_str());
        }
    }
  }
  std::printf("%d faults, %d not noticed\n", made, missed);
  EXPECT_GE(made, 200);
  EXPECT_EQ(missed, 0);
  EXPECT_LE(harmless, made / 25);
}

}  // namespace
}  // namespace tilewright::testing::translation_validation_test
