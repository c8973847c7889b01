#include "tilewright/plan/partition.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/expr/simplify.h"
#include "tilewright/plan/axes.h"
#include "tilewright/plan/partitioner.h"

namespace tilewright {

std::vector<Sym> StoredArray::axes() const {
  std::vector<Sym> all;
  for (const Dim& d : dims) all.insert(all.end(), d.pieces.begin(), d.pieces.end());
  return all;
}

std::string Part::name() const {
  std::vector<std::string> names;
  for (Sym s : stores) names.push_back(s.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Sym> holding_reductions(const Program& p, const std::set<Sym>& stored) {
  std::vector<Sym> holding;
  for (const Definition& d : p.definitions) {
    bool holds = false;
    std::set<Expr> seen;
    parts::each_node(d.value, seen, [&](Expr e) {
      holds =
          holds || e.is(Op::Reduce) || (e.is(Op::Read) && contains(holding, e->sym) && !stored.count(e->sym));
    });
    if (holds) holding.push_back(d.sym);
  }
  return holding;
}

namespace parts {
namespace {

/// Reductions of an expression that lie in no other, in the order in which they are written.
std::vector<Expr> outermost(Expr value) {
  std::vector<Expr> found;
  std::set<Expr> seen;
  std::function<void(Expr)> find = [&](Expr e) {
    if (!seen.insert(e).second) return;
    if (e.is(Op::Reduce)) {
      found.push_back(e);
      return;
    }
    for (Expr a : e.args()) find(a);
  };
  find(value);
  return found;
}

bool holds_axis(const std::vector<Sym>& axes, Sym s) {
  return std::any_of(axes.begin(), axes.end(), [&](Sym a) { return a.size() == s.size(); });
}

}  // namespace

Partitioner::Partitioner(const Program& p, Shared& shared)
    : p_(p), shared_(&shared), stored_(shared.forced.store.begin(), shared.forced.store.end()) {
  for (const Output& o : p_.outputs) outputs_.insert(o.sym);
  // What no output needs is not computed, and what nothing else reads is not stored.
  const std::vector<Sym> needed = definitions_of(p_, {outputs_.begin(), outputs_.end()}, {});
  std::set<Sym> read;
  for (Sym s : needed)
    for (Sym t : tensors_read(p_.definition(s)->value)) read.insert(t);
  std::erase_if(stored_, [&](Sym s) { return !read.count(s); });
}

void Partitioner::cut_by_rule() {
  while (true) {
    apply_rule();
    bool accepted = true;
    for (Sym s : sinks()) {
      const std::optional<UserError> refusal = attempt(stored_, {s}).refusal;
      if (!refusal) continue;
      if (!cut(s)) throw UserError(*refusal);
      accepted = false;
      break;
    }
    if (accepted) break;
  }
}

// ---- what is computed and stored ----

/// Outputs and stored definitions that outputs need, in the order of the program. Others are forgotten: naming reductions apart can leave some unread.
std::vector<Sym> Partitioner::sinks() {
  const std::vector<Sym> needed = definitions_of(p_, {outputs_.begin(), outputs_.end()}, {});
  std::erase_if(stored_, [&](Sym s) { return !contains(needed, s); });
  std::vector<Sym> all;
  for (const Input& in : p_.inputs)
    if (outputs_.count(in.sym)) all.push_back(in.sym);
  for (const Definition& d : p_.definitions)
    if (outputs_.count(d.sym) || stored_.count(d.sym)) all.push_back(d.sym);
  return all;
}

bool Partitioner::is_fused_by_force(Sym s) const { return contains(shared_->forced.fuse, s); }
bool Partitioner::is_stored_by_force(Sym s) const { return contains(shared_->forced.store, s); }

std::vector<Sym> Partitioner::computed(const std::vector<Sym>& sinks) const {
  return definitions_of(p_, sinks, stored_);
}

Program Partitioner::part(const std::set<Sym>& stored, const std::vector<Sym>& sinks) {
  for (Sym s : stored)
    if (!shared_->arrays.count(s)) shared_->arrays.emplace(s, array_of(p_, s));
  return with_joined_axes(program_of(p_, sinks, stored, shared_->arrays), shared_->joined);
}

const Attempt& Partitioner::attempt(const std::set<Sym>& stored, const std::vector<Sym>& sinks) {
  std::vector<std::pair<Sym, Expr>> key;
  for (Sym s : sinks) key.emplace_back(s, Expr());
  for (Sym s : definitions_of(p_, sinks, stored)) {
    key.emplace_back(s, p_.definition(s)->value);
    key.emplace_back(stored.count(s) ? s : Sym(), Expr());
  }
  const auto known = shared_->attempts.find(key);
  if (known != shared_->attempts.end()) return known->second;
  return shared_->attempts.emplace(key, shared_->attempting(part(stored, sinks))).first->second;
}

// ---- rule 1: what fusing would compute again ----

void Partitioner::apply_rule() {
  for (bool again = true; again;) {
    again = false;
    for (Sym s : sinks()) {
      const Definition* d = p_.definition(s);
      if (d == nullptr) continue;
      sink_ = s;
      visited_.clear();
      again = visit(d->value, s, {});
      if (again) break;
    }
  }
}

/// True as soon as something is stored, for definitions may have changed then. `home`: the definition that `e` was written in; `around`: axes of the reductions around.
bool Partitioner::visit(Expr e, Sym home, const std::vector<Sym>& around) {
  if (e.args().empty() && !e.is(Op::Read)) return false;
  if (!visited_.emplace(e, home, around).second) return false;
  if (e.is(Op::Reduce)) {
    if (!around.empty() && !is_fused_by_force(home) && computed_again(e, around)) {
      if (home != sink_) {
        if (!name_smaller(home, around)) store(home);
        return true;
      }
      if (name_apart(home, {e})) return true;
    }
    std::vector<Sym> inside = around;
    for (Sym s : e->bound)
      if (!contains(inside, s)) inside.push_back(s);
    if (visit(e.arg(0), home, inside)) return true;
    return std::any_of(e.args().begin() + 1, e.args().end(), [&](Expr a) { return visit(a, home, around); });
  }
  for (Expr a : e.args())
    if (visit(a, home, around)) return true;
  if (e.is(Op::Read) && !stored_.count(e->sym))
    if (const Definition* d = p_.definition(e->sym)) {
      Substitution s;
      for (size_t k = 0; k < d->axes.size(); ++k)
        if (e.arg(k) != Expr(d->axes[k])) s.emplace_back(d->axes[k], e.arg(k));
      return visit(s.empty() ? d->value : substitute(d->value, s), d->sym, around);
    }
  return false;
}

bool Partitioner::whole(Sym s) const {
  const Axis& a = p_.axis(s);
  return a.baked() && a.size.rational()->num() <= whole_limit;
}

/// The reduction `e` under reductions over `around`, in the kernel of sink_.
bool Partitioner::computed_again(Expr e, const std::vector<Sym>& around) const {
  std::vector<Sym> varies;
  for (Sym s : free_symbols(e))
    if (s.kind() == SymbolKind::Index) varies.push_back(s);
  const auto is_around = [&](Sym s) { return holds_axis(around, s); };
  if (std::any_of(e->bound.begin(), e->bound.end(), is_around) &&
      std::none_of(varies.begin(), varies.end(), is_around))
    return false;  // of the same cascade
  std::vector<Sym> axes = p_.definition(sink_)->axes;
  axes.insert(axes.end(), around.begin(), around.end());
  return std::any_of(axes.begin(), axes.end(), [&](Sym s) { return !holds_axis(varies, s) && !whole(s); });
}

/// Stores the reductions of a definition that have fewer axes than it has in its place, unless the others are computed again too.
bool Partitioner::name_smaller(Sym home, const std::vector<Sym>& around) {
  const Definition& d = *p_.definition(home);
  std::vector<Expr> smaller;
  for (Expr e : outermost(d.value)) {
    const std::vector<Sym> free = free_symbols(e);
    const auto axes =
        std::count_if(free.begin(), free.end(), [](Sym s) { return s.kind() == SymbolKind::Index; });
    if (axes < static_cast<std::ptrdiff_t>(d.axes.size()))
      smaller.push_back(e);
    else if (computed_again(e, around))
      return false;
  }
  return name_apart(home, smaller);
}

/// Gives reductions inside of a statement names of their own and stores them; false where that cannot be done.
bool Partitioner::name_apart(Sym home, const std::vector<Expr>& reductions) {
  bool any = false;
  for (Expr e : reductions) {
    std::vector<Sym> axes;
    bool plain = true;
    for (Sym s : free_symbols(e)) {
      if (s.kind() != SymbolKind::Index) continue;
      const bool declared =
          std::any_of(p_.axes.begin(), p_.axes.end(), [&](const Axis& a) { return a.index == s; });
      plain = plain && declared;
      if (declared) axes.push_back(s);
    }
    if (!plain) continue;
    std::sort(axes.begin(), axes.end(), [&](Sym a, Sym b) { return place(a) < place(b); });
    if (reuse(home, e, axes)) {
      changed_.insert(home);
      any = true;
      continue;
    }
    SymbolInfo info;
    info.kind = SymbolKind::Tensor;
    info.name = unique_name(home.name() + "_1", names_of(p_));
    info.integer = is_integer(e);
    const Sym sym = Sym::fresh(info);
    const auto at = std::find_if(p_.definitions.begin(), p_.definitions.end(),
                                 [&](const Definition& d) { return d.sym == home; });
    const Expr name = read(sym, std::vector<Expr>(axes.begin(), axes.end()));
    at->value = rewrite(at->value, [&](Expr x) { return x == e ? name : x; });
    changed_.insert(home);
    const Span span = p_.span_of(e);
    const bool rounds = e.is(Op::Cast);
    p_.definitions.insert(at, Definition{sym, axes, rounds ? std::optional(e->dtype) : std::nullopt,
                                         rounds ? e.arg(0) : e, span ? span : at->span});
    store(sym);
    named_.emplace(simplify(e), sym);
    any = true;
  }
  return any;
}

/// Reads the name that an equal reduction got before. What it reads stands before `home` too, so it can be moved there.
bool Partitioner::reuse(Sym home, Expr e, const std::vector<Sym>& axes) {
  const auto known = named_.find(simplify(e));
  if (known == named_.end() || !stored_.count(known->second)) return false;
  const auto at = [&](Sym s) {
    return std::find_if(p_.definitions.begin(), p_.definitions.end(),
                        [&](const Definition& d) { return d.sym == s; });
  };
  if (at(known->second)->axes != axes) return false;
  if (at(home) < at(known->second)) std::rotate(at(home), at(known->second), at(known->second) + 1);
  const Expr name = read(known->second, std::vector<Expr>(axes.begin(), axes.end()));
  at(home)->value = rewrite(at(home)->value, [&](Expr x) { return x == e ? name : x; });
  return true;
}

size_t Partitioner::place(Sym axis) const {
  for (size_t k = 0; k < p_.axes.size(); ++k)
    if (p_.axes[k].index == axis) return k;
  return p_.axes.size();
}

// ---- rule 2: a kernel that is refused ----

bool Partitioner::cut(Sym sink) {
  const std::vector<Sym> holding = holding_reductions(p_, stored_);
  const auto free_axes = [&](Sym s) {
    const std::vector<Sym>& axes = p_.definition(s)->axes;
    return std::count_if(axes.begin(), axes.end(), [&](Sym a) { return !p_.axis(a).baked(); });
  };
  std::vector<Sym> candidates;
  for (Sym s : definitions_of(p_, {sink}, stored_))
    if (s != sink && !is_fused_by_force(s)) candidates.insert(candidates.begin(), s);
  std::stable_sort(candidates.begin(), candidates.end(), [&](Sym a, Sym b) {
    return std::pair(free_axes(a), !contains(holding, a)) < std::pair(free_axes(b), !contains(holding, b));
  });
  std::set<Sym> smaller;
  for (Sym s : candidates) {
    smaller.insert(s);
    for (const std::set<Sym>& more : {std::set<Sym>{s}, smaller}) {
      if (!helps(sink, more, holding)) continue;
      for (Sym t : without_needless(sink, more, holding)) store(t);
      return true;
    }
  }
  bool any = false;
  for (Sym s : direct(sink, holding))
    if (contains(candidates, s)) {
      store(s);
      any = true;
    }
  return any || name_terms(sink);
}

/// Is the kernel of `sink` accepted when `more` are stored? So must be the kernels of those that hold no reduction: they cannot be cut.
bool Partitioner::helps(Sym sink, const std::set<Sym>& more, const std::vector<Sym>& holding) {
  std::set<Sym> with = stored_;
  with.insert(more.begin(), more.end());
  if (attempt(with, {sink}).refusal) return false;
  return std::all_of(more.begin(), more.end(),
                     [&](Sym s) { return contains(holding, s) || !attempt(with, {s}).refusal; });
}

std::set<Sym> Partitioner::without_needless(Sym sink, std::set<Sym> more, const std::vector<Sym>& holding) {
  for (Sym s : std::vector<Sym>(more.begin(), more.end())) {
    if (more.size() == 1) break;
    more.erase(s);
    if (!helps(sink, more, holding)) more.insert(s);
  }
  return more;
}

/// Definitions that hold reductions and that `sink` reads, itself or through others that hold none.
std::vector<Sym> Partitioner::direct(Sym sink, const std::vector<Sym>& holding) const {
  std::vector<Sym> found, queue = {sink};
  for (size_t k = 0; k < queue.size(); ++k) {
    const Definition* d = p_.definition(queue[k]);
    if (d == nullptr) continue;
    for (Sym s : tensors_read(d->value)) {
      if (stored_.count(s) || contains(queue, s)) continue;
      if (contains(holding, s) ? !contains(found, s) : true)
        (contains(holding, s) ? found : queue).push_back(s);
    }
  }
  return found;
}

/// A statement that combines several reductions keeps the first, and the others get names; one that reduces over several axes reduces over one and then over the
/// others; one that computes with the only reduction that is left reads it.
bool Partitioner::name_terms(Sym sink) {
  const Definition* d = p_.definition(sink);
  if (d == nullptr || is_fused_by_force(sink)) return false;
  std::vector<Expr> terms = outermost(d->value);
  if (terms.size() > 1) return name_apart(sink, {terms.begin() + 1, terms.end()});
  if (terms.empty()) return false;
  const std::vector<Expr> nested = outermost(terms[0].arg(0));
  if (!nested.empty() && name_apart(sink, nested)) return true;
  return split(sink, terms[0]) || (terms[0] != d->value && !d->axes.empty() && name_apart(sink, terms));
}

/// reduce[a, b](x) = reduce[a](reduce[b](x)), the inner one under a name; literal axes stay inside.
bool Partitioner::split(Sym sink, Expr e) {
  std::vector<Sym> outer, inner;
  for (Sym s : e->bound) (p_.axis(s).baked() ? inner : outer).push_back(s);
  if (outer.size() < 2 || e->reducer == Reducer::Argmax || e->reducer == Reducer::Argmin) return false;
  inner.push_back(outer.back());
  outer.pop_back();
  const Expr part = reduce(e->reducer, inner, e.arg(0));
  const auto at = std::find_if(p_.definitions.begin(), p_.definitions.end(),
                               [&](const Definition& d) { return d.sym == sink; });
  at->value = rewrite(at->value, [&](Expr x) { return x == e ? reduce(e->reducer, outer, part) : x; });
  if (const Span span = p_.span_of(e)) p_.spans.emplace(part, span);
  return name_apart(sink, {part});
}

}  // namespace parts

Partition partition(const Program& elaborated, const Forced& forced, const Attempting& attempt, Start start,
                    bool sixteen_bits, const std::optional<std::vector<Sym>>& cut) {
  parts::Shared shared{forced, attempt, sixteen_bits, {}, {}, {}};
  parts::Partitioner p(elaborated, shared);
  if (start == Start::Rules) {
    p.cut_by_rule();
    std::vector<parts::Group> groups = p.grouped();
    return parts::choose(std::move(p), std::move(groups), shared);
  }
  std::vector<parts::Group> all{{p.sinks(), {}, 0, cut}};
  return parts::choose(std::move(p), std::move(all), shared);
}

}  // namespace tilewright
