// Pieces of composite dimensions that are used only together, as one axis (plan/partition.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/plan/axes.h"
#include "tilewright/plan/part.h"

namespace tilewright {

namespace {

/// Joins one pair of axes, where that can be done.
class Joiner {
 public:
  Joiner(const Program& p, Sym outer, Sym inner) : p_(p), outer_(outer), inner_(inner) {}

  bool possible() const {
    for (const Input& in : p_.inputs)
      if (!neighbours(in.dims)) return false;
    for (const Output& o : p_.outputs)
      if (!neighbours(o.dims)) return false;
    for (const Definition& d : p_.definitions)
      if (!together(d.axes) || !joinable(d.value)) return false;
    return true;
  }

  Program run(JoinedAxes& known) const {
    Program q = p_;
    const auto length = [&](Sym s) {
      const Axis& a = p_.axis(s);
      return a.baked() ? a.size : Expr(s.size());
    };
    const auto made = known.find({outer_, inner_});
    const Axis joined = made != known.end()
                            ? made->second
                            : joining(parts::unique_name(outer_.name() + inner_.name(), parts::names_of(p_)),
                                      simplify(length(outer_) * length(inner_)));
    known.emplace(std::pair(outer_, inner_), joined);
    q.axes.push_back(joined);
    for (Input& in : q.inputs) join(in.dims, joined.index);
    for (Output& o : q.outputs) join(o.dims, joined.index);
    for (Definition& d : q.definitions) {
      join(d.axes, joined.index);
      d.value = rewrite(d.value, [&](Expr e) {
        if (e.is(Op::Read)) {
          std::vector<Expr> args = e.args();
          const auto at = std::find(args.begin(), args.end(), Expr(outer_));
          if (at == args.end()) return e;
          *at = Expr(joined.index);
          args.erase(at + 1);
          return read(e->sym, args);
        }
        if (e.is(Op::Reduce) && contains(e->bound, outer_)) {
          std::vector<Sym> bound = e->bound;
          std::erase(bound, inner_);
          std::replace(bound.begin(), bound.end(), outer_, joined.index);
          Node n = *e;
          n.bound = bound;
          return make(n);
        }
        return e;
      });
    }
    return q;
  }

 private:
  Axis joining(const std::string& name, Expr size) const {
    std::vector<std::string> names;
    for (Sym s : {outer_, inner_}) {
      const Axis& piece = p_.axis(s);
      if (piece.joined.empty()) names.push_back(piece.name());
      names.insert(names.end(), piece.joined.begin(), piece.joined.end());
    }
    Axis a = parts::new_axis(name, size, p_.axis(outer_).span, fmt::format("({})", fmt::join(names, " ")));
    a.joined = names;
    return a;
  }

  /// Neither occurs in the list, or both do, side by side.
  bool together(const std::vector<Sym>& axes) const {
    const auto at = std::find(axes.begin(), axes.end(), outer_);
    if (at == axes.end()) return !contains(axes, inner_);
    return at + 1 != axes.end() && at[1] == inner_;
  }

  bool neighbours(const std::vector<Dim>& dims) const {
    return std::all_of(dims.begin(), dims.end(), [&](const Dim& d) { return together(d.pieces); });
  }

  bool ours(Expr e) const {
    return e.is(Op::Symbol) && (e->sym.kind() == SymbolKind::Index || e->sym.kind() == SymbolKind::Size) &&
           (e->sym == outer_.size() || e->sym == inner_.size() ||
            (e->sym.kind() == SymbolKind::Index &&
             (e->sym.size() == outer_.size() || e->sym.size() == inner_.size())));
  }

  /// The two occur as neighbours in reads and together in reductions alone.
  bool joinable(Expr e) const {
    if (ours(e)) return false;
    if (e.is(Op::Reduce)) {
      for (Sym s : e->bound)
        if (s != outer_ && s != inner_ && (s.size() == outer_.size() || s.size() == inner_.size()))
          return false;
      if (contains(e->bound, outer_) != contains(e->bound, inner_)) return false;
      if (contains(e->bound, outer_) && !splits(e->reducer)) return false;
    }
    const std::vector<Expr>& args = e.args();
    for (size_t k = 0; k < args.size(); ++k) {
      const bool pair = e.is(Op::Read) && k + 1 < args.size() && args[k] == Expr(outer_) &&
                        args[k + 1] == Expr(inner_) && side_by_side(e->sym, k);
      if (pair)
        ++k;
      else if (!known(args[k]) && !joinable(args[k]))
        return false;
    }
    return true;
  }

  static bool splits(Reducer r) { return r != Reducer::Argmax && r != Reducer::Argmin; }

  bool known(Expr e) const { return !seen_.insert(e).second && !ours(e); }

  /// Are the two the axes of the tensor at these places? Then the read takes its elements pair by pair.
  bool side_by_side(Sym tensor, size_t at) const {
    const std::vector<Sym> axes = p_.tensor_axes(tensor);
    return axes[at] == outer_ && axes[at + 1] == inner_;
  }

  void join(std::vector<Sym>& axes, Sym joined) const {
    const auto at = std::find(axes.begin(), axes.end(), outer_);
    if (at == axes.end()) return;
    *at = joined;
    axes.erase(at + 1);
  }

  void join(std::vector<Dim>& dims, Sym joined) const {
    for (Dim& d : dims) join(d.pieces, joined);
  }

  const Program& p_;
  Sym outer_, inner_;
  mutable std::set<Expr> seen_;
};

}  // namespace

Program with_joined_axes(const Program& p, JoinedAxes& joined) {
  for (const Input& in : p.inputs)
    for (const Dim& d : in.dims)
      for (size_t k = 0; k + 1 < d.pieces.size(); ++k) {
        const Joiner joiner(p, d.pieces[k], d.pieces[k + 1]);
        if (joiner.possible()) return with_joined_axes(joiner.run(joined), joined);
      }
  return p;
}

}  // namespace tilewright
