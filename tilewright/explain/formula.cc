#include "tilewright/explain/formula.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/explain/text.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::explain {

Expr both(const LevelCost& level) { return simplify(level.loaded + level.stored); }

Formulas::Formulas(const std::vector<Axis>& axes) {
  for (const Axis& a : axes) {
    const Sym named = Sym::fresh({.name = a.index.name(),
                                  .kind = SymbolKind::Variable,
                                  .integer = true,
                                  .positive = true,
                                  .nonnegative = true});
    shown_.emplace_back(a.index.size(), named);
    order_.push_back(named);
  }
}

Formulas::Formulas(const Model& m) : Formulas(m.tiles->axes) {
  m_ = &m;
  for (const auto& [dtype, sym] : m.symbols.width) {
    shown_.emplace_back(sym, bytes(dtype));
    widths_.emplace_back(sym, bytes(dtype));
  }
  if (m.symbols.split) whole_.emplace_back(m.symbols.split, Expr(m.tiles->plan.stream.size()));
  for (const TileKernel& k : m.tiles->kernels)
    for (const KernelAxis& a : k.grid) {
      if (const auto it = m.symbols.block.find(a.index); it != m.symbols.block.end())
        whole_.emplace_back(it->second, Expr(a.index.size()));
      if (const auto it = m.symbols.piece.find(a.index); it != m.symbols.piece.end())
        whole_.emplace_back(it->second, Expr(a.index.size()));
    }
}

std::string Formulas::term(const Powers& powers, const Rational& coefficient) const {
  std::vector<std::pair<Sym, Rational>> factors(powers.begin(), powers.end());
  const auto rank = [&](Sym s) { return std::find(order_.begin(), order_.end(), s) - order_.begin(); };
  std::stable_sort(factors.begin(), factors.end(), [&](const auto& a, const auto& b) {
    return rank(a.first) != rank(b.first) ? rank(a.first) < rank(b.first) : a.first.name() < b.first.name();
  });
  std::vector<std::string> above, below;
  if (coefficient.num() != 1) above.push_back(fmt::format("{}", coefficient.num()));
  if (coefficient.den() != 1) below.push_back(fmt::format("{}", coefficient.den()));
  for (const auto& [sym, power] : factors) {
    const bool negative = power.num() < 0;
    const Rational p = negative ? -power : power;
    std::string text = sym.name();
    if (!(p == Rational(1))) text += p.den() == 1 ? superscript(p.num()) : "^(" + p.str() + ")";
    (negative ? below : above).push_back(text);
  }
  std::string out = above.empty() ? "1" : fmt::format("{}", fmt::join(above, "·"));
  if (below.size() == 1) out += "/" + below[0];
  if (below.size() > 1) out += fmt::format("/({})", fmt::join(below, "·"));
  return out;
}

std::string Formulas::text(Expr e) const {
  if (!e) return "";
  e = substitute(largest(e), shown_);
  const auto sum = laurent(e);
  if (!sum) {
    std::string s = to_string(simplify(e));
    for (size_t at; (at = s.find(" * ")) != std::string::npos;) s.replace(at, 3, "·");
    return s;
  }
  if (sum->terms.empty()) return "0";
  struct Shown {
    int tiles, below;
    std::string text;
  };
  std::vector<Shown> terms;
  for (const auto& [powers, coefficient] : sum->terms) {
    Shown s{0, coefficient.den() == 1 ? 0 : 1, term(powers, coefficient)};
    for (const auto& [sym, power] : powers) {
      if (std::find(order_.begin(), order_.end(), sym) == order_.end()) ++s.tiles;
      if (power.num() < 0) ++s.below;
    }
    terms.push_back(std::move(s));
  }
  std::stable_sort(terms.begin(), terms.end(), [](const Shown& a, const Shown& b) {
    return a.below != b.below ? a.below < b.below : a.tiles != b.tiles ? a.tiles < b.tiles : a.text < b.text;
  });
  std::string out;
  for (const Shown& t : terms) {
    const bool minus = t.text[0] == '-';
    out += out.empty() ? t.text : minus ? " - " + t.text.substr(1) : " + " + t.text;
  }
  return out;
}

Expr Formulas::largest(Expr e) const {
  if (!e || m_ == nullptr || !e.is(Op::Max)) return e;
  Bindings b;
  for (const auto& [sym, n] : m_->symbols.values) b[sym] = double(n);
  for (const auto& [sym, n] : m_->symbols.literal) b[sym] = double(n);
  const Expr* best = nullptr;
  double most = -1;
  for (const Expr& part : e.args()) {
    for (Sym s : free_symbols(part)) b.try_emplace(s, 1024);
    const double value = evaluate(part, b);
    if (value > most) most = value, best = &part;
  }
  return *best;
}

Expr Formulas::numbered(Expr e) const { return widths_.empty() ? e : substitute(e, widths_); }

Expr Formulas::ungrouped(Expr e) const { return whole_.empty() ? e : substitute(e, whole_); }

Expr Formulas::with_tiles(Expr e, const std::map<Sym, int64_t>& tiles) const {
  Substitution s;
  for (const auto& [sym, n] : tiles) s.emplace_back(sym, Expr(n));
  for (const auto& [axis, piece] : m_->symbols.piece) {
    const Sym block = m_->symbols.block.at(axis);
    if (const auto it = tiles.find(block); it != tiles.end())
      s.emplace_back(piece, Expr(it->second * m_->symbols.values.at(piece) / m_->symbols.values.at(block)));
  }
  return s.empty() ? e : substitute(e, s);
}

}  // namespace tilewright::explain
