// Products by warps (ldmatrix, mma.sync) and copies in groups (cp.async).
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

constexpr int64_t copy_unit_bytes = 16;
constexpr int64_t matrix_row_bytes = 128;  // of a panel
constexpr int64_t matrix_columns = 64;
constexpr int64_t matrix_rows = 16, fragment_rows = 64;

/// A Local operand in swizzled panels: rows of 128 bytes whose units of 16 bytes are permuted by the row's number modulo 8. A thread names one row of one block of
/// 8 × 8 to ldmatrix; its row modulo 8 is lane & 7 everywhere, so that the swizzle is one XOR for each thread, and steps along a row are XORs too.
struct MatrixPanel {
  bool contracted_inside = true;  ///< rows run along the contracted axis
  int64_t rows = 0;
  int64_t bytes() const { return rows * matrix_row_bytes; }
};

MatrixPanel matrix_panel_of(const Buffer& b, Sym contracted) {
  MatrixPanel p;
  for (const Digit& d : b.layout.digits()) {
    if (d.stride == 1) p.contracted_inside = b.axes[size_t(d.axis)] == contracted;
    if (d.stride == matrix_columns && d.step == 1) p.rows = b.layout.shape()[size_t(d.axis)];
  }
  const Swizzle& s = b.layout.swizzle();
  TW_CHECK(p.rows > 0 && s.bits == 3 && s.base == 3 && s.shift == 3,
           fmt::format("{} does not lie in panels of 128 bytes", b.sym.name()));
  return p;
}

int64_t extent_of(const Buffer& b, Sym axis) {
  for (size_t x = 0; x < b.axes.size(); ++x)
    if (b.axes[x] == axis) return b.layout.shape()[x];
  return 0;
}

/// Steps of 16 elements along a panel's rows: `s` is the number of the step.
std::string along_row(const std::string& base, const std::string& s, int64_t steps, const MatrixPanel& p) {
  const std::string inside = steps > 1 ? fmt::format("({} ^ (({} & 3) << 5))", base, s) : base;
  return steps > 4 ? fmt::format("{} + ({} >> 2) * {}", inside, s, p.bytes()) : inside;
}

std::string plus(const std::string& a, int64_t n) { return n == 0 ? a : fmt::format("{} + {}", a, n); }

}  // namespace

void CudaKernel::mma_by_warps(const Mma& o, Lines& out) {
  const Buffer &d = buffer(o.d), &a = buffer(o.a), &b = buffer(o.b);
  const Sym k = o.contracted[0];
  const bool registers = a.space == Space::Registers;
  const MatrixPanel bp = matrix_panel_of(b, k), ap = registers ? MatrixPanel{} : matrix_panel_of(a, k);
  int64_t contracted = extent_of(b, k), columns = 0, rows = 0;
  for (const AxisFrame& f : o.frame)
    if (f.axis == k && f.extent)
      if (auto r = f.extent.rational()) contracted = std::min(contracted, r->num());
  for (size_t x = 0; x < d.axes.size(); ++x) {
    const bool is_row = std::find(a.axes.begin(), a.axes.end(), d.axes[x]) != a.axes.end();
    (is_row ? rows : columns) = d.layout.shape()[x];
  }
  const int64_t steps = (contracted + 15) / 16;
  const int64_t group_rows = rows / std::max(1, role_->threads / role_->group);
  const int64_t pieces = group_rows / fragment_rows;
  TW_CHECK(pieces * fragment_rows == group_rows && columns % 8 == 0,
           fmt::format("{} does not cover {}", o.atom, o.d.name()));
  helpers_.use("tw_matrix");
  helpers_.use(a.dtype == DType::f16 ? "tw_mma_f16" : "tw_mma_bf16");
  const std::string multiply = a.dtype == DType::f16 ? "tw_mma_f16" : "tw_mma_bf16";
  auto start = [&](const Buffer& x) {
    const std::string slot = slot_of(x.sym, o.uses);
    return fmt::format("local_at + {}{}", kernel_.local_offset(x.sym),
                       slot.empty() ? "" : fmt::format(" + {} * {}", slot, x.slot_bytes()));
  };

  out.open("");
  const bool groups = role_->threads > role_->group;
  if (!registers) {
    // Blocks: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15.
    if (ap.contracted_inside) {
      out.line(fmt::format(
          "const unsigned a = {} + ({}(warp & 3) * {} + (lane & 15)) * {} + (((lane >> 4) ^ "
          "(lane & 7)) << 4);",
          start(a), groups ? fmt::format("group * {} + ", group_rows) : "", matrix_rows, matrix_row_bytes));
    } else {
      out.line(fmt::format(
          "const unsigned a = {}{} + ((lane >> 4) * 8 + (lane & 7)) * {} + ((((warp & 3) * 2 "
          "+ ((lane >> 3) & 1)) ^ (lane & 7)) << 4);",
          start(a), groups ? fmt::format(" + group * {}", group_rows / matrix_columns * ap.bytes()) : "",
          matrix_row_bytes));
    }
  }
  // Blocks: columns 0-7 at depths 0-7 and 8-15, then columns 8-15.
  if (bp.contracted_inside)
    out.line(
        fmt::format("const unsigned b = {} + ((lane >> 4) * 8 + (lane & 7)) * {} + ((((lane >> 3) & 1) ^ "
                    "(lane & 7)) << 4);",
                    start(b), matrix_row_bytes));
  else
    out.line(fmt::format("const unsigned b = {} + (lane & 15) * {} + (((lane >> 4) ^ (lane & 7)) << 4);",
                         start(b), matrix_row_bytes));
  const std::string& dn = names_.of(o.d);
  if (o.zero) {
    out.line("#pragma unroll");
    out.line(fmt::format("for (int k = 0; k < {}; ++k) {}[k] = 0.0f;", pieces * columns / 2, dn));
  }
  out.line("#pragma unroll");
  out.open(fmt::format("for (int s = 0; s < {}; ++s)", steps));
  if (!registers) out.line(fmt::format("unsigned a_part[{}][4];", pieces));
  for (int64_t r = 0; r < pieces && !registers; ++r) {
    const std::string at = ap.contracted_inside
                               ? plus(along_row("a", "s", steps, ap), r * fragment_rows * matrix_row_bytes)
                               : plus(fmt::format("a + s * {}", 16 * matrix_row_bytes),
                                      r * fragment_rows / matrix_columns * ap.bytes());
    out.line(fmt::format("tw_matrix{}(a_part[{}], {});", ap.contracted_inside ? "" : "_turned", r, at));
  }
  const int64_t a_registers = registers ? extent_of(a, k) / 4 : 0;  // of 64 rows
  auto row_of = [&](int64_t r) {
    return registers ? plus(fmt::format("{} + 4 * s", names_.of(o.a)), r * a_registers)
                     : fmt::format("a_part[{}]", r);
  };
  const std::string turned = bp.contracted_inside ? "" : "_turned";
  const int64_t pairs = columns / 16;
  if (pairs > 0) {
    out.line("#pragma unroll");
    out.open(fmt::format("for (int pair = 0; pair < {}; ++pair)", pairs));
    out.line("unsigned b_part[4];");
    const std::string at =
        bp.contracted_inside
            ? along_row("b", "s", steps, bp) + fmt::format(" + pair * {}", 16 * matrix_row_bytes)
            : along_row("b", "pair", pairs, bp) + fmt::format(" + s * {}", 16 * matrix_row_bytes);
    out.line(fmt::format("tw_matrix{}(b_part, {});", turned, at));
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t r = 0; r < pieces; ++r)
        out.line(fmt::format("{}({}, {}, b_part[{}], b_part[{}]);", multiply,
                             plus(fmt::format("{} + 8 * pair", dn), r * columns / 2 + 4 * half), row_of(r),
                             2 * half, 2 * half + 1));
    out.close();
  }
  if (columns % 16 != 0) {  // the last eight columns
    out.line("unsigned b_part[2];");
    const std::string at = bp.contracted_inside
                               ? plus(along_row("b", "s", steps, bp), pairs * 16 * matrix_row_bytes)
                               : plus(fmt::format("(b ^ {}) + s * {}", pairs % 4 * 32, 16 * matrix_row_bytes),
                                      pairs / 4 * bp.bytes());
    out.line(fmt::format("tw_matrix{}(b_part, {});", turned, at));
    for (int64_t r = 0; r < pieces; ++r)
      out.line(fmt::format("{}({}, {}, b_part[0], b_part[1]);", multiply,
                           plus(dn, r * columns / 2 + 8 * pairs), row_of(r)));
  }
  out.close();
  out.close();
}

void CudaKernel::copy_in_group(const Copy& o, Lines& out) {
  const Buffer& b = buffer(o.buffer);
  helpers_.use("tw_copies");
  std::vector<Use> uses;
  if (o.use) uses.push_back({o.buffer, o.use});
  const Nest nest = nest_of(o.frame, b.axes, {o.buffer}, uses);
  nest_ = &nest;
  size_t inner = b.axes.size();
  for (size_t a = 0; a < b.axes.size(); ++a)
    if (o.index.back() == Expr(b.axes[a])) inner = a;
  TW_CHECK(inner < b.axes.size(), fmt::format("{} does not run along {}", b.sym.name(), o.tensor.name()));
  const int64_t each = copy_unit_bytes / bytes(b.dtype);
  const int64_t units = b.layout.shape()[inner] / each, threads = role_->threads;
  int64_t rows = 1;
  for (size_t a = 0; a < b.axes.size(); ++a)
    if (a != inner) rows *= b.layout.shape()[a];
  const std::string slot = slot_of(b.sym, uses);
  const std::string to = names_.fresh("to"), row = names_.fresh("row");
  const std::string &inner_in = names_.part(b.axes[inner], "in"), &inner_name = names_.of(b.axes[inner]);
  out.open("");
  out.line(fmt::format("const unsigned {} = local_at + {}{};", to, kernel_.local_offset(b.sym),
                       slot.empty() ? "" : fmt::format(" + {} * {}", slot, b.slot_bytes())));
  const auto coordinates_of = [&] {
    std::vector<size_t> order;
    for (size_t a = b.axes.size(); a-- > 0;)
      if (a != inner) order.push_back(a);
    element_coordinates(b, order, row, rows, nest, out);
  };
  const auto copy = [&](const std::string& conditions, const std::vector<Expr>& index) {
    // A literal size that is a multiple of a unit ends with one.
    const Sym along = memory_dims(program_, mapped_, o.tensor).back().pieces.back();
    std::string size = std::to_string(copy_unit_bytes);
    const bool whole = std::any_of(mapped_.axes.begin(), mapped_.axes.end(), [&](const Axis& x) {
      return x.index == along && x.baked() && x.size.rational()->num() % each == 0;
    });
    if (!whole)
      size = fmt::format("tw_at_most({}, ({} - {}) * {})", copy_unit_bytes, size_text(along.size()),
                         inner_name, bytes(b.dtype));
    if (!conditions.empty()) size = fmt::format("{} ? {} : 0", conditions, size);
    std::vector<std::string> local;
    for (Sym a : b.axes) local.push_back(names_.part(a, "in"));
    out.line(fmt::format("tw_copy_async({} + {} * ({}), {} + ({}), {});", to, bytes(b.dtype),
                         local_offset(b, local), names_.of(o.tensor), element_address(o.tensor, index, nest),
                         size));
  };
  // Neighbouring threads take neighbouring units of a row.
  if (units <= threads && threads % units == 0) {
    out.line(fmt::format("const int {} = {};", inner_in,
                         times(units < threads ? remainder("thread", units) : "thread", each)));
    const int64_t together = threads / units, turns = (rows + together - 1) / together;  // rows
    const std::string turn = names_.fresh("turn");
    const auto open_turn = [&](const std::string& first, int64_t count) {
      out.line("#pragma unroll");
      out.open(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0})", turn, first,
                           first == "0" ? std::to_string(count) : fmt::format("{} + {}", first, count)));
      out.line(fmt::format("const int {} = {} * {} + {};", row, turn, together,
                           together > 1 ? quotient("thread", units) : "0"));
      if (rows % together != 0 || turns % count != 0)
        out.line(fmt::format("if ({} >= {}) break;", row, rows));
      coordinates_of();
    };
    if (std::none_of(o.checks.begin(), o.checks.end(), [](int check) { return check >= 0; })) {
      open_turn("0", turns);
      copy(may_read(o, nest, 0, {}), o.index);
      out.close();
    } else {
      // Indices that are read from memory: those of several rows are on their way at once.
      const int64_t count = std::min<int64_t>(turns, 8);
      const std::string first = names_.fresh("first"), there = names_.fresh("there");
      const std::string number = fmt::format("[{} - {}]", turn, first);
      out.line("#pragma unroll");
      out.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", first, turns, count));
      out.line(fmt::format("bool {}[{}];", there, count));
      std::vector<Expr> index = o.index;
      std::vector<std::pair<std::string, Expr>> found;
      for (size_t k = 0; k < index.size(); ++k) {
        if (o.checks[k] < 0) continue;
        found.emplace_back(names_.fresh("found"), index[k]);
        out.line(fmt::format("long long {}[{}];", found.back().first, count));
        const Sym at = Sym::fresh({.name = "found", .kind = SymbolKind::Variable, .integer = true});
        index_text_[at] = found.back().first + number;
        index[k] = at;
      }
      open_turn(first, count);
      const std::string conditions = join_and(reached(o, nest, 0, {}));
      out.line(fmt::format("{}{} = {};", there, number, conditions.empty() ? "true" : conditions));
      CudaPrinter printer(*this, 64, 64);
      for (const auto& [name, value] : found)
        out.line(fmt::format("{}{} = {};", name, number, printer.integer(value)));
      out.close();
      open_turn(first, count);
      std::vector<std::string> all = found_inside(o, index);
      all.insert(all.begin(), there + number);
      copy(join_and(all), index);
      out.close();
      out.close();
    }
  } else {
    const std::string element = names_.fresh("element");
    out.line("#pragma unroll 4");
    out.open(fmt::format("for (int {0} = thread; {0} < {1}; {0} += {2})", element, units * rows, threads));
    out.line(fmt::format("const int {} = {};", inner_in, times(remainder(element, units), each)));
    out.line(fmt::format("const int {} = {};", row, quotient(element, units)));
    coordinates_of();
    copy(may_read(o, nest, 0, {}), o.index);
    out.close();
  }
  out.close();
  nest_ = nullptr;
}

void CudaKernel::copy_wait(int pending, Lines& out) {
  helpers_.use("tw_copies");
  out.line(fmt::format("tw_copy_wait<{}>();", pending));
}

}  // namespace tilewright::cuda_text
