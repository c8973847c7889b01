#include "tilewright/diagram/normalised.h"

#include <algorithm>
#include <functional>

#include "tilewright/expr/simplify.h"

namespace tilewright {
namespace {

class Search {
 public:
  explicit Search(const Program& p) : p_(p) {}

  /// Is the definition a softmax? `parts` receives the definitions that are read on the way.
  bool match(const Definition& def, Normalised& out, std::vector<Sym>& parts) {
    const Expr quotient = guarded(def.value);
    if (!quotient.is(Op::Div)) return false;
    const Expr e = looked_through(quotient.arg(0), parts), l = looked_through(quotient.arg(1), parts);
    if (!l.is(Op::Reduce) || l->reducer != Reducer::Sum) return false;
    if (l.arg(0) != quotient.arg(0) && l.arg(0) != e) return false;
    const Expr exponential = guarded(e);
    if (!exponential.is(Op::Exp) && !exponential.is(Op::Exp2)) return false;
    // The exponent holds x − m with m = max over the same axes of x.
    Expr maximum, x;
    std::function<void(Expr)> find = [&](Expr at) {
      if (at.is(Op::Sub) && !maximum) {
        std::vector<Sym> more;
        const Expr m = looked_through(at.arg(1), more);
        if (m.is(Op::Reduce) && m->reducer == Reducer::Max && m->bound == l->bound && m.arg(0) == at.arg(0)) {
          maximum = at.arg(1);
          x = at.arg(0);
          parts.insert(parts.end(), more.begin(), more.end());
          return;
        }
      }
      for (Expr a : at.args()) find(a);
    };
    find(exponential.arg(0));
    if (!maximum) return false;
    // exp of exactly x − m, whatever it is written with.
    const Sym u = Sym::fresh({.name = "u"}), v = Sym::fresh({.name = "v"});
    const Expr shifted = rewrite(exponential, [&](Expr at) {
      return at == x ? Expr(u) : at == maximum ? Expr(v) : at;
    });
    if (simplify(shifted - exp(Expr(u) - Expr(v))) != Expr(0)) return false;
    out.axes = l->bound;
    out.value = x;
    return true;
  }

 private:
  /// Without the zero that stands for an empty row or an absent element.
  static Expr guarded(Expr e) {
    if (!e.is(Op::Select)) return e;
    const Expr c = e.arg(0);
    if (c.is(Op::Eq) && e.arg(1).is_constant(0)) return e.arg(2);
    if (c.is(Op::Ne) && e.arg(2).is_constant(0)) return e.arg(1);
    return e;
  }

  /// The value of a definition that is read at its own axes.
  Expr looked_through(Expr e, std::vector<Sym>& parts) const {
    if (!e.is(Op::Read)) return e;
    const Definition* def = p_.definition(e->sym);
    if (!def || def->dtype) return e;
    for (size_t k = 0; k < def->axes.size(); ++k)
      if (e.arg(k) != Expr(def->axes[k])) return e;
    parts.push_back(def->sym);
    return def->value;
  }

  const Program& p_;
};

}  // namespace

std::map<Sym, Normalised> normalised_definitions(const Program& p, std::set<Sym>& hidden) {
  std::map<Sym, Normalised> found;
  std::map<Sym, std::vector<Sym>> parts_of;
  Search search(p);
  for (const Definition& def : p.definitions) {
    Normalised n;
    std::vector<Sym> parts;
    if (!search.match(def, n, parts)) continue;
    for (Sym s : parts)
      if (n.where.find(s.name()) == std::string::npos) n.where += (n.where.empty() ? "" : ", ") + s.name();
    if (n.where.empty()) n.where = def.sym.name();
    parts_of[def.sym] = parts;
    found.emplace(def.sym, n);
  }
  // A part is hidden where nothing but hidden parts and the softmax reads it.
  for (auto& [sym, parts] : parts_of)
    for (bool more = true; more;) {
      more = false;
      for (Sym part : parts) {
        if (hidden.count(part)) continue;
        bool needed =
            std::any_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return o.sym == part; });
        for (const Definition& def : p.definitions) {
          if (def.sym == sym || hidden.count(def.sym)) continue;
          for (Sym read : tensors_read(def.value)) needed = needed || read == part;
        }
        if (!needed) more = hidden.insert(part).second || more;
      }
    }
  return found;
}

}  // namespace tilewright
