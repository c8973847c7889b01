#include "tilewright/derive/cascade.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "tilewright/derive/expressions.h"
#include "tilewright/derive/normal_form.h"
#include "tilewright/program/compared.h"
#include "tilewright/program/conditions.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {

Expr replace_reads(Expr e, const std::function<const Named*(Sym)>& value) {
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Read)) return x;
    const Named* named = value(x->sym);
    if (!named) return x;
    Substitution s;
    for (size_t k = 0; k < named->axes.size(); ++k)
      if (x.arg(k) != Expr(named->axes[k])) s.emplace_back(named->axes[k], x.arg(k));
    return substitute(named->value, s);
  });
}

std::vector<Sym> axes_of(const Program& p, Sym streamed, const std::vector<Expr>& parts) {
  std::vector<Sym> out;
  for (Expr e : parts)
    for (Sym s : free_symbols(e))
      if (s.kind() == SymbolKind::Index && s != streamed && std::find(out.begin(), out.end(), s) == out.end())
        out.push_back(s);
  auto place = [&](Sym s) {
    for (size_t k = 0; k < p.axes.size(); ++k)
      if (p.axes[k].index == s) return k;
    return p.axes.size();
  };
  std::stable_sort(out.begin(), out.end(), [&](Sym a, Sym b) { return place(a) < place(b); });
  return out;
}

Expr read_own(Sym sym, const std::vector<Sym>& axes) {
  return read(sym, std::vector<Expr>(axes.begin(), axes.end()));
}

std::vector<std::string> names_of(const Program& p) {
  std::vector<std::string> out;
  for (const Axis& a : p.axes) out.push_back(a.name());
  for (const Param& q : p.params) out.push_back(q.sym.name());
  for (const Input& i : p.inputs) out.push_back(i.sym.name());
  for (const Definition& d : p.definitions) out.push_back(d.sym.name());
  return out;
}

std::string unique_name(std::string wish, std::vector<std::string>& taken) {
  std::string name = wish;
  for (int k = 2; std::find(taken.begin(), taken.end(), name) != taken.end(); ++k)
    name = fmt::format("{}_{}", wish, k);
  taken.push_back(name);
  return name;
}

namespace {

class Builder {
 public:
  Builder(const Program& p, Sym axis)
      : program_(p), axis_(axis), real_(real_dtype(p)), kept_(axis, bools(p)), names_(names_of(p)) {
    cascade_.axis = axis;
  }

  Seen run() {
    bool used = false;
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const Output& o = program_.outputs[k];
      CascadeOutput out;
      out.output = k;
      out.value = with_decided_guards(simplify(bounded(kept_(visit(value_of(o.sym))), o.span)));
      out.along_stream = depends_on(out.value, axis_) || contains(o.axes(), axis_);
      used = used || out.along_stream;
      cascade_.outputs.push_back(out);
    }
    if (cascade_.reductions.empty() && !used && !reduced_) {
      throw UserError(program_.outputs.empty() ? Span{} : program_.outputs[0].span,
                      fmt::format("no output of the program depends on the axis `{}`", axis_.name()),
                      "stream an axis that is reduced");
    }
    Seen seen{std::move(cascade_), {}};
    for (auto& [written, span] : program_.spans)
      if (written.is(Op::Read))
        continue;  // what a name stands for was written elsewhere
      else if (auto it = memo_.find(written.get()); it != memo_.end())
        seen.written.emplace_back(it->second, span);
    for (auto& [rounded, span] : rounded_) seen.written.emplace_back(rounded, span);
    return seen;
  }

 private:
  /// A bool counts as 0 or 1.
  static Ranges bools(const Program& p) {
    Ranges ranges;
    for (const Input& in : p.inputs)
      if (in.dtype == DType::boolean) ranges[in.sym] = {0, 1};
    for (const Definition& d : p.definitions)
      if (d.sym.info().integer && d.sym.info().nonnegative) ranges[d.sym] = {0, 1};
    return ranges;
  }

  /// Shared subexpressions are written out in a kernel, so that a value defined in n steps may take 2^n operations.
  static Expr bounded(Expr e, const Span& where) {
    constexpr size_t most = 4000;
    std::unordered_map<const Node*, size_t> known;
    // Operations of `x` written out, 0 for a number; no more than needed to see that they are too many.
    std::function<size_t(Expr)> count = [&](Expr x) -> size_t {
      if (x.args().empty()) return x.number() ? 0 : 1;
      if (auto it = known.find(x.get()); it != known.end()) return it->second;
      size_t n = x.is(Op::Read) ? 1 : 0;
      for (Expr a : x.args()) n = std::min(most, n + count(a));
      if (n > 0) ++n;
      known.emplace(x.get(), n);
      return n;
    };
    if (count(e) <= most) return e;
    throw UserError(
        where,
        fmt::format("this value takes more than {} operations once its definitions are written out", most),
        "compute a part of it in a program of its own and read it as an input");
  }

  static bool contains(const std::vector<Sym>& list, Sym s) {
    return std::find(list.begin(), list.end(), s) != list.end();
  }

  Expr value_of(Sym tensor) {
    const Definition* d = program_.definition(tensor);
    return d ? collected(*d).value : read_own(tensor, program_.tensor_axes(tensor));
  }

  /// The value of a definition at its own axes, over results.
  const Named& collected(const Definition& d) {
    auto known = collected_.find(d.sym);
    if (known != collected_.end()) return known->second;
    const Definition* outer = std::exchange(home_, &d);
    Expr value = kept_(visit(d.value));
    home_ = outer;
    return collected_.emplace(d.sym, Named{d.axes, value}).first->second;
  }

  /// As deep as expressions are written: what nests less has frames of its own.
  Expr visit(Expr e) {
    if (e.args().empty() && !e.is(Op::Read)) return e;
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second;
    Expr out = e.is(Op::Reduce)                    ? visit_reduction(e)
               : e.is(Op::Read)                    ? visit_read(e)
               : is_kept(e) && real_ != DType::f64 ? visit(e.arg(0))  // written so: it rounds nothing
                                                   : with_args(e, visited(e));
    memo_.emplace(e.get(), out);
    return out;
  }

  std::vector<Expr> visited(Expr e) {
    std::vector<Expr> args;
    for (Expr a : e.args()) args.push_back(visit(a));
    return args;
  }

  /// Definitions are looked through. One that rounds stays a read, unless its value holds results.
  [[gnu::noinline]] Expr visit_read(Expr e) {
    Expr r = with_args(e, visited(e));
    const Definition* d = program_.definition(r->sym);
    if (!d) return r;
    Named named = collected(*d);
    std::vector<Sym> of_results = axes_of_results(named.value);
    if (d->dtype) {
      if (!holds_results(named.value)) return r;
      named.value = cast(*d->dtype, named.value);
      rounded_.emplace_back(named.value, d->span);
    }
    for (size_t k = 0; k < d->axes.size(); ++k) {
      const bool varies = contains(of_results, d->axes[k]) && depends_on(r.arg(k), axis_);
      const bool picks = r.arg(k) != Expr(d->axes[k]) && is_rank_in(named.value, d->axes[k]);
      if (!varies && !picks) continue;
      // Its results would vary along the stream: they are inner reductions of a copy of the axis. One element of a list is found by itself.
      Substitution s;
      for (size_t n = 0; n < d->axes.size(); ++n)
        if (r.arg(n) != Expr(d->axes[n])) s.emplace_back(d->axes[n], r.arg(n));
      Expr copy = visit(substitute(d->value, s));
      return d->dtype ? cast(*d->dtype, copy) : copy;
    }
    return replace_reads(r, [&](Sym s) { return s == d->sym ? &named : nullptr; });
  }

  static bool holds_results(Expr e) {
    for (Sym s : tensors_read(e))
      if (s.kind() == SymbolKind::Tile) return true;
    return false;
  }

  /// Is the axis that of a list which `e` reads?
  bool is_rank_in(Expr e, Sym axis) const {
    const std::vector<Sym> read = tensors_read(e);
    return std::any_of(cascade_.reductions.begin(), cascade_.reductions.end(),
                       [&](const Reduction& k) { return k.rank == axis && contains(read, k.result); });
  }

  static std::vector<Sym> axes_of_results(Expr e) {
    std::vector<Sym> out;
    rewrite(e, [&](Expr x) {
      if (x.is(Op::Read) && x->sym.kind() == SymbolKind::Tile)
        for (Sym s : free_symbols(x)) out.push_back(s);
      return x;
    });
    return out;
  }

  [[gnu::noinline]] Expr visit_reduction(Expr e) {
    std::vector<Sym> bound = e->bound;
    Expr body = e.arg(0);
    if (!contains(bound, axis_) && !depends_on(body, axis_)) {
      // A copy of the streamed axis made to avoid capture, where nothing needs the copy.
      for (Sym& b : bound) {
        if (b.size() != axis_.size()) continue;
        body = substitute(body, {{b, axis_}});
        b = axis_;
        break;
      }
    }
    if (has_rank(e->reducer)) {
      const Expr moved = ranked(e->reducer, bound[0], body, e.arg(1));
      return is_carried(moved) ? visit_ranked(moved, e) : visit(counted(moved, real_));
    }
    body = visit(body);
    if (contains(bound, axis_)) body = kept_(body);
    if (!contains(bound, axis_)) return reduce(e->reducer, bound, body);
    reduced_ = true;
    std::erase(bound, axis_);
    if (e->reducer == Reducer::Argmax || e->reducer == Reducer::Argmin) return visit_arg(e, body);
    bounded(body, program_.span_of(e));
    return reduction(e->reducer, simplify(bound.empty() ? body : reduce(e->reducer, bound, body)), e);
  }

  /// The reduction of `body` over the streamed axis, written as `written`, as a read of its result.
  Expr reduction(Reducer r, Expr body, Expr written, bool names_definition = true) {
    Expr none = identity(r), present = truth();
    body = with_outer_choice(with_decided_guards(body), none);
    if (body.is(Op::Select)) {
      if (body.arg(2) == none) {
        present = body.arg(0);
        body = body.arg(1);
      } else if (body.arg(1) == none) {
        present = negation(body.arg(0));
        body = body.arg(2);
      }
    }
    if (r == Reducer::Sum && is_true(present) && !depends_on(body, axis_))
      return simplify(Expr(axis_.size()) * body);
    for (const Reduction& k : cascade_.reductions)
      if (k.reducer == r && k.body == body && k.present == present) return read_own(k.result, k.axes);
    return added(r, body, present, {}, written, names_definition);
  }

  Expr added(Reducer r, Expr body, Expr present, Sym rank, Expr written, bool names_definition) {
    constexpr size_t most = 256;
    if (cascade_.reductions.size() == most)
      throw UserError(program_.span_of(written),
                      fmt::format("more than {} reductions over `{}` in one program", most, axis_.name()),
                      "write several programs");
    Reduction k;
    k.reducer = r;
    k.rank = rank;
    k.body = body;
    k.present = present;
    k.span = program_.span_of(written);
    std::vector<Expr> parts{body, present};
    if (rank) parts.push_back(rank);
    k.axes = axes_of(program_, axis_, parts);
    k.result = Sym::fresh({.name = unique_name(wish(r, body, names_definition ? written : Expr()), names_),
                           .kind = SymbolKind::Tile,
                           .integer = r == Reducer::Argtopk});
    cascade_.reductions.push_back(k);
    return read_own(k.result, k.axes);
  }

  /// Can a state hold the list of which a ranked reduction is an element? Its length is a literal, and the rank that is asked for an index of it.
  bool is_carried(Expr e) const {
    const Expr rank = e.arg(1);
    if (e->bound[0] != axis_) return false;
    if (!rank.is(Op::Symbol) || rank->sym.kind() != SymbolKind::Index || rank->sym == axis_) return false;
    return ranks(rank->sym) > 0 && ranks(rank->sym) <= most_ranks && !depends_on(e.arg(0), rank->sym);
  }
  /// Literal size of an axis of the program, 0 where it has none.
  int64_t ranks(Sym index) const {
    for (const Axis& a : program_.axes)
      if (a.index == index && a.baked() && a.size.rational()->is_integer()) return a.size.rational()->num();
    return 0;
  }

  /// An element of the sorted list of what is present.
  [[gnu::noinline]] Expr visit_ranked(Expr e, Expr written) {
    const RankedBody raw = ranked_body(e);
    const Sym rank = e.arg(1)->sym;
    const Expr present = raw.present ? with_decided_guards(simplify(visit(raw.present))) : truth();
    Expr value = with_decided_guards(simplify(kept_(visit(raw.value))));
    if (!is_true(present)) value = simplify(assume(value, present));
    bounded(value, program_.span_of(written));
    if (is_false(present)) return identity(e->reducer);
    for (const Reduction& k : cascade_.reductions)
      if (k.reducer == e->reducer && k.rank == rank && k.body == value && k.present == present)
        return read_own(k.result, k.axes);
    return added(e->reducer, value, present, rank, written, true);
  }

  /// k·where(c, x, none) = where(c, k·x, none) for k > 0 where `none` is infinite, for numbers k where it is 0.
  static Expr with_outer_choice(Expr body, Expr none) {
    if (!body.is(Op::Mul)) return body;
    std::vector<Expr> rest = body.args();
    auto choice = std::find_if(rest.begin(), rest.end(), [](Expr f) { return f.is(Op::Select); });
    if (choice == rest.end()) return body;
    const Expr where = *choice;
    rest.erase(choice);
    bool infinite = none.is(Op::Real);
    for (Expr k : rest)
      if (infinite ? !provably_positive(k) : !(none.is_constant(0) && k.number())) return body;
    for (size_t branch : {1, 2}) {
      if (where.arg(3 - branch) != none) continue;
      rest.push_back(where.arg(branch));
      Expr inside = simplify(make(Op::Mul, rest));
      return branch == 1 ? make(Op::Select, {where.arg(0), inside, none})
                         : make(Op::Select, {where.arg(0), none, inside});
    }
    return body;
  }

  /// argmax(u) is the smallest index at which u equals its maximum; held as index + 1, so that the identity inf can be scaled.
  Expr visit_arg(Expr e, Expr body) {
    body = simplify(body);
    Reducer best = e->reducer == Reducer::Argmax ? Reducer::Max : Reducer::Min;
    Expr value = reduction(best, body, e, false);
    const Reduction& k =
        *std::find_if(cascade_.reductions.begin(), cascade_.reductions.end(),
                      [&](const Reduction& x) { return read_own(x.result, x.axes) == value; });
    Expr nan = logical_not(less_equal(k.body, Expr::infinity()));  // NaN is the best of all
    Expr first = logical_and(k.present, logical_or(equal(k.body, value), nan));
    Expr at = simplify(select(first, Expr(axis_) + 1, Expr::infinity()));
    Expr index = reduction(Reducer::Min, at, e);
    return select(equal(index, Expr::infinity()), -1, index - 1);
  }

  /// Named after the definition that it is the value of, else by what it does.
  std::string wish(Reducer r, Expr body, Expr written) {
    Expr value = home_ ? home_->value : Expr();
    while (value && value.is(Op::Select)) value = value.arg(value.arg(1).number() ? 2 : 1);
    if (value == written) {
      const std::string& own = home_->sym.name();
      std::string name = own;
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return char(std::tolower(c)); });
      if (std::find(names_.begin(), names_.end(), name) != names_.end()) name = own;
      std::erase(names_, name);  // the result is that definition
      return name;
    }
    switch (r) {
      case Reducer::Max: return "m";
      case Reducer::Min: return "lo";
      case Reducer::Sum:
        if (body.is(Op::Exp) || (body.is(Op::Select) && body.arg(1).is(Op::Exp))) return "l";
        return "s";
      case Reducer::Topk: return "top";
      case Reducer::Argtopk: return "at";
      default: return "r";
    }
  }

  const Program& program_;
  Sym axis_;
  DType real_;
  KeptSums kept_;
  Cascade cascade_;
  std::unordered_map<const Node*, Expr> memo_;
  std::map<Sym, Named> collected_;
  std::vector<std::pair<Expr, Span>> rounded_;
  const Definition* home_ = nullptr;
  std::vector<std::string> names_;
  bool reduced_ = false;  ///< the program reduces over the axis, if only to its length
};

/// Longest chain of dependent reductions over each axis.
class Chains {
 public:
  explicit Chains(const Program& p) : program_(p) {}

  size_t length(Expr e, Sym axis) {
    if (e.args().empty() && !e.is(Op::Read)) return 0;
    auto [it, fresh] = memo_.try_emplace({e.get(), axis}, 0);
    if (!fresh) return it->second;
    size_t n = 0;
    for (Expr a : e.args()) n = std::max(n, length(a, axis));
    if (e.is(Op::Read))
      if (program_.definition(e->sym)) n = std::max(n, length(inlined(program_, e->sym), axis));
    if (e.is(Op::Reduce))
      for (Sym b : e->bound) n += b.size() == axis.size();
    memo_[{e.get(), axis}] = n;
    return n;
  }

 private:
  const Program& program_;
  std::map<std::pair<const Node*, Sym>, size_t> memo_;
};

}  // namespace

Seen build_cascade(const Program& elaborated, Sym axis) { return Builder(elaborated, axis).run(); }

}  // namespace tilewright::derivation

namespace tilewright {

std::vector<Sym> stream_candidates(const Program& p) {
  derivation::Chains chains(p);
  std::vector<std::pair<size_t, Sym>> found;
  for (const Axis& a : p.axes) {
    size_t longest = 0;
    for (const Output& o : p.outputs)
      if (p.definition(o.sym)) longest = std::max(longest, chains.length(inlined(p, o.sym), a.index));
    if (longest > 0) found.emplace_back(longest, a.index);
  }
  std::stable_sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first > b.first; });
  std::vector<Sym> out;
  for (auto& [n, axis] : found) out.push_back(axis);
  return out;
}

}  // namespace tilewright
