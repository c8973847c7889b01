// Programs built in C++: the statements and expressions of docs/language.md as calls.
//
//   Builder b("softmax");
//   const AxisName r = b.axis("r"), j = b.axis("j");
//   const TensorName x = b.input("x", {r, j}, DType::f32);
//   const TensorName y = b.define("y", {r, j}, softmax({j}, x));
//   b.output(y, DType::f16);
//   Program p = b.build();
//
// A builder writes the program's text as it goes, and build() parses it: what is built means what the text
// means, is checked by the same rules, and a message shows the line that a call wrote.
#pragma once
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tilewright/program/program.h"

namespace tilewright::build {

/// An expression. Numbers convert: integers are i64, floating-point numbers real, bools bool. Operators are those
/// of C++ where the language's differ only in spelling: && || ! for and, or, not; see floordiv and pow.
class Term {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Term(T x) {  // NOLINT: numbers convert
    if constexpr (std::same_as<T, bool>)
      text_ = x ? "true" : "false";
    else if constexpr (std::is_integral_v<T>)
      set_integer(int64_t(x));
    else
      set_real(double(x));
  }
  const std::string& text() const { return text_; }
  /// The text as an operand of an operator that asks for at least this binding strength (program/build.cc).
  std::string within(int strength) const { return strength_ < strength ? "(" + text_ + ")" : text_; }
  static Term of(std::string text, int strength);  ///< used by the functions below

 protected:
  Term() = default;

 private:
  void set_integer(int64_t x);
  void set_real(double x);
  std::string text_;
  int strength_ = 9;
};

/// An axis; as a Term the index along it.
class AxisName : public Term {
 public:
  const std::string& name() const { return text(); }

 private:
  friend class Builder;
  explicit AxisName(const std::string& name) : Term(of(name, 9)) {}
};

/// The pieces of a composite dimension, outermost first: of an input or output, or as an index.
class Group : public Term {
 public:
  Group(std::initializer_list<AxisName> pieces);
};

/// A dimension of an input or output: an axis or a group.
class DimName {
 public:
  DimName(const AxisName& axis) : text_(axis.name()) {}  // NOLINT
  DimName(const Group& group) : text_(group.text()) {}   // NOLINT
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// An input or definition; as a Term its element at its own axes. T(i, j + 1) is an element, T.scalar() the one
/// of a tensor without axes.
class TensorName : public Term {
 public:
  const std::string& name() const { return text(); }
  template <class... Index>
  requires(sizeof...(Index) > 0) Term operator()(const Index&... index) const {
    return element({Term(index)...});
  }
  Term scalar() const { return element({}); }

 private:
  friend class Builder;
  explicit TensorName(const std::string& name) : Term(of(name, 9)) {}
  Term element(const std::vector<Term>& index) const;
};

/// A half-open range of a param or an input.
struct RangeTerms {
  Term lo, hi;
};

class Builder {
 public:
  explicit Builder(const std::string& program = {});
  AxisName axis(const std::string& name, const std::optional<Term>& size = std::nullopt);
  Term param(const std::string& name, DType dtype, const std::optional<Term>& value = std::nullopt,
             const std::optional<RangeTerms>& range = std::nullopt);
  Term let(const std::string& name, const Term& value);
  TensorName input(const std::string& name, const std::vector<DimName>& dims, DType dtype,
                   const std::optional<RangeTerms>& range = std::nullopt);
  TensorName define(const std::string& name, const std::vector<AxisName>& axes, const Term& value,
                    std::optional<DType> dtype = std::nullopt);
  /// The tensor's own axes in their order, or `dims`; f32 (f64, i64, bool by type) without a dtype.
  void output(const TensorName& tensor, std::optional<DType> dtype = std::nullopt,
              const std::vector<DimName>& dims = {});

  const std::string& text() const { return text_; }
  /// UserError as from parse_program, the source named "<builder>".
  Program build(const Overrides& overrides = {}) const;

 private:
  std::string declared(const std::string& name) const;  ///< `name`; UserError unless it is one word
  std::string text_;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator%(const Term& a, const Term& b);
Term operator-(const Term& a);
Term operator<(const Term& a, const Term& b);
Term operator<=(const Term& a, const Term& b);
Term operator>(const Term& a, const Term& b);
Term operator>=(const Term& a, const Term& b);
Term operator==(const Term& a, const Term& b);
Term operator!=(const Term& a, const Term& b);
Term operator&&(const Term& a, const Term& b);
Term operator||(const Term& a, const Term& b);
Term operator!(const Term& a);
Term floordiv(const Term& a, const Term& b);  ///< a // b
Term pow(const Term& a, const Term& b);       ///< a ** b
Term inf();
Term size(const AxisName& axis);
Term where(const Term& condition, const Term& x, const Term& y);
Term cast(DType dtype, const Term& x);

/// One function or reducer of the language each, by its name.
// clang-format off
#define TW_BUILD_FUNCTIONS(X)                                                                          \
  X(exp) X(log) X(exp2) X(log2) X(sqrt) X(rsqrt) X(tanh) X(sigmoid) X(erf) X(abs) X(floor) X(round) \
  X(sign) X(relu) X(silu) X(gelu)
// clang-format on
#define TW_BUILD_REDUCERS(X) \
  X(sum) X(prod) X(max) X(min) X(any) X(all) X(mean) X(var) X(argmax) X(argmin) X(softmax) X(logsumexp)
#define TW_BUILD_FUNCTION(name) Term name(const Term& x);
#define TW_BUILD_REDUCER(name) Term name(const std::vector<AxisName>& axes, const Term& x);
TW_BUILD_FUNCTIONS(TW_BUILD_FUNCTION)
TW_BUILD_REDUCERS(TW_BUILD_REDUCER)
#undef TW_BUILD_FUNCTION
#undef TW_BUILD_REDUCER
Term max_of(const Term& a, const Term& b);  ///< max(a, b); `max` and `min` reduce
Term min_of(const Term& a, const Term& b);
Term topk(const AxisName& axis, const AxisName& rank, const Term& x);     ///< topk[axis -> rank](x)
Term argtopk(const AxisName& axis, const AxisName& rank, const Term& x);  ///< argtopk[axis -> rank](x)

}  // namespace tilewright::build
