#include "tilewright/plan/unit_row.h"

#include <algorithm>

#include "tilewright/plan/defaults.h"
#include "tilewright/plan/part.h"

namespace tilewright {

namespace {

/// Puts an axis of one element behind another one wherever values may depend on it.
class RowMaker {
 public:
  RowMaker(const Program& p, const AxisRoles& roles, const std::vector<Sym>& whole, Sym beside)
      : p_(p), roles_(roles), whole_(whole), beside_(beside) {}

  std::optional<Program> run() {
    Program q = p_;
    Axis row =
        parts::new_axis(parts::unique_name("row", parts::names_of(p_)), Expr(1), p_.axis(beside_).span);
    row_ = row.index;
    q.axes.push_back(row);
    for (Input& in : q.inputs)
      if (of_rows(in.sym)) add(in.dims), made_.insert(in.sym);
    for (Definition& d : q.definitions) {
      d.value = rewritten(d.value);
      if (!depends_on(d.value, row_)) continue;
      const auto at = std::find(d.axes.begin(), d.axes.end(), beside_);
      if (at == d.axes.end()) return std::nullopt;  // a value of all indices of the axis
      d.axes.insert(at + 1, row_);
      made_.insert(d.sym);
    }
    for (Output& o : q.outputs)
      if (made_.count(o.sym)) add(o.dims);
    q.spans.clear();
    for (const auto& [e, span] : p_.spans) q.spans.emplace(rewritten(e), span);
    return q;
  }

 private:
  /// Rows share what is streamed with features; every other input that has the axis may differ from row to row.
  bool of_rows(Sym input) const {
    if (!contains(p_.tensor_axes(input), beside_)) return false;
    const auto read = roles_.read_at.find(input);
    return read != roles_.read_at.end() &&
           !(contains(roles_.streamed_inputs, input) &&
             std::any_of(whole_.begin(), whole_.end(), [&](Sym a) { return contains(read->second, a); }));
  }

  Expr rewritten(Expr e) const {
    return rewrite(e, [&](Expr x) {
      if (!x.is(Op::Read) || !made_.count(x->sym)) return x;
      const std::vector<Sym> axes = p_.tensor_axes(x->sym);
      std::vector<Expr> args = x.args();
      args.insert(args.begin() + (std::find(axes.begin(), axes.end(), beside_) - axes.begin()) + 1,
                  Expr(row_));
      return read(x->sym, args);
    });
  }

  void add(std::vector<Dim>& dims) const {
    for (Dim& d : dims)
      if (const auto at = std::find(d.pieces.begin(), d.pieces.end(), beside_); at != d.pieces.end())
        d.pieces.insert(at + 1, row_);
  }

  const Program& p_;
  const AxisRoles& roles_;
  const std::vector<Sym>& whole_;
  Sym beside_, row_;
  std::set<Sym> made_;
};

}  // namespace

std::optional<Program> with_unit_row(const Program& p, const Derivation& d) {
  const DefaultStart start = default_start(p, d, true);
  if (!start.rows.empty() || start.moves_rows() || !has_points(d) || widest_operand(p, start.roles) != 2)
    return std::nullopt;
  // The last axis that every point has, since each row has its own.
  Sym beside;
  for (const Cut& cut : start.plan.group)
    if (std::all_of(d.passes.begin(), d.passes.end(), [&](const Pass& pass) {
          return std::all_of(pass.state.points.begin(), pass.state.points.end(),
                             [&](const Point& x) { return contains(x.axes, cut.axis); });
        }))
      beside = cut.axis;
  if (!beside) return std::nullopt;
  return RowMaker(p, start.roles, start.plan.whole, beside).run();
}

}  // namespace tilewright
