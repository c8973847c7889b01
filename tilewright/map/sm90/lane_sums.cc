// Sums that the lanes of a warp keep apart. A sum over a chunk is exchanged among lanes in every chunk; where all that it enters is linear in it (an accumulator that is
// repaired by factors which all lanes share), each lane may go on with its own part, and the parts are added up once, behind the loop:
//
//   l = 0                                        l = 0
//   for chunks                                   for chunks
//     c = sum over j of E[i, j], across warp  →    c = sum over j of E[i, j]        # of the lane's elements
//     if any over i of not c[i] <= 32768           if any over i of not c[i] <= 8192
//       l = l[i] * r[i] …                            l = l[i] * r[i] …
//     l = l[i] + c[i]                              l = l[i] + c[i]
//   1 / l[i]                                     l = sum of l[i], across warp
//                                                1 / l[i]
//
// A test of an upper bound holds for the sum where it holds for each of n parts with an n-th of the bound, so that what is voted on runs wherever it ran before.
#include <algorithm>
#include <optional>
#include <set>

#include "tilewright/map/sm90/context.h"

namespace tilewright::hopper {
namespace {

constexpr int64_t warp_size = 32;

/// The lanes of a warp that a digit tells apart, as bits of the lane's number.
int64_t lane_bits(const Digit& d) {
  if (d.to != Digit::To::Owner) return 0;
  int64_t bits = 0;
  for (int64_t s = d.stride; s < d.stride * d.extent && s < warp_size; s *= 2) bits |= s;
  return bits;
}

/// Lanes that hold copies of the same elements.
int64_t copies(const Buffer& b) {
  int64_t bits = 0;
  for (const Digit& d : b.layout.digits())
    if (d.axis < 0) bits |= lane_bits(d);
  return bits;
}

class LaneSums {
 public:
  LaneSums(MappedKernel& k, Ops& body) : kernel_(k), body_(body) {}

  void run() {
    // What takes in such sums, and what takes in that.
    for (bool changed = true; changed;) {
      changed = false;
      for (const Buffer& b : kernel_.buffers) {
        if (b.space != Space::Registers || b.dtype != DType::f32 || parts_.count(b.sym)) continue;
        bool takes = false;
        for_each_op(body_, [&](const MappedOp& op) {
          auto* m = std::get_if<MapOp>(&op.node);
          auto* r = std::get_if<ReduceOp>(&op.node);
          takes = takes || (r && r->buffer == b.sym && adds_lanes(*r)) ||
                  (m && m->buffer == b.sym && reads_parts(m->value));
        });
        if (!takes) continue;
        parts_.insert(b.sym);
        if (written_in_parts(b.sym))
          changed = true;
        else
          parts_.erase(b.sym);
      }
    }
    // Fewer and fewer tiles, until each of those left may be kept in parts as long as the others are.
    for (bool changed = true; changed;) {
      changed = false;
      for (const Buffer& b : kernel_.buffers)
        if (parts_.count(b.sym) && !may_be_parts(b.sym)) parts_.erase(b.sym), changed = true;
    }
    // One after another: an insertion moves the lists inside.
    for (const Buffer& b : kernel_.buffers)
      if (parts_.count(b.sym))
        if (const auto place = total_of(b.sym))
          place->list->insert(place->list->begin() + long(place->at), total(b.sym, *place));
    for_each_op(body_, [&](MappedOp& op) {
      if (auto* r = std::get_if<ReduceOp>(&op.node); r && parts_.count(r->buffer) && !r->axes.empty())
        r->across = Scope::Thread;
      if (auto* v = std::get_if<Vote>(&op.node)) v->condition = of_parts(v->condition);
    });
  }

 private:
  /// Where the parts of a tile are added up: in front of op `at` of a list whose op `first` sets the tile to 0.
  struct Place {
    Ops* list = nullptr;
    size_t first = 0, at = 0;
  };
  enum class Access : uint8_t { None, Parts, Whole };

  static bool reads(Expr e, Sym s) {
    if (!e) return false;
    const std::vector<Sym> all = tensors_read(e);
    return std::find(all.begin(), all.end(), s) != all.end();
  }
  bool reads_parts(Expr e) const {
    const std::vector<Sym> all = tensors_read(e);
    return std::any_of(all.begin(), all.end(), [&](Sym s) { return parts_.count(s) > 0; });
  }
  static bool zero(const MappedOp& op) {
    auto* m = std::get_if<MapOp>(&op.node);
    return m && m->value.is_constant(0);
  }

  /// Is the value of all lanes the sum of the values of each, reading parts that lie as `like` does?
  bool linear(Expr e, const Buffer& like) const {
    auto among = [&](Expr x) { return linear(x, like); };
    if (e.is_constant(0)) return true;
    if (!reads_parts(e)) return false;
    if (e.is(Op::Read)) return parts_.count(e->sym) > 0 && kernel_.buffer(e->sym).layout == like.layout;
    if (e.is(Op::Add) || e.is(Op::Sub) || e.is(Op::Neg))
      return std::all_of(e.args().begin(), e.args().end(), among);
    if (e.is(Op::Mul))
      return std::count_if(e.args().begin(), e.args().end(), [&](Expr x) { return reads_parts(x); }) == 1 &&
             std::all_of(e.args().begin(), e.args().end(),
                         [&](Expr x) { return !reads_parts(x) || among(x); });
    if (e.is(Op::Div)) return !reads_parts(e.arg(1)) && among(e.arg(0));
    return false;
  }

  /// Upper bounds that a condition tests become those of parts. Null where the condition reads parts in another way.
  Expr of_parts(Expr e, bool* fails = nullptr) const {
    if (!reads_parts(e)) return e;
    if (e.is(Op::And) || e.is(Op::Or)) {
      std::vector<Expr> terms;
      for (Expr x : e.args()) terms.push_back(of_parts(x, fails));
      return make(e.op(), terms);
    }
    if (e.is(Op::Not) && e.arg(0).is(Op::Le) && e.arg(0).arg(0).is(Op::Read)) {
      const auto bound = e.arg(0).arg(1).rational();
      if (bound) {
        int64_t lanes = 1;
        for (int64_t bits = copies(kernel_.buffer(e.arg(0).arg(0)->sym)); bits != 0; bits &= bits - 1)
          lanes *= 2;
        return logical_not(less_equal(e.arg(0).arg(0), Expr(*bound / Rational(lanes))));
      }
    }
    if (fails) *fails = true;
    return e;
  }

  /// Does the op itself add up elements of which each lies in one lane, and all those of a row in the lanes that hold copies of the result?
  bool adds_lanes(const ReduceOp& r) const {
    if (r.reducer != Reducer::Sum || r.across != Scope::Warp || r.axes.empty() || r.scratch ||
        reads_parts(r.value))
      return false;
    int64_t apart = 0;
    for (Sym t : tensors_read(r.value)) {
      if (t.kind() != SymbolKind::Tile || kernel_.buffer(t).space != Space::Registers) continue;
      const Buffer& b = kernel_.buffer(t);
      int64_t here = 0;
      for (const Digit& d : b.layout.digits())
        if (d.axis >= 0 && std::find(r.axes.begin(), r.axes.end(), b.axes[size_t(d.axis)]) != r.axes.end())
          here |= lane_bits(d);
      if (copies(b) == 0) apart = std::max(apart, here);
    }
    return apart != 0 && apart == copies(kernel_.buffer(r.buffer));
  }

  /// How the op itself, not those inside it, writes the tile: as parts where parts are all that the rest needs.
  Access written(const MappedOp& op, Sym s) const {
    if (auto* m = std::get_if<MapOp>(&op.node); m && m->buffer == s)
      return linear(m->value, kernel_.buffer(s)) ? Access::Parts : Access::Whole;
    if (auto* r = std::get_if<ReduceOp>(&op.node); r && r->buffer == s)
      return adds_lanes(*r) ? Access::Parts : Access::Whole;
    auto* c = std::get_if<Copy>(&op.node);
    auto* m = std::get_if<Mma>(&op.node);
    auto* k = std::get_if<RankOp>(&op.node);
    return (c && c->buffer == s) || (m && m->d == s) || (k && (k->keys == s || k->indices == s))
               ? Access::Whole
               : Access::None;
  }
  Access read(const MappedOp& op, Sym s) const {
    auto whole = [](bool yes) { return yes ? Access::Whole : Access::None; };
    if (auto* m = std::get_if<MapOp>(&op.node)) {
      if (!reads(m->value, s)) return Access::None;
      return parts_.count(m->buffer) && linear(m->value, kernel_.buffer(m->buffer)) ? Access::Parts
                                                                                    : Access::Whole;
    }
    if (auto* r = std::get_if<ReduceOp>(&op.node))
      return reads(r->value, s)                ? Access::Whole
             : r->accumulate && r->buffer == s ? Access::Parts
                                               : Access::None;
    if (auto* v = std::get_if<Vote>(&op.node)) {
      if (!reads(v->condition, s)) return Access::None;
      bool fails = false;
      of_parts(v->condition, &fails);
      return fails ? Access::Whole : Access::Parts;
    }
    if (auto* x = std::get_if<StoreOut>(&op.node))
      return whole(x->buffer == s ||
                   std::any_of(x->index.begin(), x->index.end(), [&](Expr e) { return reads(e, s); }));
    if (auto* x = std::get_if<Copy>(&op.node))
      return whole(reads(x->present, s) ||
                   std::any_of(x->index.begin(), x->index.end(), [&](Expr e) { return reads(e, s); }));
    if (auto* x = std::get_if<Mma>(&op.node)) return whole(x->a == s || x->b == s || (x->d == s && !x->zero));
    if (auto* x = std::get_if<RankOp>(&op.node))
      return whole(reads(x->value, s) || reads(x->at, s) || reads(x->present, s));
    return Access::None;
  }
  template <class F>
  bool anywhere(MappedOp& op, const F& f) const {
    bool found = f(op);
    for_each_body(op, [&](Ops& inside) {
      for (MappedOp& x : inside) found = found || anywhere(x, f);
    });
    return found;
  }
  bool touches(MappedOp& op, Sym s) const {
    return anywhere(
        op, [&](const MappedOp& x) { return written(x, s) != Access::None || read(x, s) != Access::None; });
  }

  /// The innermost list that holds all accesses to the tile.
  Ops* home(Sym s, Ops& list) const {
    MappedOp* only = nullptr;
    for (MappedOp& op : list) {
      if (!touches(op, s)) continue;
      if (only || written(op, s) != Access::None || read(op, s) != Access::None) return &list;
      only = &op;
    }
    Ops* inner = nullptr;
    int bodies = 0;
    if (only)
      for_each_body(*only, [&](Ops& inside) {
        if (std::any_of(inside.begin(), inside.end(), [&](MappedOp& x) { return touches(x, s); }))
          inner = &inside, ++bodies;
      });
    return bodies == 1 ? home(s, *inner) : &list;
  }

  bool read_whole(MappedOp& op, Sym s) const {
    return anywhere(op, [&](const MappedOp& x) { return read(x, s) == Access::Whole; });
  }
  bool read_in_parts(MappedOp& op, Sym s) const {
    return anywhere(op, [&](const MappedOp& x) { return read(x, s) == Access::Parts; });
  }
  bool written_in(MappedOp& op, Sym s) const {
    return anywhere(op, [&](const MappedOp& x) { return written(x, s) != Access::None; });
  }

  /// Null where nothing needs the whole sum.
  std::optional<Place> total_of(Sym s) {
    Ops* list = home(s, body_);
    Place place{list, list->size(), 0};
    for (size_t k = 0; k < list->size(); ++k) {
      if (place.first == list->size() && touches((*list)[k], s)) place.first = k;
      if (written_in((*list)[k], s)) place.at = k + 1;
    }
    const bool needed =
        std::any_of(list->begin(), list->end(), [&](MappedOp& op) { return read_whole(op, s); });
    return needed ? std::optional(place) : std::nullopt;
  }

  bool written_in_parts(Sym s) {
    bool in_parts = true;
    for_each_op(body_, [&](const MappedOp& op) { in_parts = in_parts && written(op, s) != Access::Whole; });
    return in_parts;
  }

  bool may_be_parts(Sym s) {
    if (!written_in_parts(s)) return false;
    const auto place = total_of(s);
    if (!place) return feeds_others(s);
    Ops& list = *place->list;
    if (!zero(list[place->first])) return false;
    for (size_t k = 0; k < list.size(); ++k)
      if (k < place->at ? read_whole(list[k], s) : read_in_parts(list[k], s)) return false;
    // It is worth it where a loop adds to it.
    return std::any_of(list.begin(), list.begin() + long(place->at), [&](MappedOp& op) {
      return std::holds_alternative<MappedLoop>(op.node) && anywhere(op, [&](const MappedOp& x) {
               auto* r = std::get_if<ReduceOp>(&x.node);
               return r && (r->buffer == s || feeds(r->buffer, s));
             });
    });
  }
  /// Does some map add parts `from` to the tile `to`?
  bool feeds(Sym from, Sym to) const {
    if (!parts_.count(from)) return false;
    bool found = false;
    for_each_op(body_, [&](const MappedOp& op) {
      auto* m = std::get_if<MapOp>(&op.node);
      found = found || (m && m->buffer == to && reads(m->value, from));
    });
    return found;
  }
  bool feeds_others(Sym s) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](Sym t) { return !(t == s) && feeds(s, t); });
  }

  MappedOp total(Sym s, const Place& place) const {
    const Buffer& b = kernel_.buffer(s);
    ReduceOp r;
    r.buffer = s;
    r.reducer = Reducer::Sum;
    r.value = tilewright::read(s, std::vector<Expr>(b.axes.begin(), b.axes.end()));
    r.across = Scope::Warp;
    r.frame = std::get<MapOp>((*place.list)[place.first].node).frame;
    return {r, "parts of lanes"};
  }

  MappedKernel& kernel_;
  Ops& body_;
  std::set<Sym> parts_;
};

}  // namespace

void keep_lane_sums(MappedKernel& k, Ops& body) { LaneSums(k, body).run(); }

}  // namespace tilewright::hopper
