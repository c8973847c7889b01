// Neighbouring statements whose loops coincide, printed as one: a map and the reduction that takes its values, a product and what scales its accumulators
// before it or takes its extremes after it, a product of one row and one of many with the same lanes. Each saves a pass over a tile.
#include <algorithm>

#include "tilewright/emit/cpp_kernel.h"

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
  return 0;
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
