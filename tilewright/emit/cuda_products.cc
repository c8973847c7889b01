// Products on tensor cores.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

constexpr int64_t panel = 64;  // elements of two bytes in 128 bytes
constexpr int64_t row_bytes = 128;

/// How a Local operand lies in panels.
struct Panels {
  bool contracted_inside = true;  ///< the contracted axis is contiguous ("K-major")
  int64_t rows = 0;               ///< of a panel
};

Panels panels_of(const Buffer& b, Sym contracted) {
  Panels p;
  for (const Digit& d : b.layout.digits()) {
    if (d.stride == 1) p.contracted_inside = b.axes[d.axis] == contracted;
    if (d.stride == panel && d.step == 1) p.rows = b.layout.shape()[d.axis];
  }
  const Swizzle& s = b.layout.swizzle();
  TW_CHECK(p.rows > 0 && s.bits == 3 && s.base == 3 && s.shift == 3,
           fmt::format("{} does not lie in panels of 128 bytes", b.sym.name()));
  return p;
}

}  // namespace

void CudaKernel::mma(const Mma& o, Lines& out) {
  const Buffer &d = buffer(o.d), &a = buffer(o.a), &b = buffer(o.b);
  const Atom* atom = find_atom(o.atom);
  if (atom && atom->by_warp) return atom->in_parts ? mma_in_parts(o, out) : mma_by_warps(o, out);
  TW_CHECK(atom && atom->kind == Atom::Kind::Mma && atom->completion == Completion::Group,
           fmt::format("{} is no tensor core atom", o.atom));
  const Sym k = o.contracted[0];
  const bool registers = a.space == Space::Registers;
  const Panels bp = panels_of(b, k);
  const Panels ap = registers ? Panels{} : panels_of(a, k);

  // Steps of 16 that hold elements of the contracted axis.
  int64_t contracted = 0;
  for (size_t x = 0; x < b.axes.size(); ++x)
    if (b.axes[x] == k) contracted = b.layout.shape()[x];
  for (const AxisFrame& f : o.frame)
    if (f.axis == k && f.extent)
      if (auto r = f.extent.rational()) contracted = std::min(contracted, r->num());
  const int64_t steps = (contracted + 15) / 16;
  int64_t columns = 0, rows = 0;
  for (size_t x = 0; x < d.axes.size(); ++x) {
    const bool is_row = std::find(a.axes.begin(), a.axes.end(), d.axes[x]) != a.axes.end();
    (is_row ? rows : columns) = d.layout.shape()[x];
  }
  const int64_t group_rows = rows / std::max(1, role_->threads / role_->group);
  const int64_t column_pieces = columns / atom->n, row_pieces = group_rows / 64;
  TW_CHECK(column_pieces * atom->n == columns && row_pieces * 64 == group_rows,
           fmt::format("{} does not cover {}", o.atom, o.d.name()));

  const std::string function = helpers_.use_wgmma(atom->n, a.dtype, registers,
                                                  !registers && !ap.contracted_inside, !bp.contracted_inside);
  auto at = [&](const Buffer& x) {
    const std::string slot = slot_of(x.sym, o.uses);
    return fmt::format("local_at + {}{}", kernel_.local_offset(x.sym),
                       slot.empty() ? "" : fmt::format(" + {} * {}", slot, x.slot_bytes()));
  };
  auto operand = [&](const Buffer& x, const Panels& p, const std::string& rest) {
    // Contiguous along the contracted axis: the leading distance is not used. Along the other one: the next 64 columns.
    return fmt::format("tw_operand({}{}, {}, 1024)", at(x), rest,
                       p.contracted_inside ? 16 : p.rows * row_bytes);
  };
  // Distance of step s in 16-byte units: 32 bytes inside a panel and then the next panel, or 16 rows.
  auto step = [&](const Panels& p) {
    if (!p.contracted_inside) return std::string("s * 128");
    return steps > 4 ? fmt::format("(s >> 2) * {} + (s & 3) * 2", p.rows * row_bytes / 16)
                     : std::string("s * 2");
  };
  // Distance of row (or column) r of the outer axis.
  auto outer = [&](const Panels& p, int64_t r) {
    return p.contracted_inside ? r * row_bytes : r / panel * p.rows * row_bytes;
  };

  out.open("");
  const std::string group_offset =
      registers || role_->threads == role_->group ? ""
      : ap.contracted_inside                      ? fmt::format(" + group * {}", group_rows * row_bytes)
                             : fmt::format(" + group * {}", group_rows / panel * ap.rows * row_bytes);
  if (!registers) out.line(fmt::format("const unsigned long long a = {};", operand(a, ap, group_offset)));
  out.line(fmt::format("const unsigned long long b = {};", operand(b, bp, "")));
  const std::string& dn = names_.of(o.d);
  for (int64_t r = 0; r < row_pieces; ++r) {
    for (int64_t c = 0; c < column_pieces; ++c) {
      const int64_t first = r * columns / 2 + c * atom->n / 2;
      const int64_t b_at = outer(bp, c * atom->n) / 16, a_at = registers ? 0 : outer(ap, r * 64) / 16;
      out.line("#pragma unroll");
      const std::string target = first ? fmt::format("{} + {}", dn, first) : dn;
      std::string a_text;
      if (registers) {
        // Steps of 16 columns are four registers each; row blocks follow each other.
        int64_t a_columns = 0;
        for (size_t x = 0; x < a.axes.size(); ++x)
          if (a.axes[x] == k) a_columns = a.layout.shape()[x];
        a_text =
            fmt::format("{} + 4 * s{}", names_.of(o.a), r ? fmt::format(" + {}", r * a_columns / 4) : "");
      } else {
        a_text = fmt::format("a + {}{}", step(ap), a_at ? fmt::format(" + {}", a_at) : "");
      }
      out.line(fmt::format("for (int s = 0; s < {}; ++s) {}({}, {}, b + {}{}, {});", steps, function, target,
                           a_text, step(bp), b_at ? fmt::format(" + {}", b_at) : "", o.zero ? "s > 0" : "1"));
    }
  }
  out.close();
  open_group_.push_back(o.d);
  if (registers) open_group_.push_back(o.a);
}

void CudaKernel::fence(const Ops& list, size_t k, Lines& out) {
  helpers_.use("tw_products");
  std::set<Sym> flying, pinned;
  for (const auto& g : groups_) flying.insert(g.begin(), g.end());
  for (size_t n = k + 1; n < list.size(); ++n) {
    if (std::holds_alternative<WaitGroup>(list[n].node)) break;
    auto* m = std::get_if<Mma>(&list[n].node);
    if (!m) continue;
    for (Sym s : {m->d, m->a})
      if (buffer(s).space == Space::Registers && !flying.count(s) && !(s == m->d && m->zero) &&
          pinned.insert(s).second)
        out.line(fmt::format("tw_pin({});", names_.of(s)));
  }
  out.line("tw_product_fence();");
}

void CudaKernel::wait_group(int pending, Lines& out) {
  helpers_.use("tw_products");
  // Both uses lengthen lives, for which some registers must be left beside the tiles.
  constexpr int64_t beside = 24;
  const bool room = role_->registers == 0 || kernel_.tile_registers + beside <= role_->registers;
  if (worked_in_flight_ && int(groups_.size()) > pending && room) {
    const Buffer& made = buffer(worked_in_flight_);
    if (made.space == Space::Registers && (made.dtype == DType::f32 || packed(made))) {
      out.line(fmt::format("tw_pin({});", names_.of(made.sym)));
      keep(made.sym, out);
    }
  }
  out.line(fmt::format("tw_wait_group<{}>();", pending));
  std::set<Sym> done, flying(open_group_.begin(), open_group_.end());
  while (int(groups_.size()) > pending) {
    done.insert(groups_.front().begin(), groups_.front().end());
    groups_.erase(groups_.begin());
  }
  for (const auto& g : groups_) flying.insert(g.begin(), g.end());
  // In the order of the buffers, so that the text is the same in every run.
  for (const Buffer& b : kernel_.buffers) {
    if (!done.count(b.sym) || flying.count(b.sym)) continue;
    if (worked_in_flight_ && packed(b)) {
      if (room)
        kept_.push_back(b.sym);
      else
        keep(b.sym, out);
    }
    out.line(fmt::format("tw_pin({});", names_.of(b.sym)));
  }
  if (groups_.empty()) worked_in_flight_ = Sym();
}

void CudaKernel::keep_before(const Ops& list, size_t first, size_t last, Lines& out) {
  if (kept_.empty()) return;
  std::set<Sym> written;
  for (size_t k = first; k < last; ++k) {
    auto note = [&](const MappedOp& op) {
      if (auto* m = std::get_if<MapOp>(&op.node)) written.insert(m->buffer);
    };
    note(list[k]);
    for_each_body(list[k], [&](const Ops& inside) { for_each_op(inside, note); });
  }
  for (size_t k = 0; k < kept_.size();) {
    if (written.count(kept_[k])) {
      keep(kept_[k], out);
      kept_.erase(kept_.begin() + k);
    } else {
      ++k;
    }
  }
}

void CudaKernel::keep(Sym registers, Lines& out) {
  out.line(fmt::format("tw_keep({}, warp < 0);", names_.of(registers)));
}

}  // namespace tilewright::cuda_text
