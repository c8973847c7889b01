#include "tilewright/derive/readable.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tilewright/derive/cascade.h"
#include "tilewright/derive/normal_form.h"
#include "tilewright/expr/latex.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

Sym symbol(const std::string& name) { return Sym::fresh({.name = name, .kind = SymbolKind::Variable}); }

/// where(ρ == ρ', 1, exp(ρ − ρ')) and where(|ρ| == inf, 0, ρ − ρ') as a reader thinks of them.
Expr without_guards(Expr e, const State& s) {
  auto is_point = [&](Expr x) {
    return x.is(Op::Read) && std::any_of(s.points.begin(), s.points.end(),
                                         [&](const Point& p) { return p.var == x->sym || p.next == x->sym; });
  };
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Select) || !x.arg(0).is(Op::Eq)) return x;
    Expr a = x.arg(0).arg(0), b = x.arg(0).arg(1);
    bool same = is_point(a) && is_point(b) && x.arg(1).is_constant(1);
    bool infinite = a.is(Op::Abs) && is_point(a.arg(0)) && b == Expr::infinity();
    return same || infinite ? x.arg(2) : x;
  });
}

std::string position(const Span& s) {
  return s ? fmt::format("{}:{}", s.source->name, s.line()) : std::string();
}

}  // namespace

Readable::Readable(const Program& p, const Derivation& d, Form form)
    : program_(p), d_(d), latex_(form == Form::Latex) {
  for (const Input& i : p.inputs) own_.push_back({i.sym, {i.axes(), symbol(i.sym.name())}});
  for (const Definition& f : p.definitions) own_.push_back({f.sym, {f.axes, symbol(f.sym.name())}});
  for (const Reduction& r : d.cascade.reductions)
    own_.push_back({r.result, {r.axes, symbol(r.result.name())}});
  for (const Pass& pass : d.passes) {
    for (const Point& q : pass.state.points) {
      own_.push_back({q.var, {q.axes, symbol(q.var.name())}});
      own_.push_back({q.next, {q.axes, symbol(q.var.name() + "'")}});
    }
    for (const Component& c : pass.state.components) own_.push_back({c.var, {c.axes, symbol(c.var.name())}});
  }
  // Definitions without a reduction over the streamed axis are shown by their names, as far as a reader looks.
  constexpr size_t most = 100;
  for (const Definition& f : p.definitions) {
    if (names_.size() == most) break;
    if (f.dtype) continue;
    Expr value = simplify(inlined(p, f.sym));
    bool streams = false, trivial = value.is(Op::Read) || value.number() || value.is(Op::Symbol);
    rewrite(value, [&](Expr x) {
      if (x.is(Op::Reduce))
        streams = streams || std::find(x->bound.begin(), x->bound.end(), d.cascade.axis) != x->bound.end();
      return x;
    });
    if (streams || trivial) continue;
    // Inside the condition under which it takes part.
    std::vector<Expr> factors = factors_of(value);
    for (Expr& factor : factors)
      if (factor.is(Op::Select) && factor.arg(2).number()) factor = factor.arg(1);
    value = product_of(factors);
    if (std::any_of(names_.begin(), names_.end(), [&](const Name& n) { return n.value == value; })) continue;
    names_.push_back({value, symbol(f.sym.name()), {}});
  }
  for (Name& n : names_) {
    Expr value = n.value;
    std::vector<Expr> args;
    for (Expr a : value.args()) args.push_back(shortened(a));
    n.text = print(plain(monic(with_args(value, args))));
  }
}

Expr Readable::shortened(Expr e) const {
  for (const Name& n : names_)
    if (n.value == e) return n.shown;
  std::vector<Expr> args;
  for (Expr a : e.args()) args.push_back(shortened(a));
  return with_args(e, std::move(args));
}

Expr Readable::plain(Expr e) const {
  return rewrite(e, [&](Expr x) {
    if (is_kept(x)) return x.arg(0);
    if (!x.is(Op::Read)) return x;
    for (auto& [s, own] : own_) {
      if (s != x->sym) continue;
      if (own.first.size() != x.args().size()) return x;
      for (size_t k = 0; k < own.first.size(); ++k)
        if (x.arg(k) != Expr(own.first[k])) return x;
      return Expr(own.second);
    }
    bool own_axes = std::all_of(x.args().begin(), x.args().end(), [](Expr a) { return a.is(Op::Symbol); });
    return x->sym.kind() == SymbolKind::Tile && own_axes ? Expr(symbol(x->sym.name())) : x;
  });
}

std::string Readable::print(Expr e) const { return latex_ ? to_latex(e) : to_string(e); }

std::string Readable::named(const std::string& name) const { return latex_ ? latex_name(name) : name; }

std::string Readable::operator()(Expr e) const { return print(plain(monic(shortened(e)))); }

std::string Readable::indexed(Sym s, const std::vector<Sym>& axes) const {
  std::string out = named(s.name());
  if (axes.empty()) return out;
  out = latex_ ? "{" + out + "}_{" : out + "[";
  for (size_t k = 0; k < axes.size(); ++k) out += (k ? ", " : "") + named(axes[k].name());
  return out + (latex_ ? "}" : "]");
}

/// The body reduced over the streamed axis, over the elements that are present.
std::string Readable::reduced(Reducer r, Expr body, Expr present, Sym rank) const {
  const Sym x = d_.cascade.axis;
  const Expr shown = latex_ ? plain(monic(shortened(body))) : Expr();
  std::string out = latex_ ? to_latex(rank ? ranked(r, x, shown, rank) : reduce(r, {x}, shown))
                           : fmt::format("{}[{}{}]({})", name(r), x.name(), rank ? " -> " + rank.name() : "",
                                         (*this)(body));
  if (present && !is_true(present))
    out += fmt::format("{}{}", latex_ ? "\\quad\\text{where } " : " where ", (*this)(present));
  return out;
}

std::string Readable::extremum(const char* which, const std::string& a, const std::string& b) const {
  return latex_ ? fmt::format("\\operatorname{{{}}}({}, {})", which, a, b)
                : fmt::format("{}({}, {})", which, a, b);
}

std::vector<std::pair<std::string, std::string>> Readable::legend() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Name& n : names_) out.emplace_back(n.shown.name(), n.text);
  return out;
}

/// "the 8 first pairs (x, v), larger x first": what a list holds.
std::string Readable::listed(const Component& keys) const {
  const std::string count = to_string(program_.axis(keys.rank).size), key = (*this)(keys.lift),
                    at = named(d_.cascade.axis.name());
  std::string out = latex_ ? fmt::format("\\text{{the {} largest pairs }} ({},\\, {})", count, key, at)
                           : fmt::format("the {} largest pairs ({}, {})", count, key, at);
  if (!is_true(keys.present))
    out += fmt::format("{}{}", latex_ ? "\\quad\\text{where } " : " where ", (*this)(keys.present));
  return out;
}

std::string Readable::held(const Component& c) const { return reduced(c.combine, c.lift, c.present); }

/// Σ factor · component of `side`, each point read as `side` has it and ρ' as `target`.
std::string Readable::in_terms(const std::vector<RepairTerm>& row, const State& s, const std::string& side,
                               const std::string& target) const {
  std::string out;
  for (const RepairTerm& t : row) {
    Expr factor = rewrite(without_guards(t.factor, s), [&](Expr x) {
      if (!x.is(Op::Read)) return x;
      for (const Point& p : s.points) {
        if (p.var == x->sym) return Expr(symbol(p.var.name() + side));
        if (p.next == x->sym) return Expr(symbol(p.var.name() + target));
      }
      return x;
    });
    std::string component = named(s.components[size_t(t.component)].var.name() + side);
    bool one = t.factor.is_constant(1);
    std::string f = one ? "" : print(plain(factor));
    if (factor.is(Op::Add) || factor.is(Op::Sub)) f = "(" + f + ")";
    out += (out.empty() ? "" : " + ") + (one ? component : f + (latex_ ? "\\," : " * ") + component);
  }
  return out;
}

PointText Readable::point(const Point& p) const {
  PointText t;
  t.name = indexed(p.var, p.axes);
  const std::string u = (*this)(p.u), now = named(p.var.name()), next = named(p.var.name() + "'");
  const std::string shown = latex_ ? "$" + u + "$" : u;
  switch (p.kind) {
    case Point::Kind::Maximum:
      t.meaning = fmt::format("the maximum of {} so far", shown);
      t.moves = fmt::format("{} = {}", next, extremum("max", now, reduced(Reducer::Max, p.u, {})));
      break;
    case Point::Kind::Minimum:
      t.meaning = fmt::format("the minimum of {} so far", shown);
      t.moves = fmt::format("{} = {}", next, extremum("min", now, reduced(Reducer::Min, p.u, {})));
      break;
    case Point::Kind::Mean: {
      const State* home = nullptr;
      for (const Pass& pass : d_.passes)
        for (const Point& q : pass.state.points)
          if (q.var == p.var) home = &pass.state;
      t.meaning = fmt::format("the mean of {} so far", shown);
      t.moves =
          fmt::format("{} = {} + {} / {}{}", next, now, named(home->components[size_t(p.sum)].var.name()),
                      named(home->components[size_t(p.weight)].var.name()),
                      latex_ ? "\\text{, the chunk included}" : ", the chunk included");
      break;
    }
  }
  if (!is_true(p.present))
    t.moves += fmt::format("{}{}", latex_ ? "\\quad\\text{where } " : "  where ", (*this)(p.present));
  if (p.exponential)
    t.may_lag = p.may_lag ? fmt::format("may lag: no output depends on which point was used")
                          : fmt::format("moves with the maximum: an output depends on it");
  return t;
}

ReductionText Readable::reduction(size_t k) const {
  const Reduction& r = d_.cascade.reductions[k];
  const State& s = d_.passes[size_t(r.pass) - 1].state;
  ReductionText t;
  t.pass = r.pass;
  t.result = indexed(r.result, r.axes);
  t.where = position(r.span);
  t.definition = reduced(r.reducer, r.body, r.present, r.rank);
  std::set<std::string> held_at;
  std::set<std::string> by;
  const std::vector<int>& family = d_.family[k];
  for (int c : family) {
    const Component& own = s.components[size_t(c)];
    if (own.listed()) {
      if (own.combine != Reducer::Topk) continue;
      const Component& at = s.components[size_t(own.beside)];
      const std::string keys = named(own.var.name()), indices = named(at.var.name());
      t.family.push_back((*this)(own.lift));
      t.state.push_back(
          fmt::format("{}, {} = {}", indexed(own.var, own.axes), indexed(at.var, at.axes), listed(own)));
      const std::string count = to_string(program_.axis(own.rank).size);
      t.merge.push_back(
          latex_ ? fmt::format("{}^{{*}},\\, {}^{{*}} = \\text{{the {} largest pairs of both sorted lists}}",
                               keys, indices, count)
                 : fmt::format("{0}*, {1}* = the {2} largest pairs of ({0}_a, {1}_a) and ({0}_b, {1}_b), "
                               "merged as sorted lists",
                               keys, indices, count));
      for (const Check& check : s.checks)
        for (const Component* side : {&own, &at})
          if (check.what.ends_with(" of " + side->var.name()) && check.passed)
            t.proofs.push_back(fmt::format("{} ({})", check.what, check.by));
      continue;
    }
    t.family.push_back((*this)(own.lift));
    t.state.push_back(fmt::format("{} = {}", indexed(own.var, own.axes), held(own)));
    bool moves = own.repair.size() > 1 || !own.repair[0].factor.is_constant(1);
    if (moves)
      t.repair.push_back(
          fmt::format("{} = {}", named(own.var.name() + "'"), in_terms(own.repair, s, "", "'")));
    std::string l = in_terms(own.repair, s, "_a", "*"), r2 = in_terms(own.repair, s, "_b", "*");
    bool sum = own.combine == Reducer::Sum;
    const std::string merged = named(own.var.name() + "*");
    t.merge.push_back(sum ? fmt::format("{} = {} + {}", merged, l, r2)
                          : fmt::format("{} = {}", merged, extremum(name(own.combine), l, r2)));
    for (Sym v : tensors_read(own.lift))
      for (const Point& p : s.points)
        if (p.var == v) held_at.insert(p.var.name());
    for (const Check& check : s.checks)
      if (check.what.ends_with(" of " + own.var.name()) && check.passed)
        t.proofs.push_back(fmt::format("{} ({})", check.what, check.by));
  }
  for (const std::string& p : held_at) t.held_at += (t.held_at.empty() ? "" : ", ") + p;
  if (family.empty()) {
    for (Sym v : tensors_read(d_.finish[k])) {
      for (const Point& p : s.points) {
        if (p.var != v) continue;
        t.state.push_back(
            fmt::format("{}{}", latex_ ? "\\text{the point } " : "the point ", indexed(p.var, p.axes)));
        const char* f = p.kind == Point::Kind::Minimum ? "min" : "max";
        const std::string var = p.var.name();
        t.merge.push_back(
            fmt::format("{} = {}", named(var + "*"), extremum(f, named(var + "_a"), named(var + "_b"))));
      }
    }
  }
  t.finish = (*this)(d_.finish[k]);
  for (const std::string& note : d_.deferred)
    if (note.starts_with(r.result.name() + ": "))
      t.deferred.push_back(note.substr(r.result.name().size() + 2));
  return t;
}

std::string Readable::output(const CascadeOutput& o) const {
  const Output& out = program_.outputs[o.output];
  return fmt::format("{} = {}", indexed(out.sym, program_.tensor_axes(out.sym)), (*this)(o.value));
}

void describe(const Program& p, Derivation& d, const std::vector<Note>& notes) {
  Readable readable(p, d);
  for (Pass& pass : d.passes)
    for (Component& c : pass.state.components)
      c.meaning = fmt::format("{} {}", name(c.combine), readable(c.lift));
  const std::string x = d.cascade.axis.name();
  for (const Note& n : notes) {
    auto live = [&](const Reduction& r) { return r.result == n.result; };
    if (std::none_of(d.cascade.reductions.begin(), d.cascade.reductions.end(), live)) continue;
    std::string why;
    switch (n.kind) {
      case Note::Kind::Factor:
        why = fmt::format("{} does not vary along {}: applied once, at the end", readable(n.value), x);
        break;
      case Note::Kind::Peeled:
        why = fmt::format("what does not vary along {} was taken out of it: applied once, at the end", x);
        break;
      case Note::Kind::Scale:
        why = fmt::format("held without its factor {}, which is applied where it is used, to stay in range",
                          readable(n.value));
        break;
      case Note::Kind::Ranked:
        why = fmt::format(
            "ranked by {}, in which it is strictly increasing over the reals: computed for what is left, at "
            "the end",
            readable(n.value));
        break;
      case Note::Kind::Introduced:
        why = fmt::format("introduced, so that exponentials of {} stay in range", readable(n.value));
        break;
    }
    d.deferred.push_back(fmt::format("{}: {}", n.result.name(), why));
  }
}

}  // namespace tilewright::derivation
