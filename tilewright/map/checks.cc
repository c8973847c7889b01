#include "tilewright/map/checks.h"

#include <functional>

#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/index_range.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

/// Calls f for every copy of a body.
template <class Body, class F>
void each_copy(Body& ops, const F& f) {
  for (auto& op : ops) {
    if (auto* x = std::get_if<Copy>(&op.node)) f(*x);
    if (auto* x = std::get_if<MappedLoop>(&op.node)) each_copy(x->body, f);
    if (auto* x = std::get_if<If>(&op.node)) {
      each_copy(x->then, f);
      each_copy(x->otherwise, f);
    }
    if (auto* x = std::get_if<Vote>(&op.node)) {
      each_copy(x->then, f);
      each_copy(x->otherwise, f);
    }
  }
}

/// 0 <= index < size(axis) for all values of the axes that the index mentions.
bool proved_inside(const std::vector<Axis>& axes, Expr index, Sym axis) {
  if (index.is(Op::Symbol) && index->sym.kind() == SymbolKind::Index && index->sym.size() == axis.size())
    return true;
  const auto range = index_range(index, [](Sym s) {
    return std::optional<IndexRange>(IndexRange{0, Expr(s.size()) - 1});
  });
  if (!range) return false;
  Expr lo = range->lo, room = Expr(axis.size()) - 1 - range->hi;
  Substitution sizes;
  for (const Axis& a : axes)
    if (a.size) sizes.emplace_back(a.index.size(), a.size);
  for (size_t round = 0; round < axes.size(); ++round) {  // sizes may be given by other sizes
    lo = substitute(lo, sizes);
    room = substitute(room, sizes);
  }
  return provably_nonnegative(simplify(lo)) && provably_nonnegative(simplify(room));
}

}  // namespace

void number_checks(const Program& elaborated, MappedProgram& m) {
  for (MappedKernel& k : m.kernels)
    for (Role& r : k.roles)
      each_copy(r.body, [&](Copy& c) {
        if (!c.present) return;
        std::vector<Sym> pieces;
        for (const Dim& d : memory_dims(elaborated, m, c.tensor))
          pieces.insert(pieces.end(), d.pieces.begin(), d.pieces.end());
        TW_CHECK(pieces.size() == c.index.size(), "one index for each axis of " + c.tensor.name());
        c.checks.assign(pieces.size(), -1);
        for (size_t axis = 0; axis < pieces.size(); ++axis) {
          if (proved_inside(m.axes, c.index[axis], pieces[axis])) continue;
          c.checks[axis] = int(m.checks.size());
          m.checks.push_back({c.tensor, pieces[axis]});
        }
      });
  TW_CHECK(m.checks.size() < (size_t(1) << check_bits) - 1,
           "more checked reads than an error word can tell apart");
}

bool has_checks(const MappedKernel& k) {
  bool found = false;
  for (const Role& r : k.roles)
    each_copy(r.body, [&](const Copy& c) {
      for (int check : c.checks) found = found || check >= 0;
    });
  return found;
}

std::optional<FailedCheck> failed_check(int64_t word) {
  if (word == 0) return std::nullopt;
  return FailedCheck{int(word & ((int64_t(1) << check_bits) - 1)) - 1, word >> check_bits};
}

}  // namespace tilewright
