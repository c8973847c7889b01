#include "tilewright/model/core_work.h"

#include <algorithm>
#include <set>

#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

struct CoreTally {
  int instructions = 0, exponentials = 0, quotients = 0, tangents = 0, conversions = 0;
};

/// Instructions that round an f32 to an f8 and test for what has no number there; no unit does it.
constexpr int kRoundToF8 = 16;
/// Instructions that make an f32 of an f8.
constexpr int kFromF8 = 12;

/// Operations of expressions for one element, each distinct subexpression once.
class CoreCounter {
 public:
  explicit CoreCounter(const TileKernel& k) : k_(k) {}
  void take(Expr e) {
    if (e) count(e);
  }
  const CoreTally& tally() const { return tally_; }

 private:
  /// Does the value differ from element to element?
  bool varies(Expr e) {
    if (const auto it = varies_.find(e); it != varies_.end()) return it->second;
    bool v = (e.is(Op::Read) && has_tile(k_, e->sym) && !k_.tile(e->sym).axes.empty()) ||
             (e.is(Op::Symbol) && e->sym.kind() == SymbolKind::Index);
    for (Expr a : e.args()) v = varies(a) || v;
    return varies_[e] = v;
  }

  void count(Expr e, bool fused = false) {
    if (!varies(e) || !seen_.insert(e).second) return;
    const int operands = int(e.args().size());
    switch (e.op()) {
      case Op::Constant:
      case Op::Real:
      case Op::Symbol:
      case Op::Read:
      case Op::Neg: break;
      case Op::Exp:
      case Op::Exp2:
      case Op::Log:
      case Op::Log2: tally_.exponentials += 1; break;
      case Op::Sqrt:
      case Op::Rsqrt: tally_.quotients += 1; break;
      case Op::Tanh: tally_.tangents += 1; break;
      case Op::Sigmoid:
        tally_.exponentials += 1;
        tally_.quotients += 1;
        tally_.instructions += 1;
        break;
      case Op::Erf:
        tally_.exponentials += 1;
        tally_.quotients += 1;
        tally_.instructions += 8;
        break;
      case Op::Div: tally_.quotients += 1; break;
      case Op::Pow: {
        const auto exponent = e.arg(1).rational();
        if (exponent && exponent->is_integer() && exponent->num() > 0)
          tally_.instructions += int(std::min<int64_t>(exponent->num() - 1, 8));
        else if (exponent && *exponent == Rational(-1))
          tally_.quotients += 1;
        else
          tally_.exponentials += 2;
        break;
      }
      case Op::Max:
      case Op::Min:
        tally_.instructions += 3 * (operands - 1);
        break;  // a comparison with itself, the instruction, a selection
      case Op::Mul: tally_.instructions += operands - 1 - (fused ? 1 : 0); break;
      case Op::Add:
      case Op::Sub: {
        tally_.instructions += operands - 1;
        bool one = false;  // one product of each sum is fused with it
        for (Expr a : e.args()) {
          const bool product = !one && a.is(Op::Mul);
          one = one || product;
          count(a, product);
        }
        return;
      }
      default: tally_.instructions += std::max(1, operands - 1); break;
    }
    for (Expr a : e.args()) count(a);
  }

  const TileKernel& k_;
  std::set<Expr> seen_;
  std::map<Expr, bool> varies_;
  CoreTally tally_;
};

class CoreWalk {
 public:
  CoreWalk(const Program& p, const TileProgram& t, size_t kernel, CoreStatements& out)
      : p_(p), k_(t.kernels[kernel]), kernel_(kernel), out_(out) {}
  void run() { body(k_.body, nullptr); }

 private:
  /// Bytes that a CPU holds an element of a tile in.
  static int width(DType dtype) { return std::max<int>(4, bytes(dtype)); }
  static bool narrow(DType dtype) { return is_float(dtype) && bytes(dtype) < 4; }

  /// The one chunk of a resident axis is masked; what stands outside of loops has no chunks, and counts as plain.
  bool runs(const Loop* loop, bool masked) const {
    if (!loop) return !masked;
    if (k_.axis(loop->axis).kind != KernelAxis::Kind::Stream) return masked;
    return std::any_of(loop->segments.begin(), loop->segments.end(),
                       [&](const Segment& g) { return g.masked == masked; }) ||
           !loop->presents.empty();
  }

  size_t domain_of(const Loop* loop, std::vector<Sym> axes, bool plain = true, bool masked = true) {
    CoreDomain d{kernel_, loop, std::move(axes), plain, masked};
    const auto known = std::find(out_.domains.begin(), out_.domains.end(), d);
    if (known != out_.domains.end()) return size_t(known - out_.domains.begin());
    out_.domains.push_back(std::move(d));
    return out_.domains.size() - 1;
  }

  /// A repair of a tile by a factor, which the product that adds to the tile next applies as it reads it.
  bool rides_on_product(const Body& stmts, size_t at) const {
    const Map* map = std::get_if<Map>(&stmts[at].node);
    if (!map || !map->value.is(Op::Mul)) return false;
    const auto touches = [&](const Stmt& s) {
      const std::vector<Sym> read = reads(k_, s), made = all_written(s);
      return std::find(read.begin(), read.end(), map->tile) != read.end() ||
             std::find(made.begin(), made.end(), map->tile) != made.end();
    };
    if (!touches(stmts[at])) return false;
    for (size_t n = at + 1; n < stmts.size(); ++n) {
      const Dot* dot = std::get_if<Dot>(&stmts[n].node);
      if (dot && dot->tile == map->tile) return dot->accumulate;
      if (std::get_if<Loop>(&stmts[n].node) || std::get_if<When>(&stmts[n].node) || touches(stmts[n]))
        return false;
    }
    return false;
  }

  void body(const Body& stmts, const Loop* loop) {
    std::vector<Sym> run;   // the axes of the loop that neighbouring statements share
    std::set<Sym> at_hand;  // tiles that it has read or made
    bool begun = false;
    for (size_t at = 0; at < stmts.size(); ++at) {
      const Stmt& s = stmts[at];
      if (rides_on_product(stmts, at)) continue;
      if (auto* x = std::get_if<Loop>(&s.node)) {
        body(x->body, x);
        at_hand.clear();
        begun = false;
      } else if (std::get_if<Map>(&s.node) || std::get_if<Reduce>(&s.node) || std::get_if<Rank>(&s.node)) {
        std::vector<Sym> axes = domain(k_, s);
        std::sort(axes.begin(), axes.end());
        if (axes != run) at_hand.clear(), begun = false;
        run = axes;
        values(s, loop, at_hand);
        if (!begun) add(CoreWork::Passes, 1, loop, {});
        begun = true;
      } else {
        at_hand.clear();
        begun = false;
        if (auto* dot = std::get_if<Dot>(&s.node)) product(s, *dot, loop);
        if (auto* load = std::get_if<Load>(&s.node)) loaded(s, *load, loop);
        if (auto* store = std::get_if<Store>(&s.node)) stored(s, *store, loop);
        if (auto* when = std::get_if<When>(&s.node)) vote(s, *when, loop);
      }
    }
  }

  void start(const Stmt& s, const Loop* loop) { out_.all.push_back({&s, kernel_, loop, {}}); }
  void add(CoreWork work, double each, const Loop* loop, const std::vector<Sym>& axes, bool plain = true,
           bool masked = true) {
    if (each > 0) out_.all.back().terms.push_back({work, each, domain_of(loop, axes, plain, masked)});
  }

  /// The accumulators of a chunk are read and written once; operands stay in registers for a block of the product.
  void product(const Stmt& s, const Dot& x, const Loop* loop) {
    start(s, loop);
    add(CoreWork::Products, 1, loop, domain(k_, s));
    const Tile& tile = k_.tile(x.tile);
    add(CoreWork::Written, width(tile.dtype), loop, tile.axes);
    if (x.accumulate) add(CoreWork::Read, width(tile.dtype), loop, tile.axes);
  }

  void loaded(const Stmt& s, const Load& x, const Loop* loop) {
    const Tile& tile = k_.tile(x.tile);
    start(s, loop);
    if (narrow(tile.dtype)) add(CoreWork::Conversions, 1, loop, tile.axes);  // f32 is read where it lies
    if (narrow(tile.dtype) && bytes(tile.dtype) == 1) add(CoreWork::Instructions, kFromF8, loop, tile.axes);
  }

  void stored(const Stmt& s, const Store& x, const Loop* loop) {
    DType to = DType::f32;
    for (const Output& o : p_.outputs)
      if (o.sym == x.tensor) to = o.dtype;
    start(s, loop);
    const std::vector<Sym>& axes = k_.tile(x.tile).axes;
    add(CoreWork::Read, width(k_.tile(x.tile).dtype), loop, axes);
    if (narrow(to)) add(CoreWork::Conversions, 1, loop, axes);
    if (narrow(to) && bytes(to) == 1) add(CoreWork::Instructions, kRoundToF8, loop, axes);
  }

  /// The condition alone: what it leads to is rare.
  void vote(const Stmt& s, const When& x, const Loop* loop) {
    start(s, loop);
    CoreCounter counter(k_);
    counter.take(x.condition);
    add(CoreWork::Instructions, counter.tally().instructions + 1, loop, x.axes);
    for (Sym tile : reads(k_, s))
      if (!k_.tile(tile).axes.empty())
        add(CoreWork::Read, width(k_.tile(tile).dtype), loop, k_.tile(tile).axes);
    add(CoreWork::Passes, 1, loop, {});
  }

  void values(const Stmt& s, const Loop* loop, std::set<Sym>& at_hand) {
    start(s, loop);
    const std::vector<Sym> axes = domain(k_, s);
    for (bool masked : {false, true}) {
      if (!runs(loop, masked)) continue;
      CoreCounter counter(k_);
      for (Expr e : values_in(s, masked)) counter.take(e);
      CoreTally all = counter.tally();
      if (auto* reduce = std::get_if<Reduce>(&s.node)) {
        const bool extremum = reduce->reducer == Reducer::Max || reduce->reducer == Reducer::Min;
        all.instructions += extremum ? 3 : 1;
      }
      const auto times = [&](CoreWork work, double each) { add(work, each, loop, axes, !masked, masked); };
      times(CoreWork::Instructions, all.instructions);
      times(CoreWork::Exponentials, all.exponentials);
      times(CoreWork::Quotients, all.quotients);
      times(CoreWork::Tangents, all.tangents);
      if (auto* rank = std::get_if<Rank>(&s.node)) times(CoreWork::Places, double(k_.axis(rank->rank).block));
    }
    const DType to = k_.tile(written(s)).dtype;
    if (narrow(to)) {
      add(CoreWork::Conversions, 1, loop, k_.tile(written(s)).axes);
      if (bytes(to) == 1) add(CoreWork::Instructions, kRoundToF8, loop, k_.tile(written(s)).axes);
    }
    const auto touch = [&](CoreWork work, Sym tile) {
      if (at_hand.insert(tile).second && !k_.tile(tile).axes.empty())
        add(work, width(k_.tile(tile).dtype), loop, k_.tile(tile).axes);
    };
    for (Sym tile : reads(k_, s)) touch(CoreWork::Read, tile);
    for (Sym tile : all_written(s)) touch(CoreWork::Written, tile);
  }

  const Program& p_;
  const TileKernel& k_;
  size_t kernel_;
  CoreStatements& out_;
};

}  // namespace

CoreStatements core_statements(const Program& p, const TileProgram& t) {
  CoreStatements all;
  for (size_t k = 0; k < t.kernels.size(); ++k) CoreWalk(p, t, k, all).run();
  return all;
}

}  // namespace tilewright
