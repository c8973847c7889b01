// Which operand layouts the matrix units accept. Formulas: PTX ISA, "Register Fragments for wgmma.mma_async" and "Matrix descriptor"; the
// accumulator pattern also stands in hardware/layout.h.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tilewright/map/interpreter_runner.h"

namespace tilewright::emulation {
namespace {

constexpr int64_t tile_rows = 64, group_threads = 128;

/// Rows × columns of registers in blocks of `width` columns lie as in an accumulator: within a block the thread follows from (row, column), and
/// offsets grow by 4 for every 8 columns.
std::string refuse_fragment(const char* what, const OperandTable& t, int64_t rows, int64_t columns,
                            int64_t width) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      int64_t row = i % tile_rows, column = j % width;
      size_t corner = size_t((i - row) * columns + (j - column)), here = size_t(i * columns + j);
      int64_t owner = 4 * (row % 8) + 32 * (row / 16) + column % 8 / 2;
      int64_t offset = column % 2 + 2 * (row / 8 % 2) + 4 * (column / 8);
      if (t.owner[corner] % group_threads == 0 && t.owner[here] == t.owner[corner] + owner &&
          t.offset[here] == t.offset[corner] + offset)
        continue;
      return fmt::format(
          "{} is not laid out in fragments of 64 rows and {} columns: ({}, {}) lies in thread {} at {}", what,
          width, i, j, t.owner[here], t.offset[here]);
    }
  }
  return "";
}

/// Rows × columns of registers of which each block of 16 × width lies in one warp, as the operands of mma.m16n8k16 do: the thread follows from (row, column), and
/// offsets grow by 4 for every 8 columns (PTX ISA, "Matrix Fragments for mma.m16n8k16").
std::string refuse_warp_fragment(const char* what, const OperandTable& t, int64_t rows, int64_t columns,
                                 int64_t width) {
  constexpr int64_t warp_rows = 16, warp = 32;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t row = i % warp_rows, column = j % width;
      const size_t corner = size_t((i - row) * columns + (j - column)), here = size_t(i * columns + j);
      const int64_t owner = 4 * (row % 8) + column % 8 / 2;
      const int64_t offset = column % 2 + 2 * (row / 8) + 4 * (column / 8);
      if (t.owner[corner] % warp == 0 && t.owner[here] == t.owner[corner] + owner &&
          t.offset[here] == t.offset[corner] + offset)
        continue;
      return fmt::format(
          "{} is not laid out in fragments of 16 rows and {} columns: ({}, {}) lies in thread {} at {}", what,
          width, i, j, t.owner[here], t.offset[here]);
    }
  }
  return "";
}

/// outer × depth elements of shared memory are panels of 128 bytes from which ldmatrix reads blocks of 8 × 8: rows of the panel run along the depth or along
/// `outer`, and rows 8k … 8k + 7 of it have all eight permutations of the swizzle.
std::string refuse_blocks(const char* what, const OperandTable& t, int64_t outer, int64_t depth) {
  constexpr int64_t block = 8, width = 64;
  const Swizzle& s = t.swizzle;
  if (t.bytes != 2) return fmt::format("{} has elements of {} bytes", what, t.bytes);
  if (s.bits != 3 || s.base != 3 || s.shift != 3) return fmt::format("{} has no swizzle of 128 bytes", what);
  for (int64_t first = 0; first < outer; first += block) {
    for (int64_t k0 = 0; k0 < depth; k0 += block) {
      auto at = [&](int64_t i, int64_t k) { return s.apply(t.offset[size_t((first + i) * depth + k0 + k)]); };
      const int64_t corner = at(0, 0);
      bool along_depth = corner % block == 0 && corner / width % block == 0, along_outer = along_depth;
      for (int64_t i = 0; i < block; ++i) {
        for (int64_t k = 0; k < block; ++k) {
          along_depth = along_depth && at(i, k) == corner + i * width + k;
          along_outer = along_outer && at(i, k) == corner + i + k * width;
        }
      }
      if (!along_depth && !along_outer)
        return fmt::format("{} is not laid out in panels of 128 bytes: see rows from {}, depth from {}", what,
                           first, k0);
    }
  }
  return "";
}

/// outer × depth elements of shared memory whose threads read single elements, or pairs along the depth: lines along one of the two, apart by any
/// distance that keeps pairs together.
std::string refuse_lines(const char* what, const OperandTable& t, int64_t outer, int64_t depth) {
  if (t.bytes != 4) return fmt::format("{} has elements of {} bytes", what, t.bytes);
  auto at = [&](int64_t i, int64_t k) { return t.offset[size_t(i * depth + k)]; };
  const int64_t across = at(1, 0) - at(0, 0), along = at(0, 1) - at(0, 0);
  bool lines = t.swizzle.bits == 0 && (along == 1 ? across % 2 == 0 && at(0, 0) % 2 == 0 : across == 1);
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t k = 0; k < depth; ++k) lines = lines && at(i, k) == at(0, 0) + i * across + k * along;
  return lines ? "" : fmt::format("{} is not laid out in lines", what);
}

/// outer × depth elements of shared memory, `outer` in blocks of `block`, form swizzled panels that a descriptor can name: rows of the panel are as
/// long as the swizzle (W elements), and run along the depth or along `outer`.
std::string refuse_panels(const char* what, const OperandTable& t, int64_t outer, int64_t depth,
                          int64_t block, int64_t step) {
  const Swizzle& s = t.swizzle;
  if (t.bytes != 2) return fmt::format("{} has elements of {} bytes", what, t.bytes);
  if (s.bits < 1 || s.bits > 3 || s.base != 3 || s.shift != 3)
    return fmt::format("{} has no swizzle of 32, 64 or 128 bytes", what);
  const int64_t width = int64_t(8) << s.bits, unit = 8 * width;  // of the swizzle: 8 rows
  for (int64_t first = 0; first < outer; first += block) {
    for (int64_t k0 = 0; k0 < depth; k0 += step) {
      auto at = [&](int64_t i, int64_t k) { return s.apply(t.offset[size_t((first + i) * depth + k0 + k)]); };
      const int64_t corner = at(0, 0);
      bool along_depth = corner % width + step <= width && (corner - corner % width) % unit == 0;
      bool along_outer = corner % unit == 0;
      const int64_t panel = block > width ? at(width, 0) - corner : 0;
      for (int64_t i = 0; i < block && (along_depth || along_outer); ++i) {
        for (int64_t k = 0; k < step; ++k) {
          along_depth = along_depth && at(i, k) == corner + i * width + k;
          along_outer = along_outer && at(i, k) == corner + i / width * panel + i % width + k * width;
        }
      }
      if (!along_depth && !along_outer)
        return fmt::format(
            "{} is not laid out in swizzled panels of {} elements: see rows from {}, depth from {}", what,
            width, first, k0);
    }
  }
  return "";
}

}  // namespace

void multiply_in_parts(float* d, const float* a, const float* b, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t step = 8;
  struct Parts {
    std::vector<float> high, low;
    Parts(const float* x, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const uint32_t raised = std::bit_cast<uint32_t>(x[i]) + 0x1000u;
        float upper = std::isfinite(x[i]) ? tf32(std::bit_cast<float>(raised)) : x[i];
        if (std::isfinite(x[i]) && !std::isfinite(upper)) upper = tf32(x[i]);
        high.push_back(upper);
        low.push_back(tf32(x[i] - upper));
      }
    }
    /// The 11 leading bits, as the unit reads them.
    static float tf32(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffffe000u); }
  };
  const Parts of_a(a, m * k), of_b(b, k * n);
  auto toward_zero = [](double sum) {
    float rounded = float(sum);
    return std::isfinite(sum) && std::fabs(double(rounded)) > std::fabs(sum) ? std::nextafter(rounded, 0.0f)
                                                                             : rounded;
  };
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t from = 0; from < k; from += depth_of_parts) {
        float high = 0, low = 0;
        for (int64_t first = from; first < std::min(k, from + depth_of_parts); first += step) {
          const int64_t end = std::min(k, first + step);
          auto add = [&](float sum, const std::vector<float>& x, const std::vector<float>& y) {
            double total = double(sum);
            for (int64_t c = first; c < end; ++c)
              total += double(x[size_t(i * k + c)]) * double(y[size_t(c * n + j)]);
            return toward_zero(total);
          };
          low = add(low, of_a.low, of_b.high);
          low = add(low, of_a.high, of_b.low);
          high = add(high, of_a.high, of_b.high);
        }
        const float both = high + low;
        d[i * n + j] += std::isnan(both) ? high : both;
      }
    }
  }
}

std::string refuse_layouts(const Atom& atom, int64_t rows, int64_t columns, int64_t depth,
                           const OperandTable& d, const OperandTable& a, const OperandTable& b) {
  if (atom.kind != Atom::Kind::Mma || (atom.completion != Completion::Group && !atom.by_warp)) return "";
  if (rows % atom.m != 0 || columns % atom.n != 0 || depth % atom.k != 0)
    return fmt::format("{} x {} x {} is no multiple of {} x {} x {}", rows, columns, depth, atom.m, atom.n,
                       atom.k);
  if (d.space != Space::Registers) return "the accumulator is not in registers";
  if (!atom.by_warp && (a.space == Space::Registers) != atom.a_in_registers)
    return fmt::format("the first operand is{} in registers", atom.a_in_registers ? " not" : "");
  if (a.space == Space::Memory || b.space != Space::Local) return "an operand is not in local memory";
  const bool registers = a.space == Space::Registers;
  OperandTable columns_first = b;  // (column, depth)
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t j = 0; j < columns; ++j)
      columns_first.offset[size_t(j * depth + k)] = b.offset[size_t(k * columns + j)];
  std::string s = atom.by_warp ? refuse_warp_fragment("the accumulator", d, rows, columns, atom.n)
                               : refuse_fragment("the accumulator", d, rows, columns, atom.n);
  if (!s.empty()) return s;
  if (atom.by_warp)
    s = registers       ? refuse_warp_fragment("the first operand", a, rows, depth, atom.k)
        : atom.in_parts ? refuse_lines("the first operand", a, rows, depth)
                        : refuse_blocks("the first operand", a, rows, depth);
  else
    s = registers ? refuse_fragment("the first operand", a, rows, depth, atom.k)
                  : refuse_panels("the first operand", a, rows, depth, atom.m, atom.k);
  if (!s.empty()) return s;
  // Rows of a must be the rows of the threads that compute them.
  for (int64_t i = 0; registers && i < rows; i += atom.m)
    if (a.owner[size_t(i * depth)] != d.owner[size_t(i * columns)])
      return fmt::format("row {} of the first operand lies in other threads than that of the result", i);
  if (atom.in_parts) return refuse_lines("the second operand", columns_first, columns, depth);
  if (atom.by_warp) return refuse_blocks("the second operand", columns_first, columns, depth);
  return refuse_panels("the second operand", columns_first, columns, depth, atom.n, atom.k);
}

}  // namespace tilewright::emulation
