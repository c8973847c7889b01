// Expressions of one op as CUDA C++.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

/// `exact`: exponentials within a unit in the last place of f32, for kernels that store f32; the special function unit (2 ulp) serves narrower outputs.
CDialect make_dialect(int real_bits, int integer_bits, bool exact) {
  CDialect d;
  d.integer_bits = integer_bits;
  d.real_bits = real_bits;
  d.infinity32 = "tw_infinity()", d.nan32 = "tw_nan()";
  d.infinity64 = "tw_infinity64()", d.nan64 = "tw_nan64()";
  const CKind real = CKind::Real, integer = CKind::Integer;
  const bool wide = real_bits == 64;
  auto& f = d.functions;
  f[{Op::Exp2, real}] = wide ? "exp2({0})" : exact ? "tw_exp2_exact({0})" : "tw_exp2({0})";
  f[{Op::Exp, real}] = wide ? "exp({0})" : exact ? "expf({0})" : "tw_exp({0})";
  f[{Op::Log, real}] = wide ? "log({0})" : "logf({0})";
  f[{Op::Log2, real}] = wide ? "log2({0})" : "log2f({0})";
  f[{Op::Sqrt, real}] = wide ? "sqrt({0})" : "sqrtf({0})";
  f[{Op::Rsqrt, real}] = wide ? "rsqrt({0})" : "rsqrtf({0})";
  f[{Op::Tanh, real}] = wide ? "tanh({0})" : exact ? "tw_tanh_exact({0})" : "tw_tanh({0})";
  f[{Op::Sigmoid, real}] = wide ? "(1.0 / (1.0 + exp(-({0}))))" : "tw_sigmoid({0})";
  f[{Op::Erf, real}] = wide ? "erf({0})" : "erff({0})";
  f[{Op::Floor, real}] = wide ? "floor({0})" : "floorf({0})";
  f[{Op::Round, real}] = wide ? "rint({0})" : "rintf({0})";
  f[{Op::Abs, real}] = wide ? "fabs({0})" : "fabsf({0})";
  f[{Op::Select, real}] = "tw_select({0}, {1}, {2})";
  f[{Op::Abs, integer}] = integer_bits == 64 ? "llabs({0})" : "abs({0})";
  f[{Op::Pow, real}] = wide ? "pow({0}, {1})" : "powf({0}, {1})";
  for (CKind kind : {real, integer}) {
    // Beside an integer of 64 bits a literal is an int, which fits no template that finds its type by itself.
    const std::string type = kind == integer && integer_bits == 64 ? "<long long>" : "";
    f[{Op::Max, kind}] = "tw_max" + type + "({0}, {1})";
    f[{Op::Min, kind}] = "tw_min" + type + "({0}, {1})";
    f[{Op::Sign, kind}] = "tw_sign({0})";
    if (kind == real) continue;
    f[{Op::FloorDiv, kind}] = "tw_floor_div" + type + "({0}, {1})";
    f[{Op::Mod, kind}] = "tw_floor_mod" + type + "({0}, {1})";
  }
  d.whole_product = wide ? "__dmul_rn({0}, {1})" : "__fmul_rn({0}, {1})";
  d.casts[DType::f16] = "tw_from_f16(tw_to_f16((float)({0})))";
  d.casts[DType::bf16] = "tw_from_bf16(tw_to_bf16((float)({0})))";
  d.casts[DType::f8e4m3] = "tw_from_f8e4m3(tw_to_f8e4m3((float)({0})))";
  d.casts[DType::f32] = "(float)({0})";
  d.casts[DType::i32] = "tw_to_int({0})";
  d.casts[DType::i64] = "tw_to_int({0})";
  d.casts[DType::i8] = "tw_to_int8({0})";

  return d;
}

}  // namespace

CudaPrinter::CudaPrinter(CudaKernel& k, int real_bits, int integer_bits)
    : CPrinter(make_dialect(real_bits, integer_bits, k.stores_wide_)), k_(k) {}

CValue CudaPrinter::symbol(Sym s) {
  if (auto it = k_.index_text_.find(s); it != k_.index_text_.end())
    return CValue::integer(it->second, 32, c_precedence::primary);
  if (s.kind() == SymbolKind::Size) return CValue::integer(k_.size_text(s), 32);
  if (s.kind() == SymbolKind::Index) {
    // Outside of the range of the op: the first element of the block.
    for (const KernelAxis& a : k_.kernel_.grid)
      if (a.index == s)
        return a.block == 1 ? CValue::integer(k_.names_.of(a.counter), 32)
                            : CValue::integer(fmt::format("{} * {}", k_.names_.of(a.counter), a.block), 32,
                                              c_precedence::product_of_factors);
    TW_CHECK(false, fmt::format("index {} has no value here", s.name()));
  }
  const bool integer = s.info().integer;
  // Arguments that are scalars come as f64 words.
  for (const Argument& a : k_.kernel_.arguments)
    if (a.kind == Argument::Kind::Scalar && a.sym == s)
      return integer ? CValue::integer(k_.names_.of(s), 64)
                     : CValue::real(fmt::format("{}", k_.names_.of(s)), dialect().real_bits);
  return CValue::integer(k_.names_.of(s), 32);
}

std::optional<CudaPrinter::Unrolled> CudaPrinter::unrolled(Expr e) {
  if (!k_.front_ || !k_.nest_ || dialect().integer_bits != 32 || !is_integer(e) || !tensors_read(e).empty())
    return {};
  const Nest& nest = *k_.nest_;
  std::vector<Sym> axes;
  for (const NestAxis& a : nest.axes) axes.push_back(a.axis);
  const auto form = affine(simplify(e), axes);
  if (!form) return {};
  std::vector<std::string> steps, rest;
  std::vector<Sym> stepped;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto c = form->coefficient[k].rational();
    if (!c || !c->is_integer() || depends_on(form->rest, axes[k])) return {};
    if (c->num() == 0) continue;
    const NestAxis& a = nest.axes[k];
    if (!a.held) return {};
    stepped.push_back(a.axis);
    for (const DigitLoop& l : nest.loops)
      if (l.axis == int(k)) steps.push_back(times(l.var, c->num() * l.step));
    for (const std::string& part : {a.origin, a.owner})
      if (!part.empty() && part != "0") rest.push_back(times("(" + part + ")", c->num()));
  }
  if (steps.empty()) return {};
  if (!form->rest.is_constant(0)) {
    const CValue v = as(value(form->rest), CKind::Integer);
    rest.push_back(wrap(v, c_precedence::sum_of_terms));
  }
  return Unrolled{cuda_text::join_sum(steps), cuda_text::join_sum(rest), stepped};
}

std::string CudaPrinter::in_front(const std::string& type, const std::string& name,
                                  const std::string& value) {
  std::string& known = k_.front_->names[type + " " + value];
  if (known.empty()) {
    known = k_.names_.fresh(name);
    k_.front_->lines.line(fmt::format("const {} {} = {};", type, known, value));
  }
  return known;
}

CValue CudaPrinter::comparison(Op op, Expr a, Expr b) {
  if (is_integer(a) && is_integer(b))
    if (const auto u = unrolled(a - b))
      return CValue::boolean(fmt::format("{} {} {}", u->steps,
                                         op == Op::Lt   ? "<"
                                         : op == Op::Le ? "<="
                                         : op == Op::Eq ? "=="
                                                        : "!=",
                                         in_front("int", "limit", "-(" + u->rest + ")")),
                             op == Op::Lt || op == Op::Le ? c_precedence::relation : c_precedence::equality);
  return CPrinter::comparison(op, a, b);
}

/// Converted once, and constants added: the same number while it is exact, below 2^24, and else within a unit in the last place.
CValue CudaPrinter::real_of_integer(Expr e, CValue v) {
  if (dialect().real_bits == 32)
    if (const auto u = unrolled(e))
      return CValue::real(
          fmt::format("{} + (float)({})", in_front("float", "from", "(float)(" + u->rest + ")"), u->steps),
          32, c_precedence::sum_of_terms);
  return CPrinter::real_of_integer(e, std::move(v));
}

namespace {

/// Terms of a sum of sums and factors of a product of products.
void parts_of(Op op, Expr e, std::vector<Expr>& out) {
  if (op == Op::Add && e.is(Op::Sub)) {
    parts_of(op, e.arg(0), out);
    return out.push_back(-e.arg(1));
  }
  if (!e.is(op)) return out.push_back(e);
  for (Expr a : e.args()) parts_of(op, a, out);
}

/// Numbers and scalars of the launch.
bool same_everywhere(Expr e) {
  return e.number() ||
         (e.is(Op::Symbol) && e->sym.kind() != SymbolKind::Index && e->sym.kind() != SymbolKind::Tile);
}

}  // namespace

/// f·j + a + b, where j = steps + rest is a position and a does not change with it: (f·steps + (f·rest + a)) + b. What is in the inner parentheses is formed once
/// for all steps, so that the position costs one multiplication with addition.
CValue CudaPrinter::sum(const std::vector<Expr>& terms) {
  if (!k_.front_ || !k_.nest_ || dialect().real_bits != 32 || in_whole_value()) return CPrinter::sum(terms);
  std::vector<Expr> all, same, other, factors;
  for (Expr t : terms) parts_of(Op::Add, t, all);
  std::optional<Unrolled> position;
  for (Expr& t : all) {
    std::vector<Expr> of_term;
    parts_of(Op::Mul, t, of_term);
    auto at = std::find_if(of_term.begin(), of_term.end(),
                           [&](Expr f) { return !f.number() && is_integer(f) && unrolled(f); });
    if (is_integer(t) || position || at == of_term.end() || of_term.size() < 2) continue;
    position = unrolled(*at);
    of_term.erase(at);
    factors = of_term;
    t = Expr();
  }
  if (!position) return CPrinter::sum(terms);
  const auto moves = [&](Expr e) {
    return std::any_of(position->axes.begin(), position->axes.end(), [&](Sym a) { return depends_on(e, a); });
  };
  if (std::any_of(factors.begin(), factors.end(), moves)) return CPrinter::sum(terms);
  for (Expr t : all)
    if (t) (is_integer(t) || moves(t) ? other : same).push_back(t);
  const std::string factor = factors.size() == 1
                                 ? wrap(as(value(factors[0]), CKind::Real), c_precedence::unary)
                                 : "(" + as(value(make(Op::Mul, factors)), CKind::Real).text + ")";
  std::string base =
      fmt::format("{} * {}", factor, in_front("float", "from", "(float)(" + position->rest + ")"));
  if (!same.empty()) {
    const std::string text = as(CPrinter::sum(same), CKind::Real).text;
    base += text[0] == '-' ? " - " + text.substr(1) : " + " + text;
  }
  std::string text = fmt::format("{} * (float)({}) + ({})", factor, position->steps, base);
  if (!other.empty())
    text = wrap(as(CPrinter::sum(other), CKind::Real), c_precedence::sum_of_terms) + " + (" + text + ")";
  return CValue::real(text, 32, c_precedence::sum_of_terms);
}

/// A function in one branch of a choice would be branched around, element by element: the chains of neighbouring elements could not overlap.
bool CudaPrinter::evaluates_both(Expr yes, Expr no) const {
  const std::function<bool(Expr)> functions = [&](Expr x) {
    if (x.is(Op::Tanh) || x.is(Op::Sigmoid) || x.is(Op::Exp) || x.is(Op::Exp2)) return true;
    return !x.is(Op::Read) && std::any_of(x.args().begin(), x.args().end(), functions);
  };
  const auto held = [&](Expr x) {  // nothing may be read outside of an array
    for (Sym s : tensors_read(x))
      if (s.kind() != SymbolKind::Tile || !k_.has_buffer(s) || k_.buffer(s).space == Space::Memory)
        return false;
    return harmless(x);
  };
  return (functions(yes) || functions(no)) && held(yes) && held(no);
}

CValue CudaPrinter::product(const std::vector<Expr>& factors, bool negate) {
  if (k_.tangents_ == CudaKernel::Tangents::Scaled && !in_whole_value()) {
    // Numbers and scalars scale the terms of the polynomial.
    std::vector<Expr> all, scale;
    for (Expr f : factors) parts_of(Op::Mul, f, all);
    Expr tangent;
    for (Expr f : all) {
      if (f.is(Op::Tanh) && !tangent)
        tangent = f;
      else
        scale.push_back(f);
    }
    if (negate) scale.push_back(Expr(-1));
    if (tangent && std::all_of(scale.begin(), scale.end(), same_everywhere))
      return scaled_tangent(tangent.arg(0), scale);
  }
  return CPrinter::product(factors, negate);
}

CValue CudaPrinter::scaled_tangent(Expr argument, const std::vector<Expr>& scale) {
  std::vector<Expr> factors, scalars, rest;
  parts_of(Op::Mul, argument, factors);
  for (Expr f : factors) (same_everywhere(f) ? scalars : rest).push_back(f);
  const auto text = [&](const std::vector<Expr>& of) {
    return of.empty() ? "1.0f"
                      : as(of.size() == 1 ? value(of[0]) : CPrinter::product(of, false), CKind::Real).text;
  };
  k_.helpers_.use("tw_tanh_near");
  const std::string terms =
      in_front("tw_terms", "terms", fmt::format("tw_tanh_terms({}, {})", text(scalars), text(scale)));
  return CValue::real(fmt::format("tw_tanh_near({}, {}, {})", text(rest), terms, k_.seen_));
}

CValue CudaPrinter::function(Op op, Expr argument, CValue v) {
  using Tangents = CudaKernel::Tangents;
  if (op == Op::Tanh && k_.tangents_ == Tangents::Scaled) return scaled_tangent(argument, {});
  if (op == Op::Tanh && k_.tangents_ == Tangents::Near)
    return CValue::real(fmt::format("{}({}, tw_tanh_terms(), {})", k_.helpers_.use("tw_tanh_near"),
                                    as(std::move(v), CKind::Real).text, k_.seen_));
  if (op == Op::Tanh && k_.tangents_ == Tangents::Tested)
    return CValue::real(
        fmt::format("{}({}, {})", k_.helpers_.use("tw_tanh"), as(std::move(v), CKind::Real).text, k_.seen_));
  return CPrinter::function(op, argument, std::move(v));
}

CValue CudaPrinter::read(Expr e) {
  const Sym s = e->sym;
  auto typed = [&](DType t, std::string text) {
    if (t == DType::boolean) return CValue::boolean(std::move(text));
    if (tilewright::is_integer(t)) return CValue::integer(std::move(text), t == DType::i64 ? 64 : 32);
    return CValue::real(std::move(text), t == DType::f64 ? 64 : 32);
  };
  if (s.kind() == SymbolKind::Tile && k_.has_buffer(s)) {
    const Buffer& b = k_.buffer(s);
    if (b.space != Space::Memory) {
      TW_CHECK(k_.nest_, fmt::format("tile {} is read where no coordinates are", s.name()));
      for (size_t a = 0; a < b.axes.size(); ++a)
        TW_CHECK(e.arg(a) == Expr(b.axes[a]),
                 fmt::format("tile {} is read at {}, not at its own axes", s.name(), to_string(e.arg(a))));
      if (auto it = k_.replaced_.find(s); it != k_.replaced_.end()) return typed(b.dtype, it->second);
      if (b.space == Space::Registers) {
        const std::string offset = k_.register_offset(b, *k_.nest_);
        const std::string& name = k_.names_.of(s);
        if (k_.packed(b)) {
          k_.helpers_.use(b.dtype == DType::f16 ? "tw_f16" : "tw_bf16");
          return typed(b.dtype, fmt::format("tw_half_{}({}[({}) >> 1], ({}) & 1)", tilewright::name(b.dtype),
                                            name, offset, offset));
        }
        return typed(b.dtype, fmt::format("{}[{}]", name, offset));
      }
      std::vector<std::string> local;
      for (Sym a : b.axes) {
        const int at = k_.nest_->find(a);
        TW_CHECK(at >= 0, fmt::format("axis {} of {} is not in the range", a.name(), s.name()));
        local.push_back(k_.names_.part(a, "in"));
      }
      return typed(b.dtype, k_.load_value(b.dtype, fmt::format("{}[{}]", k_.local_text_.at(s),
                                                               k_.local_offset(b, local))));
    }
  }
  // An array in memory, at any integer indices.
  Sym tensor = s;
  std::vector<Expr> index = e.args();
  if (s.kind() == SymbolKind::Tile && k_.has_buffer(s)) {
    const Buffer& b = k_.buffer(s);
    tensor = b.tensor;
    Substitution at;
    for (size_t a = 0; a < b.axes.size(); ++a) at.emplace_back(b.axes[a], e.arg(a));
    index.clear();
    for (Expr x : b.index) index.push_back(substitute(x, at));
  }
  DType t = DType::f32;
  if (const Input* input = k_.program_.input(tensor)) t = input->dtype;
  for (const Output& o : k_.program_.outputs)
    if (o.sym == tensor) t = o.dtype;
  for (const Workspace& w : k_.mapped_.workspaces)
    if (w.sym == tensor) t = w.dtype;
  static const Nest none;
  return typed(t,
               k_.load_value(t, fmt::format("{}[{}]", k_.names_.of(tensor),
                                            k_.element_address(tensor, index, k_.nest_ ? *k_.nest_ : none))));
}

}  // namespace tilewright::cuda_text
