// Faults seeded into what map_sm90 and map_sm80 make of the examples: every wait, arrival, fence, barrier, group and count is damaged in turn, and the interpreter must
// notice each time, by a fault or by wrong values, under some adversary. Undamaged programs pass under all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/compiled.h"
#include "tests/support/mapped_run.h"
#include "tests/support/mapped_samples.h"
#include "tilewright/support/error.h"

namespace tilewright::testing::mapped_mutants_test {
namespace {

using Mode = Adversary::Mode;
const std::vector<Adversary> kAdversaries = {
    {1, Mode::Lazy}, {2, Mode::Random}, {3, Mode::Eager}, {4, Mode::Random}, {5, Mode::Random}};

/// Damages op number n of `ops`; false leaves it alone.
using Damage = std::function<bool(MappedKernel&, Ops& ops, size_t n)>;

class Mutants {
 public:
  /// `others`: the same compilation at other sizes, which take other branches.
  explicit Mutants(const MappedRun& run, std::vector<const MappedRun*> others = {})
      : run_(run), others_(std::move(others)) {}

  void expect_sound() const {
    for (const Adversary& a : kAdversaries) {
      EXPECT_EQ(run_.run(a), "") << "seed " << a.seed;
      for (const MappedRun* other : others_) EXPECT_EQ(other->run(run_.mapped(), a), "") << "seed " << a.seed;
    }
  }

  /// One mutant for each op of type T that `damage` takes. All must be noticed.
  template <class T>
  void each(const std::string& what, const Damage& damage) {
    for (size_t k = 0; k < run_.mapped().kernels.size(); ++k) {
      for (int which = 0;; ++which) {
        MappedProgram m = run_.mapped();
        int seen = 0;
        bool found = false, damaged = false;
        std::string text;
        std::function<void(Ops&)> walk = [&](Ops& ops) {
          for (size_t n = 0; n < ops.size() && !found; ++n) {
            if (std::holds_alternative<T>(ops[n].node) && seen++ == which) {
              found = true;
              text = print(m.kernels[k], ops[n]);
              damaged = damage(m.kernels[k], ops, n);
              return;
            }
            for_each_body(ops[n], walk);
          }
        };
        for (Role& r : m.kernels[k].roles) walk(r.body);
        if (!found) break;
        if (damaged) expect_noticed(m, what, fmt::format("op {} of its kind: {}", which, text));
      }
    }
  }
  /// One mutant for each element of a list of the kernel.
  template <class T>
  void each_of(const std::string& what, std::vector<T> MappedKernel::*list,
               const std::function<bool(T&)>& damage) {
    for (size_t k = 0; k < run_.mapped().kernels.size(); ++k) {
      for (size_t n = 0; n < (run_.mapped().kernels[k].*list).size(); ++n) {
        MappedProgram m = run_.mapped();
        if (damage((m.kernels[k].*list)[n])) expect_noticed(m, what, fmt::format("number {}", n));
      }
    }
  }

  /// Kinds of damage that had mutants, and how many each.
  std::map<std::string, int> counts;

 private:
  void expect_noticed(const MappedProgram& m, const std::string& what, const std::string& where) {
    ++counts[what];
    std::vector<Adversary> adversaries = kAdversaries;
    for (uint64_t seed = 6; seed < 60; ++seed)
      adversaries.push_back({seed, Mode::Random});  // where a fault needs one role to stall
    std::vector<const MappedRun*> runs = others_;
    runs.insert(runs.begin(), &run_);
    for (size_t k = 0; k < runs.size() * adversaries.size(); ++k) {
      try {
        if (!runs[k % runs.size()]->run(m, adversaries[k / runs.size()]).empty()) return;
      } catch (const MappedFault&) {
        return;
      } catch (
          const InternalError&) {  // what no mapped program may hold: a slot that no signal guards, a layout of another shape
        return;
      }
    }
    ADD_FAILURE() << what << " was not noticed\n  " << where;
  }

  const MappedRun& run_;
  std::vector<const MappedRun*> others_;
};

bool removed(MappedKernel&, Ops& ops, size_t n) {
  ops.erase(ops.begin() + long(n));
  return true;
}

template <class T>
Damage changed(const std::function<bool(T&)>& change) {
  return [=](MappedKernel&, Ops& ops, size_t n) { return change(std::get<T>(ops[n].node)); };
}

bool moved(Ops& ops, size_t from, size_t to) {
  MappedOp op = ops[from];
  ops.erase(ops.begin() + long(from));
  ops.insert(ops.begin() + long(to), op);
  return true;
}

/// Waits and arrivals of rings. A role that copies by instructions fills its slots in order, so that a later full signal speaks for earlier ones: then only waits for
/// empty slots are damaged.
void rings(Mutants& m, bool copies_in_order) {
  auto apart = [=](const Wait& w) { return !(copies_in_order && w.full); };
  m.each<Wait>("a wait is missing", [=](MappedKernel& k, Ops& ops, size_t n) {
    return apart(std::get<Wait>(ops[n].node)) && removed(k, ops, n);
  });
  m.each<Wait>("a wait is for the next phase of its slot", [](MappedKernel& k, Ops& ops, size_t n) {
    Wait& w = std::get<Wait>(ops[n].node);
    w.use = w.use + k.channels[size_t(w.channel)].slots;
    return true;
  });
  m.each<Wait>("a wait is for the other signal", changed<Wait>([=](Wait& w) {
                 if (!apart(w)) return false;
                 w.full = !w.full;
                 return true;
               }));
  m.each<Arrive>("an arrival is missing", removed);
  m.each<Arrive>("an arrival comes twice", [](MappedKernel&, Ops& ops, size_t n) {
    const MappedOp again = ops[n];
    ops.insert(ops.begin() + long(n), again);
    return true;
  });
  m.each<Arrive>("a slot is released in front of everything", [](MappedKernel&, Ops& ops, size_t n) {
    return !std::get<Arrive>(ops[n].node).full && moved(ops, n, 0);
  });
  m.each_of<Channel>("a full signal counts one arrival less", &MappedKernel::channels,
                     [](Channel& c) { return --c.full_arrivals >= 0; });
  m.each_of<Channel>("a full signal counts one arrival more", &MappedKernel::channels,
                     [](Channel& c) { return ++c.full_arrivals > 0; });
  m.each_of<Channel>("an empty signal counts one arrival less", &MappedKernel::channels,
                     [](Channel& c) { return c.slots > 1 && --c.empty_arrivals > 0; });
  m.each_of<Channel>("an empty signal counts one arrival more", &MappedKernel::channels,
                     [](Channel& c) { return c.slots > 1 && ++c.empty_arrivals > 0; });
  m.each_of<Buffer>("a ring is one slot short", &MappedKernel::buffers,
                    [](Buffer& b) { return b.slots > 1 && --b.slots > 0; });
}

/// Groups of asynchronous products.
void products(Mutants& m) {
  m.each<Arrive>("a slot is released before its products were awaited",
                 [](MappedKernel&, Ops& ops, size_t n) {
                   if (std::get<Arrive>(ops[n].node).full) return false;
                   for (size_t k = n; k-- > 0;) {
                     if (std::holds_alternative<Arrive>(ops[k].node)) continue;
                     return std::holds_alternative<WaitGroup>(ops[k].node) && moved(ops, n, k);
                   }
                   return false;
                 });
  m.each<MmaFence>("a fence of registers is missing", removed);
  m.each<WaitGroup>("a wait for products is missing", removed);
  m.each<WaitGroup>("a group too many may be in flight",
                    changed<WaitGroup>([](WaitGroup& w) { return ++w.pending > 0; }));
  m.each<Commit>("a group is never closed", removed);
  m.each<Mma>("an accumulator is not cleared",
              changed<Mma>([](Mma& x) { return std::exchange(x.zero, false); }));
  m.each<Mma>("an accumulator is cleared", changed<Mma>([](Mma& x) { return !std::exchange(x.zero, true); }));
  m.each<Mma>("a product is issued behind its group", [](MappedKernel&, Ops& ops, size_t n) {
    return n + 1 < ops.size() && std::holds_alternative<Commit>(ops[n + 1].node) && moved(ops, n, n + 1);
  });
  m.each_of<Buffer>("a panel has no swizzle", &MappedKernel::buffers, [](Buffer& b) {
    if (b.space != Space::Local || b.layout.swizzle().bits == 0) return false;
    b.layout = Layout(b.layout.shape(), b.layout.digits());
    return true;
  });
}

void bulk_copies(Mutants& m) {
  m.each<CopyAsync>("a copy is missing", removed);
  m.each<CopyAsync>("bytes are announced that never come",
                    changed<CopyAsync>([](CopyAsync& c) { return (c.bytes += 16) > 0; }));
  m.each<CopyAsync>("more bytes come than are announced",
                    changed<CopyAsync>([](CopyAsync& c) { return (c.bytes -= 16) > 0; }));
  m.each<CopyAsync>("a copy goes to the slot of the next use", [](MappedKernel& k, Ops& ops, size_t n) {
    CopyAsync& c = std::get<CopyAsync>(ops[n].node);
    c.use = c.use + 1;
    return k.channels[size_t(c.channel)].slots > 1;
  });
  m.each<CopyAsync>("a copy completes on another signal", [](MappedKernel& k, Ops& ops, size_t n) {
    CopyAsync& c = std::get<CopyAsync>(ops[n].node);
    c.channel = (c.channel + 1) % int(k.channels.size());
    return true;
  });
  m.each<CopyAsync>("a box lies one row further", changed<CopyAsync>([](CopyAsync& c) {
                      Expr& x = c.coordinates[c.coordinates.size() > 1 ? 1 : 0];
                      x = x + 1;
                      return true;
                    }));
}

/// Groups of copies. The group of what is kept is left alone: it would come with the first chunk.
void copies_in_groups(Mutants& m) {
  auto in_loop = [](const MappedKernel& k, const Ops& ops) { return &ops != &k.roles[0].body; };
  m.each<CopyWait>("a wait for copies is missing", [=](MappedKernel& k, Ops& ops, size_t n) {
    return in_loop(k, ops) && removed(k, ops, n);
  });
  m.each<CopyWait>("a group of copies too many may be in flight", [=](MappedKernel& k, Ops& ops, size_t n) {
    return in_loop(k, ops) && ++std::get<CopyWait>(ops[n].node).pending > 0;
  });
  m.each<CopyCommit>("a group of copies is never closed",
                     [first = true](MappedKernel& k, Ops& ops, size_t n) mutable {
                       return !std::exchange(first, false) && removed(k, ops, n);
                     });
  m.each<Copy>("a copy goes to the slot of the next use", [](MappedKernel& k, Ops& ops, size_t n) {
    Copy& c = std::get<Copy>(ops[n].node);
    c.use = c.use + 1;
    return k.buffer(c.buffer).slots > 1;
  });
  m.each<Copy>("a copy is missing", [](MappedKernel& k, Ops& ops, size_t n) {
    return k.buffer(std::get<Copy>(ops[n].node).buffer).space == Space::Local && removed(k, ops, n);
  });
  m.each_of<Buffer>("a ring is one slot short", &MappedKernel::buffers,
                    [](Buffer& b) { return b.slots > 1 && --b.slots > 0; });
  m.each<Mma>("an accumulator is not cleared",
              changed<Mma>([](Mma& x) { return std::exchange(x.zero, false); }));
  m.each<Mma>("an accumulator is cleared", changed<Mma>([](Mma& x) { return !std::exchange(x.zero, true); }));
  m.each_of<Buffer>("a panel has no swizzle", &MappedKernel::buffers, [](Buffer& b) {
    if (b.space != Space::Local || b.layout.swizzle().bits == 0) return false;
    b.layout = Layout(b.layout.shape(), b.layout.digits());
    return true;
  });
}

/// Barriers and fences between threads, the first ones excepted: what they order is ordered again before it is read. Where a role has barriers in every chunk, those
/// of its warps order nothing more.
void threads_of_a_role(Mutants& m, int first_barrier, int first_fence, Scope narrowest = Scope::Warp) {
  m.each<Barrier>("a barrier is missing", [=](MappedKernel& k, Ops& ops, size_t n) mutable {
    return std::get<Barrier>(ops[n].node).scope >= narrowest && first_barrier-- <= 0 && removed(k, ops, n);
  });
  m.each<ProxyFence>("a fence of shared memory is missing", [=](MappedKernel& k, Ops& ops, size_t n) mutable {
    return first_fence-- <= 0 && removed(k, ops, n);
  });
}

/// Partial results of reductions, but of the first ones: sums that only send the first chunk to the path where they are computed again.
void element_work(Mutants& m, int first) {
  m.each<ReduceOp>("lanes are not combined", [=](MappedKernel&, Ops& ops, size_t n) mutable {
    ReduceOp& r = std::get<ReduceOp>(ops[n].node);
    return first-- <= 0 && std::exchange(r.across, Scope::Thread) != Scope::Thread;
  });
  m.each<ReduceOp>("warps are not combined", changed<ReduceOp>([](ReduceOp& r) {
                     if (r.across <= Scope::Warp) return false;
                     r.across = Scope::Warp;
                     return true;
                   }));
}

int kinds(const Mutants& m) { return int(m.counts.size()); }

void show(const Mutants& m) {
  int total = 0;
  for (auto& [what, n] : m.counts) {
    fmt::print("  {:3} × {}\n", n, what);
    total += n;
  }
  fmt::print("  {} mutants of {} kinds\n", total, m.counts.size());
}

/// Chunks of 16 keys for blocks of 128 rows: several plain ones in a pipeline, several masked ones; a second block of one row has plain ones alone. Keys with large scores move the points of both kinds of
/// chunk; values that are not numbers in masked ones of the first head make FMA instructions compute their products.
struct Causal {
  Causal(LayoutClass layout, const std::string& roles, const Machine& gpu = sm90())
      : compiled(compile_file("examples/pf_causal.tw",
                              "group b=1, h=1, i=128/64; stream j=16; keep Q; guard speculative; " + roles,
                              {.literal_sizes = {{"d", 32}, {"e", 32}}}, Target::Cuda, gpu)),
        run(compiled, {{"b", 1}, {"h", 2}, {"i", 129}, {"j", 240}}, layout, Target::Cuda, {}, 11, gpu) {
    for (int64_t j :
         {40, 118, 200})  // in plain chunks, in the first masked one of the first block, in later ones
      for (int64_t k = 0; k < 32; ++k) run.input("K").set(j * 32 + k, 12 * run.input("K").at(j * 32 + k));
    for (int64_t j : {120, 130, 150}) run.input("V").set(j * 32 + 3, NAN);
    run.expect();
  }
  Compiled compiled;
  MappedRun run;
};

TEST(MappedMutants, OfCausalAttention) {
  const Causal c(LayoutClass::Aligned, "stages 2; roles 1+2");
  ASSERT_EQ(c.run.layout(), LayoutClass::Aligned);
  Mutants m(c.run);
  m.expect_sound();
  rings(m, false);
  products(m);
  bulk_copies(m);
  threads_of_a_role(m, 1, 0);
  element_work(m, 1);
  show(m);
  EXPECT_GE(kinds(m), 25);
}

TEST(MappedMutants, OfCausalAttentionCopiedByInstructions) {
  const Causal c(LayoutClass::General, "stages 2; roles 1+2");
  Mutants m(c.run);
  m.expect_sound();
  rings(m, true);
  threads_of_a_role(m, 1, 1);
  show(m);
  EXPECT_GE(kinds(m), 12);
}

TEST(MappedMutants, OfCausalAttentionWithoutALoadingRole) {
  const Causal c(LayoutClass::Aligned, "stages 1; roles 0+2");
  Mutants m(c.run);
  m.expect_sound();
  products(m);
  threads_of_a_role(m, 2, 1, Scope::Role);
  element_work(m, 1);
  show(m);
  EXPECT_GE(kinds(m), 10);
}

TEST(MappedMutants, OfCausalAttentionByWarps) {
  for (const char* stages : {"stages 2; roles 0+2", "stages 3; roles 0+1"}) {
    const Causal c(LayoutClass::Aligned, stages, gpu_machine("sm_80"));
    ASSERT_EQ(c.run.layout(), LayoutClass::Aligned);
    Mutants m(c.run);
    m.expect_sound();
    copies_in_groups(m);
    threads_of_a_role(m, 0, 0, Scope::Role);
    element_work(m, 1);
    show(m);
    EXPECT_GE(kinds(m), 10) << stages;
  }
}

TEST(MappedMutants, OfAttentionOverAllKeys) {
  const Compiled c =
      compile_file("examples/pf_global.tw",
                   "group b=1, h=1, i=128/64; stream j=32; keep Q; stages 2; roles 1+2; guard moved",
                   {.literal_sizes = {{"d", 16}, {"e", 16}}});
  const MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", 70}, {"j", 512}}, LayoutClass::Aligned);
  Mutants m(run);
  m.expect_sound();
  m.each_of<Channel>("a full signal counts one arrival more", &MappedKernel::channels,
                     [](Channel& x) { return ++x.full_arrivals > 0; });
  m.each_of<Buffer>("a ring is one slot short", &MappedKernel::buffers,
                    [](Buffer& b) { return b.slots > 1 && --b.slots > 0; });
  show(m);
  EXPECT_GE(kinds(m), 2);
}

/// Six elements of the grid in two blocks: what counts uses of rings goes on from one to the next.
TEST(MappedMutants, OfBlocksThatTakeTurns) {
  const Compiled c =
      compile_file("examples/pf_causal.tw",
                   "group b=1, h=1, i=64/64; stream j=16; keep Q; guard speculative; stages 2; roles 1+1; "
                   "grid persistent",
                   {.literal_sizes = {{"d", 32}, {"e", 32}}});
  const MappedRun run(c, {{"b", 1}, {"h", 3}, {"i", 65}, {"j", 112}}, LayoutClass::Aligned);
  Mutants m(run);
  m.expect_sound();
  rings(m, false);
  bulk_copies(m);
  m.each<Define>("uses of earlier elements are not counted", changed<Define>([](Define& d) {
                   if (d.again) d.value = Expr(0);
                   return d.again;
                 }));
  m.each<Arrive>("kept tiles are released before the last chunk", [](MappedKernel&, Ops& ops, size_t n) {
    for (size_t k = n; k-- > 0;)
      if (std::holds_alternative<MappedLoop>(ops[k].node)) return moved(ops, n, k);
    return false;
  });
  show(m);
  EXPECT_GE(kinds(m), 12);
}

TEST(MappedMutants, OfSoftmaxInRegisters) {
  const Compiled c = compile_file("examples/softmax.tw", "group r=1; resident j=1024");
  const MappedRun run(c, {{"r", 2}, {"j", 1000}}, LayoutClass::Aligned);
  Mutants m(run);
  m.expect_sound();
  element_work(m, 0);
  show(m);
  EXPECT_GE(kinds(m), 2);
}

TEST(MappedMutants, OfLayernormIntoAProduct) {
  const Compiled c =
      compile_file("examples/layernorm_matmul.tw", "group r=64, n=16; stream c=16; stages 2; roles 1+1",
                   {.literal_sizes = {{"c", 96}}});
  const MappedRun run(c, {{"r", 40}, {"n", 16}}, LayoutClass::Aligned);
  Mutants m(run);
  m.expect_sound();
  rings(m, false);
  bulk_copies(m);
  threads_of_a_role(m, 0, 0);
  element_work(m, 0);
  show(m);
  EXPECT_GE(kinds(m), 10);
}

/// Rings that some role fills by instructions, where the last of their uses are never waited for. `implied`: the first waits, for what comes before what a later wait is
/// for. `reused`: arrivals that another use of their slot follows stand first.
void rings_in_use(Mutants& m, int implied = 0, int reused = 1000) {
  m.each<Wait>("a wait is missing", [left = implied](MappedKernel& k, Ops& ops, size_t n) mutable {
    return left-- <= 0 && removed(k, ops, n);
  });
  m.each<Wait>("a wait is for the other signal", [left = implied](MappedKernel&, Ops& ops, size_t n) mutable {
    if (left-- > 0) return false;
    Wait& w = std::get<Wait>(ops[n].node);
    w.full = !w.full;
    return true;
  });
  m.each<Arrive>("an arrival comes twice", [left = reused](MappedKernel&, Ops& ops, size_t n) mutable {
    if (left-- <= 0) return false;
    const MappedOp again = ops[n];
    ops.insert(ops.begin() + long(n), again);
    return true;
  });
  m.each_of<Channel>("a full signal counts one arrival less", &MappedKernel::channels,
                     [](Channel& x) { return --x.full_arrivals >= 0; });
  m.each_of<Channel>("an empty signal counts one arrival less", &MappedKernel::channels,
                     [](Channel& x) { return x.slots > 1 && --x.empty_arrivals > 0; });
  m.each_of<Buffer>("a ring is one slot short", &MappedKernel::buffers,
                    [](Buffer& b) { return b.slots > 1 && --b.slots > 0; });
}

TEST(MappedMutants, OfKeysNormalisedBeside) {
  const Compiled c =
      compile_file("examples/qknorm_gqa.tw",
                   "group b=1, k=1, g=1, i=64; stream j=16; keep Q; stages 2; roles 1+1; guard speculative",
                   {.literal_sizes = {{"d", 16}, {"e", 16}}});
  const auto with_keys = [&](int64_t j) {
    return MappedRun(c, {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 40}, {"j", j}}, LayoutClass::Aligned);
  };
  const MappedRun run = with_keys(120), whole_chunks = with_keys(112), part_of_one = with_keys(8);
  ASSERT_EQ(run.mapped().kernels[0].roles.size(), 3u);
  Mutants m(run, {&whole_chunks, &part_of_one});
  m.expect_sound();
  rings_in_use(
      m, 2, 9);  // the wait for the first keys' sums is one for the queries' too; a masked chunk is the last
  threads_of_a_role(m, 0, 0);
  show(m);
  EXPECT_GE(kinds(m), 7);
}

TEST(MappedMutants, OfOperandsMadeAhead) {
  const Compiled c =
      compile_file("examples/rmsnorm_matmul.tw", "group r=128/64, n=64; stream c=16; stages 2; roles 1+2",
                   {.literal_sizes = {{"c", 96}}});
  const MappedRun run(c, {{"r", 40}, {"n", 16}}, LayoutClass::Aligned);
  Mutants m(run);
  m.expect_sound();
  rings_in_use(m);
  m.each<MmaFence>("a fence of registers is missing", removed);
  m.each<WaitGroup>("a wait for products is missing", removed);
  m.each<WaitGroup>("a group too many may be in flight",
                    changed<WaitGroup>([](WaitGroup& w) { return ++w.pending > 0; }));
  m.each<Commit>("a group is never closed", removed);
  show(m);
  EXPECT_GE(kinds(m), 10);
}

}  // namespace
}  // namespace tilewright::testing::mapped_mutants_test
