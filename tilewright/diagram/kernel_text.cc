#include "tilewright/diagram/kernel_text.h"

#include <fmt/format.h>

namespace tilewright {

MaskOf mask_of(Expr value, Expr masked) {
  if (!masked || masked == value || !masked.is(Op::Select) || masked.arg(1) != value) return {};
  return {masked.arg(0), masked.arg(2)};
}

namespace {

/// Long decimals to six digits.
std::string short_numbers(const std::string& text) {
  std::string out;
  for (size_t k = 0; k < text.size();) {
    size_t end = k;
    const bool inside =
        k > 0 && (std::isalnum(static_cast<unsigned char>(text[k - 1])) || text[k - 1] == '_');
    while (end < text.size() && !inside &&
           (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.'))
      ++end;
    const std::string number = text.substr(k, end - k);
    if (number.size() > 9 && number.find('.') != std::string::npos)
      out += fmt::format("{:.6g}", std::stod(number));
    else if (end > k)
      out += number;
    else
      out += text[end++];
    k = end;
  }
  return out;
}

}  // namespace

void KernelText::find_reads(Expr e, std::vector<std::pair<Expr, std::string>>& shown) const {
  if (e.is(Op::Read) && has_tile(k_, e->sym)) {
    const std::vector<Sym>& axes = k_.tile(e->sym).axes;
    bool own = axes.size() == e.args().size();
    for (size_t k = 0; own && k < axes.size(); ++k) own = e.arg(k) == Expr(axes[k]);
    if (own) {
      shown.emplace_back(e, e->sym.name());
      return;
    }
  }
  for (Expr a : e.args()) find_reads(a, shown);
}

std::string KernelText::of(Expr e) const {
  std::vector<std::pair<Expr, std::string>> shown;
  find_reads(e, shown);
  return short_numbers(with_names(e, shown));
}

std::string KernelText::of(const Reduce& x, const std::string& value) const {
  const std::string reduced =
      fmt::format("{}[{}]({})", name(x.reducer), axis_names(x.axes), value.empty() ? of(x.value) : value);
  if (!x.accumulate) return reduced;
  return x.reducer == Reducer::Sum ? fmt::format("{} + {}", x.tile.name(), reduced)
                                   : fmt::format("{}({}, {})", name(x.reducer), x.tile.name(), reduced);
}

std::string KernelText::line(const Stmt& s) const {
  const auto masked = [&](Expr value, Expr masked_value) {
    if (!masked_value || masked_value == value) return std::string();
    const MaskOf mask = mask_of(value, masked_value);
    return mask.condition ? " where " + of(mask.condition) : "; masked: " + of(masked_value);
  };
  if (auto* x = std::get_if<Load>(&s.node))
    return fmt::format("{} = load {}", x->tile.name(), x->tensor.name());
  if (auto* x = std::get_if<Store>(&s.node))
    return fmt::format("store {} = {}", x->tensor.name(), x->tile.name());
  if (auto* x = std::get_if<Map>(&s.node))
    return fmt::format("{} = {}{}", x->tile.name(), of(x->value), masked(x->value, x->masked));
  if (auto* x = std::get_if<Dot>(&s.node))
    return fmt::format("{} {} sum[{}]({} * {}){}", x->tile.name(), x->accumulate ? "+=" : "=",
                       axis_names(x->axes), x->a.name(), x->b.name(),
                       x->present ? " where " + of(x->present) : "");
  if (auto* x = std::get_if<Reduce>(&s.node))
    return fmt::format("{} = {}{}", x->tile.name(), of(*x), masked(x->value, x->masked));
  if (auto* x = std::get_if<Rank>(&s.node))
    return fmt::format("{}, {}: first {} of {}", x->keys.name(), x->indices.name(), x->rank.name(),
                       x->axis.name());
  if (auto* x = std::get_if<When>(&s.node)) return fmt::format("when any {}", of(x->condition));
  return fmt::format("for each chunk of {}", std::get<Loop>(s.node).axis.name());
}

void KernelText::add_lines(const Stmt& s, const std::string& indent, std::vector<std::string>& out) const {
  std::string own = indent;
  for (const std::string& l : broken(line(s) + (std::get_if<When>(&s.node) ? ":" : ""), 30)) {
    out.push_back(own + l);
    own = indent + "  ";
  }
  if (const Body* inner = inner_body(s))
    for (const Stmt& x : *inner) add_lines(x, indent + "  ", out);
}

}  // namespace tilewright
