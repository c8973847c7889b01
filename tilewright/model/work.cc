#include "tilewright/model/work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

const char* name(Unit u) {
  switch (u) {
    case Unit::Matrix: return "matrix";
    case Unit::Special: return "special";
    case Unit::Vector: return "vector";
  }
  return "";
}

namespace {

struct Tally {
  int special = 0, vector = 0;
};

/// Operations of an expression for one element.
class Counter {
 public:
  explicit Counter(const TileKernel& k) : k_(k) {}
  Tally of(Expr e) {
    if (e) count(e);
    return tally_;
  }

 private:
  /// Does the value differ from element to element?
  bool varies(Expr e) {
    auto it = varies_.find(e);
    if (it != varies_.end()) return it->second;
    bool v = false;
    if (e.is(Op::Read)) v = has_tile(k_, e->sym) && !k_.tile(e->sym).axes.empty();
    if (e.is(Op::Symbol)) v = e->sym.kind() == SymbolKind::Index;
    for (Expr a : e.args()) v = varies(a) || v;
    return varies_[e] = v;
  }

  void count(Expr e, bool fused = false) {
    if (!varies(e) || !seen_.insert(e).second) return;
    int varying = 0;
    for (Expr a : e.args()) varying += varies(a) ? 1 : 0;
    const int operands = int(e.args().size());
    switch (e.op()) {
      case Op::Constant:
      case Op::Real:
      case Op::Symbol:
      case Op::Read: break;
      case Op::Exp:
      case Op::Exp2:
      case Op::Log:
      case Op::Log2:
      case Op::Sqrt:
      case Op::Rsqrt:
      case Op::Tanh: tally_.special += 1; break;
      case Op::Sigmoid:  // an exponential and a reciprocal
      case Op::Erf:
        tally_.special += 2;
        tally_.vector += 1;
        break;
      case Op::Div:
        tally_.special += 1;
        tally_.vector += 1;
        break;
      case Op::Pow: {
        const auto exponent = e.arg(1).rational();
        if (exponent && exponent->is_integer() && exponent->num() > 0)
          tally_.vector += int(std::min<int64_t>(exponent->num() - 1, 8));
        else
          tally_.special += 1;
        break;
      }
      case Op::Mul: tally_.vector += operands - 1 - (fused ? 1 : 0); break;
      case Op::Neg: break;  // a sign of an operand
      case Op::Add:
      case Op::Sub: {
        tally_.vector += operands - 1;
        // One product of each sum is fused with it.
        bool one = false;
        for (Expr a : e.args()) {
          const bool product = !one && a.is(Op::Mul);
          one = one || product;
          count(a, product);
        }
        return;
      }
      default: tally_.vector += std::max(1, operands - 1); break;
    }
    for (Expr a : e.args()) count(a);
  }

  const TileKernel& k_;
  std::set<Expr> seen_;
  std::map<Expr, bool> varies_;
  Tally tally_;
};

class WorkWalk {
 public:
  WorkWalk(const TileProgram& t, size_t kernel, const TileSymbols& symbols, std::vector<Operation>& out)
      : t_(t), k_(t.kernels[kernel]), kernel_(kernel), symbols_(symbols), out_(out) {}
  void run() { body(k_.body, nullptr); }

 private:
  void body(const Body& stmts, const Loop* loop) {
    for (const Stmt& s : stmts) {
      if (auto* x = std::get_if<Loop>(&s.node)) {
        body(x->body, x);
      } else if (auto* dot = std::get_if<Dot>(&s.node)) {
        product(s, *dot, loop);
      } else if (std::get_if<Map>(&s.node) || std::get_if<Reduce>(&s.node) || std::get_if<Rank>(&s.node)) {
        values(s, loop);
      }
    }
  }

  void product(const Stmt& s, const Dot& x, const Loop* loop) {
    const DType a = k_.tile(x.a).dtype, b = k_.tile(x.b).dtype;
    out_.push_back({fmt::format("{} {} dot {} ({}, {})", x.tile.name(), x.accumulate ? "+=" : "=",
                                names(x.axes), x.a.name(), x.b.name()),
                    Unit::Matrix, bytes(a) >= bytes(b) ? a : b,
                    elements_of_domain(t_, k_, domain(k_, s), symbols_), true, true, loop, kernel_});
  }

  void values(const Stmt& s, const Loop* loop) {
    const bool reduces = std::get_if<Reduce>(&s.node) != nullptr || std::get_if<Rank>(&s.node) != nullptr;
    auto tally = [&](bool masked) {
      Counter counter(k_);
      Tally all{};
      for (Expr e : values_in(s, masked)) all = counter.of(e);
      all.vector += reduces ? 1 : 0;
      const DType to = k_.tile(written(s)).dtype;
      if (is_float(to) && to != DType::f32 && to != DType::f64) all.vector += 1;  // rounded
      return all;
    };
    const Tally plain = tally(false), masked = tally(true);
    const Expr n = elements_of_domain(t_, k_, domain(k_, s), symbols_);
    const std::string what = text(s);
    auto add = [&](Unit unit, int count, bool in_plain, bool in_masked) {
      if (count > 0)
        out_.push_back(
            {what, unit, DType::f32, simplify(Expr(count) * n), in_plain, in_masked, loop, kernel_});
    };
    add(Unit::Special, std::min(plain.special, masked.special), true, true);
    add(Unit::Vector, std::min(plain.vector, masked.vector), true, true);
    // What masked chunks do in addition, and the other way round.
    add(Unit::Special, masked.special - plain.special, false, true);
    add(Unit::Vector, masked.vector - plain.vector, false, true);
    add(Unit::Special, plain.special - masked.special, true, false);
    add(Unit::Vector, plain.vector - masked.vector, true, false);
  }

  static std::string names(const std::vector<Sym>& axes) {
    std::vector<std::string> all;
    for (Sym a : axes) all.push_back(a.name());
    return fmt::format("{}", fmt::join(all, ", "));
  }

  std::string text(const Stmt& s) const {
    if (auto* x = std::get_if<Map>(&s.node))
      return fmt::format("{} = {}", x->tile.name(),
                         plain_text(x->value == read_of(x->tile) && x->masked ? x->masked : x->value));
    if (auto* x = std::get_if<Reduce>(&s.node))
      return fmt::format("{} {} {} {} ({})", x->tile.name(), x->accumulate ? "+=" : "=",
                         tilewright::name(x->reducer), names(x->axes), plain_text(x->value));
    return fmt::format("{}, lists merged", written(s).name());
  }
  /// Tiles by their names alone.
  std::string plain_text(Expr e) const {
    return to_string(
        rewrite(e, [&](Expr x) { return x.is(Op::Read) && has_tile(k_, x->sym) ? Expr(x->sym) : x; }));
  }
  Expr read_of(Sym tile) const {
    const std::vector<Sym>& axes = k_.tile(tile).axes;
    return read(tile, {axes.begin(), axes.end()});
  }

  const TileProgram& t_;
  const TileKernel& k_;
  size_t kernel_;
  const TileSymbols& symbols_;
  std::vector<Operation>& out_;
};

}  // namespace

std::vector<Operation> operations(const TileProgram& t, const TileSymbols& symbols) {
  std::vector<Operation> all;
  for (size_t k = 0; k < t.kernels.size(); ++k) WorkWalk(t, k, symbols, all).run();
  return all;
}

Expr loaded_in_chunk(const TileProgram& t, const TileKernel& k, const Loop& loop,
                     const TileSymbols& symbols) {
  Expr sum = 0;
  for (const Stmt& s : loop.body)
    if (auto* x = std::get_if<Load>(&s.node)) {
      const Tile& tile = k.tile(x->tile);
      auto width = symbols.width.find(tile.dtype);
      sum = sum + elements_of_domain(t, k, tile.axes, symbols) *
                      (width != symbols.width.end() ? Expr(width->second) : Expr(bytes(tile.dtype)));
    }
  return simplify(sum);
}

}  // namespace tilewright
