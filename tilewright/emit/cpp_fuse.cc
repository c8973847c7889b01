// Neighbouring statements whose loops coincide, printed as one: a map and the reduction that takes its values or the store that they leave by, a product and what scales its accumulators
// before it or takes its extremes after it, a product of one row and one of many with the same lanes, reductions of the same elements. Each saves a pass over a
// tile.
#include <algorithm>

#include "tilewright/emit/cpp_kernel.h"
#include "tilewright/map/cpu/passes.h"

namespace tilewright {
namespace {

const AxisFrame* frame_of(const Frame& f, Sym axis) {
  for (const AxisFrame& a : f)
    if (a.axis == axis) return &a;
  return nullptr;
}

/// Both frames place the axes at the same elements.
bool same_places(const Frame& f, const Frame& g, const std::vector<Sym>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](Sym axis) {
    const AxisFrame *a = frame_of(f, axis), *b = frame_of(g, axis);
    return a && b && a->origin == b->origin && a->extent == b->extent;
  });
}

bool is_own(Expr e, const Buffer& b) { return e == read(b.sym, {b.axes.begin(), b.axes.end()}); }

bool is_permutation(std::vector<Sym> a, std::vector<Sym> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

}  // namespace

size_t CppKernel::fused(const Ops& list, size_t k) {
  if (k + 1 >= list.size()) return 0;
  if (const auto* map = std::get_if<MapOp>(&list[k].node)) {
    if (feeds(*map, list[k + 1])) {
      describe(list[k]);
      describe(list[k + 1]);
      producer_ = map;
      op(std::get<ReduceOp>(list[k + 1].node));
      producer_ = nullptr;
      return 2;
    }
    if (leaves(*map, list[k + 1])) {
      describe(list[k]);
      describe(list[k + 1]);
      make_and_store(*map, std::get<StoreOut>(list[k + 1].node), !only_leaves(list, k));
      return 2;
    }
    if (const Mma* x = scaled_product(list, k)) {
      describe(list[k]);
      describe(list[k + 1]);
      product(*x, map, nullptr);
      return 2;
    }
  }
  if (const auto* x = std::get_if<Mma>(&list[k].node); x && takes_extremes(*x, list[k + 1])) {
    describe(list[k]);
    describe(list[k + 1]);
    product(*x, nullptr, &std::get<ReduceOp>(list[k + 1].node));
    return 2;
  }
  if (const auto* x = std::get_if<Mma>(&list[k].node); x && rides(*x, list[k + 1])) {
    describe(list[k]);
    describe(list[k + 1]);
    product(std::get<Mma>(list[k + 1].node), nullptr, nullptr, x);
    return 2;
  }
  if (const std::vector<const ReduceOp*> reductions = together(list, k); reductions.size() > 1) {
    for (size_t n = 0; n < reductions.size(); ++n) describe(list[k + n]);
    reduce(reductions);
    return reductions.size();
  }
  return 0;
}

std::vector<const ReduceOp*> CppKernel::together(const Ops& list, size_t k) const {
  std::vector<const ReduceOp*> found;
  // Every total has four vectors, beside as many that are added to it.
  const size_t most = size_t(mapped_.machine.vector.registers) / 8;
  Sym lane;
  for (size_t n = k; n < list.size() && found.size() < most; ++n) {
    const auto* x = std::get_if<ReduceOp>(&list[n].node);
    if (!x) break;
    const Buffer& b = kernel_.buffer(x->buffer);
    const Sym own = lane_of(*x);
    if (!own || panel_of(own) || b.dtype != real_ ||
        std::find(b.axes.begin(), b.axes.end(), own) != b.axes.end())
      break;
    if (found.empty()) {
      lane = own;
    } else {
      const ReduceOp& first = *found[0];
      std::vector<Sym> all = b.axes;
      all.insert(all.end(), x->axes.begin(), x->axes.end());
      const std::vector<Sym> read = tensors_read(x->value);
      const bool apart = std::none_of(found.begin(), found.end(), [&](const ReduceOp* r) {
        const std::vector<Sym> other = tensors_read(r->value);
        return r->buffer == x->buffer || std::find(read.begin(), read.end(), r->buffer) != read.end() ||
               std::find(other.begin(), other.end(), x->buffer) != other.end();
      });
      if (!apart || !(own == lane) || b.axes != kernel_.buffer(first.buffer).axes || x->axes != first.axes ||
          x->frame.size() != first.frame.size() || !same_places(x->frame, first.frame, all))
        break;
    }
    found.push_back(x);
  }
  return found;
}

/// The reduction `next` runs over exactly the elements that the map makes, in the same vectors, and takes them as they are.
bool CppKernel::feeds(const MapOp& map, const MappedOp& next) const {
  const auto* x = std::get_if<ReduceOp>(&next.node);
  if (!x) return false;
  const Buffer &made = kernel_.buffer(map.buffer), &result = kernel_.buffer(x->buffer);
  if (made.dtype != real_ || CppPrinter::kind(result.dtype) != CKind::Real || !is_own(x->value, made))
    return false;
  std::vector<Sym> domain = result.axes;
  domain.insert(domain.end(), x->axes.begin(), x->axes.end());
  if (!is_permutation(domain, made.axes) || !same_places(map.frame, x->frame, domain)) return false;
  const Sym lane = lane_of(*x);
  if (!lane || lane != cpu::operand_of(kernel_, made.sym).fastest) return false;
  const std::vector<Sym> reads = tensors_read(map.value);
  return std::find(reads.begin(), reads.end(), result.sym) == reads.end();
}

/// `next` stores the tile that the map makes, in whole vectors that are not those of a panel.
bool CppKernel::leaves(const MapOp& map, const MappedOp& next) const {
  const auto* x = std::get_if<StoreOut>(&next.node);
  if (!x || x->buffer != map.buffer) return false;
  const Buffer& b = kernel_.buffer(map.buffer);
  const Sym lane = cpu::operand_of(kernel_, b.sym).fastest;
  return lane && !panel_of(lane) && b.space == Space::Local && b.dtype == real_ &&
         is_float(print_.dtype(x->tensor)) && same_places(map.frame, x->frame, b.axes);
}

/// Does nothing read the tile of the map list[k] but the store behind it?
bool CppKernel::only_leaves(const Ops& list, size_t k) const {
  const Sym tile = std::get<MapOp>(list[k].node).buffer;
  const Ops& body = kernel_.roles[0].body;
  int readers = 0;
  const auto count = [&](const MappedOp& o) { readers += cpu::reads(o, tile); };
  if (&list != &body) {
    for_each_op(body, count);
    return readers == 1;
  }
  // A task makes all its tiles anew: what stands in front has read what the tile held before.
  for (size_t n = k + 2; n < list.size(); ++n) {
    count(list[n]);
    for_each_body(list[n], [&](const Ops& inside) { for_each_op(inside, count); });
  }
  return readers == 0;
}

/// The product behind a map that multiplies what it accumulates onto by one number for each lane; null: none.
const Mma* CppKernel::scaled_product(const Ops& list, size_t k) const {
  const auto& map = std::get<MapOp>(list[k].node);
  const auto* x = std::get_if<Mma>(&list[k + 1].node);
  if (!x || x->zero || x->d != map.buffer || !map.value.is(Op::Mul) || map.value.args().size() != 2)
    return nullptr;
  const Buffer& d = kernel_.buffer(x->d);
  const auto axes = cpu::product_axes(cpu::operand_of(kernel_, x->d), x->a, cpu::operand_of(kernel_, x->a),
                                      x->b, cpu::operand_of(kernel_, x->b), x->contracted, extents_);
  if (!axes || !axes->outer.empty() || !same_places(map.frame, x->frame, d.axes)) return nullptr;
  for (int side : {0, 1}) {
    Expr held = map.value.arg(size_t(side)), scale = map.value.arg(size_t(1 - side));
    if (!is_own(held, d) || !scale.is(Op::Read)) continue;
    const Buffer* s = print_.buffer(scale->sym);
    if (s && s->space == Space::Local && s->dtype == real_ && s->axes == std::vector<Sym>{axes->lane} &&
        is_own(scale, *s))
      return x;
  }
  return nullptr;
}

bool CppKernel::rides(const Mma& x, const MappedOp& next) const {
  const auto* y = std::get_if<Mma>(&next.node);
  if (!y || x.a != y->a || x.zero != y->zero || x.contracted != y->contracted || y->b == x.d || y->d == x.d)
    return false;
  const Atom *one = find_atom(x.atom), *many = find_atom(y->atom);
  // All accumulators, the lanes and one number to multiply them with stay in registers.
  if (!one || !many || one->dtype != many->dtype || one->dtype == DType::bf16 || one->m != 1 ||
      one->n != many->n || (many->m + 2) * many->n + 1 > mapped_.machine.vector.registers)
    return false;
  const auto axes = [&](const Mma& m) {
    return cpu::product_axes(cpu::operand_of(kernel_, m.d), m.a, cpu::operand_of(kernel_, m.a), m.b,
                             cpu::operand_of(kernel_, m.b), m.contracted, extents_);
  };
  const auto of_one = axes(x), of_many = axes(*y);
  return of_one && of_many && !of_one->row && of_many->row && of_one->outer.empty() &&
         of_many->outer.empty() && of_one->lanes == of_many->lanes && of_one->lane == of_many->lane &&
         of_one->inner == of_many->inner && same_places(x.frame, y->frame, {of_one->lane, of_one->inner});
}

/// `next` takes the greatest or least value of each lane of the product, which is whole behind `x`.
bool CppKernel::takes_extremes(const Mma& x, const MappedOp& next) const {
  const auto* r = std::get_if<ReduceOp>(&next.node);
  if (!r || r->accumulate || (r->reducer != Reducer::Max && r->reducer != Reducer::Min)) return false;
  const Buffer &d = kernel_.buffer(x.d), &result = kernel_.buffer(r->buffer);
  const auto axes = cpu::product_axes(cpu::operand_of(kernel_, x.d), x.a, cpu::operand_of(kernel_, x.a), x.b,
                                      cpu::operand_of(kernel_, x.b), x.contracted, extents_);
  return axes && axes->outer.empty() && axes->row && is_own(r->value, d) &&
         r->axes == std::vector<Sym>{axes->row} && result.axes == std::vector<Sym>{axes->lane} &&
         result.space == Space::Local && result.dtype == real_ && d.dtype == real_ &&
         same_places(x.frame, r->frame, d.axes);
}

}  // namespace tilewright
