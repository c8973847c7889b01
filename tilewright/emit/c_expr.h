// Scalar expressions as C text, shared by the emitters.
//
// A target derives from CPrinter and says what symbols and reads are called; a CDialect says how types,
// functions and casts are spelled. Printing is typed: every subexpression is an integer, a boolean or a real,
// and is converted where the context asks for another kind.
//  - Expressions without symbols and reads are evaluated in f64 and printed as one literal; closed factors of
//  a product (and addends of a sum)
//    are joined first, so 1/log(2)·128^(-1/2)·x is one multiplication.
//  - x·y^(-1) is a division, x^(±1/2) a square root, x^n with n <= 4 a product; Exp of a sum whose addends
//  all carry log(2) is Exp2.
//  - Floor division and remainder by literal powers of two are shifts and masks (right for negative numbers
//  too); by positive
//    divisors of nonnegative operands plain / and %; otherwise a function of the dialect.
//  - Inside of a cast to the type in which reals are computed (a whole value, program/compared.h) each product is rounded before it is added: the compiler joins
//  none with a sum, so that the same expression has the same value in every loop.
//  - Comparisons of integers print their negative terms on the other side.
//
// "Lanes": a value may be a vector with one element for each lane. Arithmetic operators then apply element by
// element (scalars broadcast), and functions, selects and connectives receive vectors only (splat()). Targets
// without vectors never set CValue::lanes.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tilewright/expr/expr.h"

namespace tilewright {

enum class CKind : uint8_t { Integer, Boolean, Real };

/// A printed expression.
struct CValue {
  std::string text;
  CKind kind = CKind::Real;
  int bits = 32;         ///< Integer: 32 or 64. Real: 32 or 64
  int precedence = 100;  ///< of the outermost operator: 100 needs no parentheses anywhere
  bool lanes = false;    ///< one value for each vector lane
  bool literal = false;  ///< `number` is its value; the text is made on conversion
  double number = 0;

  static CValue integer(std::string text, int bits = 64, int precedence = 100) {
    return {std::move(text), CKind::Integer, bits, precedence};
  }
  static CValue real(std::string text, int bits = 32, int precedence = 100) {
    return {std::move(text), CKind::Real, bits, precedence};
  }
  static CValue boolean(std::string text, int precedence = 100) {
    return {std::move(text), CKind::Boolean, 0, precedence};
  }
  /// A literal, whose text is made where it is known what it is needed as.
  static CValue number_of(double x, CKind kind);
  bool is_name() const;  ///< or a literal: repeating it costs nothing
  CValue with_lanes() && {
    lanes = true;
    return std::move(*this);
  }
};

/// An integer that 64 bits hold?
bool is_integral(double x);

/// Precedences of C operators, as used by CValue.
namespace c_precedence {
constexpr int primary = 100, unary = 90, product_of_factors = 80, sum_of_terms = 70, shift = 65,
              relation = 60, equality = 55, bit_and = 50, bit_or = 45, both = 40, either = 35,
              branch_operand = 31, branch = 30;
}

/// How a target spells things: a small override table.
struct CDialect {
  int integer_bits = 64;  ///< width in which integers are computed
  int real_bits = 32;     ///< width in which reals are computed
  std::string integer32 = "int", integer64 = "long long", real32 = "float", real64 = "double";
  std::string infinity32 = "__builtin_inff()", infinity64 = "__builtin_inf()";
  std::string nan32 = "__builtin_nanf(\"\")", nan64 = "__builtin_nan(\"\")";
  /// Call patterns by operator and kind of the operands: "exp2f({0})", "tw_max({0}, {1})". Max and Min are
  /// applied pairwise. Select has operands condition, then, else and is used for lanes and where both sides are evaluated.
  std::map<std::pair<Op, CKind>, std::string> functions;
  /// Rounding a real to a dtype, value stays a real (integer dtypes: becomes an integer): "round_f16({0})".
  std::map<DType, std::string> casts;
  /// Inside of whole values: the product of two reals, and the result of a function; empty: as elsewhere.
  std::string whole_product, whole_result;

  /// `pattern` with {0}, {1} … replaced.
  static std::string apply(const std::string& pattern, const std::vector<std::string>& args);
  const std::string& integer_type(int bits) const { return bits == 32 ? integer32 : integer64; }
  const std::string& real_type(int bits) const { return bits == 32 ? real32 : real64; }
  /// A literal that reads back as the same double (64) or the nearest float (32); infinities and NaN by name.
  std::string real_literal(double x, int bits) const;
  std::string integer_literal(int64_t x, int bits) const;
};

class CPrinter {
 public:
  explicit CPrinter(CDialect dialect) : dialect_(std::move(dialect)) {}
  virtual ~CPrinter() = default;

  std::string integer(Expr e) { return as(value(e), CKind::Integer).text; }
  std::string boolean(Expr e) { return as(value(e), CKind::Boolean).text; }
  std::string real(Expr e) { return as(value(e), CKind::Real).text; }
  CValue value(Expr e);
  /// Converted to `kind` in the dialect's width of it; never a bare literal (its text is set).
  CValue as(CValue v, CKind kind) const;
  /// Text, in parentheses unless it binds at least as tightly as `precedence`.
  static std::string wrap(const CValue& v, int precedence);
  const CDialect& dialect() const { return dialect_; }

  /// Subexpressions that occur more than once become named temporaries: declarations collected in order, to
  /// be printed before the statement. Names are `prefix`0, `prefix`1 …; the count goes on over several
  /// expressions until the declarations are taken.
  void share(std::string prefix) { share_ = std::move(prefix); }
  /// Expressions that will be printed before the declarations are taken: what they have in common becomes temporaries too.
  void expect(const std::vector<Expr>& list) {
    for (Expr e : list) count_uses(e);
  }
  std::vector<std::string> take_declarations();

 protected:
  /// A value in dtype `t`: reals rounded or, to integers, cut toward 0.
  CValue cast_to(DType t, CValue v) const;
  /// An index coordinate, size, counter, param or variable.
  virtual CValue symbol(Sym s) = 0;
  /// An element of a buffer or tensor; `e` is the Read node.
  virtual CValue read(Expr e) = 0;
  /// Nested reductions and range sums are not scalar: InternalError unless a target handles them.
  virtual CValue nested(Expr e);
  /// A scalar made a vector; only targets with lanes.
  virtual CValue splat(CValue v) const;
  /// An integer, boolean or real vector converted to `kind`; only targets with lanes.
  virtual CValue convert_lanes(CValue v, CKind kind) const;
  /// Type of a declaration of `v`.
  virtual std::string type_of(const CValue& v) const;
  /// A comparison (Lt Le Eq Ne) of `a` and `b`; targets with lanes may choose narrower arithmetic.
  virtual CValue comparison(Op op, Expr a, Expr b);
  /// Whether evaluating `e` where it is not needed is harmless (no access outside an array, no division by
  /// zero).
  virtual bool harmless(Expr e) const;

  /// Whether both sides of a choice between reals are evaluated by a function of the dialect, where a branch would cost more.
  virtual bool evaluates_both(Expr, Expr) const { return false; }

  /// A function of one real, `v` being the printed argument.
  virtual CValue function(Op op, Expr argument, CValue v);
  /// Declarations of temporaries so far.
  const std::vector<std::string>& declared() const { return declarations_; }

  /// An integer expression where a real is wanted; `v` is the printed integer.
  virtual CValue real_of_integer(Expr e, CValue v);

  /// Runs `f` with no temporaries made or used: what it prints means something else than in the expression at hand.
  template <class F>
  auto unshared(F f) {
    auto share = std::exchange(share_, {});
    auto named = std::exchange(named_, {}), named_whole = std::exchange(named_whole_, {});
    auto result = f();
    share_ = std::move(share);
    named_ = std::move(named);
    named_whole_ = std::move(named_whole);
    return result;
  }

  /// The sum of the terms; the product of the factors, negated or not.
  virtual CValue sum(const std::vector<Expr>& terms);
  virtual CValue product(const std::vector<Expr>& factors, bool negate);
  CValue call(Op op, CKind kind, std::vector<CValue> args);
  virtual CValue compare(Op op, CValue a, CValue b);
  bool in_whole_value() const { return whole_; }
  bool closed(Expr e);  ///< free of symbols, reads and nested reductions

 private:
  CValue print(Expr e);
  CValue print_node(Expr e);
  CValue print_real(Expr e);
  CValue join_sum(const std::vector<std::pair<bool, CValue>>& terms, double constant, CKind kind);
  CValue term(Expr e, bool& negative);
  CValue power(Expr base, Expr exponent);
  CValue extremum(Op op, const std::vector<Expr>& args);
  CValue connective(Op op, const std::vector<Expr>& args);
  CValue divide(Op op, Expr a, Expr b);
  CValue conditional(Expr e);
  CValue literal(Expr e);
  CValue declare(CValue v);
  bool is_named(Expr e) const { return names().count(e.get()) > 0; }
  std::map<const Node*, CValue>& names() { return whole_ ? named_whole_ : named_; }
  const std::map<const Node*, CValue>& names() const { return whole_ ? named_whole_ : named_; }
  CValue whole_value(Expr e);
  CValue whole_product(const CValue& a, const CValue& b) const;
  CValue whole_result(CValue v) const;
  void count_uses(Expr e);

  CDialect dialect_;
  std::string share_;
  int depth_ = 0;
  std::map<const Node*, bool> closed_;
  std::map<const Node*, int> uses_;
  std::map<const Node*, CValue> named_, named_whole_;  ///< temporaries; those inside of whole values
  bool whole_ = false;
  std::vector<std::string> declarations_;
  int next_ = 0;
};

}  // namespace tilewright
