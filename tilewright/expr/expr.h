// Scalar expressions: an immutable, hash-consed DAG.
//
// One engine serves element functions, index arithmetic, sizes and costs. Builders in this header keep what is written ("raw":
// Sub, Div, Sqrt, Exp2 … stay); simplify() (simplify.h) brings an expression to canonical form, over the reals. Two raw expressions that are
// equal node for node are the same pointer, so == is identity.
//
// Node semantics stand beside each operator in TW_OPS.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/support/dtype.h"
#include "tilewright/support/rational.h"

namespace tilewright {

// clang-format off
/// X(Name, print name, arity; -1 means any)
#define TW_OPS(X)                                                                                      \
  X(Constant, "const", 0)   /* exact rational `number` */                                              \
  X(Real, "real", 0)        /* a double that is not a small rational: inf, nan, … in `real` */          \
  X(Symbol, "symbol", 0)    /* `sym` */                                                                \
  X(Read, "read", -1)       /* element of tensor or tile `sym` at indices args */                      \
  X(Add, "+", -1) X(Sub, "-", 2) X(Mul, "*", -1) X(Div, "/", 2) X(Neg, "neg", 1)                       \
  X(Pow, "pow", 2)          /* 0 ** 0 = 1 */                                                           \
  X(Exp, "exp", 1) X(Exp2, "exp2", 1) X(Log, "log", 1) X(Log2, "log2", 1)                              \
  X(Sqrt, "sqrt", 1) X(Rsqrt, "rsqrt", 1) X(Tanh, "tanh", 1) X(Sigmoid, "sigmoid", 1) X(Erf, "erf", 1) \
  X(Abs, "abs", 1) X(Floor, "floor", 1) X(Round, "round", 1) X(Sign, "sign", 1)                        \
  X(Max, "max", -1) X(Min, "min", -1)   /* propagate NaN */                                            \
  X(Select, "where", 3)     /* condition, then, else; only the branch taken is evaluated */            \
  X(Lt, "<", 2) X(Le, "<=", 2) X(Eq, "==", 2) X(Ne, "!=", 2)                                           \
  X(And, "and", -1) X(Or, "or", -1) X(Not, "not", 1)                                                   \
  X(FloorDiv, "//", 2) X(Mod, "%", 2)   /* integers; floor division, remainder has the divisor's sign */\
  X(Cast, "cast", 1)        /* rounds to `dtype` */                                                    \
  X(Reduce, "reduce", -1)   /* `reducer` over the index symbols `bound` of args[0]; topk: of rank args[1] */\
  X(RangeSum, "rangesum", 3) /* sum of args[2] for bound[0] in [args[0], args[1]); integers, sizes and costs only */
// clang-format on

enum class Op : uint8_t {
#define TW_OP_ENUM(id, text, arity) id,
  TW_OPS(TW_OP_ENUM)
#undef TW_OP_ENUM
};

const char* name(Op op);

/// Reducers of the language. Those from Mean on are written forms that elaborate() (program/elaborate.h) turns into the others.
enum class Reducer : uint8_t {
  Sum,
  Max,
  Min,
  Prod,
  Any,
  All,
  Argmax,
  Argmin,
  Mean,
  Var,
  Softmax,
  Logsumexp,
  Topk,
  Argtopk
};
/// Topk and Argtopk: the element of rank args[1] (0: the largest, NaN before all) of args[0] over one axis, and its index.
constexpr bool has_rank(Reducer r) { return r == Reducer::Topk || r == Reducer::Argtopk; }
const char* name(Reducer r);

enum class SymbolKind : uint8_t { Index, Size, Param, Tensor, Tile, Variable };

/// What a symbol stands for. Symbols are compared by identity; two may print the same name.
struct SymbolInfo {
  std::string name;
  SymbolKind kind = SymbolKind::Variable;
  bool integer = false;      ///< takes integer values (always true for Index and Size)
  bool positive = false;     ///< > 0 for sure
  bool nonnegative = false;  ///< >= 0 for sure (Index, Size)
  double largest =
      __builtin_inf();  ///< Param: no value has a larger magnitude, and none is NaN; inf: any value, NaN too
  std::string written =
      {};  ///< what messages call it where it is no name of the text: "(k g)"; empty: its name
  const SymbolInfo* size = nullptr;  ///< Index: the Size symbol of its axis
  uint64_t id = 0;                   ///< creation order; gives a stable ordering
};

class Sym {
 public:
  Sym() = default;
  static Sym fresh(SymbolInfo info);  ///< a new symbol; never freed
  static Sym of(const SymbolInfo* info) {
    Sym s;
    s.info_ = info;
    return s;
  }
  const SymbolInfo& info() const { return *info_; }
  const std::string& name() const { return info_->name; }
  const std::string& written() const { return info_->written.empty() ? info_->name : info_->written; }
  SymbolKind kind() const { return info_->kind; }
  Sym size() const { return of(info_->size); }
  explicit operator bool() const { return info_ != nullptr; }
  friend bool operator==(Sym a, Sym b) { return a.info_ == b.info_; }
  friend bool operator<(Sym a, Sym b) { return (a.info_ ? a.info_->id : 0) < (b.info_ ? b.info_->id : 0); }

 private:
  const SymbolInfo* info_ = nullptr;
};

struct Node;

/// A reference to an immutable node. Cheap to copy; == is structural equality (by hash-consing).
class Expr {
 public:
  Expr() = default;
  Expr(int64_t n);             // NOLINT: exact constants convert
  Expr(int n);                 // NOLINT
  Expr(Rational r);            // NOLINT
  Expr(Sym s);                 // NOLINT
  static Expr real(double x);  ///< inf, nan or any double (becomes Constant when it is a small rational)
  static Expr infinity() { return real(__builtin_inf()); }
  static Expr of(const Node* interned) {
    Expr e;
    e.node_ = interned;
    return e;
  }  ///< null for null

  const Node* operator->() const { return node_; }
  const Node& operator*() const { return *node_; }
  const Node* get() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(Expr a, Expr b) { return a.node_ == b.node_; }
  /// A total order that does not depend on addresses: by creation id.
  friend bool operator<(Expr a, Expr b);

  Op op() const;
  bool is(Op o) const { return op() == o; }
  const std::vector<Expr>& args() const;
  Expr arg(size_t i) const;
  /// The value of a Constant or Real node.
  std::optional<double> number() const;
  std::optional<Rational> rational() const;
  bool is_constant(int64_t value) const;

 private:
  friend Expr make(Node);
  const Node* node_ = nullptr;
};

struct Node {
  Op op = Op::Constant;
  std::vector<Expr> args;
  Rational number;                 ///< Constant
  double real = 0;                 ///< Real
  Sym sym;                         ///< Symbol, Read
  DType dtype = DType::f32;        ///< Cast
  Reducer reducer = Reducer::Sum;  ///< Reduce
  std::vector<Sym> bound;          ///< Reduce, RangeSum: bound symbols
  uint64_t id = 0;                 ///< set by make()
};

/// Interns a node (thread safe). Only builders and rewriters call it.
Expr make(Node node);
Expr make(Op op, std::vector<Expr> args);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr a);
Expr read(Sym tensor, std::vector<Expr> indices);
Expr reduce(Reducer r, std::vector<Sym> axes, Expr body);
/// The element of rank `rank` along `axis` (Topk), or its index (Argtopk); the axis is bound in the body, not in the rank.
Expr ranked(Reducer r, Sym axis, Expr body, Expr rank);
/// What a ranked reduction orders. A body where(present, value, -inf) ranks only what is present (docs/language.md, "Absence").
struct RankedBody {
  Expr value, present;  ///< `present` is null where everything takes part
};
RankedBody ranked_body(Expr ranked);
Expr range_sum(Sym var, Expr lo, Expr hi, Expr body);
Expr select(Expr condition, Expr then, Expr otherwise);
Expr cast(DType t, Expr x);
Expr floordiv(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr exp(Expr a);
Expr exp2(Expr a);
Expr log(Expr a);
Expr sqrt(Expr a);
Expr pow(Expr a, Expr b);
Expr less(Expr a, Expr b);
Expr less_equal(Expr a, Expr b);
Expr equal(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
inline Expr ceildiv(Expr a, Expr b) { return floordiv(a + b - 1, b); }

/// The same node with other children (same payload).
Expr with_args(Expr e, std::vector<Expr> args);

/// Free symbols: Symbol leaves that are not bound, in first-occurrence order. Tensor and tile names of reads are not included. The axes of a
/// softmax are free: its value depends on them.
std::vector<Sym> free_symbols(Expr e);
bool depends_on(Expr e, Sym s);
/// Tensors and tiles read, in first-occurrence order.
const std::vector<Sym>& tensors_read(Expr e);

/// Replaces free occurrences of symbols at once; renames bound symbols where a replacement would be captured (always to the same names, so that
/// equal renamings stay equal). InternalError for an axis of a softmax, whose two roles only elaborate() separates.
using Substitution = std::vector<std::pair<Sym, Expr>>;
Expr substitute(Expr e, const Substitution& s);
/// The symbol that stands for `s` where it must be renamed to avoid capture; always the same one, so that equal renamings stay equal.
Sym primed(Sym s);
/// Rewrites bottom-up: `f` sees each node with rewritten children and returns its replacement (or the node itself). Shared nodes are
/// visited once. Bound symbols are left alone.
Expr rewrite(Expr e, const std::function<Expr(Expr)>& f);

/// Text in the language's syntax with minimal parentheses (docs/language.md); parseable up to names.
std::string to_string(Expr e);

}  // namespace tilewright

template <>
struct std::hash<tilewright::Expr> {
  size_t operator()(tilewright::Expr e) const { return std::hash<const void*>()(e.get()); }
};
template <>
struct std::hash<tilewright::Sym> {
  size_t operator()(tilewright::Sym s) const { return std::hash<const void*>()(&s.info()); }
};
