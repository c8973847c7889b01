// Inside of expr/ only: builders of canonical nodes. Each takes canonical arguments and returns a canonical
// expression; simplify() is these applied from the leaves up. Rules stand in rules_*.cc as equations.
#pragma once
#include "tilewright/expr/node.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::canonical {

/// A number that is exact while it fits a Rational, else a double.
class Number {
 public:
  Number(int64_t n = 0) : exact_(n), value_(double(n)) {}  // NOLINT
  Number(Rational q) : exact_(q), value_(q.value()) {}     // NOLINT
  static Number of(double x);
  static std::optional<Number> of(Expr e);  ///< of a Constant or Real
  bool exact() const { return exact_.has_value(); }
  const Rational& rational() const { return *exact_; }
  double value() const { return value_; }
  bool finite() const { return exact_ || __builtin_isfinite(value_); }
  bool is(int64_t n) const { return exact_ && *exact_ == Rational(n); }
  bool zero() const { return value_ == 0; }
  bool negative() const { return value_ < 0; }
  Expr expr() const { return exact_ ? Expr(*exact_) : Expr::real(value_); }
  friend Number operator+(const Number& a, const Number& b);
  friend Number operator*(const Number& a, const Number& b);
  Number operator-() const { return *this * Number(-1); }
  friend bool operator==(const Number& a, const Number& b);

 private:
  std::optional<Rational> exact_;
  double value_ = 0;
};

Expr add(std::vector<Expr> terms);
Expr mul(std::vector<Expr> factors);
Expr power(Expr base, Expr exponent);
inline Expr negative(Expr e) { return mul({Expr(-1), e}); }
inline Expr subtract(Expr a, Expr b) { return add({a, negative(b)}); }
inline Expr divide(Expr a, Expr b) { return mul({a, power(b, Expr(-1))}); }
Expr exponential(Expr a);
Expr logarithm(Expr a);
Expr unary(Op op, Expr a);                     ///< Tanh Sigmoid Erf Abs Floor Round Sign
Expr extremum(Op op, std::vector<Expr> args);  ///< Max, Min
Expr where(Expr condition, Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr negation(Expr condition);
Expr conjunction(std::vector<Expr> args);
Expr disjunction(std::vector<Expr> args);
Expr floor_div(Expr a, Expr b);
Expr modulo(Expr a, Expr b);
Expr convert(DType t, Expr a);
Expr reduction(Reducer r, std::vector<Sym> axes, Expr body);
Expr ranged_sum(Sym var, Expr lo, Expr hi, Expr body);
/// The canonical node with the operator and payload of `shape` and the given canonical arguments.
Expr rebuild(const Node& shape, std::vector<Expr> args);

/// term = coefficient · rest, where the coefficient is a finite non-zero number.
std::pair<Number, Expr> split_coefficient(Expr term);
/// Factors of a product, or the expression alone; terms of a sum, or the expression alone.
std::vector<Expr> factors_of(Expr e);
std::vector<Expr> terms_of(Expr e);
/// e = content · primitive. The content of a product is its coefficient; of a sum of integers the greatest
/// common divisor of the coefficients, of another sum the size of its first coefficient that is not of a
/// number, so that x − m/4096 stays. `with_sign`: with the sign of that coefficient.
std::pair<Number, Expr> primitive(Expr e, bool with_sign);
/// The first coefficient that is not of a number is negative: -x, -x + y, -3.
bool leads_negative(Expr e);
/// Products over sums distributed at the top of `e` (at most 64 terms), canonical; powers are left.
Expr distribute(Expr e);

/// `x` where each of the conditions (a literal, or its negation where the flag is false) holds.
using Assumptions = std::vector<std::pair<Expr, bool>>;
Expr assuming(Expr x, const Assumptions& known);
/// Literals that hold when `condition` has the value `truth`.
Assumptions literals(Expr condition, bool truth);
/// Terms of a conjunction, or the condition alone.
std::vector<Expr> conjuncts(Expr condition);

/// Of a condition and its negation: is `c` the one to keep?
bool preferred_polarity(Expr c, Expr negated);
/// The order of the arguments of `and` and `or`: conditions on indices before those that read tensors.
bool before_in_connective(Expr a, Expr b);
/// The form of a mixed formula in rules_boolean.cc; nullopt where it has more than six atoms.
std::optional<Expr> minimal_formula(Expr e);

/// Made of numbers, sizes, params and indices: no tensor element and no real variable, which may be infinite.
inline bool free_of_data(Expr e) { return !facts(e).data; }
/// Made of numbers, sizes and params.
inline bool is_uniform(Expr e) { return !facts(e).data && !facts(e).has_index; }
bool is_true(Expr e);
bool is_false(Expr e);

}  // namespace tilewright::canonical
