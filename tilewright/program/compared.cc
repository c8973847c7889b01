#include "tilewright/program/compared.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "tilewright/expr/simplify.h"

namespace tilewright {

DType real_dtype(const Program& p) {
  const bool wide =
      std::any_of(p.inputs.begin(), p.inputs.end(), [](const Input& in) { return in.dtype == DType::f64; });
  return wide ? DType::f64 : DType::f32;
}

bool is_whole(Expr e) {
  return e.is(Op::Cast) && (e->dtype == DType::f32 || e->dtype == DType::f64) && !is_integer(e.arg(0));
}

namespace {

bool is_comparison(Expr e) { return e.is(Op::Lt) || e.is(Op::Le) || e.is(Op::Eq) || e.is(Op::Ne); }
bool is_extremum(Expr e) {
  return e.is(Op::Reduce) &&
         (e->reducer == Reducer::Max || e->reducer == Reducer::Min || e->reducer == Reducer::Topk);
}
bool is_position(Expr e) {
  return e.is(Op::Reduce) && (e->reducer == Reducer::Argmax || e->reducer == Reducer::Argmin);
}
bool is_index(Sym s) { return s.kind() == SymbolKind::Index; }

/// The values that `e` passes on as they are, by selection, sign and rounding, changed by `f`.
Expr each_value(Expr e, const std::function<Expr(Expr)>& f) {
  if (is_integer(e) || is_boolean(e) || e.number()) return e;
  if (e.is(Op::Select)) return with_args(e, {e.arg(0), each_value(e.arg(1), f), each_value(e.arg(2), f)});
  const bool passes = e.is(Op::Neg) || e.is(Op::Max) || e.is(Op::Min) || (e.is(Op::Cast) && !is_whole(e));
  if (passes || is_extremum(e)) {
    std::vector<Expr> args = e.args();
    const size_t count = is_extremum(e) ? 1 : args.size();
    for (size_t k = 0; k < count; ++k) args[k] = each_value(args[k], f);
    return with_args(e, args);
  }
  return f(e);
}

/// The same expression up to the names of indices?
bool written_alike(Expr a, Expr b) {
  if (a == b) return true;
  if (a.op() != b.op() || a.args().size() != b.args().size() || a.args().empty()) {
    return a.is(Op::Symbol) && b.is(Op::Symbol) && is_index(a->sym) && is_index(b->sym);
  }
  if (a.is(Op::Read) && a->sym != b->sym) return false;
  if (a.is(Op::Cast) && a->dtype != b->dtype) return false;
  if (a.is(Op::Reduce) && (a->reducer != b->reducer || a->bound.size() != b->bound.size())) return false;
  if (a.is(Op::RangeSum)) return false;
  for (size_t k = 0; k < a.args().size(); ++k)
    if (!written_alike(a.arg(k), b.arg(k))) return false;
  return true;
}

class ComparedValues {
 public:
  explicit ComparedValues(const Program& p) : program_(p) {}

  void run() {
    std::set<Expr> seen;
    const std::function<void(Expr)> visit = [&](Expr e) {
      if (!seen.insert(e).second) return;
      for (Expr a : e.args()) visit(a);
      if (is_position(e) && !is_shifted(e.arg(0), e->bound[0])) add(e.arg(0));
      if (is_comparison(e)) compare(e);
    };
    for (const Definition& d : program_.definitions) visit(d.value);
    // What a definition passes on is whole where it comes from.
    for (auto d = program_.definitions.rbegin(); d != program_.definitions.rend(); ++d)
      if (definitions_.count(d->sym)) add(d->value, true);
  }

  bool holds(Sym definition) const { return definitions_.count(definition) > 0; }
  bool holds(Expr e) const {
    return std::any_of(written_.begin(), written_.end(), [&](Expr x) { return written_alike(x, e); });
  }
  bool empty() const { return definitions_.empty() && written_.empty(); }

 private:
  /// Does `e` hold a reduction over the axis, itself or through definitions?
  bool runs(Expr e, Sym axis) const {
    bool found = false;
    std::set<Expr> seen;
    const std::function<void(Expr)> visit = [&](Expr x) {
      if (found || !seen.insert(x).second) return;
      for (Sym s : x->bound) found = found || (x.is(Op::Reduce) && s.size() == axis.size());
      if (x.is(Op::Read))
        if (const Definition* d = program_.definition(x->sym)) visit(d->value);
      for (Expr a : x.args()) visit(a);
    };
    visit(e);
    return found;
  }

  /// Is it a·u + b of an element u and reductions a and b over the axis? The position of its extremum is that of u, which derivation compares in its place.
  bool is_shifted(Expr e, Sym axis) const {
    bool shifted = false;
    const std::function<bool(Expr)> plain = [&](Expr x) -> bool {
      if (!runs(x, axis)) return true;
      if (x.is(Op::Read))
        if (const Definition* d = program_.definition(x->sym)) return plain(d->value);
      if (!x.is(Op::Add) && !x.is(Op::Sub) && !x.is(Op::Mul) && !x.is(Op::Div) && !x.is(Op::Neg))
        return false;
      return std::all_of(x.args().begin(), x.args().end(), [&](Expr a) {
        const bool result = !depends_on(a, axis) && runs(a, axis);
        shifted = shifted || result;
        return result || plain(a);
      });
    };
    return plain(e) && shifted;
  }

  /// The values of `e` are to be whole. `own`: `e` is a definition's, which is made whole by itself.
  void add(Expr e, bool own = false) {
    each_value(e, [&](Expr x) {
      if (x.is(Op::Read)) {
        if (program_.definition(x->sym)) definitions_.insert(x->sym);
      } else if (!own && !is_whole(x) && !x.args().empty() && !holds(x)) {
        written_.push_back(x);
      }
      return x;
    });
  }

  /// Where a value stands in a comparison: on which side, whether inside of an extremum, and whether as a term of that side: two terms may be compared by their difference.
  struct Place {
    Expr value;
    bool inside = false, term = false;
    int side = 0;
    friend std::strong_ordering operator<=>(const Place&, const Place&) = default;
  };

  void compare(Expr e) {
    const auto exact = [](Expr x) { return is_integer(x) || (is_boolean(x) && !x.number()); };
    if (exact(e.arg(0)) && exact(e.arg(1))) return;
    Expr sides[2] = {e.arg(0), e.arg(1)};
    std::set<Sym> found;
    while (true) {
      std::vector<Place> places;
      for (int k = 0; k < 2; ++k) {
        std::set<Place> seen;
        collect({sides[k], false, true, k}, seen, places);
      }
      pair_up(places, found);
      // Later definitions are written out first: they may hold others as a whole.
      const Definition* last = nullptr;
      for (const Place& x : places)
        if (x.value.is(Op::Read) && !found.count(x.value->sym))
          if (const Definition* d = program_.definition(x.value->sym); d && (!last || last < d)) last = d;
      if (!last) return;
      for (Expr& side : sides)
        side = rewrite(side, [&](Expr x) {
          if (!x.is(Op::Read) || x->sym != last->sym) return x;
          Substitution s;
          for (size_t k = 0; k < last->axes.size(); ++k)
            if (x.arg(k) != Expr(last->axes[k])) s.emplace_back(last->axes[k], x.arg(k));
          return s.empty() ? last->value : substitute(last->value, s);
        });
    }
  }

  /// The real values that one is made of outside of conditions and of sums, elements of arrays left out.
  void collect(const Place& x, std::set<Place>& seen, std::vector<Place>& places) const {
    const Expr e = x.value;
    if (is_integer(e) || is_boolean(e) || e.number() || !seen.insert(x).second) return;
    if (e.is(Op::Read)) {
      if (program_.definition(e->sym)) places.push_back(x);
      return;
    }
    if (e.is(Op::Reduce) && !is_extremum(e)) return;
    if (!e.args().empty() && !e.is(Op::Select) && !e.is(Op::Reduce)) places.push_back(x);
    const auto numbers = std::count_if(e.args().begin(), e.args().end(), [](Expr a) { return a.number(); });
    const bool multiple = e.is(Op::Mul) && size_t(numbers) + 1 == e.args().size();
    const bool terms = multiple || e.is(Op::Add) || e.is(Op::Sub) || e.is(Op::Neg) || e.is(Op::Select) ||
                       e.is(Op::Max) || e.is(Op::Min) || e.is(Op::Cast) || is_extremum(e);
    for (Expr a : e.args()) collect({a, x.inside || is_extremum(e), x.term && terms, x.side}, seen, places);
  }

  void pair_up(const std::vector<Place>& places, std::set<Sym>& found) {
    for (size_t a = 0; a < places.size(); ++a)
      for (size_t b = a + 1; b < places.size(); ++b) {
        const Place &x = places[a], &y = places[b];
        if (x.side == y.side && ((x.inside && y.inside) || !x.term || !y.term)) continue;
        if (x.inside == y.inside && x.value == y.value) continue;
        const bool read = x.value.is(Op::Read);
        if (!x.inside && !y.inside && !read && x.side == y.side) continue;
        if (read ? !y.value.is(Op::Read) || x.value->sym != y.value->sym : !written_alike(x.value, y.value))
          continue;
        add(x.value), add(y.value);
        if (read) found.insert(x.value->sym);
      }
  }

  const Program& program_;
  std::set<Sym> definitions_;
  std::vector<Expr> written_;
};

}  // namespace

Expr whole(Expr e, DType real) {
  return each_value(
      e, [&](Expr x) { return x.args().empty() || x.is(Op::Read) || is_whole(x) ? x : cast(real, x); });
}

Expr outside_whole_values(Expr e, const std::function<Expr(Expr)>& f) {
  std::unordered_map<Expr, Expr> known;
  const std::function<Expr(Expr)> made = [&](Expr x) -> Expr {
    if (is_whole(x)) return x;
    if (auto it = known.find(x); it != known.end()) return it->second;
    std::vector<Expr> args;
    for (Expr a : x.args()) args.push_back(made(a));
    return known[x] = f(args.empty() ? x : with_args(x, args));
  };
  return made(e);
}

Program with_compared_values_whole(Program p) {
  ComparedValues found(p);
  found.run();
  if (found.empty()) return p;
  const DType real = real_dtype(p);
  const std::map<Expr, Span> spans = p.spans;
  for (Definition& d : p.definitions) {
    std::unordered_map<Expr, Expr> known;
    const std::function<Expr(Expr)> made = [&](Expr e) -> Expr {
      if (e.args().empty()) return e;
      if (auto it = known.find(e); it != known.end()) return it->second;
      std::vector<Expr> args;
      for (Expr a : e.args()) args.push_back(made(a));
      Expr out = with_args(e, args);
      if (!is_boolean(e) && found.holds(e)) out = whole(out, real);
      if (auto at = spans.find(e); out != e && at != spans.end()) p.spans.emplace(out, at->second);
      return known[e] = out;
    };
    const Expr before = d.value;
    d.value = made(d.value);
    if (found.holds(d.sym)) d.value = whole(d.value, real);
    if (auto at = spans.find(before); d.value != before && at != spans.end())
      p.spans.emplace(d.value, at->second);
  }
  return p;
}

}  // namespace tilewright
