// Reductions: the partial results of a thread, and their exchange among threads.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {

static constexpr int64_t warp_size = 32;

std::string CudaKernel::combine(Reducer r, const std::string& a, const std::string& b) {
  switch (r) {
    case Reducer::Sum: return a + " + " + b;
    case Reducer::Prod: return a + " * " + b;
    case Reducer::Max: helpers_.use("tw_max"); return fmt::format("tw_max({}, {})", a, b);
    case Reducer::Min: helpers_.use("tw_min"); return fmt::format("tw_min({}, {})", a, b);
    case Reducer::Any: return fmt::format("({} | {})", a, b);
    case Reducer::All: return fmt::format("({} & {})", a, b);
    default: throw UserError(Span{}, fmt::format("reduction {} is not printed for GPUs", name(r)));
  }
}

std::string CudaKernel::term(const ReduceOp& o, CudaPrinter& printer, bool wide) {
  const DType t = buffer(o.buffer).dtype;
  const std::string value = t == DType::boolean ? printer.boolean(o.value)
                            : is_integer(t)     ? printer.integer(o.value)
                                                : printer.real(o.value);
  // Extremes compare numbers of one type; rounding keeps their order.
  const bool rounds =
      (o.reducer == Reducer::Max || o.reducer == Reducer::Min) && is_float(t) && t != DType::f64;
  return fmt::format("{}({})", rounds && wide ? "(float)" : "", value);
}

std::string CudaKernel::identity_text(Reducer r, DType t) {
  switch (r) {
    case Reducer::Sum:
    case Reducer::Any: return t == DType::boolean ? "false" : "0";
    case Reducer::Prod:
    case Reducer::All: return t == DType::boolean ? "true" : "1";
    case Reducer::Max:
    case Reducer::Min: {
      const std::string sign = r == Reducer::Max ? "-" : "";
      if (t == DType::f64) return sign + "tw_infinity64()";
      if (t == DType::i64)
        return r == Reducer::Max ? "(-9223372036854775807ll - 1)" : "9223372036854775807ll";
      if (is_integer(t)) return r == Reducer::Max ? "(-2147483647 - 1)" : "2147483647";
      return sign + "tw_infinity()";
    }
    default: throw UserError(Span{}, fmt::format("reduction {} is not printed for GPUs", name(r)));
  }
}

std::optional<Scope> CudaKernel::exchange(const ReduceOp& o, const std::string& partial, const Nest& nest,
                                          Lines& out, Lines& behind) {
  if (o.across == Scope::Thread) return {};
  const Buffer& target = buffer(o.buffer);
  std::vector<Digit> digits;
  if (o.axes.empty()) {
    for (const Digit& d : target.layout.digits())
      if (d.axis < 0) digits.push_back(d);
  } else {
    for (Sym a : o.axes) {
      const auto& own = nest.axes[nest.find(a)].owner_digits;
      digits.insert(digits.end(), own.begin(), own.end());
    }
  }
  const bool boolean = target.dtype == DType::boolean;
  std::vector<std::pair<int64_t, int64_t>> warps;  // extent, stride in warps
  for (const Digit& d : digits) {
    int64_t extent = d.extent, stride = d.stride;
    for (; extent > 1 && stride < warp_size; extent /= 2, stride *= 2) {
      TW_CHECK(extent % 2 == 0, "lanes are reduced in powers of two");
      const std::string other =
          boolean ? fmt::format("(bool)__shfl_xor_sync(0xffffffffu, (int){}, {})", partial, stride)
                  : fmt::format("__shfl_xor_sync(0xffffffffu, {}, {})", partial, stride);
      out.line(fmt::format("{} = {};", partial, combine(o.reducer, partial, other)));
    }
    if (extent > 1) warps.emplace_back(extent, stride / warp_size);
  }
  if (o.across == Scope::Warp || warps.empty()) return {};
  const Buffer& scratch = buffer(o.scratch);
  const int64_t elements = target.layout.elements();
  const bool lanes = std::any_of(
      target.layout.digits().begin(), target.layout.digits().end(),
      [](const Digit& d) { return d.axis >= 0 && d.to == Digit::To::Owner && d.stride < warp_size; });
  const std::string name = names_.fresh("exchange");
  for (Lines* lines : {&out, &behind})
    lines->line(fmt::format("{0}* const {1} = ({0}*)(local + {2});", storage_type(scratch.dtype), name,
                            kernel_.local_offset(o.scratch)));
  auto place = [&](const std::string& w) {
    const std::string row = fmt::format("({}) * {} + k", w, elements);
    return lanes ? fmt::format("{}[({}) * 32 + lane]", name, row) : fmt::format("{}[{}]", name, row);
  };
  const Scope scope = o.across == Scope::Group ? Scope::Group : Scope::Role;
  const std::string value = bytes(scratch.dtype) < 4 ? store_value(scratch.dtype, partial) : partial;
  out.line(fmt::format("{}{} = {};", lanes ? "" : "if (lane == 0) ", place("warp"), value));
  std::string base = "warp";
  for (auto& [extent, stride] : warps) {
    std::string digit = stride == 1 ? "warp" : quotient("warp", stride);
    digit = remainder(digit, extent);
    base += fmt::format(" - {}{}", digit, stride == 1 ? "" : fmt::format(" * {}", stride));
  }
  int64_t covered = 1;
  for (auto& [extent, stride] : warps) covered *= extent;
  if (covered * warp_size == role_->threads) base = "0";
  bool first = true;
  std::vector<int64_t> at(warps.size(), 0);
  for (bool more = true; more;) {
    int64_t offset = 0;
    for (size_t k = 0; k < warps.size(); ++k) offset += at[k] * warps[k].second;
    const std::string from =
        load_value(scratch.dtype, place(join_sum({base, offset ? std::to_string(offset) : "0"})));
    behind.line(fmt::format("{} = {};", partial, first ? from : combine(o.reducer, partial, from)));
    first = false;
    more = false;
    for (size_t k = 0; k < warps.size(); ++k) {
      if (++at[k] < warps[k].first) {
        more = true;
        break;
      }
      at[k] = 0;
    }
  }
  return scope;
}

std::pair<Nest, bool> CudaKernel::nest_of_reduction(const ReduceOp& o) {
  std::vector<Sym> range = buffer(o.buffer).axes, buffers{o.buffer};
  range.insert(range.end(), o.axes.begin(), o.axes.end());
  bool wide = buffer(o.buffer).dtype == DType::f64;
  for (Sym t : tiles_in(o.value)) {
    buffers.push_back(t);
    wide = wide || (has_buffer(t) && buffer(t).dtype == DType::f64);
  }
  return {nest_of(o.frame, range, buffers, o.uses), wide};
}

void CudaKernel::reduce_sequential(const ReduceOp& o, Lines& out) {
  const Buffer& target = buffer(o.buffer);
  TW_CHECK(!packed(target), fmt::format("{} is packed and reduced in turns", target.sym.name()));
  const auto [nest, wide] = nest_of_reduction(o);
  nest_ = &nest;
  out.open("");
  // Where threads share some of the axes, each has partial results, which are exchanged behind the loops.
  const bool shared = o.across != Scope::Thread;
  const std::string name = shared ? names_.fresh("partial") : names_.of(o.buffer);
  const std::string type = element_type(target.dtype);
  const int64_t elements = target.layout.elements();
  if (shared) out.line(fmt::format("{} {}[{}];", type, name, elements));
  if (shared || !o.accumulate) {
    out.line("#pragma unroll");
    out.line(fmt::format("for (int k = 0; k < {}; ++k) {}[k] = {};", elements, name,
                         identity_text(o.reducer, target.dtype)));
  }
  for (const NestAxis& a : nest.axes) {
    if (a.held) continue;
    std::string extent = std::to_string(a.extent);
    int64_t known = a.extent;
    if (a.clip) {
      index_text_.clear();
      if (auto r = a.clip.rational()) {
        known = r->num();
        extent = std::to_string(known);
      } else {
        extent = constant_int(a.clip);
        known = 0;
      }
    }
    // Four steps at a time let neighbouring operands be read as one vector.
    out.line(elements <= 64 && known % 4 == 0 && known > 0 && !rare_ ? "#pragma unroll 4"
                                                                     : "#pragma unroll 1");
    out.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", a.sequential, extent));
  }
  bind(o.frame);
  for (const NestAxis& a : nest.axes) index_text_[a.axis] = names_.of(a.axis);
  open_loops(nest, 0, nest.loops.size(), out);
  coordinates(nest, out);
  CudaPrinter printer(*this, wide ? 64 : 32, target.dtype == DType::i64 ? 64 : 32);
  const std::string place = fmt::format("{}[{}]", name, register_offset(target, nest));
  out.line(fmt::format("{} = {};", place, combine(o.reducer, place, term(o, printer, wide))));
  close_loops(nest, 0, nest.loops.size(), out);
  for (const NestAxis& a : nest.axes)
    if (!a.held) out.close();
  if (shared) {
    const auto each = [&](const std::string& total) {
      out.line("#pragma unroll");
      out.open(fmt::format("for (int k = 0; k < {}; ++k)", elements));
      out.line(fmt::format("{} total{};", type, total));
    };
    const auto take = [&] {
      const std::string result = fmt::format("{}[k]", names_.of(o.buffer));
      out.line(fmt::format("{} = {};", result, o.accumulate ? combine(o.reducer, result, "total") : "total"));
      out.close();
    };
    each(fmt::format(" = {}[k]", name));
    Lines read;
    if (const std::optional<Scope> scope = exchange(o, "total", nest, out, read)) {
      out.close();
      barrier(*scope, out);
      each("");
      out.append(read);
      take();
      barrier(*scope, out);
    } else {
      take();
    }
  }
  out.close();
  nest_ = nullptr;
}

}  // namespace tilewright::cuda_text
