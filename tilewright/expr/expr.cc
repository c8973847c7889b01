// Interning and builders.
#include "tilewright/expr/expr.h"

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <unordered_set>

#include <fmt/format.h>

#include "tilewright/expr/node.h"
#include "tilewright/support/error.h"

namespace tilewright {

const char* name(Op op) {
  static constexpr const char* names[] = {
#define TW_OP_NAME(id, text, arity) text,
      TW_OPS(TW_OP_NAME)
#undef TW_OP_NAME
  };
  return names[size_t(op)];
}

const char* name(Reducer r) {
  static constexpr const char* names[] = {"sum",    "max",  "min", "prod",    "any",       "all",  "argmax",
                                          "argmin", "mean", "var", "softmax", "logsumexp", "topk", "argtopk"};
  return names[size_t(r)];
}

namespace {

int arity(Op op) {
  static constexpr int arities[] = {
#define TW_OP_ARITY(id, text, n) n,
      TW_OPS(TW_OP_ARITY)
#undef TW_OP_ARITY
  };
  return arities[size_t(op)];
}

uint64_t bits(double x) {
  uint64_t b;
  std::memcpy(&b, &x, sizeof b);
  return b;
}

struct NodeHash {
  size_t operator()(const Node* n) const {
    size_t h = size_t(n->op) * 0x9E3779B97F4A7C15ull;
    auto mix = [&h](uint64_t x) {
      h = (h ^ (x + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2))) * 0xff51afd7ed558ccdull;
    };
    switch (n->op) {
      case Op::Constant:
        mix(uint64_t(n->number.num()));
        mix(uint64_t(n->number.den()));
        break;
      case Op::Real: mix(bits(n->real)); break;
      case Op::Symbol:
      case Op::Read: mix(n->sym ? n->sym.info().id : 0); break;
      case Op::Cast: mix(uint64_t(n->dtype)); break;
      case Op::Reduce: mix(uint64_t(n->reducer)); break;
      default: break;
    }
    for (Sym s : n->bound) mix(s.info().id);
    for (Expr a : n->args) mix(a->id);
    return h ^ (h >> 29);
  }
};

struct NodeEqual {
  bool operator()(const Node* a, const Node* b) const {
    if (a->op != b->op || a->args != b->args || a->bound != b->bound) return false;
    switch (a->op) {
      case Op::Constant: return a->number == b->number;
      case Op::Real: return bits(a->real) == bits(b->real);
      case Op::Symbol:
      case Op::Read: return a->sym == b->sym;
      case Op::Cast: return a->dtype == b->dtype;
      case Op::Reduce: return a->reducer == b->reducer;
      default: return true;
    }
  }
};

struct Shard {
  std::mutex mutex;
  std::unordered_set<const Node*, NodeHash, NodeEqual> nodes;
  std::deque<InternedNode> storage;  // nodes live as long as the process: Expr is a bare pointer
};

Shard& shard(size_t hash) {
  static auto* shards = new std::array<Shard, 32>;  // never destroyed: static Exprs may outlive it
  return (*shards)[(hash >> 7) % shards->size()];
}

NodeFacts facts_of(const Node& n) {
  NodeFacts f;
  bool integer_args = true, finite_args = true;
  for (Expr a : n.args) {
    const NodeFacts& x = facts(a);
    f.data |= x.data;
    f.condition |= x.condition;
    f.has_index |= x.has_index;
    integer_args &= x.integer;
    finite_args &= x.finite;
  }
  switch (n.op) {
    case Op::Constant:
      f.integer = n.number.is_integer();
      f.finite = true;
      break;
    case Op::Real:
      f.integer = std::isfinite(n.real) && n.real == std::floor(n.real);
      f.finite = std::isfinite(n.real);
      break;
    case Op::Symbol: {
      const SymbolInfo& s = n.sym.info();
      f.integer = s.integer || s.kind == SymbolKind::Index || s.kind == SymbolKind::Size;
      f.finite = f.integer || (s.kind == SymbolKind::Param && std::isfinite(s.largest));
      f.has_index = s.kind == SymbolKind::Index;
      f.data = !f.integer && s.kind != SymbolKind::Param;
      break;
    }
    case Op::Read:
      f.data = true;
      f.integer = n.sym.info().integer;
      f.finite = f.integer;
      break;
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg:
    case Op::Abs:
    case Op::Max:
    case Op::Min:
      f.integer = integer_args;
      f.finite = finite_args;
      break;
    case Op::Sign:
      f.integer = integer_args;
      f.finite = finite_args;
      break;
    case Op::Pow: {
      auto power = n.args[1].rational();
      bool natural = power && power->is_integer() && power->num() >= 0;
      f.integer = natural && integer_args;
      auto base = n.args[0].rational();
      f.finite = (natural && finite_args) || (power && base && base->num() > 0);
      break;
    }
    case Op::Log: {
      auto x = n.args[0].rational();
      f.finite = x && x->num() > 0;
      break;
    }
    case Op::Exp: {
      auto x = n.args[0].rational();
      f.finite = x && x->value() < 700;
      break;
    }
    case Op::Floor:
    case Op::Round:
      f.integer = f.finite = finite_args;  // the floor of an infinity is none
      break;
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf: f.finite = finite_args; break;
    case Op::Select:
      f.condition = true;
      f.integer = facts(n.args[1]).integer && facts(n.args[2]).integer;
      f.finite = facts(n.args[1]).finite && facts(n.args[2]).finite;
      break;
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::And:
    case Op::Or:
    case Op::Not: f.condition = f.boolean = f.integer = f.finite = true; break;
    case Op::FloorDiv:
    case Op::Mod: f.integer = f.finite = true; break;
    case Op::Cast:
      f.integer = is_integer(n.dtype) || n.dtype == DType::boolean;
      f.finite = f.integer;
      break;
    case Op::Reduce:
      for (Sym s : n.bound) f.has_index |= s.kind() == SymbolKind::Index;
      switch (n.reducer) {
        case Reducer::Any:
        case Reducer::All: f.condition = f.boolean = f.integer = f.finite = true; break;
        case Reducer::Argmax:
        case Reducer::Argmin:
        case Reducer::Argtopk: f.integer = f.finite = true; break;
        case Reducer::Sum:
        case Reducer::Prod:
          f.integer = integer_args;
          f.finite = finite_args;
          break;
        case Reducer::Max:
        case Reducer::Min: f.integer = integer_args; break;  // infinite over nothing
        default: break;
      }
      break;
    case Op::RangeSum: f.integer = f.finite = facts(n.args[2]).integer; break;
    default: break;
  }
  return f;
}

}  // namespace

Expr make(Node node) {
  const int want = arity(node.op);
  TW_CHECK(want < 0 || size_t(want) == node.args.size(),
           fmt::format("{} takes {} arguments, not {}", name(node.op), want, node.args.size()));
  TW_CHECK(node.op != Op::Reduce || node.args.size() == (has_rank(node.reducer) ? 2 : 1),
           fmt::format("{} is built with {} arguments", name(node.reducer), node.args.size()));
  for (Expr a : node.args) TW_CHECK(bool(a), fmt::format("null argument of {}", name(node.op)));
  const size_t hash = NodeHash{}(&node);
  Shard& s = shard(hash);
  static std::atomic<uint64_t> next_id{1};
  Expr e;
  std::lock_guard lock(s.mutex);
  auto it = s.nodes.find(&node);
  if (it != s.nodes.end()) {
    e.node_ = *it;
    return e;
  }
  InternedNode& n = s.storage.emplace_back();
  static_cast<Node&>(n) = std::move(node);
  n.id = next_id.fetch_add(1);
  n.facts = facts_of(n);
  s.nodes.insert(&n);
  e.node_ = &n;
  return e;
}

Expr make(Op op, std::vector<Expr> args) {
  Node n;
  n.op = op;
  n.args = std::move(args);
  return make(std::move(n));
}

Sym Sym::fresh(SymbolInfo info) {
  static std::mutex mutex;
  static auto* all = new std::deque<SymbolInfo>;  // never destroyed: symbols live as long as the process
  std::lock_guard lock(mutex);
  info.id = all->size() + 1;
  if (info.kind == SymbolKind::Index || info.kind == SymbolKind::Size) info.integer = info.nonnegative = true;
  if (info.positive) info.nonnegative = true;
  all->push_back(std::move(info));
  return Sym::of(&all->back());
}

Expr::Expr(int64_t n) : Expr(Rational(n)) {}
Expr::Expr(int n) : Expr(Rational(n)) {}
Expr::Expr(Rational r) {
  Node n;
  n.op = Op::Constant;
  n.number = r;
  node_ = make(std::move(n)).node_;
}
Expr::Expr(Sym s) {
  TW_CHECK(bool(s), "expression of a null symbol");
  Node n;
  n.op = Op::Symbol;
  n.sym = s;
  node_ = make(std::move(n)).node_;
}

Expr Expr::real(double x) {
  // Numbers with at most 20 binary places and 2^40 in size are kept exact.
  if (std::isfinite(x) && std::fabs(x) < 0x1p40) {
    double scaled = x * 0x1p20;
    if (scaled == std::floor(scaled)) return Rational(int64_t(scaled), int64_t(1) << 20);
  } else if (std::isfinite(x) && std::fabs(x) <= 0x1p53) {
    if (x == std::floor(x)) return Rational(int64_t(x));
  }
  Node n;
  n.op = Op::Real;
  n.real = std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x;
  return make(std::move(n));
}

bool operator<(Expr a, Expr b) { return (a.node_ ? a.node_->id : 0) < (b.node_ ? b.node_->id : 0); }

Op Expr::op() const { return node_->op; }
const std::vector<Expr>& Expr::args() const { return node_->args; }
Expr Expr::arg(size_t i) const { return node_->args[i]; }

std::optional<double> Expr::number() const {
  if (!node_) return std::nullopt;
  if (node_->op == Op::Constant) return node_->number.value();
  if (node_->op == Op::Real) return node_->real;
  return std::nullopt;
}
std::optional<Rational> Expr::rational() const {
  if (node_ && node_->op == Op::Constant) return node_->number;
  return std::nullopt;
}
bool Expr::is_constant(int64_t value) const {
  return node_ && node_->op == Op::Constant && node_->number == Rational(value);
}

Expr operator+(Expr a, Expr b) { return make(Op::Add, {a, b}); }
Expr operator-(Expr a, Expr b) { return make(Op::Sub, {a, b}); }
Expr operator*(Expr a, Expr b) { return make(Op::Mul, {a, b}); }
Expr operator/(Expr a, Expr b) { return make(Op::Div, {a, b}); }
Expr operator-(Expr a) { return make(Op::Neg, {a}); }
Expr select(Expr condition, Expr then, Expr otherwise) {
  return make(Op::Select, {condition, then, otherwise});
}
Expr floordiv(Expr a, Expr b) { return make(Op::FloorDiv, {a, b}); }
Expr mod(Expr a, Expr b) { return make(Op::Mod, {a, b}); }
Expr max(Expr a, Expr b) { return make(Op::Max, {a, b}); }
Expr min(Expr a, Expr b) { return make(Op::Min, {a, b}); }
Expr exp(Expr a) { return make(Op::Exp, {a}); }
Expr exp2(Expr a) { return make(Op::Exp2, {a}); }
Expr log(Expr a) { return make(Op::Log, {a}); }
Expr sqrt(Expr a) { return make(Op::Sqrt, {a}); }
Expr pow(Expr a, Expr b) { return make(Op::Pow, {a, b}); }
Expr less(Expr a, Expr b) { return make(Op::Lt, {a, b}); }
Expr less_equal(Expr a, Expr b) { return make(Op::Le, {a, b}); }
Expr equal(Expr a, Expr b) { return make(Op::Eq, {a, b}); }
Expr logical_and(Expr a, Expr b) { return make(Op::And, {a, b}); }
Expr logical_or(Expr a, Expr b) { return make(Op::Or, {a, b}); }
Expr logical_not(Expr a) { return make(Op::Not, {a}); }

Expr read(Sym tensor, std::vector<Expr> indices) {
  Node n;
  n.op = Op::Read;
  n.sym = tensor;
  n.args = std::move(indices);
  return make(std::move(n));
}

Expr reduce(Reducer r, std::vector<Sym> axes, Expr body) {
  Node n;
  n.op = Op::Reduce;
  n.reducer = r;
  n.bound = std::move(axes);
  n.args = {body};
  return make(std::move(n));
}

Expr ranked(Reducer r, Sym axis, Expr body, Expr rank) {
  Node n;
  n.op = Op::Reduce;
  n.reducer = r;
  n.bound = {axis};
  n.args = {body, rank};
  return make(std::move(n));
}

RankedBody ranked_body(Expr ranked) {
  const Expr body = ranked.arg(0);
  if (!body.is(Op::Select)) return {body, {}};
  const auto absent = [](Expr e) {
    const double sign = e.is(Op::Neg) ? -1 : 1;
    const auto x = e.is(Op::Neg) ? e.arg(0).number() : e.number();
    return x && sign * *x == -__builtin_inf();
  };
  if (absent(body.arg(2))) return {body.arg(1), body.arg(0)};
  if (absent(body.arg(1))) return {body.arg(2), logical_not(body.arg(0))};
  return {body, {}};
}

Expr range_sum(Sym var, Expr lo, Expr hi, Expr body) {
  Node n;
  n.op = Op::RangeSum;
  n.bound = {var};
  n.args = {lo, hi, body};
  return make(std::move(n));
}

Expr cast(DType t, Expr x) {
  Node n;
  n.op = Op::Cast;
  n.dtype = t;
  n.args = {x};
  return make(std::move(n));
}

Expr with_args(Expr e, std::vector<Expr> args) {
  if (args == e->args) return e;
  Node n = *e;
  n.args = std::move(args);
  return make(std::move(n));
}

}  // namespace tilewright
