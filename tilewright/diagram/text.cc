#include "tilewright/diagram/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tilewright/diagram/arrange.h"

namespace tilewright {

FreshNames::FreshNames(const Program& p) {
  for (const Axis& a : p.axes) taken_.insert(a.name());
  for (const Param& x : p.params) taken_.insert(x.sym.name());
  for (const Let& x : p.lets) taken_.insert(x.sym.name());
  for (const Input& x : p.inputs) taken_.insert(x.sym.name());
  for (const Definition& x : p.definitions) taken_.insert(x.sym.name());
}

std::string FreshNames::fresh() {
  for (;;) {
    std::string name = fmt::format("t{}", ++last_);
    if (taken_.insert(name).second) return name;
  }
}

namespace {

Expr named(const std::string& text) {
  static std::map<std::string, Sym> symbols;  // symbols are never freed
  Sym& s = symbols[text];
  if (!s) s = Sym::fresh({.name = text});
  return s;
}

/// silu(x), gelu(x) or relu(x) where `e` is what the parser makes of it; its argument, else null.
Expr written_function(Expr e, const char*& function) {
  if (e.is(Op::Mul) && e.args().size() == 2 && e.arg(1).is(Op::Sigmoid) && e.arg(1).arg(0) == e.arg(0)) {
    function = "silu";
    return e.arg(0);
  }
  if (e.is(Op::Max) && e.args().size() == 2 && e.arg(1).is_constant(0)) {
    function = "relu";
    return e.arg(0);
  }
  if (e.is(Op::Mul) && !e.args().empty() && e.arg(0).rational() == std::optional<Rational>(Rational(1, 2)) &&
      e.args().size() == 3) {
    const Expr x = e.arg(1);
    if (e == Expr(Rational(1, 2)) * x * (Expr(1) + make(Op::Erf, {x / sqrt(Expr(2))}))) {
      function = "gelu";
      return x;
    }
  }
  return {};
}

Expr renamed(Expr e, const std::vector<std::pair<Expr, std::string>>& shown, std::map<Expr, Expr>& done) {
  for (const auto& [from, text] : shown)
    if (from == e) return named(text);
  if (e.args().empty()) return e;
  if (const auto it = done.find(e); it != done.end()) return it->second;
  const char* function = nullptr;
  Expr out;
  if (const Expr x = written_function(e, function)) {
    out = named(fmt::format("{}({})", function, to_string(renamed(x, shown, done))));
  } else {
    std::vector<Expr> args;
    for (Expr a : e.args()) args.push_back(renamed(a, shown, done));
    out = with_args(e, args);
  }
  done.emplace(e, out);
  return out;
}

std::string dims_text(const std::vector<Dim>& dims) {
  std::vector<std::string> parts;
  for (const Dim& dim : dims) {
    std::string text;
    for (Sym s : dim.pieces) text += (text.empty() ? "" : " ") + s.name();
    parts.push_back(dim.pieces.size() == 1 ? text : "(" + text + ")");
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string range_of(const Range& r) {
  return r ? fmt::format(" range({}, {})", to_string(r.lo), to_string(r.hi)) : "";
}

}  // namespace

std::string with_names(Expr e, const std::vector<std::pair<Expr, std::string>>& shown) {
  std::map<Expr, Expr> done;
  return to_string(renamed(e, shown, done));
}

std::vector<Sym> axes_in(Expr e) {
  std::vector<Sym> axes;
  for (Sym s : free_symbols(e))
    if (s.kind() == SymbolKind::Index) axes.push_back(s);
  return axes;
}

std::string bytes_text(int64_t n) {
  if (n == 0) return "0";
  if (n % (1 << 20) == 0) return fmt::format("{} MiB", n >> 20);
  if (n % 1024 == 0) return fmt::format("{} KiB", n >> 10);
  if (n > 4 << 20) return fmt::format("{:.1f} MiB", static_cast<double>(n) / (1 << 20));
  if (n > 4096) return fmt::format("{:.1f} KiB", static_cast<double>(n) / 1024);
  return fmt::format("{} B", n);
}

std::string axis_names(const std::vector<Sym>& axes) {
  std::vector<std::string> names;
  for (Sym s : axes) names.push_back(s.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string declaration(const Program& p, Sym tensor) {
  if (const Input* in = p.input(tensor))
    return fmt::format("input {}{} : {}{}", tensor.name(), dims_text(in->dims), name(in->dtype),
                       range_of(in->range));
  if (const Definition* def = p.definition(tensor))
    return fmt::format("{}[{}]{}", tensor.name(), axis_names(def->axes),
                       def->dtype ? fmt::format(" : {}", name(*def->dtype)) : "");
  return tensor.name();
}

std::vector<std::string> declarations(const Program& p, const std::vector<const Definition*>& drawn,
                                      const std::set<Sym>& used) {
  std::vector<std::string> out;
  std::string axes;
  for (const Axis& a : p.axes) {
    axes += axes.empty() ? "axis " : ", ";
    axes += a.name();
    if (a.size) axes += " = " + to_string(a.size);
  }
  out.push_back(axes);
  for (const Param& x : p.params)
    out.push_back(fmt::format("param {} : {}{}{}", x.sym.name(), name(x.dtype),
                              x.value ? " = " + to_string(x.value) : "", range_of(x.range)));
  for (const Input& x : p.inputs)
    if (used.count(x.sym)) out.push_back(declaration(p, x.sym));
  for (const Output& o : p.outputs) {
    if (std::none_of(drawn.begin(), drawn.end(), [&](const Definition* d) { return d->sym == o.sym; }))
      continue;
    out.push_back(fmt::format("output {}{} : {}", o.sym.name(), dims_text(o.dims), name(o.dtype)));
  }
  return out;
}

}  // namespace tilewright
