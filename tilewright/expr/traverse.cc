// Free symbols, structural order, substitution and rewriting.
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "tilewright/expr/expr.h"
#include "tilewright/expr/node.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

bool contains(const std::vector<Sym>& list, Sym s) {
  return std::find(list.begin(), list.end(), s) != list.end();
}

bool is_softmax(Expr e) { return e.is(Op::Reduce) && e->reducer == Reducer::Softmax; }

/// The argument of a Reduce or RangeSum in which its axes are bound.
size_t body_of(Expr e) { return e.is(Op::Reduce) ? 0 : 2; }

/// Is `s` bound in argument `arg` of `e`? The body of a Reduce and of a RangeSum; a softmax keeps its axes,
/// so that its value depends on them.
bool binds(Expr e, size_t arg, Sym s) {
  if (!(e.is(Op::Reduce) || e.is(Op::RangeSum)) || arg != body_of(e) || is_softmax(e)) return false;
  return contains(e->bound, s);
}

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

/// Keeps `found` beside a node, or drops it where another thread was first.
const std::vector<Sym>& published(std::atomic<const std::vector<Sym>*>& kept, const std::vector<Sym>* found) {
  const std::vector<Sym>* expected = nullptr;
  if (kept.compare_exchange_strong(expected, found, std::memory_order_acq_rel)) return *found;
  delete found;
  return *expected;
}

}  // namespace

const std::vector<Sym>& free_symbols_of(Expr e) {
  const InternedNode& n = interned(e);
  if (auto* known = n.free_syms.load(std::memory_order_acquire)) return *known;
  auto* found = new std::vector<Sym>;
  if (n.op == Op::Symbol) {
    found->push_back(n.sym);
  } else {
    for (size_t k = 0; k < n.args.size(); ++k)
      for (Sym s : free_symbols_of(n.args[k]))
        if (!contains(*found, s) && !binds(e, k, s)) found->push_back(s);
  }
  return published(n.free_syms, found);
}

std::vector<Sym> free_symbols(Expr e) { return free_symbols_of(e); }
bool depends_on(Expr e, Sym s) { return contains(free_symbols_of(e), s); }

const std::vector<Sym>& tensors_read(Expr e) {
  const InternedNode& n = interned(e);
  if (auto* known = n.read_syms.load(std::memory_order_acquire)) return *known;
  auto* found = new std::vector<Sym>;
  if (n.facts.data) {
    if (n.op == Op::Read) found->push_back(n.sym);
    for (Expr a : n.args)
      for (Sym s : tensors_read(a))
        if (!contains(*found, s)) found->push_back(s);
  }
  return published(n.read_syms, found);
}

int compare(Expr a, Expr b) {
  if (a == b) return 0;
  if (int c = order(a.op(), b.op())) return c;
  switch (a.op()) {
    case Op::Constant: return order(a->number, b->number);
    case Op::Real:
      if (int c = order(a->real, b->real)) return c;
      return a->real == a->real ? -1 : 1;  // only one of them is NaN, which comes last
    case Op::Symbol: return order(a->sym, b->sym);
    case Op::Read:
      if (int c = order(a->sym, b->sym)) return c;
      break;
    case Op::Cast:
      if (int c = order(a->dtype, b->dtype)) return c;
      break;
    case Op::Reduce:
      if (int c = order(a->reducer, b->reducer)) return c;
      [[fallthrough]];
    case Op::RangeSum:
      if (int c = order(a->bound, b->bound)) return c;
      break;
    default: break;
  }
  for (size_t k = 0; k < std::min(a.args().size(), b.args().size()); ++k)
    if (int c = compare(a.arg(k), b.arg(k))) return c;
  return order(a.args().size(), b.args().size());
}

Sym primed(Sym s) {
  static std::mutex mutex;
  static auto* primes = new std::unordered_map<Sym, Sym>;
  std::lock_guard lock(mutex);
  auto it = primes->find(s);
  if (it != primes->end()) return it->second;
  SymbolInfo info = s.info();
  info.name += "_";
  Sym p = Sym::fresh(info);
  primes->emplace(s, p);
  return p;
}

namespace {

class Substituter {
 public:
  explicit Substituter(const Substitution& s) : substitution_(s) {}

  Expr operator()(Expr e) {
    const std::vector<Sym>& free = free_symbols_of(e);
    bool touched = false;
    for (auto& [from, to] : substitution_) touched |= contains(free, from);
    if (!touched) return e;
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second;
    Expr out = visit(e);
    memo_.emplace(e.get(), out);
    return out;
  }

 private:
  Expr visit(Expr e) {
    if (e.is(Op::Symbol)) {
      for (auto& [from, to] : substitution_)
        if (from == e->sym) return to;
      return e;
    }
    if (e.is(Op::Reduce) || e.is(Op::RangeSum)) return visit_binder(e);
    std::vector<Expr> args;
    for (Expr a : e.args()) args.push_back((*this)(a));
    return with_args(e, std::move(args));
  }

  Expr visit_binder(Expr e) {
    Node n = *e;
    Expr& body = n.args[body_of(e)];
    for (Expr& a : n.args)
      if (&a != &body) a = (*this)(a);
    if (is_softmax(e))
      for (auto& [from, to] : substitution_)
        TW_CHECK(!contains(n.bound, from), "the axis of a softmax can be replaced only after elaborate()");
    Substitution inner;
    for (auto& pair : substitution_)
      if (!contains(n.bound, pair.first) && depends_on(body, pair.first)) inner.push_back(pair);
    for (Sym& b : n.bound) {
      auto captured = [&](Sym s) {
        return std::any_of(inner.begin(), inner.end(), [&](auto& p) { return depends_on(p.second, s); });
      };
      if (!captured(b)) continue;
      Sym renamed = primed(b);
      while (captured(renamed) || depends_on(body, renamed) || contains(n.bound, renamed))
        renamed = primed(renamed);
      inner.emplace_back(b, renamed);
      b = renamed;
    }
    body = substitute(body, inner);
    return make(std::move(n));
  }

  const Substitution& substitution_;
  std::unordered_map<const Node*, Expr> memo_;
};

}  // namespace

Expr substitute(Expr e, const Substitution& s) {
  if (s.empty()) return e;
  return Substituter(s)(e);
}

Expr rewrite(Expr e, const std::function<Expr(Expr)>& f) {
  std::unordered_map<const Node*, Expr> memo;
  std::function<Expr(Expr)> visit = [&](Expr x) {
    auto it = memo.find(x.get());
    if (it != memo.end()) return it->second;
    std::vector<Expr> args;
    args.reserve(x.args().size());
    for (Expr a : x.args()) args.push_back(visit(a));
    Expr out = f(with_args(x, std::move(args)));
    memo.emplace(x.get(), out);
    return out;
  };
  return visit(e);
}

}  // namespace tilewright
