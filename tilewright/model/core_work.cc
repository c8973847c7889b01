#include "tilewright/model/core_work.h"

#include <algorithm>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

struct CoreTally {
  int instructions = 0, exponentials = 0, quotients = 0, tangents = 0, conversions = 0;
};

/// Instructions that round an f32 to an f8 and test for what has no number there; no unit does it.
constexpr int kRoundToF8 = 16;

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
  CoreWalk(const Program& p, const TileProgram& t, size_t kernel, const TileSymbols& symbols,
           std::vector<CoreStatement>& out)
      : p_(p), t_(t), k_(t.kernels[kernel]), kernel_(kernel), symbols_(symbols), out_(out) {}
  void run() { body(k_.body, nullptr); }

 private:
  /// Bytes that a CPU holds an element of a tile in.
  static int width(DType dtype) { return std::max<int>(4, bytes(dtype)); }
  static bool narrow(DType dtype) { return is_float(dtype) && bytes(dtype) < 4; }

  Expr elements(const Loop* loop, const std::vector<Sym>& axes, bool plain = true, bool masked = true) const {
    return clipped_elements(p_, t_, symbols_, kernel_, loop, axes, plain, masked);
  }

  void body(const Body& stmts, const Loop* loop) {
    std::vector<Sym> run;   // the axes of the loop that neighbouring statements share
    std::set<Sym> at_hand;  // tiles that it has read or made
    for (const Stmt& s : stmts) {
      if (auto* x = std::get_if<Loop>(&s.node)) {
        body(x->body, x);
        at_hand.clear();
      } else if (std::get_if<Map>(&s.node) || std::get_if<Reduce>(&s.node) || std::get_if<Rank>(&s.node)) {
        std::vector<Sym> axes = domain(k_, s);
        std::sort(axes.begin(), axes.end());
        if (axes != run) at_hand.clear();
        run = axes;
        values(s, loop, at_hand);
      } else {
        at_hand.clear();
        if (auto* dot = std::get_if<Dot>(&s.node)) product(s, *dot, loop);
        if (auto* load = std::get_if<Load>(&s.node)) loaded(*load, loop);
        if (auto* store = std::get_if<Store>(&s.node)) stored(*store, loop);
      }
    }
  }

  CoreStatement& add(const std::string& what) {
    out_.push_back({what, 0, 0, 0, 0, 0, 0, 0, 0});
    return out_.back();
  }

  /// The accumulators of a chunk are read and written once; operands stay in registers for a block of the product.
  void product(const Stmt& s, const Dot& x, const Loop* loop) {
    CoreStatement& c = add(x.tile.name());
    c.products = elements(loop, domain(k_, s));
    const Tile& tile = k_.tile(x.tile);
    const Expr bytes_of_tile = Expr(width(tile.dtype)) * elements(loop, tile.axes);
    c.written = bytes_of_tile;
    c.read = x.accumulate ? bytes_of_tile : Expr(0);
  }

  void loaded(const Load& x, const Loop* loop) {
    const Tile& tile = k_.tile(x.tile);
    if (!narrow(tile.dtype)) return;  // f32 is read where it lies
    CoreStatement& c = add(tile.sym.name());
    c.conversions = elements(loop, tile.axes);
  }

  void stored(const Store& x, const Loop* loop) {
    DType to = DType::f32;
    for (const Output& o : p_.outputs)
      if (o.sym == x.tensor) to = o.dtype;
    CoreStatement& c = add(x.tensor.name());
    const Expr n = elements(loop, k_.tile(x.tile).axes);
    c.read = Expr(width(k_.tile(x.tile).dtype)) * n;
    if (narrow(to)) c.conversions = n;
    if (narrow(to) && bytes(to) == 1) c.instructions = Expr(kRoundToF8) * n;
  }

  void values(const Stmt& s, const Loop* loop, std::set<Sym>& at_hand) {
    CoreStatement& c = add(written(s).name());
    const std::vector<Sym> axes = domain(k_, s);
    for (bool masked : {false, true}) {
      const Expr n = elements(loop, axes, !masked, masked);
      if (n.is_constant(0)) continue;
      CoreCounter counter(k_);
      for (Expr e : values_in(s, masked)) counter.take(e);
      CoreTally all = counter.tally();
      if (auto* reduce = std::get_if<Reduce>(&s.node)) {
        const bool extremum = reduce->reducer == Reducer::Max || reduce->reducer == Reducer::Min;
        all.instructions += extremum ? 3 : 1;
      } else if (std::get_if<Rank>(&s.node)) {
        all.instructions += 1;
      }
      const auto times = [&](Expr& to, int count) {
        if (count > 0) to = to + Expr(count) * n;
      };
      times(c.instructions, all.instructions);
      times(c.exponentials, all.exponentials);
      times(c.quotients, all.quotients);
      times(c.tangents, all.tangents);
    }
    const DType to = k_.tile(written(s)).dtype;
    if (narrow(to)) {
      const Expr n = elements(loop, k_.tile(written(s)).axes);
      c.conversions = c.conversions + n;
      if (bytes(to) == 1) c.instructions = c.instructions + Expr(kRoundToF8) * n;
    }
    for (Sym tile : reads(k_, s))
      if (at_hand.insert(tile).second && !k_.tile(tile).axes.empty())
        c.read = c.read + Expr(width(k_.tile(tile).dtype)) * elements(loop, k_.tile(tile).axes);
    for (Sym tile : all_written(s))
      if (at_hand.insert(tile).second && !k_.tile(tile).axes.empty())
        c.written = c.written + Expr(width(k_.tile(tile).dtype)) * elements(loop, k_.tile(tile).axes);
    for (Expr* e :
         {&c.instructions, &c.exponentials, &c.quotients, &c.tangents, &c.conversions, &c.read, &c.written})
      *e = simplify(*e);
  }

  const Program& p_;
  const TileProgram& t_;
  const TileKernel& k_;
  size_t kernel_;
  const TileSymbols& symbols_;
  std::vector<CoreStatement>& out_;
};

}  // namespace

std::vector<CoreStatement> core_statements(const Program& p, const TileProgram& t,
                                           const TileSymbols& symbols) {
  std::vector<CoreStatement> all;
  for (size_t k = 0; k < t.kernels.size(); ++k) CoreWalk(p, t, k, symbols, all).run();
  return all;
}

}  // namespace tilewright
