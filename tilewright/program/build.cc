#include "tilewright/program/build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <limits>

namespace tilewright::build {

namespace {

// Binding strength of written forms, as in the grammar.
enum Bind {
  kOrBind = 1,
  kAndBind,
  kNotBind,
  kCompareBind,
  kSumBind,
  kProductBind,
  kUnaryBind,
  kPowerBind,
  kWhole
};

Term binary(const Term& a, const char* op, const Term& b, int level, int left, int right) {
  return Term::of(fmt::format("{} {} {}", a.within(left), op, b.within(right)), level);
}
Term summed(const Term& a, const char* op, const Term& b) {
  return binary(a, op, b, kSumBind, kSumBind, kProductBind);
}
Term multiplied(const Term& a, const char* op, const Term& b) {
  return binary(a, op, b, kProductBind, kProductBind, kUnaryBind);
}
Term compared(const Term& a, const char* op, const Term& b) {
  return binary(a, op, b, kCompareBind, kSumBind, kSumBind);
}

std::string joined(const std::vector<Term>& terms) {
  std::vector<std::string> texts;
  for (const Term& t : terms) texts.push_back(t.text());
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string joined(const std::vector<DimName>& dims) {
  std::vector<std::string> texts;
  for (const DimName& d : dims) texts.push_back(d.text());
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string joined(const std::vector<AxisName>& axes, const char* between = ", ") {
  std::vector<std::string> texts;
  for (const AxisName& a : axes) texts.push_back(a.name());
  return fmt::format("{}", fmt::join(texts, between));
}

Term called(const char* function, const std::vector<Term>& arguments) {
  return Term::of(fmt::format("{}({})", function, joined(arguments)), kWhole);
}

std::string range_text(const std::optional<RangeTerms>& range) {
  return range ? fmt::format(" range({}, {})", range->lo.text(), range->hi.text()) : std::string();
}

}  // namespace

Term Term::of(std::string text, int strength) {
  Term t;
  t.text_ = std::move(text);
  t.strength_ = strength;
  return t;
}

void Term::set_integer(int64_t x) {
  const bool least = x == std::numeric_limits<int64_t>::min();  // its digits alone do not fit i64
  text_ = least ? fmt::format("{} - 1", x + 1) : fmt::format("{}", x);
  strength_ = least ? kSumBind : x < 0 ? kUnaryBind : kWhole;
}

void Term::set_real(double x) {
  strength_ = std::isnan(x) ? kSumBind : std::signbit(x) ? kUnaryBind : kWhole;
  text_ = std::isnan(x) ? "inf - inf" : fmt::format("{}", x);
  if (text_.find_first_of(".ei") == std::string::npos) text_ += ".0";
}

Group::Group(std::initializer_list<AxisName> pieces)
    : Term(of(fmt::format("({})", joined(std::vector<AxisName>(pieces), " ")), kWhole)) {}

Term TensorName::element(const std::vector<Term>& index) const {
  return of(fmt::format("{}[{}]", name(), joined(index)), kWhole);
}

Builder::Builder(const std::string& program) {
  if (!program.empty()) text_ = fmt::format("program {}\n", declared(program));
}

std::string Builder::declared(const std::string& name) const {
  bool word = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (char c : name) word = word && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  if (!word)
    throw UserError(Span{}, fmt::format("`{}` is not a name", name),
                    "names are made of letters, digits and `_`, and do not begin with a digit");
  return name;
}

AxisName Builder::axis(const std::string& name, const std::optional<Term>& size) {
  text_ += fmt::format("axis {}{}\n", declared(name), size ? " = " + size->text() : std::string());
  return AxisName(name);
}

Term Builder::param(const std::string& name, DType dtype, const std::optional<Term>& value,
                    const std::optional<RangeTerms>& range) {
  text_ += fmt::format("param {} : {}{}{}\n", declared(name), tilewright::name(dtype),
                       value ? " = " + value->text() : std::string(), range_text(range));
  return Term::of(name, kWhole);
}

Term Builder::let(const std::string& name, const Term& value) {
  text_ += fmt::format("let {} = {}\n", declared(name), value.text());
  return Term::of(name, kWhole);
}

TensorName Builder::input(const std::string& name, const std::vector<DimName>& dims, DType dtype,
                          const std::optional<RangeTerms>& range) {
  text_ += fmt::format("input {}[{}] : {}{}\n", declared(name), joined(dims), tilewright::name(dtype),
                       range_text(range));
  return TensorName(name);
}

TensorName Builder::define(const std::string& name, const std::vector<AxisName>& axes, const Term& value,
                           std::optional<DType> dtype) {
  text_ += fmt::format("{}[{}]{} = {}\n", declared(name), joined(axes),
                       dtype ? fmt::format(" : {}", tilewright::name(*dtype)) : std::string(), value.text());
  return TensorName(name);
}

void Builder::output(const TensorName& tensor, std::optional<DType> dtype, const std::vector<DimName>& dims) {
  text_ += fmt::format("output {}{}{}\n", tensor.name(),
                       dims.empty() ? std::string() : fmt::format("[{}]", joined(dims)),
                       dtype ? fmt::format(" : {}", tilewright::name(*dtype)) : std::string());
}

Program Builder::build(const Overrides& overrides) const {
  return parse_program(std::make_shared<SourceText>(SourceText{"<builder>", text_}), overrides);
}

Term operator+(const Term& a, const Term& b) { return summed(a, "+", b); }
Term operator-(const Term& a, const Term& b) { return summed(a, "-", b); }
Term operator*(const Term& a, const Term& b) { return multiplied(a, "*", b); }
Term operator/(const Term& a, const Term& b) { return multiplied(a, "/", b); }
Term operator%(const Term& a, const Term& b) { return multiplied(a, "%", b); }
Term floordiv(const Term& a, const Term& b) { return multiplied(a, "//", b); }
Term operator-(const Term& a) { return Term::of("-" + a.within(kUnaryBind), kUnaryBind); }
Term pow(const Term& a, const Term& b) { return binary(a, "**", b, kPowerBind, kWhole, kUnaryBind); }
Term operator<(const Term& a, const Term& b) { return compared(a, "<", b); }
Term operator<=(const Term& a, const Term& b) { return compared(a, "<=", b); }
Term operator>(const Term& a, const Term& b) { return compared(a, ">", b); }
Term operator>=(const Term& a, const Term& b) { return compared(a, ">=", b); }
Term operator==(const Term& a, const Term& b) { return compared(a, "==", b); }
Term operator!=(const Term& a, const Term& b) { return compared(a, "!=", b); }
Term operator&&(const Term& a, const Term& b) { return binary(a, "and", b, kAndBind, kAndBind, kNotBind); }
Term operator||(const Term& a, const Term& b) { return binary(a, "or", b, kOrBind, kOrBind, kAndBind); }
Term operator!(const Term& a) { return Term::of("not " + a.within(kNotBind), kNotBind); }
Term inf() { return Term::of("inf", kWhole); }
Term size(const AxisName& axis) { return called("size", {axis}); }
Term where(const Term& condition, const Term& x, const Term& y) { return called("where", {condition, x, y}); }
Term cast(DType dtype, const Term& x) { return called(name(dtype), {x}); }

#define TW_BUILD_FUNCTION(name) \
  Term name(const Term& x) { return called(#name, {x}); }
#define TW_BUILD_REDUCER(name)                                                         \
  Term name(const std::vector<AxisName>& axes, const Term& x) {                        \
    return Term::of(fmt::format("{}[{}]({})", #name, joined(axes), x.text()), kWhole); \
  }
TW_BUILD_FUNCTIONS(TW_BUILD_FUNCTION)
TW_BUILD_REDUCERS(TW_BUILD_REDUCER)
#undef TW_BUILD_FUNCTION
#undef TW_BUILD_REDUCER

Term max_of(const Term& a, const Term& b) { return called("max", {a, b}); }
Term min_of(const Term& a, const Term& b) { return called("min", {a, b}); }

Term topk(const AxisName& axis, const AxisName& rank, const Term& x) {
  return Term::of(fmt::format("topk[{} -> {}]({})", axis.name(), rank.name(), x.text()), kWhole);
}
Term argtopk(const AxisName& axis, const AxisName& rank, const Term& x) {
  return Term::of(fmt::format("argtopk[{} -> {}]({})", axis.name(), rank.name(), x.text()), kWhole);
}

}  // namespace tilewright::build
