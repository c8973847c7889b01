#include "tilewright/derive/smt.h"

#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/derive/check.h"
#include "tilewright/derive/normal_form.h"

namespace tilewright {
namespace {

using derivation::addends_of;
using derivation::factors_of;
using derivation::Identity;

std::string call(const char* function, const std::vector<std::string>& args) {
  return fmt::format("({} {})", function, fmt::join(args, " "));
}

/// One identity: its terms, with the constants and laws that they need.
class Script {
 public:
  /// The question whether the identity can fail; empty where both sides are the same text.
  std::string ask(const Identity& i) {
    for (const auto& [value, variable] : i.stands_for) meanings_.emplace(variable, value);
    std::vector<std::string> assumptions, equations;
    for (Expr a : i.assumptions) assumptions.push_back(condition(a));
    for (const Identity::Equation& q : i.equations) {
      const std::string left = term(chosen(q.left)), right = term(chosen(q.right));
      if (left != right) equations.push_back(call("=", {left, right}));
    }
    if (equations.empty()) return "";
    if (i.increasing)
      for (const auto& [a, of_a] : exponentials_)
        for (const auto& [b, of_b] : exponentials_)
          if (a != b) law(fmt::format("(=> (< {} {}) (< {} {}))", term(a), term(b), of_a.first, of_b.first));
    if (infinite_)
      for (Expr a : i.assumptions)
        if (a.is(Op::Lt) && a.arg(0).is_constant(0)) law(call("<", {term(a.arg(1)), kInfinity}));
    std::string out = constants_ + laws_;
    for (const std::string& a : assumptions) out += fmt::format("(assert {})\n", a);
    std::string all = equations.size() == 1 ? equations[0] : call("and", equations);
    return out + fmt::format("(assert (not {}))\n", all);
  }

 private:
  static constexpr const char* kInfinity = "infinity";

  void law(const std::string& fact) { laws_ += fmt::format("(assert {})\n", fact); }

  /// A new constant; `meaning` is what it stands for.
  std::string constant(const std::string& name, const std::string& meaning) {
    constants_ += fmt::format("(declare-const {} Real){}\n", name, meaning.empty() ? "" : " ; " + meaning);
    return name;
  }

  /// Products of a choice moved into its branches, so that inf stands alone in them.
  static Expr chosen(Expr e) {
    return rewrite(e, [](Expr x) {
      if (!x.is(Op::Mul)) return x;
      std::vector<Expr> args = x.args();
      for (Expr a : args)
        if (a == Expr::infinity()) return a;  // the other factors are positive
      for (Expr& a : args) {
        if (!a.is(Op::Select) || (a.arg(1) != Expr::infinity() && a.arg(2) != Expr::infinity())) continue;
        const Expr choice = a;
        a = choice.arg(1);
        const Expr then = chosen(make(Op::Mul, args));
        a = choice.arg(2);
        return select(choice.arg(0), then, chosen(make(Op::Mul, args)));
      }
      return x;
    });
  }

  static std::string number(Rational r) {
    const int64_t n = r.num(), d = r.den();
    std::string text = fmt::format("{}.0", n < 0 ? -n : n);
    if (d != 1) text = fmt::format("(/ {} {}.0)", text, d);
    return n < 0 ? fmt::format("(- {})", text) : text;
  }

  std::vector<std::string> terms(const std::vector<Expr>& all) {
    std::vector<std::string> out;
    for (Expr e : all) out.push_back(term(e));
    return out;
  }

  /// A sum or product without its neutral element.
  std::string joined(const char* function, const std::vector<Expr>& args, int64_t neutral) {
    std::vector<std::string> out;
    for (Expr a : args)
      if (!a.is_constant(neutral)) out.push_back(term(a));
    return out.empty() ? number(neutral) : out.size() == 1 ? out[0] : call(function, out);
  }

  std::string term(Expr e) {
    switch (e.op()) {
      case Op::Constant: return number(e->number);
      case Op::Real:
        if (e == Expr::infinity()) {
          if (!infinite_) constant(kInfinity, "above what it is compared with");
          infinite_ = true;
          return kInfinity;
        }
        return itself(e);
      case Op::Add: return joined("+", e.args(), 0);
      case Op::Sub: return call("-", terms(e.args()));
      case Op::Mul: return joined("*", e.args(), 1);
      case Op::Div: return call("/", terms(e.args()));
      case Op::Neg: return call("-", terms(e.args()));
      case Op::Exp: return exponential(e.arg(0));
      case Op::Pow: return power(e);
      case Op::Max:
      case Op::Min: return extremum(e);
      case Op::Abs: {
        const std::string x = term(e.arg(0));
        return fmt::format("(ite (< {0} 0.0) (- {0}) {0})", x);
      }
      case Op::Select: return choice(e);
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne:
      case Op::And:
      case Op::Or:
      case Op::Not: return fmt::format("(ite {} 1.0 0.0)", condition(e));
      default: return itself(e);
    }
  }

  /// A long one gets a name, since lists are merged by choices of choices.
  std::string choice(Expr e) {
    constexpr size_t small = 64;
    if (const auto it = choices_.find(e); it != choices_.end()) return it->second;
    std::string text = call("ite", {condition(e.arg(0)), term(e.arg(1)), term(e.arg(2))});
    if (derivation::complexity(e) <= small) return text;
    const std::string name = fmt::format("choice{}", choices_.size() + 1);
    constants_ += fmt::format("(define-fun {} () Real {})\n", name, text);
    return choices_[e] = name;
  }

  std::string condition(Expr e) {
    const auto conditions = [&] {
      std::vector<std::string> out;
      for (Expr a : e.args()) out.push_back(condition(a));
      return out;
    };
    switch (e.op()) {
      case Op::Lt: return call("<", terms(e.args()));
      case Op::Le:  // x <= inf tells a number from NaN, and all are numbers here
        return e.arg(1) == Expr::infinity() ? "true" : call("<=", terms(e.args()));
      case Op::Eq: return call("=", terms(e.args()));
      case Op::Ne: return call("distinct", terms(e.args()));
      case Op::And: return call("and", conditions());
      case Op::Or: return call("or", conditions());
      case Op::Not: return call("not", conditions());
      default: return e.number() ? (*e.number() != 0 ? "true" : "false") : call("distinct", {term(e), "0.0"});
    }
  }

  /// A value of which nothing is known but that it is the same wherever it stands.
  std::string itself(Expr e) {
    auto [at, added] = constants_of_.emplace(e, "");
    if (!added) return at->second;
    std::string name;
    if (e.is(Op::Symbol)) {
      for (char c : e->sym.name())
        name += c == '\'' ? "_next" : std::string(isalnum(c) || c == '_' ? 1 : 0, c);
      name = name.empty() || isdigit(name[0]) ? "x" + name : name;
      const int same = ++names_[name];
      if (same > 1) name += fmt::format("_{}", same);
    } else {
      name = fmt::format("f{}", constants_of_.size());
    }
    const auto meaning = e.is(Op::Symbol) ? meanings_.find(e->sym) : meanings_.end();
    const Expr known = !e.is(Op::Symbol) ? e : meaning != meanings_.end() ? meaning->second : Expr();
    return at->second = constant(name, known ? to_string(known) : "");
  }

  std::string power(Expr e) {
    const auto n = e.arg(1).rational();
    if (!n || n->den() != 1 || std::abs(n->num()) > 16) return itself(e);
    return repeated(term(e.arg(0)), n->num());
  }

  static std::string repeated(const std::string& base, int64_t n) {
    if (n == 0) return "1.0";
    std::string out = base;
    if (std::abs(n) > 1) out = call("*", std::vector<std::string>(size_t(std::abs(n)), base));
    return n < 0 ? call("/", {"1.0", out}) : out;
  }

  std::string extremum(Expr e) {
    std::string best = term(e.arg(0));
    for (size_t k = 1; k < e.args().size(); ++k) {
      const std::string x = term(e.arg(k));
      best = fmt::format("(ite ({1} {2} {0}) {2} {0})", best, e.is(Op::Max) ? ">" : "<", x);
    }
    return best;
  }

  /// exp of a sum: the product of the exponentials of its addends, each a power of one constant and its inverse.
  std::string exponential(Expr exponent) {
    std::vector<std::string> factors;
    for (Expr a : addends_of(simplify(expand(exponent)))) {
      if (a.is_constant(0)) continue;
      Rational count = 1;
      std::vector<Expr> others;
      for (Expr f : factors_of(a)) {
        if (const auto n = f.rational())
          count = count * *n;
        else
          others.push_back(f);
      }
      if (others.empty() || count.den() != 1 || std::abs(count.num()) > 16) {
        others = {a};
        count = 1;
      }
      const Expr base = simplify(derivation::product_of(others));
      const auto& [value, inverse] = base_of(base);
      factors.push_back(repeated(count.num() < 0 ? inverse : value, std::abs(count.num())));
    }
    return factors.empty() ? "1.0" : factors.size() == 1 ? factors[0] : call("*", factors);
  }

  /// Constants for exp(e) and exp(−e).
  const std::pair<std::string, std::string>& base_of(Expr e) {
    auto [at, added] = exponentials_.emplace(e, std::pair<std::string, std::string>{});
    if (!added) return at->second;
    const std::string name = fmt::format("exp{}", exponentials_.size());
    at->second = {constant(name, fmt::format("exp({})", to_string(e))),
                  constant(name + "_inverse", fmt::format("exp(-({}))", to_string(e)))};
    law(fmt::format("(and (> {0} 0.0) (= (* {0} {0}_inverse) 1.0))", name));
    return at->second;
  }

  std::string constants_, laws_;
  std::map<Expr, std::string> constants_of_, choices_;
  std::map<Expr, std::pair<std::string, std::string>> exponentials_;
  std::map<Sym, Expr> meanings_;
  std::map<std::string, int> names_;
  bool infinite_ = false;
};

}  // namespace

SmtFile to_smt(const State& s, Sym axis, const std::string& heading, const Merging& how) {
  SmtFile out;
  out.text = fmt::format("; {}\n; Every answer must be unsat: no real values break the identity.\n", heading);
  for (const Identity& i : derivation::identities(s, axis, how)) {
    const std::string question = Script().ask(i);
    if (question.empty()) continue;
    out.checks.push_back(i.what);
    out.text += fmt::format("\n(echo \"{}\")\n(push)\n{}(check-sat)\n(pop)\n", i.what, question);
  }
  return out;
}

std::vector<SmtFile> to_smt(const Program& p, const Derivation& d) {
  std::vector<SmtFile> out;
  for (size_t k = 0; k < d.passes.size(); ++k)
    out.push_back(to_smt(
        d.passes[k].state, d.cascade.axis,
        fmt::format("{} over {}, pass {} of {}", p.name, d.cascade.axis.name(), k + 1, d.passes.size())));
  return out;
}

}  // namespace tilewright
