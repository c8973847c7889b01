#include "tilewright/map/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/interpreter_runner.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

/// Digits of the thread number that select the coordinate along one axis, lowest step first.
struct Selection {
  std::vector<Digit> digits;
  friend bool operator==(const Selection& a, const Selection& b) {
    return std::equal(a.digits.begin(), a.digits.end(), b.digits.begin(), b.digits.end(),
                      [](const Digit& x, const Digit& y) {
                        return x.extent == y.extent && x.step == y.step && x.stride == y.stride;
                      });
  }
};

Selection selection(const Buffer& b, size_t axis) {
  Selection s;
  for (const Digit& d : b.layout.digits())
    if (d.axis == int(axis) && d.to == Digit::To::Owner && d.extent > 1) s.digits.push_back(d);
  std::sort(s.digits.begin(), s.digits.end(), [](const Digit& x, const Digit& y) { return x.step < y.step; });
  return s;
}

bool overlap(const Selection& a, const Selection& b) {
  for (const Digit& x : a.digits)
    for (const Digit& y : b.digits)
      if (std::max(x.stride, y.stride) < std::min(x.stride * x.extent, y.stride * y.extent)) return true;
  return false;
}

/// Where each coordinate along each axis puts an element: a place is the sum over the axes.
struct Contributions {
  std::vector<std::vector<int32_t>> owner, offset;
  explicit Contributions(const Layout& layout) {
    for (size_t a = 0; a < layout.shape().size(); ++a) {
      const int64_t extent = layout.shape()[a];
      owner.emplace_back(size_t(extent), 0);
      offset.emplace_back(size_t(extent), 0);
      for (const Digit& d : layout.digits()) {
        if (d.axis != int(a)) continue;
        for (int64_t x = 0; x < extent; ++x)
          (d.to == Digit::To::Owner ? owner : offset)[a][size_t(x)] +=
              int32_t(x / d.step % d.extent * d.stride);
      }
    }
  }
};

class PlacementCheck {
 public:
  explicit PlacementCheck(const MappedKernel& k) : k_(k) {}

  std::vector<std::string> run() {
    for (const Buffer& b : k_.buffers) {
      if (b.space != Space::Registers || b.role < 0 || b.role >= int(k_.roles.size())) continue;
      int64_t threads = 1;
      for (const Digit& d : b.layout.digits())
        if (d.to == Digit::To::Owner) threads *= d.extent;
      if (threads != k_.roles[size_t(b.role)].threads)
        faults_.push_back(fmt::format("kernel {}: {} is laid out over {} threads and the role has {}",
                                      k_.name, b.sym.name(), threads, k_.roles[size_t(b.role)].threads));
    }
    for (size_t r = 0; r < k_.roles.size(); ++r) {
      role_ = int(r);
      if (k_.roles[r].threads > 1) ops(k_.roles[r].body);
    }
    return std::move(faults_);
  }

 private:
  void ops(const Ops& list) {
    for (const MappedOp& op : list) {
      const std::string what = std::visit([&](const auto& x) { return check(x); }, op.node);
      if (!what.empty())
        faults_.push_back(fmt::format("kernel {}, role {}, `{}`: {}", k_.name, k_.roles[size_t(role_)].name,
                                      print(k_, op), what));
      for_each_body(op, [&](const Ops& inside) { ops(inside); });
    }
  }

  using Buffers = std::vector<const Buffer*>;

  /// Register buffers that the expressions read.
  Buffers registers(const std::vector<Expr>& exprs) const {
    Buffers found;
    for (Expr e : exprs) {
      if (!e) continue;
      for (Sym s : tensors_read(e)) {
        auto it =
            std::find_if(k_.buffers.begin(), k_.buffers.end(), [&](const Buffer& b) { return b.sym == s; });
        if (it != k_.buffers.end() && it->space == Space::Registers &&
            std::find(found.begin(), found.end(), &*it) == found.end())
          found.push_back(&*it);
      }
    }
    return found;
  }
  std::string of_role(const Buffers& buffers) const {
    for (const Buffer* b : buffers)
      if (b->role != role_) return fmt::format("{} lies in the registers of another role", b->sym.name());
    return "";
  }

  /// Every buffer gives the axes that it shares with others the same digits of the thread number.
  std::string together(const Buffers& buffers) {
    for (const Buffer* b : buffers) {
      for (size_t a = 0; a < b->axes.size(); ++a) {
        const Selection own = selection(*b, a);
        for (const Buffer* c : buffers) {
          if (c == b) break;
          auto at = std::find(c->axes.begin(), c->axes.end(), b->axes[a]);
          if (at == c->axes.end() || selection(*c, size_t(at - c->axes.begin())) == own) continue;
          return fmt::format("{} and {} lie along {} in different threads", c->sym.name(), b->sym.name(),
                             b->axes[a].name());
        }
      }
    }
    return "";
  }

  /// Different axes of one op are selected by different digits.
  std::string apart(const Buffers& buffers) {
    struct Used {
      Sym axis;
      const Buffer* buffer;
      Selection digits;
    };
    std::vector<Used> used;
    for (const Buffer* b : buffers)
      for (size_t a = 0; a < b->axes.size(); ++a)
        if (std::none_of(used.begin(), used.end(), [&](const Used& u) { return u.axis == b->axes[a]; }))
          used.push_back({b->axes[a], b, selection(*b, a)});
    for (const Used& x : used) {
      for (const Used& y : used) {
        if (&x == &y) break;
        if (overlap(x.digits, y.digits))
          return fmt::format("the same threads lie along {} of {} and {} of {}", y.axis.name(),
                             y.buffer->sym.name(), x.axis.name(), x.buffer->sym.name());
      }
    }
    return "";
  }

  std::string all_of(const Buffers& buffers) {
    if (std::string s = of_role(buffers); !s.empty()) return s;
    if (std::string s = together(buffers); !s.empty()) return s;
    return apart(buffers);
  }

  /// Axes of the reads beyond those of the range that threads distribute.
  std::string within(const Buffers& reads, const std::vector<Sym>& range) {
    for (const Buffer* b : reads)
      for (Sym axis : b->axes)
        if (std::find(range.begin(), range.end(), axis) == range.end())
          return fmt::format("{} has axis {}, which the op does not range over", b->sym.name(), axis.name());
    return "";
  }

  std::string element_wise(const Buffer& target, const std::vector<Expr>& values) {
    Buffers reads = registers(values);
    if (std::string s = within(reads, target.axes); !s.empty()) return s;
    if (target.space == Space::Registers) {
      reads.insert(reads.begin(), &target);
    } else if (!reads.empty()) {  // written by one of the threads that hold the widest operand
      const Buffer& widest = **std::max_element(
          reads.begin(), reads.end(),
          [](const Buffer* a, const Buffer* b) { return a->axes.size() < b->axes.size(); });
      for (const Buffer* b : reads)
        for (size_t a = 0; a < b->axes.size(); ++a)
          if (std::find(widest.axes.begin(), widest.axes.end(), b->axes[a]) == widest.axes.end() &&
              !selection(*b, a).digits.empty())
            return fmt::format("the threads that hold {} do not hold all of {}", widest.sym.name(),
                               b->sym.name());
    }
    return all_of(reads);
  }

  std::string check(const MapOp& op) { return element_wise(k_.buffer(op.buffer), {op.value}); }
  std::string check(const ReduceOp& op) {
    const Buffer& target = k_.buffer(op.buffer);
    std::vector<Sym> range = target.axes;
    range.insert(range.end(), op.axes.begin(), op.axes.end());
    Buffers buffers = registers({op.value});
    if (std::string s = within(buffers, range); !s.empty()) return s;
    // What is exchanged lies within one instance of the scope.
    const int64_t threads = op.across == Scope::Warp    ? 32
                            : op.across == Scope::Group ? k_.roles[size_t(role_)].group
                                                        : k_.roles[size_t(role_)].threads;
    for (const Buffer* b : buffers)
      for (size_t a = 0; op.across != Scope::Thread && a < b->axes.size(); ++a)
        if (std::find(op.axes.begin(), op.axes.end(), b->axes[a]) != op.axes.end())
          for (const Digit& d : selection(*b, a).digits)
            if (d.stride * d.extent > threads)
              return fmt::format("elements along {} of {} lie in more threads than are combined",
                                 b->axes[a].name(), b->sym.name());
    if (target.space == Space::Registers) buffers.insert(buffers.begin(), &target);
    return all_of(buffers);
  }
  std::string check(const Vote& op) {
    const Buffers reads = registers({op.condition});
    if (std::string s = within(reads, op.axes); !s.empty()) return s;
    return all_of(reads);
  }
  std::string check(const Copy& op) {
    const Buffer& target = k_.buffer(op.buffer);
    std::vector<Expr> values = op.index;
    values.push_back(op.present);
    if (target.space != Space::Registers && !registers(values).empty())
      return fmt::format("{} is read by an op whose threads are not given", registers(values)[0]->sym.name());
    return element_wise(target, values);
  }
  std::string check(const StoreOut& op) {
    const Buffer& source = k_.buffer(op.buffer);
    if (source.space != Space::Registers && !registers(op.index).empty())
      return fmt::format("{} is read by an op whose threads are not given",
                         registers(op.index)[0]->sym.name());
    return element_wise(source, op.index);
  }
  std::string check(const Mma& op) {
    const Atom* atom = find_atom(op.atom);
    const Buffer &d = k_.buffer(op.d), &a = k_.buffer(op.a), &b = k_.buffer(op.b);
    Buffers buffers;
    for (const Buffer* x : {&d, &a, &b})
      if (x->space == Space::Registers) buffers.push_back(x);
    if (std::string s = of_role(buffers); !s.empty()) return s;
    if (!atom || atom->kind != Atom::Kind::Mma) return fmt::format("{} is no product", op.atom);
    if (atom->completion != Completion::Group && !atom->by_warp)
      return "";  // the interpreter finds the readers of its operands
    if (!checked_.insert({op.atom, op.d, op.a, op.b}).second) return "";
    const Role& role = k_.roles[size_t(role_)];
    if (a.dtype != atom->dtype || b.dtype != atom->dtype)
      return fmt::format("{} refuses: operands of another type", op.atom);
    if (a.space == Space::Memory || b.space == Space::Memory)
      return fmt::format("{} refuses: an operand is not in local memory", op.atom);
    if (atom->by_warp && role.threads % 32 != 0)
      return fmt::format("{} refuses: a role that is not made of warps", op.atom);
    if (!atom->by_warp && (role.group != 128 || role.threads % 128 != 0))
      return fmt::format("{} refuses: a role that is not made of groups of 128 threads", op.atom);
    if (d.axes.size() != 2 || a.axes.size() != 2 || b.axes.size() != 2 || op.contracted.size() != 1)
      return fmt::format("{} refuses: tiles that are no matrices", op.atom);
    const Sym row =
        std::find(a.axes.begin(), a.axes.end(), d.axes[0]) != a.axes.end() ? d.axes[0] : d.axes[1];
    const Sym column = row == d.axes[0] ? d.axes[1] : d.axes[0], depth = op.contracted[0];
    auto table = [&](const Buffer& t, Sym first, Sym second) -> std::optional<emulation::OperandTable> {
      const size_t x = t.axes[0] == first ? 0 : 1, y = 1 - x;
      if (t.axes[x] != first || t.axes[y] != second) return std::nullopt;
      const Contributions c(t.layout);
      emulation::OperandTable result{.space = t.space,
                                     .swizzle = t.layout.swizzle(),
                                     .bytes = bytes(t.dtype),
                                     .owner = {},
                                     .offset = {}};
      const size_t rows = c.owner[x].size(), columns = c.owner[y].size();
      const Swizzle swizzle = t.layout.swizzle();
      result.owner.assign(rows * columns, -1);
      result.offset.resize(rows * columns);
      for (size_t i = 0, at = 0; i < rows; ++i) {
        for (size_t j = 0; j < columns; ++j, ++at) {
          if (t.space == Space::Registers) result.owner[at] = c.owner[x][i] + c.owner[y][j];
          result.offset[at] = int32_t(swizzle.apply(c.offset[x][i] + c.offset[y][j]));
        }
      }
      return result;
    };
    auto extent = [](const Buffer& t, Sym axis) {
      for (size_t k = 0; k < t.axes.size(); ++k)
        if (t.axes[k] == axis) return t.layout.shape()[k];
      return int64_t(-1);
    };
    const auto of_d = table(d, row, column), of_a = table(a, row, depth), of_b = table(b, depth, column);
    if (!of_d || !of_a || !of_b)
      return fmt::format("{} refuses: the axes of its operands are not those of a product", op.atom);
    return layouts(op, *atom, extent(d, row), extent(d, column), std::min(extent(a, depth), extent(b, depth)),
                   *of_d, *of_a, *of_b, {extent(a, row), extent(a, depth), extent(b, column)});
  }
  std::string layouts(const Mma& op, const Atom& atom, int64_t rows, int64_t columns, int64_t depth,
                      const emulation::OperandTable& d, const emulation::OperandTable& a,
                      const emulation::OperandTable& b, std::vector<int64_t> others) {
    if (others[0] < rows || others[2] < columns)
      return fmt::format("{} refuses: an operand is smaller than the product", op.atom);
    auto cut = [](const emulation::OperandTable& t, int64_t width, int64_t new_rows, int64_t new_width) {
      if (width == new_width && int64_t(t.offset.size()) == new_rows * new_width) return t;
      emulation::OperandTable result{
          .space = t.space, .swizzle = t.swizzle, .bytes = t.bytes, .owner = {}, .offset = {}};
      for (int64_t i = 0; i < new_rows; ++i) {
        for (int64_t j = 0; j < new_width; ++j) {
          result.owner.push_back(t.owner[size_t(i * width + j)]);
          result.offset.push_back(t.offset[size_t(i * width + j)]);
        }
      }
      return result;
    };
    const std::string refusal = emulation::refuse_layouts(
        atom, rows, columns, depth, d, cut(a, others[1], rows, depth), cut(b, others[2], depth, columns));
    return refusal.empty() ? "" : fmt::format("{} refuses: {}", op.atom, refusal);
  }
  template <class T>
  std::string check(const T&) {
    return "";
  }

  const MappedKernel& k_;
  int role_ = 0;
  std::vector<std::string> faults_;
  std::set<std::tuple<std::string, Sym, Sym, Sym>> checked_;
};

}  // namespace

std::vector<std::string> misplaced(const MappedKernel& k) { return PlacementCheck(k).run(); }

std::vector<std::string> misplaced(const MappedProgram& m) {
  std::vector<std::string> all;
  for (const MappedKernel& k : m.kernels)
    for (std::string& s : misplaced(k)) all.push_back(std::move(s));
  return all;
}

}  // namespace tilewright
