// The elements of a thread: loops over its registers, coordinates, and where an element lies in a buffer.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {

int Nest::find(Sym axis) const {
  for (size_t k = 0; k < axes.size(); ++k)
    if (axes[k].axis == axis) return int(k);
  return -1;
}

void CudaKernel::bind(const Frame& frame) {
  index_text_.clear();
  std::map<Sym, std::string> bound;
  for (const AxisFrame& f : frame) bound[f.axis] = "(" + constant_int(f.origin) + ")";
  index_text_ = bound;
}

Nest CudaKernel::nest_of(const Frame& frame, const std::vector<Sym>& axes, const std::vector<Sym>& buffers,
                         const std::vector<Use>& uses) {
  Nest nest;
  // The widest register buffer orders the loops.
  std::vector<const Buffer*> held;
  for (Sym s : buffers)
    if (has_buffer(s) && buffer(s).space == Space::Registers) held.push_back(&buffer(s));
  std::stable_sort(held.begin(), held.end(),
                   [](const Buffer* a, const Buffer* b) { return a->axes.size() > b->axes.size(); });
  index_text_.clear();
  for (Sym axis : axes) {
    NestAxis a;
    a.axis = axis;
    a.origin = "0";
    for (const KernelAxis& g : kernel_.grid)
      if (g.index == axis)
        a.origin =
            g.block == 1 ? names_.of(g.counter) : fmt::format("{} * {}", names_.of(g.counter), g.block);
    for (const AxisFrame& f : frame) {
      if (f.axis != axis) continue;
      a.origin = constant_int(f.origin);
      a.clip = f.extent;
    }
    for (const Buffer* b : held) {
      auto at = std::find(b->axes.begin(), b->axes.end(), axis);
      if (at == b->axes.end()) continue;
      const int place = int(at - b->axes.begin());
      a.extent = b->layout.shape()[place];
      std::vector<std::string> owner;
      for (const Digit& d : b->layout.digits()) {
        if (d.axis != place) continue;
        if (d.to == Digit::To::Owner) {
          const int64_t above = d.stride * d.extent;
          std::string value = d.stride == 1 ? "thread" : quotient("thread", d.stride);
          if (above < role_->threads) value = remainder(value, d.extent);
          owner.push_back(times(value, d.step));
          a.owner_digits.push_back(d);
        } else {
          nest.loops.push_back({int(nest.axes.size()), d.extent, d.step, d.stride, {}});
        }
      }
      a.owner = owner.empty() ? "" : join_sum(owner);
      a.held = true;
      break;
    }
    if (!a.held) {
      a.sequential = names_.part(axis, "in");
      for (Sym s : buffers) {
        if (!has_buffer(s)) continue;
        const Buffer& b = buffer(s);
        auto at = std::find(b.axes.begin(), b.axes.end(), axis);
        if (b.space == Space::Local && at != b.axes.end()) a.extent = b.layout.shape()[at - b.axes.begin()];
      }
    }
    nest.axes.push_back(a);
  }
  std::stable_sort(nest.loops.begin(), nest.loops.end(),
                   [](const DigitLoop& a, const DigitLoop& b) { return a.order > b.order; });
  std::map<int, int> count;
  for (DigitLoop& l : nest.loops)
    l.var = names_.part(nest.axes[l.axis].axis, std::to_string(count[l.axis]++));
  // Everything that is not in the range has the value of its origin.
  bind(frame);
  for (const NestAxis& a : nest.axes) index_text_[a.axis] = names_.of(a.axis);
  local_text_.clear();
  for (Sym s : buffers)
    if (has_buffer(s) && buffer(s).space == Space::Local && !local_text_.count(s))
      local_text_[s] = local_pointer(buffer(s), uses);
  return nest;
}

std::string CudaKernel::slot_of(Sym b, const std::vector<Use>& uses) {
  const int slots = buffer(b).slots;
  if (slots == 1) return "";
  for (const Use& u : uses) {
    if (u.buffer != b) continue;
    const std::string n = constant_int(u.number);
    return remainder("(" + n + ")", slots);
  }
  TW_CHECK(false, fmt::format("no slot is named for {}", b.name()));
}

std::string CudaKernel::local_pointer(const Buffer& b, const std::vector<Use>& uses) {
  const std::string slot = slot_of(b.sym, uses);
  return fmt::format("(({}*)(local + {}{}))", storage_type(b.dtype), kernel_.local_offset(b.sym),
                     slot.empty() ? "" : fmt::format(" + {} * {}", slot, b.slot_bytes()));
}

void CudaKernel::open_loops(const Nest& nest, size_t from, size_t to, Lines& out) {
  for (size_t k = from; k < to; ++k) {
    out.line("#pragma unroll");
    out.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", nest.loops[k].var, nest.loops[k].extent));
  }
}

void CudaKernel::close_loops(const Nest&, size_t from, size_t to, Lines& out) {
  for (size_t k = from; k < to; ++k) out.close();
}

void CudaKernel::coordinates(const Nest& nest, Lines& out) {
  for (size_t k = 0; k < nest.axes.size(); ++k) {
    const NestAxis& a = nest.axes[k];
    const std::string &name = names_.of(a.axis), &inside = names_.part(a.axis, "in");
    if (a.held) {
      std::vector<std::string> terms;
      if (!a.owner.empty()) terms.push_back(a.owner);
      for (const DigitLoop& l : nest.loops)
        if (l.axis == int(k)) terms.push_back(times(l.var, l.step));
      out.line(fmt::format("const int {} = {};", inside, join_sum(terms)));
    }
    out.line(fmt::format("const int {} = {};", name, join_sum({a.origin, inside})));
  }
}

std::string CudaKernel::register_offset(const Buffer& b, const Nest& nest) const {
  std::vector<std::string> terms;
  for (const Digit& d : b.layout.digits()) {
    if (d.axis < 0) continue;
    const int axis = nest.find(b.axes[d.axis]);
    TW_CHECK(axis >= 0,
             fmt::format("axis {} of {} is not in the range", b.axes[d.axis].name(), b.sym.name()));
    if (d.to == Digit::To::Owner) {
      const auto& owners = nest.axes[axis].owner_digits;
      Digit same = d;
      const bool found = std::any_of(owners.begin(), owners.end(), [&](const Digit& o) {
        return o.extent == same.extent && o.step == same.step && o.stride == same.stride;
      });
      TW_CHECK(found, fmt::format("{} is held by other threads than those that need it", b.sym.name()));
      continue;
    }
    int64_t covered = 1;
    for (const DigitLoop& l : nest.loops) {
      if (l.axis != axis || l.step < d.step || l.step * l.extent > d.step * d.extent) continue;
      terms.push_back(times(l.var, d.stride * (l.step / d.step)));
      covered *= l.extent;
    }
    TW_CHECK(covered == d.extent, fmt::format("the loops do not cover {}", b.sym.name()));
  }
  return join_sum(terms);
}

std::string CudaKernel::local_offset(const Buffer& b, const std::vector<std::string>& local) const {
  std::vector<std::string> terms;
  for (const Digit& d : b.layout.digits()) {
    if (d.axis < 0 || d.to == Digit::To::Owner) continue;
    std::string value = local[d.axis];
    const bool whole = d.step == 1 && d.extent == b.layout.shape()[d.axis];
    if (!whole) {
      value = quotient(value, d.step);
      if (d.step * d.extent < b.layout.shape()[d.axis]) value = remainder(value, d.extent);
    }
    terms.push_back(times(value, d.stride));
  }
  const std::string sum = join_sum(terms);
  const Swizzle& s = b.layout.swizzle();
  if (s.bits == 0) return sum;
  return fmt::format("tw_swizzle<{}, {}, {}>({})", s.bits, s.base, s.shift, sum);
}

std::string CudaKernel::replica_guard(const Buffer& b) const {
  std::vector<std::string> terms;
  for (const Digit& d : b.layout.digits()) {
    if (d.axis >= 0) continue;
    std::string value = d.stride == 1 ? "thread" : quotient("thread", d.stride);
    if (d.stride * d.extent < role_->threads) value = remainder(value, d.extent);
    terms.push_back(value + " == 0");
  }
  std::string text;
  for (const std::string& t : terms) text += (text.empty() ? "" : " && ") + t;
  return text;
}

}  // namespace tilewright::cuda_text
