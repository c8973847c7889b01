// Products of f32 by warps: three products of TF32 (mma.sync), of operands split in two parts (map/atom.h).
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

constexpr int64_t part_depth = 8, part_columns = 8, part_rows = 16, piece_rows = 64;

int64_t length_along(const Buffer& b, Sym axis) {
  for (size_t x = 0; x < b.axes.size(); ++x)
    if (b.axes[x] == axis) return b.layout.shape()[x];
  return 0;
}

/// A Local operand in lines: elements from one to the next along an axis.
int64_t distance(const Buffer& b, Sym axis) {
  for (const Digit& d : b.layout.digits())
    if (d.step == 1 && b.axes[size_t(d.axis)] == axis && d.extent == length_along(b, axis)) return d.stride;
  TW_CHECK(false, fmt::format("{} does not lie in lines along {}", b.sym.name(), axis.name()));
}

std::string moved_by(const std::string& a, int64_t n) { return n == 0 ? a : fmt::format("{} + {}", a, n); }

}  // namespace

/// In each step of 8 the contracted index 2t + h of the operands is t + 4h of the instruction, which is free, since the order of a sum is. So what a thread holds of an
/// accumulator is what it gives of the operand a.
void CudaKernel::mma_in_parts(const Mma& o, Lines& out) {
  const Buffer &d = buffer(o.d), &a = buffer(o.a), &b = buffer(o.b);
  const Sym k = o.contracted[0];
  const bool registers = a.space == Space::Registers;
  int64_t contracted = length_along(b, k);
  for (const AxisFrame& f : o.frame)
    if (f.axis == k && f.extent)
      if (auto r = f.extent.rational()) contracted = std::min(contracted, r->num());
  Sym row, column;
  for (Sym x : d.axes) (std::find(a.axes.begin(), a.axes.end(), x) != a.axes.end() ? row : column) = x;
  const int64_t rows = length_along(d, row), columns = length_along(d, column);
  const int64_t group_rows = rows / std::max(1, role_->threads / role_->group);
  const int64_t pieces = group_rows / piece_rows;
  TW_CHECK(pieces * piece_rows == group_rows && columns % part_columns == 0,
           fmt::format("{} does not cover {}", o.atom, o.d.name()));
  helpers_.use("tw_parts");

  const int64_t b_across = distance(b, column), b_along = distance(b, k);
  const int64_t a_across = registers ? 0 : distance(a, row), a_along = registers ? 0 : distance(a, k);
  out.open("");
  if (!registers)
    out.line(
        fmt::format("const float* const a = {} + ({}(warp & 3) * {} + (lane >> 2)) * {} + (lane & 3) * {};",
                    local_pointer(a, o.uses),
                    role_->threads > role_->group ? fmt::format("group * {} + ", group_rows) : "", part_rows,
                    a_across, 2 * a_along));
  out.line(fmt::format("const float* const b = {} + (lane >> 2) * {} + (lane & 3) * {};",
                       local_pointer(b, o.uses), b_across, 2 * b_along));
  const std::string& dn = names_.of(o.d);
  const int64_t steps = (contracted + part_depth - 1) / part_depth, most = depth_of_parts / part_depth;
  const int64_t a_registers = registers ? length_along(a, k) / 2 : 0;  // of 64 rows
  /// Steps [first, first + count); first may be a text.
  auto part = [&](const std::string& first, int64_t count, bool zero) {
    out.line(fmt::format("unsigned a_high[{0}][4], a_low[{0}][4];", pieces * count));
    out.line("#pragma unroll");
    out.open(fmt::format("for (int s = 0; s < {}; ++s)", count));
    for (int64_t r = 0; r < pieces; ++r) {
      const std::string to = fmt::format("a_high[{0} + s], a_low[{0} + s]", r * count);
      if (registers)
        out.line(fmt::format("tw_split_held({} + 4 * ({} + s), {});",
                             moved_by(names_.of(o.a), r * a_registers), first, to));
      else
        out.line(fmt::format("tw_split_rows<{}, {}>({} + ({} + s) * {}, {});", a_across, a_along,
                             moved_by("a", r * piece_rows * a_across), first, part_depth * a_along, to));
    }
    out.close();
    out.line("#pragma unroll");
    out.open(fmt::format("for (int block = 0; block < {}; ++block)", columns / part_columns));
    out.line(fmt::format("unsigned b_high[{0}][2], b_low[{0}][2];", count));
    out.line("#pragma unroll");
    out.line(fmt::format(
        "for (int s = 0; s < {}; ++s) tw_split_pair<{}>(b + block * {} + ({} + s) * {}, b_high[s], "
        "b_low[s]);",
        count, b_along, part_columns * b_across, first, part_depth * b_along));
    for (int64_t r = 0; r < pieces; ++r)
      out.line(fmt::format("tw_multiply_parts<{}>({} + 4 * block, {}, {}, b_high, b_low, {});", count,
                           moved_by(dn, r * columns / 2), moved_by("a_high", r * count),
                           moved_by("a_low", r * count), zero ? "true" : "false"));
    out.close();
  };
  const int64_t whole = steps / most;
  int64_t done = 0;
  if (o.zero || whole == 1) {
    const int64_t count = std::min(steps, most);
    out.open("");
    part("0", count, o.zero);
    out.close();
    done = count;
  }
  if (steps - done >= most) {
    out.line("#pragma unroll");
    out.open(fmt::format("for (int first = {}; first < {}; first += {})", done, whole * most, most));
    part("first", most, false);
    out.close();
    done = whole * most;
  }
  if (done < steps) {
    out.open("");
    part(std::to_string(done), steps - done, false);
    out.close();
  }
  out.close();
}

}  // namespace tilewright::cuda_text
