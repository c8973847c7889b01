#include "tilewright/emit/cpp_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tilewright/emit/cpp_prelude.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

CDialect dialect_of(DType real) {
  CDialect d;
  d.integer_bits = 64;
  d.real_bits = real == DType::f64 ? 64 : 32;
  d.integer64 = "int64";
  d.real32 = d.real64 = "real";
  for (Op op : {Op::Exp, Op::Exp2, Op::Log, Op::Log2, Op::Sqrt, Op::Rsqrt, Op::Tanh, Op::Sigmoid, Op::Erf,
                Op::Abs, Op::Floor, Op::Round, Op::Sign})
    d.functions[{op, CKind::Real}] = fmt::format("v_{}({{0}})", name(op));
  for (Op op : {Op::Max, Op::Min, Op::Pow})
    d.functions[{op, CKind::Real}] = fmt::format("v_{}({{0}}, {{1}})", name(op));
  for (Op op : {Op::Max, Op::Min})
    d.functions[{op, CKind::Integer}] = fmt::format("i_{}({{0}}, {{1}})", name(op));
  for (Op op : {Op::Abs, Op::Sign}) d.functions[{op, CKind::Integer}] = fmt::format("i_{}({{0}})", name(op));
  d.functions[{Op::FloorDiv, CKind::Integer}] = "i_floordiv({0}, {1})";
  d.functions[{Op::Mod, CKind::Integer}] = "i_mod({0}, {1})";
  d.functions[{Op::Select, CKind::Real}] = "select({0}, {1}, {2})";
  d.functions[{Op::Select, CKind::Integer}] = "select_int({0}, {1}, {2})";
  d.functions[{Op::Select, CKind::Boolean}] = "select_mask({0}, {1}, {2})";
  d.whole_product = "v_whole({0} * {1})";
  d.whole_result = "v_whole({0})";
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2})
    d.casts[t] = fmt::format("round_{}({{0}})", name(t));
  for (DType t : {DType::i64, DType::i32, DType::i8}) d.casts[t] = fmt::format("to_{}({{0}})", name(t));
  return d;
}

/// a − b as one sum, negative terms kept apart.
Expr difference(Expr a, Expr b) {
  std::vector<Expr> terms;
  const auto add = [&](Expr e, bool negative) {
    if (e.is_constant(0)) return;
    const std::vector<Expr> parts = e.is(Op::Add) ? e.args() : std::vector<Expr>{e};
    for (Expr t : parts) {
      if (!negative)
        terms.push_back(t);
      else if (auto n = t.rational())
        terms.push_back(Expr(-*n));
      else
        terms.push_back(-t);
    }
  };
  add(a, false);
  add(b, true);
  if (terms.empty()) return 0;
  return terms.size() == 1 ? terms[0] : make(Op::Add, terms);
}

}  // namespace

std::string cpp_memory_type(DType t) {
  switch (t) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16:
    case DType::bf16: return "unsigned short";
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::boolean: return "unsigned char";
    case DType::i64: return "int64";
    case DType::i32: return "int";
    case DType::i8: return "signed char";
  }
  TW_CHECK(false, "unknown dtype");
}

std::string cpp_local_type(DType t, DType) {
  if (t == DType::bf16) return "unsigned short";
  if (is_float(t)) return "real";
  return t == DType::i64 ? "int64" : "int";
}

Identifiers cpp_names() {
  static const std::set<std::string> own = [] {
    std::set<std::string> words = cpp_prelude_names();
    words.insert({"words", "task", "begin", "end", "c", "p", "u", "lane", "made", "total", "first", "low",
                  "high", "registers", "upcoming"});
    return words;
  }();
  return Identifiers(own, {"t", "x"});
}

CppPrinter::CppPrinter(const Program& p, const MappedProgram& m, const MappedKernel& k, Identifiers& names,
                       DType real)
    : CPrinter(dialect_of(real)), program_(p), mapped_(m), kernel_(k), names_(names), real_(real) {}

void CppPrinter::begin(std::vector<CppAxis> axes, Sym lane, int64_t panel, int width) {
  axes_ = std::move(axes);
  lane_ = lane;
  panel_ = panel;
  width_ = width;
  scalar_ = false;
}

const CppAxis* CppPrinter::axis(Sym s) const {
  for (const CppAxis& a : axes_)
    if (a.axis == s) return &a;
  return nullptr;
}

const Buffer* CppPrinter::buffer(Sym s) const {
  for (const Buffer& b : kernel_.buffers)
    if (b.sym == s) return &b;
  return nullptr;
}

DType CppPrinter::dtype(Sym tensor) const {
  for (const Input& in : program_.inputs)
    if (in.sym == tensor) return in.dtype;
  for (const Output& out : program_.outputs)
    if (out.sym == tensor) return out.dtype;
  for (const Workspace& w : mapped_.workspaces)
    if (w.sym == tensor) return w.dtype;
  TW_CHECK(false, fmt::format("{} is no array", tensor.name()));
}

std::string CppPrinter::remaining() const {
  const CppAxis* a = axis(lane_);
  return fmt::format("{} - {}", a->extent, a->var);
}

int64_t CppPrinter::step(const Buffer& b, Sym axis) const {
  for (size_t k = 0; k < b.axes.size(); ++k) {
    if (b.axes[k] != axis) continue;
    int64_t stride = 0;
    int digits = 0;
    for (const Digit& d : b.layout.digits())
      if (d.axis == int(k)) {
        ++digits;
        if (d.step == 1) stride = d.stride;
      }
    TW_CHECK(digits <= 1, fmt::format("{} has no constant step along {}", b.sym.name(), axis.name()));
    return stride;
  }
  return 0;
}

std::string CppPrinter::offset(const Buffer& b) {
  std::string text;
  const auto add = [&](const std::string& term) { text += (text.empty() ? "" : " + ") + term; };
  const auto times = [](const std::string& x, int64_t n) {
    return n == 1 ? x : fmt::format("{} * {}", x, n);
  };
  // Slowest first: digits of large stride.
  struct Term {
    int64_t stride;
    std::string text;
  };
  std::vector<Term> terms;
  for (size_t k = 0; k < b.axes.size(); ++k) {
    const CppAxis* a = axis(b.axes[k]);
    std::vector<Digit> digits;
    for (const Digit& d : b.layout.digits())
      if (d.axis == int(k)) digits.push_back(d);
    if (digits.empty()) continue;  // one coordinate
    TW_CHECK(a != nullptr, fmt::format("axis {} of {} is not in the frame", b.axes[k].name(), b.sym.name()));
    if (a->var == "0") continue;
    if (digits.size() == 1) {
      terms.push_back({digits[0].stride, times(a->var, digits[0].stride)});
      continue;
    }
    TW_CHECK(digits.size() == 2 && digits[0].step == 1, "a layout of panels");
    const int64_t run = digits[0].extent;
    if (b.axes[k] == lane_ && panel_ == run) {
      terms.push_back({digits[1].stride, times("p", digits[1].stride)});
      if (run > width_) terms.push_back({digits[0].stride, times("c", width_ * digits[0].stride)});
    } else {
      terms.push_back({digits[1].stride, times(fmt::format("({} / {})", a->var, run), digits[1].stride)});
      terms.push_back({digits[0].stride, times(fmt::format("{} % {}", a->var, run), digits[0].stride)});
    }
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& x, const Term& y) { return x.stride > y.stride; });
  for (const Term& t : terms) add(t.text);
  return text.empty() ? "0" : text;
}

Expr CppPrinter::element(Sym tensor, const std::vector<Expr>& index) const {
  const std::vector<Dim> dims = memory_dims(program_, mapped_, tensor);
  std::vector<Sym> strides;
  for (size_t d = 0; d < dims.size(); ++d)
    for (const Argument& a : kernel_.arguments)
      if (a.kind == Argument::Kind::Stride && a.tensor == tensor && a.dim == int(d)) strides.push_back(a.sym);
  TW_CHECK(strides.size() == dims.size(),
           fmt::format("strides of {} are not among the arguments", tensor.name()));
  Expr e = element_offset(dims, index, strides);
  Substitution sizes;
  for (const Axis& a : mapped_.axes)
    if (a.baked()) sizes.emplace_back(a.index.size(), a.size);
  return sizes.empty() ? e : substitute(e, sizes);
}

std::string CppPrinter::tensor_offset(Sym tensor, const std::vector<Expr>& index) {
  return at_lane_0([&] { return integer(element(tensor, index)); });
}

std::string CppPrinter::tensor_step(Sym tensor, const std::vector<Expr>& index, Sym axis) {
  const auto form = affine(element(tensor, index), {axis});
  if (!form || !same_in_all_lanes(form->coefficient[0]) || (axis == lane_ && !same_in_all_lanes(form->rest)))
    return {};
  return at_lane_0([&] { return integer(form->coefficient[0]); });
}

bool CppPrinter::moves_by_steps(Sym tensor, const std::vector<Expr>& index) const {
  std::vector<Sym> axes;
  for (const CppAxis& a : axes_) axes.push_back(a.axis);
  return affine(element(tensor, index), axes).has_value();
}

bool CppPrinter::reads_along(const Buffer& b, Sym axis) const {
  return std::find(b.axes.begin(), b.axes.end(), axis) != b.axes.end();
}

bool CppPrinter::same_in_all_lanes(Expr e) const {
  if (!lane_) return true;
  if (e.is(Op::Symbol)) return !(e->sym == lane_);
  if (e.is(Op::Read)) {
    const Buffer* b = buffer(e->sym);
    if (b) return !reads_along(*b, lane_);
  }
  return std::all_of(e.args().begin(), e.args().end(), [&](Expr a) { return same_in_all_lanes(a); });
}

bool CppPrinter::at_one_stride(Expr e) {
  if (!e.is(Op::Read))
    return std::all_of(e.args().begin(), e.args().end(), [&](Expr a) { return at_one_stride(a); });
  const Buffer* b = buffer(e->sym);
  if (b && b->space != Space::Memory) return true;
  const Sym tensor = b ? b->tensor : e->sym;
  const std::vector<Expr>& index = b ? b->index : e.args();
  return same_in_all_lanes(element(tensor, index)) || !tensor_step(tensor, index, lane_).empty();
}

CValue CppPrinter::symbol(Sym s) {
  if (const CppAxis* a = axis(s)) {
    const bool vector = s == lane_ && !scalar_;
    CValue at = CValue::integer(a->origin.empty() ? a->var : a->origin);
    if (!a->origin.empty() && a->var != "0")
      at = CValue::integer(fmt::format("{} + {}", a->origin, a->var), 64, c_precedence::sum_of_terms);
    if (!vector) return at;
    CValue v = CValue::integer(fmt::format("iota_long + {}", wrap(at, c_precedence::product_of_factors)), 64,
                               c_precedence::sum_of_terms);
    v.lanes = true;
    return v;
  }
  const std::string& text = names_.of(s);
  const bool integral = s.info().integer || s.kind() == SymbolKind::Index || s.kind() == SymbolKind::Size;
  return integral ? CValue::integer(text) : CValue::real(text, dialect().real_bits);
}

CValue CppPrinter::read(Expr e) {
  const Buffer* b = buffer(e->sym);
  if (!b) return read_memory(e->sym, e.args());
  TW_CHECK(e.args().size() == b->axes.size(), "a buffer is read at its own axes");
  for (size_t k = 0; k < b->axes.size(); ++k)
    TW_CHECK(e.arg(k) == Expr(b->axes[k]),
             fmt::format("{} is read at {}", b->sym.name(), to_string(e.arg(k))));
  return b->space == Space::Memory ? read_memory(b->tensor, b->index) : read_local(*b);
}

CValue CppPrinter::read_local(const Buffer& b) {
  const std::string& base = names_.of(b.sym);
  const CKind k = kind(b.dtype);
  const bool vector = lane_ && !scalar_ && reads_along(b, lane_);
  if (b.dtype == DType::bf16) return read_bf16(b, vector);
  CValue v;
  v.kind = k;
  v.bits = k == CKind::Real ? dialect().real_bits : b.dtype == DType::i64 ? 64 : 32;
  if (!vector) {
    v.text = b.layout.elements() == 1 ? base : fmt::format("{}[{}]", base, offset(b));
    if (k == CKind::Boolean) {
      v.text += " != 0";
      v.precedence = c_precedence::equality;
    }
    return v;
  }
  v.lanes = true;
  const std::string at = offset(b);
  const std::string pointer = at == "0" ? base : fmt::format("{} + {}", base, at);
  // Along the fastest axis lanes are neighbours, and tiles are padded; elsewhere they are gathered.
  bool contiguous = false;
  int64_t stride = 0;
  for (size_t a = 0; a < b.axes.size(); ++a)
    for (const Digit& d : b.layout.digits())
      if (b.axes[a] == lane_ && d.axis == int(a) && d.step == 1) {
        contiguous = d.stride == 1 && d.extent % width_ == 0;
        stride = d.stride;
      }
  const std::string where = fmt::format("{}, {}, {}", pointer, stride, remaining());
  if (k == CKind::Real)
    v.text = contiguous ? fmt::format("ld({})", pointer) : fmt::format("load_real({})", where);
  else
    v.text = contiguous ? fmt::format("ld_int({})", pointer) : fmt::format("load_int({})", where);
  if (k == CKind::Boolean) v.text = fmt::format("to_mask({} != 0)", v.text);
  return v;
}

CValue CppPrinter::read_memory(Sym tensor, const std::vector<Expr>& index) {
  const DType t = dtype(tensor);
  const std::string& base = names_.of(tensor);
  const CKind k = kind(t);
  const Expr at = element(tensor, index);
  const bool vector = lane_ && !scalar_ && !same_in_all_lanes(at);
  CValue v;
  v.kind = k;
  v.bits = k == CKind::Real ? dialect().real_bits : t == DType::i64 ? 64 : 32;
  const std::string where = at_lane_0([&] { return integer(at); });
  if (!vector) {
    if (k != CKind::Real)
      v.text = fmt::format("{}[{}]", base, where);
    else if (t == real_ || t == DType::f32 || t == DType::f64)
      v.text = t == real_ ? fmt::format("{}[{}]", base, where) : fmt::format("(real){}[{}]", base, where);
    else
      v.text = fmt::format("load_{}({} + {}, 0, 1)[0]", name(t), base, where);
    if (k == CKind::Boolean) {
      v.text += " != 0";
      v.precedence = c_precedence::equality;
    } else if (t != real_ && k == CKind::Real) {
      v.precedence = c_precedence::unary;
    }
    return v;
  }
  const std::string stride = tensor_step(tensor, index, lane_);
  TW_CHECK(!stride.empty(), fmt::format("lanes of {} do not lie at one stride", tensor.name()));
  v.lanes = true;
  const std::string f = k != CKind::Real ? "load_int"
                        : t == real_     ? "load_real"
                                         : fmt::format("load_{}", name(t));
  v.text = fmt::format("{}({} + {}, {}, {})", f, base, where, stride, remaining());
  if (k == CKind::Boolean) v.text = fmt::format("to_mask({} != 0)", v.text);
  return v;
}

std::string CppPrinter::type_of(const CValue& v) const {
  if (!v.lanes) return CPrinter::type_of(v);
  switch (v.kind) {
    case CKind::Boolean: return "vm";
    case CKind::Real: return "vf";
    case CKind::Integer: return v.bits == 64 ? "vl" : "vi";
  }
  TW_CHECK(false, "unknown kind");
}

CValue CppPrinter::splat(CValue v) const {
  const char* f = v.kind == CKind::Real ? "splat" : v.kind == CKind::Integer ? "splat_int" : "splat_mask";
  v = as(std::move(v), v.kind);
  v.text = fmt::format("{}({})", f, v.text);
  v.precedence = c_precedence::primary;
  v.lanes = true;
  return v;
}

CValue CppPrinter::convert_lanes(CValue v, CKind k) const {
  const CKind from = v.kind;
  CValue out;
  out.kind = k;
  out.bits = k == CKind::Real ? dialect().real_bits : 64;
  out.lanes = true;
  if (k == CKind::Boolean) {
    out.text = from == CKind::Real ? fmt::format("{} != 0", wrap(v, c_precedence::equality + 1))
                                   : fmt::format("to_mask({} != 0)", wrap(v, c_precedence::equality + 1));
    out.precedence = from == CKind::Real ? c_precedence::equality : c_precedence::primary;
  } else if (k == CKind::Real) {
    out.text = from == CKind::Integer ? fmt::format("to_real({})", v.text)
                                      : fmt::format("select({}, splat(1), splat(0))", v.text);
  } else if (from == CKind::Integer) {
    out.text = v.bits == 64 ? v.text : fmt::format("to_long({})", v.text);
    out.precedence = v.bits == 64 ? v.precedence : c_precedence::primary;
  } else if (from == CKind::Real) {  // states hold integers as reals
    return cast_to(DType::i64, std::move(v));
  } else {
    out.text = fmt::format("select_int({}, splat_int(1), splat_int(0))", v.text);
  }
  return out;
}

CValue CppPrinter::value_as(Expr e, CKind k) {
  CValue v = value(e);
  v = k == CKind::Real && v.kind == CKind::Integer && !v.literal ? real_of_integer(e, std::move(v))
                                                                 : as(std::move(v), k);
  if (lane_ && !scalar_ && !v.lanes) v = splat(std::move(v));
  return v;
}

std::vector<CppPrinter::Stage> CppPrinter::take_stages() {
  index_.clear();
  return std::exchange(stages_, {});
}

/// Long functions are stages: their operations depend on one another, and the compiler does not interleave those of neighbouring vectors.
CValue CppPrinter::function(Op op, Expr argument, CValue v) {
  const bool is_long = op == Op::Exp || op == Op::Exp2 || op == Op::Tanh || op == Op::Sigmoid;
  v = as(std::move(v), CKind::Real);
  if (index_.empty() || !is_long || !v.lanes || real_ != DType::f32 || !harmless(argument))
    return CPrinter::function(op, argument, std::move(v));
  Stage s;
  s.declarations = declared();
  s.array = fmt::format("x{}", stages_.size());
  s.argument = v.text;
  s.function = fmt::format("v_{}", name(op));
  v = CValue::real(fmt::format("{}[{}]", s.array, index_), dialect().real_bits);
  v.lanes = true;
  stages_.push_back(std::move(s));
  return v;
}

CValue CppPrinter::compare(Op op, CValue a, CValue b) {
  const bool integers = a.kind != CKind::Real && b.kind != CKind::Real;
  CValue v = CPrinter::compare(op, std::move(a), std::move(b));
  if (v.lanes && integers) {
    v.text = fmt::format("to_mask({})", v.text);
    v.precedence = c_precedence::primary;
  }
  return v;
}

/// 0 <= c·lane + U, or == or != 0, with U the same in all lanes: a comparison of the lane number with one scalar. `d` is c·lane + U.
CValue CppPrinter::lane_bound(Op op, Expr d, int64_t coefficient) {
  // At lane 0, d is U' = U + c·var, and lane l adds c·l: for c = 1 the bound is −U' <= l, for c = −1 it is l <= U'.
  const Expr bound = coefficient == 1 ? difference(0, d) : d;
  const std::string text = at_lane_0([&] { return integer(bound); });
  const char* symbol = op == Op::Eq ? "==" : op == Op::Ne ? "!=" : coefficient == 1 ? ">=" : "<=";
  CValue v = CValue::boolean(fmt::format("iota {} clamp({})", symbol, text),
                             op == Op::Le ? c_precedence::relation : c_precedence::equality);
  v.lanes = true;
  return v;
}

/// Equality of two 32-bit values needs no wider arithmetic.
CValue CppPrinter::narrow_equality(Op op, Expr a, Expr b, bool& done) {
  done = false;
  const Expr d = difference(a, b);
  if (!d.is(Op::Add) || d.args().size() != 2) return {};
  Expr x = d.arg(0), y = d.arg(1);
  const auto negated = [](Expr e) -> Expr {
    if (e.is(Op::Neg)) return e.arg(0);
    if (e.is(Op::Mul) && e.args().size() == 2 && e.arg(0).is_constant(-1)) return e.arg(1);
    return {};
  };
  if (Expr n = negated(x)) {
    x = y;
    y = n;
  } else if (Expr m = negated(y)) {
    y = m;
  } else {
    return {};
  }
  if (!x.is(Op::Read) || !y.is(Op::Read)) return {};
  CValue vx = value(x), vy = value(y);
  if (vx.kind != CKind::Integer || vy.kind != CKind::Integer || vx.bits != 32 || vy.bits != 32 ||
      !(vx.lanes || vy.lanes))
    return {};
  done = true;
  CValue v = CValue::boolean(fmt::format("to_mask({} {} {})", vx.text, op == Op::Eq ? "==" : "!=", vy.text));
  v.lanes = true;
  return v;
}

CValue CppPrinter::comparison(Op op, Expr a, Expr b) {
  if (!lane_ || scalar_ || (same_in_all_lanes(a) && same_in_all_lanes(b)))
    return CPrinter::comparison(op, a, b);
  if (is_integer(a) && is_integer(b)) {
    // a <= b is 0 <= b − a; a < b is 0 <= b − a − 1.
    Expr d = difference(b, a);
    if (op == Op::Lt) d = make(Op::Add, {d, Expr(-1)});
    const auto form = affine(d, {lane_});
    const auto c = form ? form->coefficient[0].rational() : std::nullopt;
    if (c && (*c == Rational(1) || *c == Rational(-1)) && same_in_all_lanes(form->rest))
      return lane_bound(op == Op::Lt ? Op::Le : op, d, c->num());
  }
  if (op == Op::Eq || op == Op::Ne) {
    bool done = false;
    CValue v = narrow_equality(op, a, b, done);
    if (done) return v;
  }
  return CPrinter::comparison(op, a, b);
}

/// (real)U + c·lane number, exact where U is.
CValue CppPrinter::real_of_integer(Expr e, CValue v) {
  if (!v.lanes) return as(std::move(v), CKind::Real);
  const auto form = affine(e, {lane_});
  const auto c = form ? form->coefficient[0].rational() : std::nullopt;
  if (!c || !c->is_integer() || !same_in_all_lanes(form->rest)) return as(std::move(v), CKind::Real);
  const std::string base = at_lane_0([&] { return real(e); });
  std::string text;
  if (*c == Rational(1))
    text = fmt::format("iota_real + {}", base);
  else if (*c == Rational(-1))
    text = fmt::format("{} - iota_real", base);
  else
    text = fmt::format("{} * iota_real + {}", dialect().real_literal(c->value(), dialect().real_bits), base);
  CValue out = CValue::real(text, dialect().real_bits, c_precedence::sum_of_terms);
  out.lanes = true;
  return out;
}

}  // namespace tilewright
