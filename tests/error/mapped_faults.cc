// Faults seeded into a correct mapped program: each must be found, under every mode, with its kind and with a message that names the op, the
// buffer and the iteration.
#include <gtest/gtest.h>

#include "tests/support/mapped_samples.h"

namespace tilewright::testing::mapped_faults_test {
namespace {

using Kind = MappedFault::Kind;
using Mode = Adversary::Mode;

/// Runs under every mode and some seeds. Each run must fault; `kinds` are what is allowed, the first must be among what is found.
void expect_fault(const MappedSample& s, std::vector<Kind> kinds, const std::vector<std::string>& words,
                  int seeds = 4) {
  bool first = false;
  for (Mode mode : {Mode::Random, Mode::Eager, Mode::Lazy}) {
    for (int seed = 0; seed < seeds; ++seed) {
      try {
        double difference = s.run({uint64_t(seed), mode});
        ADD_FAILURE() << "not found in mode " << int(mode) << ", seed " << seed << "; values differ by "
                      << difference;
        return;
      } catch (const MappedFault& f) {
        EXPECT_NE(std::find(kinds.begin(), kinds.end(), f.kind), kinds.end())
            << "mode " << int(mode) << ", seed " << seed << ": " << f.what();
        if (f.kind != kinds[0]) continue;
        first = true;
        for (const std::string& word : words)
          EXPECT_NE(std::string(f.what()).find(word), std::string::npos) << word << " in: " << f.what();
      }
    }
  }
  EXPECT_TRUE(first) << "never found as " << name(kinds[0]);
}

struct MappedFaults : ::testing::Test {
  MappedSample s = pipeline_sample(130, 400);
  Ops& compute() { return s.role("compute").body; }
  Ops& load() { return s.role("load").body; }
};

std::function<bool(const Wait&)> wait_on(int channel, bool full) {
  return [=](const Wait& w) { return w.channel == channel && w.full == full; };
}

TEST_F(MappedFaults, TheSampleItselfHasNone) { EXPECT_LE(s.run({7, Mode::Random}), s.tolerance); }

TEST_F(MappedFaults, MissingFullWait) {
  ASSERT_TRUE(remove_op<Wait>(compute(), 1, wait_on(1, true)));
  expect_fault(s, {Kind::EarlyRead}, {"S = Q . K", "K slot 1", "t = 1", "role compute", "wait for full"});
}

TEST_F(MappedFaults, ThreadsReportTheSameFault) {
  s = pipeline_sample(700, 400);
  ASSERT_TRUE(remove_op<Wait>(compute(), 1, wait_on(1, true)));
  auto message = [&](int threads) -> std::string {
    try {
      s.run({5, Mode::Random}, threads);
    } catch (const MappedFault& f) {
      return f.what();
    }
    return "";
  };
  const std::string alone = message(1);
  EXPECT_NE(alone, "");
  for (int threads : {2, 4, 7}) EXPECT_EQ(message(threads), alone);
}

TEST_F(MappedFaults, MissingFullWaitOfTheFirstOperand) {
  ASSERT_TRUE(remove_op<Wait>(compute(), 0, wait_on(0, true)));
  expect_fault(s, {Kind::EarlyRead}, {"S = Q . K", "Q is read"});
}

TEST_F(MappedFaults, MissingEmptyWait) {
  ASSERT_TRUE(remove_op<Wait>(load(), 1, wait_on(1, false)));
  expect_fault(s, {Kind::EarlyRelease}, {"K[use c]", "K slot 0", "c = 2", "role load"});
}

TEST_F(MappedFaults, WaitForTheNextPhaseOfTheSlot) {
  // Two phases too far: the parity is the same.
  Wait* w = find_op<Wait>(compute(), 0, wait_on(1, true));
  ASSERT_TRUE(w);
  w->use = w->use + 4;
  expect_fault(s, {Kind::StalePhase}, {"k.full[0] use 4", "for 3 completed phases and passes after 1"});
  w->use = w->use - 2;  // passes before the copy, or never
  expect_fault(s, {Kind::StalePhase, Kind::Deadlock}, {"k.full[0] use 2", "same parity"}, 8);
}

TEST_F(MappedFaults, UseOffByOneInTheLoop) {
  Wait* w = find_op<Wait>(compute(), 1, wait_on(1, true));
  ASSERT_TRUE(w);
  w->use = w->use + 1;
  expect_fault(s, {Kind::EarlyRead, Kind::Deadlock, Kind::StalePhase}, {"K slot 1"});
}

TEST_F(MappedFaults, ProducerWaitsForAnOlderPhase) {
  Wait* w = find_op<Wait>(load(), 1, wait_on(1, false));
  ASSERT_TRUE(w);
  w->use = max(0, w->use - 2);
  expect_fault(s, {Kind::EarlyRelease, Kind::StalePhase, Kind::Deadlock}, {"K slot", "role load"}, 8);
}

TEST_F(MappedFaults, ReleasedBeforeTheProductWasAwaited) {
  // Arrive on empty before the wait for the group that reads the slot.
  MappedLoop* loop = find_op<MappedLoop>(compute());
  ASSERT_TRUE(loop);
  auto is_arrive = [](const MappedOp& op) { return std::holds_alternative<Arrive>(op.node); };
  auto is_wait = [](const MappedOp& op) { return std::holds_alternative<WaitGroup>(op.node); };
  auto arrive = std::find_if(loop->body.begin(), loop->body.end(), is_arrive);
  auto wait = std::find_if(loop->body.begin(), loop->body.end(), is_wait);
  std::iter_swap(arrive, wait);
  expect_fault(s, {Kind::EarlyRelease}, {"arrive k.empty", "K slot 1", "use 1", "t = 1"});
}

TEST_F(MappedFaults, MissingProxyFence) {
  ASSERT_TRUE(remove_op<ProxyFence>(compute()));
  expect_fault(s, {Kind::MissingFence}, {"map_O(0, block * 128) <- out", "bulk store"});
}

TEST_F(MappedFaults, MissingBarrierBeforeTheBulkStore) {
  ASSERT_TRUE(remove_op<Barrier>(compute()));
  expect_fault(s, {Kind::Race}, {"<- out", "bulk store", "barrier"});
}

TEST_F(MappedFaults, BarrierOfTooNarrowAScope) {
  find_op<Barrier>(compute())->scope = Scope::Group;
  expect_fault(s, {Kind::Race}, {"<- out"});
}

TEST_F(MappedFaults, MissingMmaFence) {
  ASSERT_TRUE(remove_op<MmaFence>(compute(), 1));
  expect_fault(s, {Kind::MissingFence}, {"S = Q . K", "t = 1", "fence of registers"});
}

TEST_F(MappedFaults, MissingFirstMmaFence) {
  ASSERT_TRUE(remove_op<MmaFence>(compute(), 0));
  expect_fault(s, {Kind::MissingFence}, {"S = Q . K"});
}

TEST_F(MappedFaults, RingOneShort) {
  // The buffer has one slot, the signals count two.
  for (Buffer& b : s.kernel().buffers)
    if (b.sym.name() == "K") b.slots = 1;
  expect_fault(s, {Kind::EarlyRelease}, {"K is refilled", "role load"});
}

TEST_F(MappedFaults, WaitGroupCountOneTooHigh) {
  find_op<WaitGroup>(compute(), 1)->pending = 2;
  expect_fault(s, {Kind::EarlyRelease}, {"K slot 1", "t = 1"});
}

TEST_F(MappedFaults, LastWaitGroupCountOneTooHigh) {
  find_op<WaitGroup>(compute(), 3)->pending = 1;
  // The slot is released and the accumulator stored while the last product runs.
  expect_fault(s, {Kind::EarlyRelease}, {"V slot"});
  ASSERT_TRUE(remove_op<Arrive>(compute(), 3));
  expect_fault(s, {Kind::InFlight}, {"out = o", "o is read while a product"});
}

TEST_F(MappedFaults, AccumulatorScaledInFlight) {
  MappedLoop* loop = find_op<MappedLoop>(compute());
  MapOp* clear = find_op<MapOp>(compute());
  MapOp scale = *clear;
  scale.value = read(clear->buffer, {Expr(s.kernel().buffer(clear->buffer).axes[0]),
                                     Expr(s.kernel().buffer(clear->buffer).axes[1])}) *
                2;
  // After the wait for the first product, before that for the second.
  auto at = std::find_if(loop->body.begin(), loop->body.end(),
                         [](const MappedOp& op) { return std::holds_alternative<Arrive>(op.node); });
  loop->body.insert(at + 1, {scale, ""});
  expect_fault(s, {Kind::InFlight}, {"o = o", "in flight", "t = 1"});
}

TEST_F(MappedFaults, RegisterOperandRewrittenInFlight) {
  // The last op of the loop body (the lift) moves in front of the wait for the second product.
  MappedLoop* loop = find_op<MappedLoop>(compute());
  MappedOp lift = loop->body.back();
  loop->body.pop_back();
  auto at = std::find_if(loop->body.begin(), loop->body.end(),
                         [](const MappedOp& op) { return std::holds_alternative<Arrive>(op.node); });
  loop->body.insert(at + 1, lift);
  expect_fault(s, {Kind::InFlight}, {"P is written while a product that reads it"});
}

TEST_F(MappedFaults, AnnouncedBytesNeverCome) {
  find_op<CopyAsync>(load(), 1)->bytes += 128;
  expect_fault(s, {Kind::Deadlock}, {"q.full[0]", "128 announced bytes have not come", "role compute waits"});
}

TEST_F(MappedFaults, MoreBytesThanAnnounced) {
  find_op<CopyAsync>(load(), 1)->bytes -= 64;
  expect_fault(s, {Kind::Deadlock}, {"q.full[0]", "64 bytes more than announced"});
}

TEST_F(MappedFaults, ArrivalsBeyondTheCount) {
  s.kernel().channels[1].empty_arrivals = 4;
  expect_fault(s, {Kind::BarrierMismatch}, {"8 arrivals in a phase of 4", "k.empty"});
}

TEST_F(MappedFaults, TooFewArrivals) {
  s.kernel().channels[1].empty_arrivals = 9;
  expect_fault(s, {Kind::Deadlock}, {"k.empty[0]", "8 of 9 arrivals"});
}

TEST_F(MappedFaults, ArrivesTwice) {
  MappedLoop* loop = find_op<MappedLoop>(compute());
  auto at = std::find_if(loop->body.begin(), loop->body.end(),
                         [](const MappedOp& op) { return std::holds_alternative<Arrive>(op.node); });
  MappedOp again = *at;
  loop->body.insert(at, again);
  expect_fault(s, {Kind::BarrierMismatch}, {"more arrivals than the 8 of its phase"});
}

TEST_F(MappedFaults, MissingBulkWait) {
  ASSERT_TRUE(remove_op<BulkWait>(compute()));
  expect_fault(s, {Kind::Race}, {"the role ends while this bulk store"});
}

TEST_F(MappedFaults, CopyNobodyWaitsFor) {
  // The last copy of V goes unread; nothing waits for it before the block ends.
  ASSERT_TRUE(find_op<Wait>(compute(), 1, wait_on(2, true)));
  MappedOp extra{*find_op<CopyAsync>(load(), 1), ""};
  Wait* first = find_op<Wait>(load());
  ASSERT_TRUE(first);
  std::get<CopyAsync>(extra.node).use = 1;
  load().push_back({Wait{0, false, 1}, ""});
  load().push_back(extra);
  // An empty signal that comes before the store from the bytes of Q.
  compute().push_back({Arrive{0, false, 0, Scope::Role}, ""});
  try {
    s.run({1, Mode::Lazy});
    FAIL() << "not found";
  } catch (const MappedFault& f) {
    EXPECT_EQ(f.kind, Kind::Race) << f.what();
    EXPECT_NE(std::string(f.what()).find("the block ends"), std::string::npos) << f.what();
  }
}

TEST_F(MappedFaults, AccumulatorNeverCleared) {
  ASSERT_TRUE(remove_op<MapOp>(compute()));
  expect_fault(s, {Kind::Uninitialised}, {"o += P . V", "o is used by a product"});
}

TEST_F(MappedFaults, FragmentInAnotherOrder) {
  for (Buffer& b : s.kernel().buffers) {
    if (b.sym.name() != "P") continue;
    // Rows g and g + 8 exchanged with the columns 8 apart: a legal layout, and not the operand's.
    b.layout = Layout({128, 64}, {{0, 8, 1, Digit::To::Owner, 4},
                                  {0, 2, 8, Digit::To::Offset, 4},
                                  {0, 4, 16, Digit::To::Owner, 32},
                                  {0, 2, 64, Digit::To::Owner, 128},
                                  {1, 2, 1, Digit::To::Offset, 1},
                                  {1, 4, 2, Digit::To::Owner, 1},
                                  {1, 2, 8, Digit::To::Offset, 2},
                                  {1, 4, 16, Digit::To::Offset, 8}});
  }
  expect_fault(s, {Kind::Placement}, {"wgmma.m64n64k16.f16.rs", "fragments of 64 rows"});
}

TEST_F(MappedFaults, PanelWithoutSwizzle) {
  for (Buffer& b : s.kernel().buffers)
    if (b.sym.name() == "K") b.layout = Layout::row_major({64, 64});
  expect_fault(s, {Kind::Placement}, {"the second operand has no swizzle"});
}

TEST_F(MappedFaults, BarrierThatOneRoleNeverReaches) {
  compute().push_back({Barrier{0, Scope::Block}, ""});
  expect_fault(s, {Kind::BarrierMismatch}, {"barrier 0 of block"});
  load().push_back({Barrier{0, Scope::Block}, ""});
  EXPECT_LE(s.run({3, Mode::Random}), s.tolerance);
  std::get<Barrier>(load().back().node).id = 2;
  expect_fault(s, {Kind::BarrierMismatch}, {"waits at barrier"});
}

TEST_F(MappedFaults, BarrierInAVoteOfAWarp) {
  auto barrier = std::find_if(compute().begin(), compute().end(),
                              [](const MappedOp& op) { return std::holds_alternative<Barrier>(op.node); });
  const Buffer& o = s.kernel().buffers.back();
  Expr value = read(o.sym, {Expr(o.axes[0]), Expr(o.axes[1])});
  *barrier = {Vote{less(value, 1000), o.axes, {}, {}, Scope::Warp, {*barrier}, {}}, ""};
  expect_fault(s, {Kind::BarrierMismatch}, {"barrier 1 of role", "a vote whose threads may disagree"});
}

TEST_F(MappedFaults, OperandOverwrittenInFlight) {
  // The staging tile lies in the bytes of Q, which the first product reads.
  MappedLoop* loop = find_op<MappedLoop>(compute());
  MapOp clear = *find_op<MapOp>(compute());
  for (const Buffer& b : s.kernel().buffers)
    if (b.sym.name() == "out") clear.buffer = b.sym;
  clear.value = 0;
  auto at = std::find_if(loop->body.begin(), loop->body.end(),
                         [](const MappedOp& op) { return std::holds_alternative<Commit>(op.node); });
  loop->body.insert(at + 1, {clear, ""});
  expect_fault(s, {Kind::Race}, {"out = 0", "out is written while a product may read it", "t = 1"});
}

TEST_F(MappedFaults, OperandWrittenBetweenGroups) {
  // After the wait of each group alone, one group's threads may write what the other group's product still reads.
  MapOp clear = *find_op<MapOp>(compute());
  for (const Buffer& b : s.kernel().buffers)
    if (b.sym.name() == "out") clear.buffer = b.sym;
  clear.value = 0;
  auto at = std::find_if(compute().begin(), compute().end(),
                         [](const MappedOp& op) { return std::holds_alternative<WaitGroup>(op.node); });
  compute().insert(at + 1, {clear, ""});
  expect_fault(s, {Kind::Race}, {"out = 0", "out is written while a product may read it"});
}

// ---- Threads of one role ----

TEST(MappedFaultsOfThreads, MissingBarrierAfterCopies) {
  MappedSample s = plain_sample();
  ASSERT_TRUE(remove_op<Barrier>(s.role("threads").body, 0));
  expect_fault(s, {Kind::Race}, {"S = Q . K", "Q is read by threads that no barrier"});
}

TEST(MappedFaultsOfThreads, MissingWarpBarrier) {
  MappedSample s = plain_sample();
  ASSERT_TRUE(remove_op<Barrier>(s.role("threads").body, 1));
  expect_fault(s, {Kind::Race}, {"o += PL . V", "PL is read by threads that no barrier"});
}

TEST(MappedFaultsOfThreads, MissingBarrierBeforeTheNextCopy) {
  MappedSample s = plain_sample();
  ASSERT_TRUE(remove_op<Barrier>(s.role("threads").body, 2));
  expect_fault(s, {Kind::Race}, {"K is written while another thread may still read it", "c = 1"});
}

TEST(MappedFaultsOfThreads, AnotherThreadHoldsTheElement) {
  MappedSample s = plain_sample();
  for (Buffer& b : s.kernel().buffers)
    if (b.sym.name() == "o")
      b.layout = Layout({16, 8}, {{0, 16, 1, Digit::To::Owner, 1},
                                  {1, 4, 1, Digit::To::Owner, 16},
                                  {1, 2, 4, Digit::To::Offset, 1}});
  MapOp* clear = find_op<MapOp>(s.role("threads").body);
  const Buffer &o = s.kernel().buffer(clear->buffer), &scores = s.kernel().buffers[4];
  Ops more{{MapOp{scores.sym, 0, {}, {}}, ""}};
  // A row sum read by threads that hold other rows.
  Buffer row{.sym = Sym::fresh({.name = "row", .kind = SymbolKind::Tile}),
             .axes = {o.axes[0]},
             .layout = scores.layout.reduce_axis(1),
             .role = 0};
  more.push_back({MapOp{row.sym, 1, {}, {}}, ""});
  more.push_back({MapOp{o.sym, read(row.sym, {Expr(row.axes[0])}), {}, {}}, ""});
  s.kernel().buffers.push_back(row);
  auto& body = s.role("threads").body;
  body.insert(body.begin() + 1, more.begin(), more.end());
  expect_fault(s, {Kind::Placement}, {"needs an element of row that it does not hold"}, 1);
}

TEST(MappedFaultsOfThreads, TwoBlocksStoreTheSameElement) {
  MappedSample s = plain_sample();
  StoreOut* store = find_op<StoreOut>(s.role("threads").body);
  store->frame[0].origin = 0;
  expect_fault(s, {Kind::Race},
               {"two blocks of this launch write different values to the same element of O", "block 1"}, 1);
}

TEST(MappedFaultsOfTasks, ViewOutsideItsArray) {
  MappedSample s = task_sample();
  MapOp* map = find_op<MapOp>(s.role("task").body, 1);
  map->frame[1].extent = Expr();
  expect_fault(s, {Kind::OutOfBounds}, {"X is read outside its array", "j = 21", "c = 2"}, 1);
}

TEST(MappedFaultsOfTasks, StateNeverInitialised) {
  MappedSample s = task_sample();
  ASSERT_TRUE(remove_op<MapOp>(s.role("task").body));
  expect_fault(s, {Kind::Uninitialised}, {"sum is accumulated to"}, 1);
}

}  // namespace
}  // namespace tilewright::testing::mapped_faults_test
