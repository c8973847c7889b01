// Tiles of bf16 in Local: factors of products on a unit for pairs, in pairs of rows or contiguous along the summed axis (map/cpu/pairs.h).
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cpp_kernel.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/map/cpu/pairs.h"
#include "tilewright/support/error.h"

namespace tilewright {

int64_t pair_step(const Buffer& b) {
  const Sym axis = cpu::pair_axis(b);
  for (const Digit& d : b.layout.digits())
    if (axis && b.axes[size_t(d.axis)] == axis && d.step == 2) return d.stride;
  return 0;  // one pair
}

bool CppKernel::by_tiles() const {
  bool found = false;
  for (const Role& r : kernel_.roles)
    for_each_op(r.body, [&](const MappedOp& o) {
      const Mma* x = std::get_if<Mma>(&o.node);
      const Atom* atom = x ? find_atom(x->atom) : nullptr;
      found = found || (atom && atom->dtype == DType::bf16 && atom->k > 2);
    });
  return found;
}

std::vector<CppAxis> CppKernel::placed(const Frame& frame, const std::map<Sym, std::string>& at) const {
  std::vector<CppAxis> places;
  for (const AxisFrame& f : frame) {
    const CppAxis* p = print_.axis(f.axis);
    if (!p) continue;
    places.push_back(*p);
    if (auto it = at.find(f.axis); it != at.end()) places.back().var = it->second;
  }
  return places;
}

void CppKernel::copy_bf16(const Copy& x, const Buffer& b) {
  TW_CHECK(!x.present && print_.dtype(x.tensor) == DType::bf16,
           fmt::format("{} is no plain copy of bf16", b.sym.name()));
  const Sym paired = cpu::pair_axis(b), fastest = cpu::operand_of(kernel_, b.sym).fastest;
  const Sym inner = paired ? paired : fastest;  // summed
  begin(x.frame, {});
  Sym row = paired ? fastest : Sym();  // of several the longest
  for (Sym a : scalar_axes(b, inner))
    if (!paired && print_.axis(a) && (!row || extents_[a] >= extents_[row])) row = a;
  TW_CHECK(print_.axis(inner) && print_.axis(row) && print_.moves_by_steps(x.tensor, x.index),
           fmt::format("{} lies at no constant strides", x.tensor.name()));
  const std::string rows = print_.axis(row)->extent, n = print_.axis(inner)->extent;
  const std::string row_step = print_.tensor_step(x.tensor, x.index, row),
                    inner_step = print_.tensor_step(x.tensor, x.index, inner);
  print_.begin(placed(x.frame, {{row, "0"}, {inner, "0"}}), {}, 0, width_);
  const int64_t panel = paired ? panel_of(row) : 0;
  if (panel) open_panels(row);
  for (Sym a : scalar_axes(b, inner))
    if (a != row && print_.axis(a)) open_axis(a);
  std::string to = pointer(b),
              from = fmt::format("{} + {}", names_.of(x.tensor), print_.tensor_offset(x.tensor, x.index)),
              exist = rows;
  if (panel) {
    to += fmt::format(" + p * {}", panel_step(b, row, panel));
    from += fmt::format(" + p * {} * {}", panel, as_factor(row_step));
    exist = fmt::format("{} - p * {}", as_factor(rows), panel);
  }
  if (paired) {
    const int axis = int(std::find(b.axes.begin(), b.axes.end(), row) - b.axes.begin());
    out_.line(fmt::format("pack_pairs({}, {}, {}, {}, {}, {}, {}, {});", to, pair_step(b),
                          panel ? panel : b.layout.shape()[size_t(axis)], from, row_step, inner_step, exist,
                          n));
  } else {
    out_.line(fmt::format("pack_rows({}, {}, {}, {}, {}, {}, {});", to, print_.step(b, row), from, row_step,
                          inner_step, rows, n));
  }
  for (Sym a : scalar_axes(b, inner))
    if (a != row && print_.axis(a)) out_.close();
  if (panel) out_.close();
}

void CppKernel::map_bf16(const MapOp& x, const Buffer& b) {
  const Expr value = x.value.is(Op::Cast) && x.value->dtype == DType::bf16 ? x.value.arg(0) : x.value;
  const Sym paired = cpu::pair_axis(b), lane = cpu::operand_of(kernel_, b.sym).fastest;
  begin(x.frame, lane);
  const Vectors vectors = panel_vectors(lane);
  const auto print = [&] { return print_.value_text(value, CKind::Real); };
  if (!paired) {  // contiguous along the summed axis
    open_panels(lane);
    for (Sym a : scalar_axes(b, lane))
      if (print_.axis(a)) open_axis(a);
    const std::string text = in_step(vectors, print);
    out_.line(fmt::format("st_bf16({}, {});", pointer(b), text));
    close_tile(b, lane);
    return;
  }
  const CppAxis k = *print_.axis(paired);
  const auto second = placed(x.frame, {{paired, fmt::format("({} + 1)", k.var)}}),
             first = placed(x.frame, {});
  const int64_t panel = panel_of(lane);
  TW_CHECK(panel > 0, fmt::format("{} lies in no panels of a product", b.sym.name()));
  open_panels(lane);
  for (Sym a : scalar_axes(b, lane))
    if (a != paired && print_.axis(a)) open_axis(a);
  out_.open(fmt::format("for (int64 {0} = 0; {0} < {1}; {0} += 2)", k.var, k.extent));
  out_.line(fmt::format("vf low[{0}], high[{0}];", vectors.count));
  const std::string c = vectors.count > 1 ? "c" : "0";
  const auto half = [&](const char* name, const std::vector<CppAxis>& places) {
    print_.begin(places, lane, panel, width_);
    if (vectors.count == 1) out_.open("");
    const std::string text = in_step(vectors, print);
    out_.line(fmt::format("{}[{}] = {};", name, c, text));
    vectors.close();
    if (vectors.count == 1) out_.close();
  };
  half("low", first);
  out_.open(fmt::format("if ({} + 1 < {})", k.var, k.extent));
  half("high", second);
  out_.otherwise();
  out_.line("UNROLL");
  out_.line(fmt::format("for (int u = 0; u < {}; ++u) high[u] = (vf){{}};", vectors.count));
  out_.close();
  print_.begin(first, lane, panel, width_);
  if (vectors.count == 1) out_.open("");
  vectors.open();
  out_.line(fmt::format("st_pairs({}, low[{}], high[{}]);", pointer(b), c, c));
  vectors.close();
  if (vectors.count == 1) out_.close();
  out_.close();
  for (Sym a : scalar_axes(b, lane))
    if (a != paired && print_.axis(a)) out_.close();
  close_panels(lane);
}

CValue CppPrinter::read_bf16(const Buffer& b, bool vector) {
  const std::string& base = names_.of(b.sym);
  const std::string at = offset(b), pointer = at == "0" ? base : fmt::format("{} + {}", base, at);
  CValue v = CValue::real("", dialect().real_bits);
  v.lanes = vector;
  const Sym paired = cpu::pair_axis(b);
  if (!vector) {
    v.text = fmt::format("load_bf16({}, 0, 1)[0]", pointer);
  } else if (paired == lane_) {
    v.text = fmt::format("ld_along_pairs({}, {}, {})", pointer, pair_step(b), remaining());
  } else {
    int64_t stride = 0;
    for (const Digit& d : b.layout.digits())
      if (b.axes[size_t(d.axis)] == lane_ && d.step == 1) stride = d.stride;
    v.text = paired && stride == 2 ? fmt::format("ld_pairs({})", pointer)
                                   : fmt::format("load_bf16({}, {}, {})", pointer, stride, remaining());
  }
  return v;
}

}  // namespace tilewright
