// Runs of ops that each touch the elements of their own panel alone, printed in one loop over panels, so that what one makes is still in the first-level cache
// when the next takes it; and what the next chunk reads of memory. Both for kernels with products by tile registers, where passes over tiles in the
// second-level cache would take longer than the products.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/emit/cpp_kernel.h"
#include "tilewright/expr/simplify.h"

namespace tilewright {
namespace {

bool is_tile_product(const Mma& x) {
  const Atom* atom = find_atom(x.atom);
  return atom && atom->dtype == DType::bf16 && atom->k > 2;
}

const AxisFrame* of_axis(const Frame& f, Sym axis) {
  for (const AxisFrame& a : f)
    if (a.axis == axis) return &a;
  return nullptr;
}

/// Buffers that an op reads and writes.
struct Touched {
  std::set<Sym> read, written;
  bool others = false;  ///< ops that are not followed

  void expr(Expr e) {
    if (!e) return;
    for (Sym s : tensors_read(e)) read.insert(s);
  }
  void op(const MappedOp& o) {
    std::visit([this](const auto& x) { add(x); }, o.node);
  }

 private:
  void add(const MapOp& x) {
    expr(x.value);
    written.insert(x.buffer);
  }
  void add(const ReduceOp& x) {
    expr(x.value);
    if (x.accumulate) read.insert(x.buffer);
    written.insert(x.buffer);
  }
  void add(const Mma& x) {
    read.insert({x.a, x.b});
    if (!x.zero) read.insert(x.d);
    written.insert(x.d);
  }
  void add(const Copy& x) {
    for (Expr e : x.index) expr(e);
    written.insert(x.buffer);
  }
  void add(const Vote& x) {
    expr(x.condition);
    for (const Ops* list : {&x.then, &x.otherwise})
      for (const MappedOp& inside : *list) op(inside);
  }
  void add(const StoreOut& x) {
    read.insert(x.buffer);
    for (Expr e : x.index) expr(e);
  }
  void add(const Define&) {}
  template <class T>
  void add(const T&) {
    others = true;
  }
};

/// Ranges of `count` elements become ranges of `fewer`.
void clip(Ops& list, Sym count, Expr fewer) {
  const auto clip_frame = [&](Frame& f) {
    for (AxisFrame& a : f)
      if (a.extent == Expr(count)) a.extent = fewer;
  };
  for (MappedOp& o : list) {
    if (auto* map = std::get_if<MapOp>(&o.node)) clip_frame(map->frame);
    if (auto* reduce = std::get_if<ReduceOp>(&o.node)) clip_frame(reduce->frame);
    if (auto* product = std::get_if<Mma>(&o.node)) clip_frame(product->frame);
    if (auto* vote = std::get_if<Vote>(&o.node)) {
      clip_frame(vote->frame);
      clip(vote->then, count, fewer);
      clip(vote->otherwise, count, fewer);
    }
  }
}

bool meet(const std::set<Sym>& a, const std::set<Sym>& b) {
  return std::any_of(a.begin(), a.end(), [&](Sym s) { return b.count(s) > 0; });
}

}  // namespace

/// The panel axis of a product by tile registers without further loops; null for all other ops.
Sym CppKernel::tile_lane(const MappedOp& o) const {
  const auto* x = std::get_if<Mma>(&o.node);
  if (!x || !is_tile_product(*x)) return {};
  const auto axes = cpu::product_axes(cpu::operand_of(kernel_, x->d), x->a, cpu::operand_of(kernel_, x->a),
                                      x->b, cpu::operand_of(kernel_, x->b), x->contracted, extents_);
  return axes && axes->outer.empty() ? axes->lane : Sym();
}

/// Are the vectors of an op those of one panel after another, whose elements alone it reads and writes of tiles with the lane axis? Totals over all lanes may be
/// taken by adding one panel after another.
bool CppKernel::panel_by_panel(const MappedOp& o, Sym lane, const AxisFrame& place) const {
  const auto placed_so = [&](const Frame& f) {
    const AxisFrame* a = of_axis(f, lane);
    return a && a->origin == place.origin && a->extent == place.extent;
  };
  if (const auto* x = std::get_if<Mma>(&o.node)) return tile_lane(o) == lane && placed_so(x->frame);
  if (const auto* x = std::get_if<MapOp>(&o.node))
    return cpu::operand_of(kernel_, x->buffer).fastest == lane && placed_so(x->frame);
  if (const auto* x = std::get_if<ReduceOp>(&o.node)) {
    const Buffer& b = kernel_.buffer(x->buffer);
    if (!placed_so(x->frame) || lane_of(*x) != lane) return false;
    const bool own = std::find(b.axes.begin(), b.axes.end(), lane) != b.axes.end();
    return own || (x->accumulate && x->reducer == Reducer::Any);
  }
  if (const auto* x = std::get_if<Vote>(&o.node)) {
    const auto all = [&](const Ops& list) {
      return std::all_of(list.begin(), list.end(),
                         [&](const MappedOp& inside) { return panel_by_panel(inside, lane, place); });
    };
    return x->axes.empty() && all(x->then) && all(x->otherwise);
  }
  return false;
}

/// Where a mask ends a chunk behind the last element that the rows of a block see, it ends for those of a panel behind the last that these see: the bound is that
/// of an interval of rows (tile/mask.cc), taken for one that ends with the panel.
void CppKernel::end_with_panel(Ops& run, Sym lane) {
  const auto block = std::find_if(kernel_.grid.begin(), kernel_.grid.end(),
                                  [&](const KernelAxis& a) { return a.index == lane; });
  if (block == kernel_.grid.end()) return;
  const Expr first = Expr(block->counter) * Expr(block->block),
             last = simplify(first + Expr(block->block - 1));
  std::map<Sym, Expr> counts;
  for (const MappedOp& o : run)
    if (const auto* x = std::get_if<Mma>(&o.node))
      for (const AxisFrame& a : x->frame)
        if (a.extent.is(Op::Symbol) && defined_.count(a.extent->sym))
          counts[a.extent->sym] = defined_[a.extent->sym];
  Sym past;
  const auto variable = [](const std::string& name) {
    return Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
  };
  for (const auto& [count, value] : counts) {
    if (!past) past = variable("last");
    const Expr sooner = rewrite(value, [&](Expr e) { return e == last ? first + Expr(past) : e; });
    if (sooner == value) continue;
    print_.begin({}, {}, 0, width_);
    if (!defined_.count(past)) {
      defined_[past] = Expr();
      out_.line(
          fmt::format("const int64 {} = p * {} + {};", names_.of(past), panel_of(lane), panel_of(lane) - 1));
    }
    const Sym fewer = variable(count.name());
    const std::string text = print_.integer(max(0, sooner));
    out_.line(fmt::format("const int64 {} = {};  // for the rows of this panel", names_.of(fewer), text));
    clip(run, count, fewer);
  }
}

size_t CppKernel::by_panels(const Ops& list, size_t k) {
  if (in_panel_ || !by_tiles()) return 0;
  Sym lane;
  const AxisFrame* place = nullptr;
  for (size_t n = k; n < list.size() && !lane; ++n)
    if ((lane = tile_lane(list[n]))) place = of_axis(std::get<Mma>(list[n].node).frame, lane);
  if (!lane || !place || !panel_of(lane)) return 0;
  const auto has_lane = [&](Sym s) {
    const Buffer* b = print_.buffer(s);
    return b && std::find(b->axes.begin(), b->axes.end(), lane) != b->axes.end();
  };
  // What the run writes of tiles without the lane axis are totals: true as soon as one panel made them so, which later panels may see.
  Ops run, before;
  Touched touched;
  bool product = false;
  size_t n = k;
  for (; n < list.size(); ++n) {
    Touched mine;
    mine.op(list[n]);
    if (panel_by_panel(list[n], lane, *place)) {
      const auto* vote = std::get_if<Vote>(&list[n].node);
      const auto* reduce = std::get_if<ReduceOp>(&list[n].node);
      Touched values;  // a condition may read totals, and a total itself
      if (vote)
        for (const Ops* side : {&vote->then, &vote->otherwise})
          for (const MappedOp& inside : *side) values.op(inside);
      else
        values = mine;
      const auto foreign = [&](Sym s) {
        return !has_lane(s) && touched.written.count(s) > 0 && !(reduce && reduce->buffer == s);
      };
      if (std::any_of(values.read.begin(), values.read.end(), foreign)) break;
      product = product || tile_lane(list[n]);
      run.push_back(list[n]);
      touched.op(list[n]);
      continue;
    }
    // What does not depend on the run goes before it.
    const bool movable =
        std::holds_alternative<ReduceOp>(list[n].node) || std::holds_alternative<Copy>(list[n].node);
    if (run.empty() || !movable || meet(mine.written, touched.read) || meet(mine.written, touched.written) ||
        meet(mine.read, touched.written))
      break;
    before.push_back(list[n]);
  }
  if (!product || run.size() < 2) return 0;
  if (!before.empty() && !panel_by_panel(list[n - 1], lane, *place)) {
    // Behind the last op of the run nothing moves: it would only be printed earlier.
    while (n > k && !panel_by_panel(list[n - 1], lane, *place)) --n, before.pop_back();
  }
  ops(before);
  begin({*place}, lane);
  open_panels(lane);
  Touched after;
  for (size_t later = n; later < list.size(); ++later) after.op(list[later]);
  const bool within = !after.others && !meet(touched.written, after.read);
  if (within) end_with_panel(run, lane);
  in_panel_ = lane;
  ops(run);
  in_panel_ = {};
  out_.close();
  return n - k;
}

void CppKernel::bring_chunk(const Ops& body) {
  std::vector<std::string> rows;
  std::string steps;
  const auto add = [&](Sym tensor, const std::vector<Expr>& index, const Frame& frame, const Ahead& ahead) {
    begin(frame, {});
    std::vector<CppAxis> places;
    std::string sizes;
    int axes = 0;
    for (const AxisFrame& f : frame)
      if (const CppAxis* a = print_.axis(f.axis)) {
        sizes += fmt::format(", {}, {}", print_.tensor_step(tensor, index, f.axis), a->extent);
        places.push_back(*a);
        places.back().var = "0";
        ++axes;
      }
    if (axes == 1) sizes += ", 0, 1";
    if (axes != 1 && axes != 2) return;
    std::string from;
    if (ahead.axis)
      from =
          fmt::format(" + {} * {}", ahead.elements, as_factor(print_.tensor_step(tensor, index, ahead.axis)));
    print_.begin(places, {}, 0, width_);
    rows.push_back(fmt::format("upcoming.add({} + {}{}{});", names_.of(tensor),
                               print_.tensor_offset(tensor, index), from, sizes));
  };
  const std::function<void(const Ops&)> visit = [&](const Ops& list) {
    for (const MappedOp& o : list) {
      if (const auto* vote = std::get_if<Vote>(&o.node)) {
        visit(vote->then);
        visit(vote->otherwise);
      } else if (const auto* copy = std::get_if<Copy>(&o.node)) {
        const bool plain = kernel_.buffer(copy->buffer).dtype == DType::bf16 && !copy->present;
        if (plain && copy->ahead.axis && of_axis(copy->frame, copy->ahead.axis))
          add(copy->tensor, copy->index, copy->frame, copy->ahead);
      } else if (const auto* x = std::get_if<Mma>(&o.node); x && is_tile_product(*x)) {
        if (x->next) {
          const Buffer& next = kernel_.buffer(x->next);
          if (print_.dtype(next.tensor) == DType::bf16) add(next.tensor, next.index, x->next_frame, {});
        }
        const auto axes =
            cpu::product_axes(cpu::operand_of(kernel_, x->d), x->a, cpu::operand_of(kernel_, x->a), x->b,
                              cpu::operand_of(kernel_, x->b), x->contracted, extents_);
        if (!axes || !axes->row) continue;
        begin(x->frame, {});
        steps += fmt::format("{}(({} + {}) / {}) * (({} + 31) / 32) * (({} + 31) / 32)",
                             steps.empty() ? "" : " + ", print_.axis(axes->lane)->extent,
                             panel_of(axes->lane) - 1, panel_of(axes->lane), print_.axis(axes->row)->extent,
                             print_.axis(axes->inner)->extent);
      }
    }
  };
  visit(body);
  upcoming_ = !rows.empty() && rows.size() <= 4 && !steps.empty();
  if (!upcoming_) return;
  out_.line("Upcoming upcoming;  // what the next chunk reads");
  for (const std::string& line : rows) out_.line(line);
  out_.line(fmt::format("upcoming.share({});", steps));
}

}  // namespace tilewright
