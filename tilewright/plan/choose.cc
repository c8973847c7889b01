// The search behind plan/partition.h: from kernels that the rules give, one change at a time, to kernels that cost less.
//
//   store   a definition, an unnamed reduction or a rounded value that a kernel computes again for blocks of an axis that it lacks gets an array
//   operand factors of a contraction that a kernel makes again for blocks of an axis that they lack are stored in the 16 bits that its units multiply (operands.cc)
//   fuse    what is stored is computed where it is read
//   join    two kernels that stream the same axis, of which one reads what the other stores, are one that computes both
//
// Of all changes that every kernel accepts, the one with the least price is made, while it saves least_saving of the whole. All are compared
// again behind each step, so what is compared last says of each boundary what the other way would cost.
#include <algorithm>

#include <functional>

#include <fmt/format.h>

#include "tilewright/expr/simplify.h"
#include "tilewright/plan/axes.h"
#include "tilewright/plan/partitioner.h"

namespace tilewright {

Price& Price::operator+=(const Price& p) {
  bytes += p.bytes;
  products += p.products;
  operations += p.operations;
  total += p.total;
  kernels += p.kernels;
  return *this;
}

namespace parts {
namespace {

/// Kernels and what they cost.
struct Made {
  Partitioner p;
  std::vector<Group> groups;
  Price price;
};

struct Move {
  enum class Kind { Store, Name, Operand, Fuse, Join } kind;
  Sym what = {};  ///< Store, Fuse: a definition; Name, Operand: the one that `part` stands in
  Expr part = {};
  size_t a = 0, b = 0;                ///< Join: kernels
  std::vector<Operand> readers = {};  ///< Operand: the sums that have it
};

class Search {
 public:
  Search(Partitioner start, std::vector<Group> groups, Shared& shared)
      : now_{std::move(start), std::move(groups), {}}, shared_(shared), before_(shared.attempts.size()) {}

  Partition run() {
    std::vector<Choice> compared;
    if (!moves().empty() && !accept(now_)) {
      constexpr int most_steps = 8;
      for (int step = 0; step < most_steps; ++step) {
        compared.clear();
        std::optional<Made> best;
        for (const Move& m : moves()) {
          if (spent()) break;
          Made next = now_;
          const std::optional<UserError> refusal = make(next, m);
          compared.push_back(choice(m, next, refusal));
          if (!refusal && (!best || next.price.total < best->price.total)) best = std::move(next);
        }
        if (!best || best->price.total >= (1 - least_saving) * now_.price.total) break;
        now_ = std::move(*best);
      }
    }
    Partition out = now_.p.ordered(now_.groups);
    out.choices = std::move(compared);
    return out;
  }

 private:
  bool spent() const { return shared_.attempts.size() >= before_ + most_attempts; }

  // ---- what can be changed ----

  std::vector<Move> moves() {
    std::vector<Move> all;
    // What saves most comes first, since a search is bounded.
    std::vector<Operand> operands;
    for (const Group& g : now_.groups)
      for (const Operand& o : now_.p.operands(g.sinks, g.stream))
        if (std::none_of(operands.begin(), operands.end(), [&](const Operand& x) {
              return x.home == o.home && x.sum == o.sum && x.value == o.value;
            }))
          operands.push_back(o);
    for (const Operand& o : operands) {
      Move m{Move::Kind::Operand, o.home, o.value};
      for (const Operand& x : operands)
        if (x.value == o.value && x.type == o.type && x.sum->bound == o.sum->bound) m.readers.push_back(x);
      add(all, m);
    }
    for (Sym s : now_.p.stored())
      if (!now_.p.is_stored_by_force(s)) all.push_back({Move::Kind::Fuse, s});
    const std::vector<Sym> holding = holding_reductions(now_.p.program(), now_.p.stored());
    for (const Group& g : now_.groups)
      for (Sym s : now_.p.computed(g.sinks)) {
        if (now_.p.is_fused_by_force(s)) continue;
        const Definition& d = *now_.p.program().definition(s);
        const bool sink = contains(g.sinks, s);
        if (!sink && contains(holding, s) && computed_again(g, d.axes, reduced_in(d.value)) &&
            !is_shift(g, s, d.value))
          add(all, {Move::Kind::Store, s});
        for (Expr e : nameable(d, holding))
          if (computed_again(g, axes_of(e), reduced_in(e)) && !is_shift(g, {}, e))
            add(all, {Move::Kind::Name, s, e});
      }
    for (size_t a = 0; a < now_.groups.size(); ++a)
      for (size_t b = 0; b < now_.groups.size(); ++b)
        if (a != b && now_.groups[a].stream == now_.groups[b].stream && reads(b, a) && !between(a, b) &&
            !serves_alone(a, b))
          all.push_back({Move::Kind::Join, {}, {}, a, b});
    return all;
  }

  static void add(std::vector<Move>& all, const Move& m) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const Move& o) {
      return o.kind == m.kind && o.part == m.part && (m.part || o.what == m.what);
    });
    if (!known) all.push_back(m);
  }

  static std::vector<Sym> axes_of(Expr e) {
    std::vector<Sym> axes;
    for (Sym s : free_symbols(e))
      if (s.kind() == SymbolKind::Index) axes.push_back(s);
    return axes;
  }

  /// Axes of the reductions in `e`, by their sizes: copies of one axis have the same.
  static std::vector<Sym> reduced_in(Expr e) {
    std::vector<Sym> sizes;
    std::set<Expr> seen;
    each_node(e, seen, [&](Expr x) {
      for (Sym s : x->bound) sizes.push_back(s.size());
    });
    return sizes;
  }

  /// Is there an axis whose blocks would each compute what varies along `axes` and reduces over axes of `sizes`? The streamed one has no blocks. One that is
  /// reduced over is held whole or streamed by most kernels; where the plan cuts it, each block reads all of it beside its own piece.
  bool computed_again(const Group& g, const std::vector<Sym>& axes, const std::vector<Sym>& sizes) const {
    for (Sym s : g.sinks)
      for (Sym a : now_.p.program().tensor_axes(s)) {
        const bool has = std::any_of(axes.begin(), axes.end(), [&](Sym x) { return x.size() == a.size(); });
        if (has || a == g.stream) continue;
        if (!contains(sizes, a.size()) ? !now_.p.whole(a) : !is_streamed(g, a) && is_cut(g, a)) return true;
      }
    return false;
  }

  /// The streamed axis or a copy of it.
  static bool is_streamed(const Group& g, Sym axis) { return g.stream && axis.size() == g.stream.size(); }

  static bool is_cut(const Group& g, Sym axis) {
    return !g.cut ||
           std::any_of(g.cut->begin(), g.cut->end(), [&](Sym x) { return x.size() == axis.size(); });
  }

  /// Is the sum `value` (of the definition `name`, or unnamed) added to what varies along its axis? Then it is no number to be rounded and stored: a
  /// state holds such differences at a point and corrects them by what the point lacks (docs/derivation.md, "Points").
  bool is_shift(const Group& g, Sym name, Expr value) const {
    std::set<Expr> seen;
    std::vector<Sym> sizes;
    each_node(value, seen, [&](Expr x) {
      if (x.is(Op::Reduce) && x->reducer == Reducer::Sum)
        for (Sym s : x->bound) sizes.push_back(s.size());
    });
    if (sizes.empty()) return false;
    const auto varies = [&](Expr e) {
      const std::vector<Sym> all = axes_of(e);
      return std::any_of(all.begin(), all.end(), [&](Sym a) { return contains(sizes, a.size()); });
    };
    bool found = false;
    std::set<Expr> looked_at;
    for (Sym s : now_.p.computed(g.sinks))
      each_node(now_.p.program().definition(s)->value, looked_at, [&](Expr e) {
        if (found || !(e.is(Op::Add) || e.is(Op::Sub))) return;
        bool moves = false, shift = false;
        for (Expr a : e.args()) {
          if (varies(a))
            moves = true;
          else
            shift = shift || holds(a, name, value);
        }
        found = moves && shift;
      });
    return found;
  }

  /// Does `e` hold the definition `name` or the expression `value`, itself or through definitions that are not stored?
  bool holds(Expr e, Sym name, Expr value) const {
    bool found = false;
    std::set<Expr> seen;
    std::function<void(Expr)> visit = [&](Expr x) {
      each_node(x, seen, [&](Expr y) {
        found = found || y == value || (y.is(Op::Read) && name && y->sym == name);
        if (!found && y.is(Op::Read) && !now_.p.stored().count(y->sym))
          if (const Definition* d = now_.p.program().definition(y->sym)) visit(d->value);
      });
    };
    visit(e);
    return found;
  }

  /// Reductions inside of a statement, and roundings of what holds one; not the statement's value itself.
  std::vector<Expr> nameable(const Definition& d, const std::vector<Sym>& holding) const {
    std::vector<Expr> found;
    std::set<Expr> seen;
    each_node(d.value, seen, [&](Expr e) {
      if (e == d.value) return;
      if (e.is(Op::Reduce)) return found.push_back(e);
      if (!e.is(Op::Cast)) return;
      bool holds = false;
      std::set<Expr> inside;
      each_node(e.arg(0), inside, [&](Expr x) {
        holds = holds || x.is(Op::Reduce) || (x.is(Op::Read) && contains(holding, x->sym)) ||
                (x.is(Op::Read) && now_.p.stored().count(x->sym));
      });
      if (holds) found.push_back(e);
    });
    return found;
  }

  bool reads(size_t reader, size_t from) const {
    for (Sym s : now_.p.computed(now_.groups[reader].sinks))
      for (Sym t : tensors_read(now_.p.program().definition(s)->value))
        if (now_.p.stored().count(t) && contains(now_.groups[from].sinks, t)) return true;
    return false;
  }

  /// Does kernel `a` make one array for `b` alone? To fuse it is the same as to join them.
  bool serves_alone(size_t a, size_t b) const {
    const std::vector<Sym>& sinks = now_.groups[a].sinks;
    if (sinks.size() != 1 || now_.p.is_output(sinks[0]) || now_.p.is_stored_by_force(sinks[0])) return false;
    for (size_t c = 0; c < now_.groups.size(); ++c)
      if (c != a && c != b && reads(c, a)) return false;
    return true;
  }

  /// Does another kernel stand between `a` and `b`, which reads from it?
  bool between(size_t a, size_t b) const {
    for (size_t c : now_.p.before(now_.groups, b))
      if (c != a && now_.p.before(now_.groups, c).count(a)) return true;
    return false;
  }

  // ---- changes ----

  /// The refusal of a kernel, or nothing: then streams and prices are known.
  std::optional<UserError> accept(Made& made) {
    made.price = {};
    for (Group& g : made.groups) {
      const Attempt& a = made.p.attempt(g.sinks);
      if (a.refusal) return a.refusal;
      g.stream = a.stream;
      g.passes = a.passes;
      g.cut = a.cut;
      made.price += a.price;
    }
    return std::nullopt;
  }

  std::optional<UserError> make(Made& made, const Move& m) {
    switch (m.kind) {
      case Move::Kind::Store: {
        made.p.store(m.what);
        made.groups.push_back({{m.what}, {}, 0});
        break;
      }
      case Move::Kind::Name: {
        const std::set<Sym> known = made.p.stored();
        if (!made.p.name_apart(m.what, {m.part})) return UserError(Span{}, "it cannot stand by itself");
        for (Sym s : made.p.stored())
          if (!known.count(s)) made.groups.push_back({{s}, {}, 0});
        break;
      }
      case Move::Kind::Operand: {
        made.groups.push_back({made.p.store_operand(m.readers), {}, 0});
        break;
      }
      case Move::Kind::Fuse: {
        made.p.fuse(m.what);
        drop(made, m.what);
        break;
      }
      case Move::Kind::Join: {
        std::vector<Sym> both = made.groups[m.a].sinks;
        both.insert(both.end(), made.groups[m.b].sinks.begin(), made.groups[m.b].sinks.end());
        made.groups[m.a].sinks = in_order(made.p, both);
        made.groups.erase(made.groups.begin() + static_cast<std::ptrdiff_t>(m.b));
        for (Sym s : both)
          if (made.p.stored().count(s) && !made.p.is_stored_by_force(s) && !read_elsewhere(made, s)) {
            made.p.fuse(s);
            drop(made, s);
          }
        break;
      }
    }
    return accept(made);
  }

  /// `s` is stored no more, and computed by itself only where it is an output.
  static void drop(Made& made, Sym s) {
    if (made.p.is_output(s)) return;
    for (Group& g : made.groups) std::erase(g.sinks, s);
    std::erase_if(made.groups, [](const Group& g) { return g.sinks.empty(); });
  }

  static bool read_elsewhere(const Made& made, Sym s) {
    for (const Group& g : made.groups) {
      if (contains(g.sinks, s)) continue;
      for (Sym d : made.p.computed(g.sinks)) {
        const std::vector<Sym> all = tensors_read(made.p.program().definition(d)->value);
        if (contains(all, s)) return true;
      }
    }
    return false;
  }

  static std::vector<Sym> in_order(Partitioner& p, const std::vector<Sym>& sinks) {
    std::vector<Sym> ordered;
    for (Sym s : p.sinks())
      if (contains(sinks, s)) ordered.push_back(s);
    return ordered;
  }

  // ---- what is told ----

  Choice choice(const Move& m, const Made& other, const std::optional<UserError>& refusal) const {
    Choice c;
    c.taken = now_.price;
    if (refusal)
      c.refused = refusal->diagnostics().empty() ? refusal->what() : refusal->diagnostics()[0].what;
    else
      c.otherwise = other.price;
    c.what = m.what ? m.what.name() : "";
    switch (m.kind) {
      case Move::Kind::Fuse: c.kind = Choice::Kind::Stored; break;
      case Move::Kind::Store: c.kind = Choice::Kind::Fused; break;
      case Move::Kind::Operand:
      case Move::Kind::Name:
        c.kind = Choice::Kind::Fused;
        c.what = fmt::format("{} in {}", to_string(m.part), m.what.name());
        break;
      case Move::Kind::Join:
        c.kind = Choice::Kind::Apart;
        c.what = name_of(now_.groups[m.a].sinks);
        c.with = name_of(now_.groups[m.b].sinks);
        break;
    }
    return c;
  }

  static std::string name_of(const std::vector<Sym>& sinks) {
    std::string text;
    for (Sym s : sinks) text += (text.empty() ? "" : ", ") + s.name();
    return text;
  }

  Made now_;
  Shared& shared_;
  size_t before_;
};

}  // namespace

Partition choose(Partitioner start, std::vector<Group> groups, Shared& shared) {
  return Search(std::move(start), std::move(groups), shared).run();
}

}  // namespace parts
}  // namespace tilewright
