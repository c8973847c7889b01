// Shared memory by words: reductions into it, whose results the threads of a role share, reading vectors of 16 bytes in an order free of bank conflicts
// where rows are swizzled or apart in the banks; and pairs of packed elements from it.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

/// A two-dimensional operand that is read in vectors: one axis is reduced and the other one that of the results.
struct Vectors {
  const Buffer* operand = nullptr;
  int64_t vector = 1;          ///< elements
  bool along_reduced = false;  ///< they are contiguous along the reduced axis; else along the results
  int64_t length = 0;          ///< elements that are reduced
  int result_axis = 0;         ///< of the operand
};

std::optional<Vectors> vectors_of(const MappedKernel& k, const ReduceOp& o, const Buffer& target) {
  if (target.axes.size() != 1 || o.axes.size() != 1 || target.dtype != DType::f32) return {};
  Vectors v;
  for (Sym t : tiles_in(o.value)) {
    const Buffer& b = k.buffer(t);
    if (b.space != Space::Local) return {};
    if (b.axes.size() == 2 && !v.operand) v.operand = &b;
  }
  if (!v.operand || !is_float(v.operand->dtype) ||
      (bytes(v.operand->dtype) != 2 && bytes(v.operand->dtype) != 4))
    return {};
  const Buffer& b = *v.operand;
  if (!(b.axes[0] == target.axes[0] && b.axes[1] == o.axes[0]) &&
      !(b.axes[1] == target.axes[0] && b.axes[0] == o.axes[0]))
    return {};
  v.result_axis = b.axes[0] == target.axes[0] ? 0 : 1;
  v.length = b.layout.shape()[1 - v.result_axis];
  for (const AxisFrame& f : o.frame) {
    if (f.axis != o.axes[0] || !f.extent) continue;
    auto r = f.extent.rational();
    if (!r) return {};
    v.length = std::min(v.length, r->num());
  }
  v.vector = 16 / bytes(b.dtype);
  int inner = -1;
  for (int a : {0, 1})
    if (b.layout.contiguous(a) % v.vector == 0) inner = a;
  if (inner < 0) return {};
  for (const Digit& d : b.layout.digits())
    if (d.to == Digit::To::Offset && d.stride != 1 && d.stride % v.vector != 0) return {};
  v.along_reduced = inner != v.result_axis;
  if ((v.along_reduced ? v.length : target.layout.shape()[0]) % v.vector != 0) return {};
  return v;
}

/// Threads that share a row of `vectors`: so that as few rounds as possible remain, each of which costs a few instructions an element.
int64_t threads_of_row(int64_t rows, int64_t vectors, int64_t elements, int64_t threads) {
  int64_t best = 1, least = -1;
  for (int64_t share : {1, 2, 4, 8}) {
    if (vectors % share != 0) continue;
    int64_t exchanges = 0;
    while ((int64_t(1) << exchanges) < share) ++exchanges;
    const int64_t rounds = (rows * share + threads - 1) / threads;
    const int64_t cost = rounds * (vectors / share * (2 * elements + 2) + 2 * exchanges + 8);
    if (least < 0 || cost < least) least = cost, best = share;
  }
  return best;
}

/// For each loop over a digit but the last how far apart its steps lie in a Local buffer, in elements, and whether in bits that the swizzle changes: then
/// all steps of the loop are within them. Nothing where a step moves what the swizzle depends on, or more than one digit of the layout.
std::optional<std::vector<std::pair<int64_t, bool>>> steps_of(const Buffer& b, const Nest& nest) {
  const Swizzle& s = b.layout.swizzle();
  if (s.bits > 0 && b.alignment % (bytes(b.dtype) << (s.base + s.shift + s.bits)) != 0) return {};
  std::vector<std::pair<int64_t, bool>> out;
  for (size_t k = 0; k + 1 < nest.loops.size(); ++k) {
    const DigitLoop& l = nest.loops[k];
    int64_t distance = 0;
    for (const Digit& d : b.layout.digits()) {
      if (d.axis < 0 || b.axes[size_t(d.axis)] != nest.axes[size_t(l.axis)].axis) continue;
      if (l.step >= d.step && l.step * l.extent <= d.step * d.extent) distance = l.step / d.step * d.stride;
    }
    if (distance == 0 || !power_of_two(distance) || !power_of_two(l.extent)) return {};
    const int64_t end = distance * l.extent, low = int64_t(1) << s.base, high = low << s.bits;
    const bool swizzled = s.bits > 0 && distance >= low && end <= high;
    const bool above = s.bits == 0 || distance >= int64_t(1) << (s.base + s.shift + s.bits),
               below = end <= low;
    if (!swizzled && !above && !below) return {};
    out.emplace_back(distance, swizzled);
  }
  return out;
}

/// The elements of a vector `w` as floats.
std::string elements_of(DType t) {
  std::string text;
  for (const char* part : {"x", "y", "z", "w"}) {
    if (!text.empty()) text += ", ";
    text += bytes(t) == 4 ? fmt::format("__uint_as_float(w.{})", part)
                          : fmt::format("tw_half_{0}(w.{1}, 0), tw_half_{0}(w.{1}, 1)", name(t), part);
  }
  return text;
}

}  // namespace

void CudaKernel::reduce_to_local(const ReduceOp& o, Lines& out) {
  const Buffer& target = buffer(o.buffer);
  const auto [nest, wide] = nest_of_reduction(o);
  nest_ = &nest;
  replaced_.clear();
  const std::string type = element_type(target.dtype), identity = identity_text(o.reducer, target.dtype);
  const std::string& place = local_text_.at(o.buffer);
  const int64_t results = target.layout.elements();
  CudaPrinter printer(*this, wide ? 64 : 32, target.dtype == DType::i64 ? 64 : 32);
  const auto value = [&] { return term(o, printer, wide); };
  const auto index = [&](Sym axis) {
    out.line(fmt::format("const int {} = {};", names_.of(axis),
                         join_sum({nest.axes[nest.find(axis)].origin, names_.part(axis, "in")})));
  };
  const auto store = [&](const std::string& at, const std::string& total) {
    const std::string old = load_value(target.dtype, fmt::format("{}[{}]", place, at));
    out.line(fmt::format("{}[{}] = {};", place, at,
                         store_value(target.dtype, o.accumulate ? combine(o.reducer, old, total) : total)));
  };
  out.open("");
  const auto v = vectors_of(kernel_, o, target);
  const std::string unit = names_.fresh("unit"), step = names_.fresh("step"), part = names_.fresh("part");
  if (!v) {
    // Each thread has results of its own.
    if (o.scratch) barrier(o.across, out);
    out.open(fmt::format("for (int {0} = thread; {0} < {1}; {0} += {2})", unit, results, role_->threads));
    int64_t below = 1, total = 1;
    for (int64_t n : target.layout.shape()) total *= n;
    std::vector<std::string> local;
    for (Sym a : target.axes) local.push_back(names_.part(a, "in"));
    for (size_t a = target.axes.size(); a-- > 0;) {
      const int64_t extent = target.layout.shape()[a];
      std::string text = quotient(unit, below);
      if (below * extent < total) text = remainder(text, extent);
      out.line(fmt::format("const int {} = {};", local[a], text));
      index(target.axes[a]);
      below *= extent;
    }
    out.line(fmt::format("{} total = {};", type, identity));
    for (Sym axis : o.axes) {
      const NestAxis& a = nest.axes[nest.find(axis)];
      std::string extent = std::to_string(a.extent);
      if (a.clip) {
        index_text_.clear();
        auto r = a.clip.rational();
        extent = r ? std::to_string(r->num()) : constant_int(a.clip);
      }
      out.line("#pragma unroll 4");
      out.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", a.sequential, extent));
    }
    bind(o.frame);
    for (const NestAxis& a : nest.axes) index_text_[a.axis] = names_.of(a.axis);
    for (Sym axis : o.axes) index(axis);
    out.line(fmt::format("total = {};", combine(o.reducer, "total", value())));
    for (size_t k = 0; k < o.axes.size(); ++k) out.close();
    store(local_offset(target, local), "total");
    out.close();
    out.close();
    nest_ = nullptr;
    return;
  }

  const Buffer& operand = *v->operand;
  const Sym result = target.axes[0], reduced = o.axes[0];
  const std::string in_result = names_.part(result, "in"), in_reduced = names_.part(reduced, "in");
  const std::string first = names_.fresh(v->along_reduced ? in_reduced + "_at" : in_result + "_at");
  if (bytes(operand.dtype) == 2) helpers_.use(operand.dtype == DType::f16 ? "tw_f16" : "tw_bf16");
  const auto read_vector = [&] {
    std::vector<std::string> at(2);
    at[size_t(v->result_axis)] = v->along_reduced ? in_result : first;
    at[size_t(1 - v->result_axis)] = v->along_reduced ? first : in_reduced;
    out.line(fmt::format("const uint4 w = *(const uint4*)({} + {});", local_text_.at(operand.sym),
                         local_offset(operand, at)));
    out.line(fmt::format("const float {}[{}] = {{{}}};", part, v->vector, elements_of(operand.dtype)));
  };
  replaced_[operand.sym] = part + "[k]";
  if (v->along_reduced) {
    const int64_t vectors = v->length / v->vector;
    const int64_t share = threads_of_row(results, vectors, v->vector, role_->threads);
    const bool ragged = results * share % role_->threads != 0;
    constexpr int chains = 4;  // sums that do not wait for each other
    out.open(fmt::format("for (int first = 0; first < {}; first += {})", results * share, role_->threads));
    out.line(fmt::format("const int {} = first + thread;", unit));
    const std::string row = quotient(unit, share);
    out.line(fmt::format("const int {} = {};", in_result,
                         ragged ? fmt::format("min({}, {})", row, results - 1) : row));
    index(result);
    out.line(fmt::format("float total[{0}] = {{{1}, {1}, {1}, {1}}};", chains, identity));
    out.line("#pragma unroll 2");
    out.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", step, vectors / share));
    const std::string vector =
        share > 1 ? fmt::format("({} * {} + {})", remainder(unit, share), vectors / share, step) : step;
    out.line(fmt::format("const int {} = {} * {};", first, vector, v->vector));
    read_vector();
    out.line("#pragma unroll");
    out.open(fmt::format("for (int k = 0; k < {}; ++k)", v->vector));
    out.line(fmt::format("const int {} = {} + k;", in_reduced, first));
    index(reduced);
    const std::string chain = fmt::format("total[k % {}]", chains);
    out.line(fmt::format("{} = {};", chain, combine(o.reducer, chain, value())));
    out.close();
    out.close();
    const std::string low = "(" + combine(o.reducer, "total[0]", "total[1]") + ")",
                      high = "(" + combine(o.reducer, "total[2]", "total[3]") + ")";
    const std::string row_total = names_.fresh("row_total");
    out.line(fmt::format("float {} = {};", row_total, combine(o.reducer, low, high)));
    for (int64_t s = 1; s < share; s *= 2)
      out.line(fmt::format(
          "{} = {};", row_total,
          combine(o.reducer, row_total, fmt::format("__shfl_xor_sync(0xffffffffu, {}, {})", row_total, s))));
    std::string own = ragged ? fmt::format("{} < {}", unit, results * share) : "";
    if (share > 1) own += (own.empty() ? "" : " && ") + remainder(unit, share) + " == 0";
    if (!own.empty()) out.open(fmt::format("if ({})", own));
    store(local_offset(target, {in_result}), row_total);
    if (!own.empty()) out.close();
    out.close();
  } else {
    // Vectors of results; where there are fewer than threads, several of these share the sum and meet in the scratch tile.
    const int64_t vectors = results / v->vector;
    const int64_t parts = o.scratch ? buffer(o.scratch).layout.elements() / results : 1;
    TW_CHECK(parts == 1 || parts * vectors <= role_->threads, "parts of a sum have a thread each");
    out.open(parts > 1 ? ""
                       : fmt::format("for (int {0} = thread; {0} < {1}; {0} += {2})", unit, vectors,
                                     role_->threads));
    if (parts > 1) out.line(fmt::format("const int {} = thread;", unit));
    const std::string vector = parts > 1 ? remainder(unit, vectors) : unit;
    out.line(fmt::format("const int {} = {} * {};", first, vector, v->vector));
    out.line(fmt::format("float total[{}];", v->vector));
    out.line("#pragma unroll");
    out.line(fmt::format("for (int k = 0; k < {}; ++k) total[k] = {};", v->vector, identity));
    const bool idle = parts * vectors < role_->threads && parts > 1;
    if (idle) out.open(fmt::format("if ({} < {})", unit, parts * vectors));
    out.line("#pragma unroll 2");
    out.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", in_reduced,
                         parts > 1 ? quotient(unit, vectors) : "0", v->length, parts));
    index(reduced);
    read_vector();
    out.line("#pragma unroll");
    out.open(fmt::format("for (int k = 0; k < {}; ++k)", v->vector));
    out.line(fmt::format("const int {} = {} + k;", in_result, first));
    index(result);
    out.line(fmt::format("total[k] = {};", combine(o.reducer, "total[k]", value())));
    out.close();
    out.close();
    if (idle) out.close();
    if (parts == 1) {
      out.line("#pragma unroll");
      out.open(fmt::format("for (int k = 0; k < {}; ++k)", v->vector));
      store(local_offset(target, {"(" + first + " + k)"}), "total[k]");
      out.close();
    } else {
      const std::string shared = names_.fresh("shared");
      out.line(
          fmt::format("float* const {} = (float*)(local + {});", shared, kernel_.local_offset(o.scratch)));
      barrier(o.across, out);
      out.line("#pragma unroll");
      out.line(fmt::format("for (int k = 0; k < {}; ++k) {}{}[{} * {} + {} + k] = total[k];", v->vector,
                           idle ? fmt::format("if ({} < {}) ", unit, parts * vectors) : "", shared,
                           quotient(unit, vectors), results, first));
      barrier(o.across, out);
      const std::string at = names_.fresh("result");
      out.open(fmt::format("for (int {0} = thread; {0} < {1}; {0} += {2})", at, results, role_->threads));
      out.line(fmt::format("float whole = {}[{}];", shared, at));
      out.line("#pragma unroll");
      out.line(fmt::format("for (int k = 1; k < {}; ++k) whole = {};", parts,
                           combine(o.reducer, "whole", fmt::format("{}[k * {} + {}]", shared, results, at))));
      store(local_offset(target, {at}), "whole");
      out.close();
    }
    out.close();
  }
  out.close();
  nest_ = nullptr;
  replaced_.clear();
}

bool CudaKernel::copies_words(const MapOp& o) const {
  const Buffer& target = buffer(o.buffer);
  if (!packed(target) || !o.value.is(Op::Read) || !has_buffer(o.value->sym)) return false;
  const Buffer& from = buffer(o.value->sym);
  if (from.space != Space::Local || from.dtype != target.dtype) return false;
  for (const Digit& d : target.layout.digits()) {
    if (d.axis < 0 || d.to == Digit::To::Owner || d.stride != 1 || d.step != 1) continue;
    auto at = std::find(from.axes.begin(), from.axes.end(), target.axes[size_t(d.axis)]);
    return d.extent == 2 && at != from.axes.end() &&
           from.layout.contiguous(int(at - from.axes.begin())) % 2 == 0 &&
           std::all_of(from.layout.digits().begin(), from.layout.digits().end(), [](const Digit& x) {
             return x.to == Digit::To::Owner || x.stride == 1 || x.stride % 2 == 0;
           });
  }
  return false;
}

bool CudaKernel::copies_registers(const MapOp& o) const {
  const Buffer& target = buffer(o.buffer);
  if (!packed(target) || !o.value.is(Op::Read) || !has_buffer(o.value->sym)) return false;
  const Buffer& from = buffer(o.value->sym);
  return packed(from) && from.dtype == target.dtype && from.axes == target.axes &&
         from.layout == target.layout && o.value == read(from.sym, {from.axes.begin(), from.axes.end()});
}

void CudaKernel::copy_words(const MapOp& o, Lines& out) {
  const Buffer &target = buffer(o.buffer), &from = buffer(o.value->sym);
  const Nest nest = nest_of(o.frame, target.axes, {o.buffer, from.sym}, o.uses);
  nest_ = &nest;
  TW_CHECK(!nest.loops.empty() && nest.loops.back().step == 1 && nest.loops.back().extent == 2,
           fmt::format("pairs of {} are not innermost", target.sym.name()));
  const size_t outer = nest.loops.size() - 1;
  const auto coordinates_of = [&](bool thread, bool loops) {
    for (size_t k = 0; k < nest.axes.size(); ++k) {
      const NestAxis& a = nest.axes[k];
      std::vector<std::string> terms;
      if (thread && !a.owner.empty()) terms.push_back(a.owner);
      for (const DigitLoop& l : nest.loops)
        if (loops && l.axis == int(k)) terms.push_back(times(l.var, l.step));
      out.line(fmt::format("const int {} = {};", names_.part(a.axis, "in"), join_sum(terms)));
    }
  };
  std::vector<std::string> local;
  for (Sym a : from.axes) local.push_back(names_.part(a, "in"));
  out.open("");
  const auto steps = steps_of(from, nest);
  std::string place;
  if (steps) {
    // Where the thread's first pair lies; the others lie a distance from there, in bits that the swizzle changes by exclusive or.
    const std::string first = names_.fresh("first_pair");
    coordinates_of(true, false);
    const std::string slot = slot_of(from.sym, o.uses);
    out.line(fmt::format("const int {} = {}{} + {} * ({});", first, kernel_.local_offset(from.sym),
                         slot.empty() ? "" : fmt::format(" + {} * {}", slot, from.slot_bytes()),
                         bytes(from.dtype), local_offset(from, local)));
    std::vector<std::string> added, mixed;
    for (size_t k = 0; k < outer; ++k) {
      const auto& [distance, swizzled] = (*steps)[k];
      (swizzled ? mixed : added).push_back(times(nest.loops[k].var, distance * bytes(from.dtype)));
    }
    place = mixed.empty() ? first : fmt::format("({} ^ ({}))", first, join_sum(mixed));
    place = fmt::format("(local + {} + {})", place, join_sum(added));
  }
  open_loops(nest, 0, outer, out);
  out.line(fmt::format("const int {} = 0;", nest.loops.back().var));
  if (!steps) {
    coordinates_of(true, true);
    place = fmt::format("({} + {})", local_text_.at(from.sym), local_offset(from, local));
  }
  out.line(fmt::format("{}[({}) >> 1] = *(const unsigned*){};", names_.of(o.buffer),
                       register_offset(target, nest), place));
  close_loops(nest, 0, outer, out);
  out.close();
  nest_ = nullptr;
}

}  // namespace tilewright::cuda_text
