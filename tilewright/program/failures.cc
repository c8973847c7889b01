#include "tilewright/program/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tilewright/program/conditions.h"

namespace tilewright {
namespace {

bool is_division(Expr e) { return e.is(Op::FloorDiv) || e.is(Op::Mod); }

class Finder {
 public:
  explicit Finder(const Ranges& ranges) : ranges_(ranges) {}

  std::vector<ZeroDivision> run(Expr e) {
    if (divides(e)) visit(e, always());
    return std::move(found_);
  }

 private:
  static Expr and_also(Expr a, Expr b) { return is_always(a) ? b : is_always(b) ? a : logical_and(a, b); }

  bool never_zero(Expr divisor) const {
    const Interval b = bounds(simplify(divisor), ranges_);
    return b.lo > 0 || b.hi < 0;
  }

  bool divides(Expr e) {
    if (e.args().empty()) return false;
    auto [it, fresh] = divides_.try_emplace(e, false);
    if (!fresh) return it->second;
    bool any = is_division(e);
    for (Expr a : e.args()) any = divides(a) || any;
    return divides_[e] = any;
  }

  void visit(Expr e, Expr needed) {
    if (!divides(e) || !seen_.emplace(e, needed).second) return;
    if (is_division(e) && !never_zero(e.arg(1))) {
      const Expr condition = simplify(and_also(needed, equal(e.arg(1), Expr(0))));
      if (!is_never(condition)) report(e, condition);
    }
    if (e.is(Op::Select)) {
      visit(e.arg(0), needed);
      visit(e.arg(1), and_also(needed, e.arg(0)));
      visit(e.arg(2), and_also(needed, logical_not(e.arg(0))));
      return;
    }
    if (e.is(Op::And) || e.is(Op::Or)) {  // canonical forms sort the operands: any of the others may decide
      for (Expr a : e.args()) {
        Expr open = needed;
        for (Expr b : e.args())
          if (b != a && divides(a)) open = and_also(open, e.is(Op::And) ? b : logical_not(b));
        visit(a, open);
      }
      return;
    }
    for (Expr a : e.args()) visit(a, needed);
  }

  void report(Expr division, Expr condition) {
    for (ZeroDivision& z : found_)
      if (z.division == division) {
        z.condition = logical_or(z.condition, condition);
        return;
      }
    found_.push_back({division, condition});
  }

  const Ranges& ranges_;
  std::map<Expr, bool> divides_;
  std::set<std::pair<Expr, Expr>> seen_;
  std::vector<ZeroDivision> found_;
};

/// Names of what `e` reads and mentions.
std::set<std::string> names_in(Expr e) {
  std::set<std::string> names;
  for (Sym s : tensors_read(e)) names.insert(s.name());
  for (Sym s : free_symbols(e)) names.insert((s.kind() == SymbolKind::Size ? "size " : "") + s.name());
  return names;
}

}  // namespace

std::vector<ZeroDivision> zero_divisions(Expr e, const Ranges& ranges) { return Finder(ranges).run(e); }

UserError division_by_zero(const Program& p, Expr division) {
  const std::set<std::string> names = names_in(division);
  Expr written = division;
  Span place;
  int best = -1;
  for (const auto& [e, span] : p.spans) {
    if (e.op() != division.op() || !span) continue;
    int common = 0;
    for (const std::string& n : names_in(e)) common += names.count(n) ? 1 : 0;
    const bool earlier = place && span.source == place.source && span.begin < place.begin;
    if (common < best || (common == best && !earlier)) continue;
    best = common;
    written = e;
    place = span;
  }
  return UserError(place, fmt::format("division by zero in `{}`", to_string(written)),
                   "guard it: where(divisor != 0, ..., 0)");
}

UserError index_outside(const Program& p, Sym tensor, Sym axis, int64_t index, int64_t size) {
  Span found;
  bool several = false;
  for (const auto& [e, span] : p.spans) {
    if (!e.is(Op::Read) || e->sym != tensor || !span) continue;
    const bool own = std::all_of(e.args().begin(), e.args().end(), [](Expr a) {
      return a.is(Op::Symbol) && a->sym.kind() == SymbolKind::Index;
    });
    if (own) continue;
    several = several || (found && (found.begin != span.begin || found.source != span.source));
    found = span;
  }
  const Input* in = p.input(tensor);
  return UserError(found && !several ? found
                   : in == nullptr   ? Span{}
                                     : in->span,
                   fmt::format("index {} is outside axis {} of {}, which has size {}", index, axis.name(),
                               tensor.name(), size),
                   "guard the read with where(...), or correct the values it is indexed by");
}

void refuse_zero_divisors(const Program& p, Expr e, const Bindings& values) {
  for (const ZeroDivision& z : zero_divisions(e))
    if (evaluate(z.condition, values) != 0) throw division_by_zero(p, z.division);
}

}  // namespace tilewright
