// Inside of the mapping: statements of the computing role to ops.
#pragma once
#include <map>
#include <set>

#include "tilewright/map/sm90/context.h"

namespace tilewright::hopper {

using Statements = std::vector<const Stmt*>;

/// Which ring tiles of an iteration were waited for and which are released when.
struct RingState {
  std::set<Sym> waited;  ///< full signal awaited already
  std::set<Sym> held;    ///< released by someone else
  bool finish = true;    ///< wait for and release what no statement reads
};

class BodyBuilder {
 public:
  explicit BodyBuilder(Context& c) : c_(c) {}
  Ops run();
  Ops making();  ///< body of the making role (beside.cc)

 private:
  void body(const Body& statements, const Position& at, Ops& out);
  /// Statements in order; waits before the first reader of a ring tile, release after the last. `rings` null: all was awaited outside.
  void statements(const Statements& list, const Position& at, RingState* rings, Ops& out);
  void statement(const Stmt& s, const Position& at, Ops& out);
  void map(const Map& s, const Position& at, Ops& out);
  void reduce(const Reduce& s, const Position& at, Ops& out);
  void load(const Load& s, const Position& at, Ops& out);
  void store(const Store& s, const Position& at, Ops& out);
  void when(const When& s, const Position& at, Ops& out);
  void loop(const Loop& s, Ops& out);
  void stage_here(const Statements& loads, const Position& at, Ops& out);
  // products.cc
  void issue(const Dot& s, const Position& at, Ops& out);
  void multiply_by_fma(const Dot& s, const Position& at, bool masked_operand, Ops& out);
  void multiply_now(const Statements& dots, const Position& at, Ops& out);
  void tested(const Dot& s, const Position& at, Ops& out);
  // beside.cc
  void make_tiles(const Body& body, const Position& at, Ops& out);
  void make_tile(const Stmt& s, const Position& at, Ops& out);
  void publish(const Staged& s, Expr use, const Position& at, Ops& out);
  // pipeline.cc
  /// `next`: the masked segment behind, whose first chunk is taken together with the last one here (null: none is). True where the loop was printed so; `joined` then says
  /// whether a chunk of `next` was taken.
  bool pipelined(const Loop& s, const SegmentVars& segment, const SegmentVars* next, bool& joined, Ops& out);
  /// Products of what lies in shared memory beside the first such product, so that all are issued together; where registers hold their results meanwhile.
  Statements products_first(Statements list) const;
  /// Statements behind the last products that share no tile with them but what both read, in front of them.
  Statements products_last(Statements list) const;
  /// The same values with bodies of slow paths run instead of tested for, and without what those make again.
  Statements settled(const Statements& list) const;
  /// How many statements of the middle, maps and reductions within warps, may run while the last products of the chunk before do: they touch nothing that those use, and
  /// registers hold it all.
  size_t while_products_run(const Statements& first, const Statements& middle, const Statements& last,
                            const Loop* loop) const;
  /// Element work `work` behind products in flight, with the rounded operand of the next ones made in a tile of its own, and in front of votes that may make it again. How
  /// many ops of it may then run before the products end; 0 and nothing changed where registers do not hold that, or nothing is rounded so.
  size_t rounded_apart(const Statements& first, const Statements& last, Ops& work);
  bool accumulate_only(const Loop& s, const SegmentVars& segment, const Statements& list, Ops& out);
  bool made_ahead(const Loop& s, const SegmentVars& segment, Ops& out);
  bool adds_alone(const Stmt& s, const std::set<Sym>& results) const;

  // sm80/rings.cc
  void ring_loop(const Loop& s, Ops& out);
  void copy_in_groups(const Statements& loads, const Position& at, Ops& out);
  bool copy_tile(const Staged& s, const Position& at, const std::string& comment, Ops& out);
  void await_kept(const std::vector<Sym>& read, Ops& out);

  Statements unstaged(const Body& body) const;  ///< without what the loading and the making role do
  std::set<Sym> rings(const Statements& list,
                      const Loop* loop) const;  ///< ring tiles that the statements read
  void wait(const std::set<Sym>& tiles, const Position& at, Ops& out);
  void release(const std::set<Sym>& tiles, const Position& at, Ops& out);
  std::vector<Use> uses(const std::vector<Expr>& exprs, const Position& at) const;
  std::vector<Use> uses_of(const std::vector<Sym>& tiles, const Position& at) const;
  bool in_registers(Sym tile) const { return c_.out.buffer(tile).space == Space::Registers; }
  /// Axes of register tiles that the expression reads.
  std::set<Sym> register_axes(Expr e) const;
  /// select(inside, value, otherwise) for each of the axes that has an end here: that of the array, or of a chunk shorter than its tile.
  Expr clipped(Expr value, const std::vector<Sym>& axes, const Position& at, Expr otherwise) const;
  /// What the value is behind the end of the streamed axis in a masked chunk, −inf or 0; null where that is not known.
  Expr beyond(Expr value, const Position& at) const;
  Expr at_own_axes(Sym buffer) const;
  Sym scratch(Sym result, int64_t elements, DType dtype);
  /// Copies register tiles that the reduction needs in other threads to shared memory; the value reads them there.
  Expr exchanged(const Reduce& s, Expr value, const Position& at, Ops& out);
  bool tensor_core(const Stmt& s) const;

  Context& c_;
  std::map<Sym, Sym> copies_;  ///< register tile → its copy in shared memory
  std::set<Sym> finals_;       ///< carried tiles whose last use was awaited
  std::set<Sym> unawaited_;    ///< kept tiles that a barrier must stand before the readers of
  bool in_flight_ = false;     ///< groups of copies of kept tiles may be
  std::map<Sym, Expr>
      beyond_;  ///< register tile → what it holds behind the end of the streamed axis in the masked chunk under way
};

/// The narrowest scope of threads that must take the same branch around the ops.
Scope scope_of(const Ops& ops);

}  // namespace tilewright::hopper
