#include "tilewright/emit/cpp_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/emit.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

/// Products of a body, with their panels.
void find_products(const MappedKernel& k, const Ops& ops, std::map<Sym, int>& vectors) {
  for_each_op(ops, [&](const MappedOp& o) {
    const Mma* x = std::get_if<Mma>(&o.node);
    if (!x) return;
    const Sym lane = cpu::operand_of(k, x->d).fastest;
    const Atom* atom = find_atom(x->atom);
    TW_CHECK(atom && lane, fmt::format("no atom {}", x->atom));
    vectors[lane] = atom->n;
  });
}

}  // namespace

void CppText::line(const std::string& text) {
  if (text.empty()) {
    text_ += "\n";
    return;
  }
  text_ += std::string(size_t(depth_) * 2, ' ') + text + "\n";
}

void CppText::open(const std::string& head) {
  line(head.empty() ? "{" : head + " {");
  ++depth_;
}

void CppText::otherwise() {
  --depth_;
  line("} else {");
  ++depth_;
}

void CppText::close(const std::string& tail) {
  --depth_;
  line("}" + tail);
}

CppKernel::CppKernel(const Program& p, const MappedProgram& m, const MappedKernel& k, DType real)
    : program_(p),
      mapped_(m),
      kernel_(k),
      real_(real),
      width_(m.machine.vector.bytes / bytes(real)),
      print_(p, m, k, names_, real) {
  for (const Role& r : k.roles) find_products(k, r.body, product_vectors_);
  for (const Buffer& b : k.buffers)
    for (size_t a = 0; b.space == Space::Local && a < b.axes.size(); ++a)
      extents_[b.axes[a]] = b.layout.shape()[a];
}

std::string CppKernel::str() {
  // Arguments keep the plain names; tiles and axes come after them.
  const std::string name = kernel_symbol(kernel_);
  for (const Argument& a : kernel_.arguments)
    names_.of(a.sym, a.kind == Argument::Kind::Size ? "size_" + a.sym.name() : a.sym.name());
  for (const Argument& a : kernel_.arguments)
    if (a.kind == Argument::Kind::Error) error_word_ = names_.of(a.sym);
  out_.open(fmt::format("static void {}_task(const int64* words, int64 task)", name));
  arguments();
  counters();
  buffers();
  if (by_tiles()) out_.line("const TileRegisters registers;  // set up for this task");
  TW_CHECK(kernel_.roles.size() == 1 && kernel_.roles[0].threads == 1,
           "a CPU kernel has one role with one owner");
  ops(kernel_.roles[0].body);
  out_.close();
  out_.line("");
  out_.open(
      fmt::format("extern \"C\" void {}(const long long* words, long long begin, long long end)", name));
  out_.line(fmt::format("for (long long task = begin; task < end; ++task) {}_task(words, task);", name));
  if (past_caches_) out_.line("store_fence();");
  out_.close();
  return out_.str();
}

void CppKernel::arguments() {
  for (size_t w = 0; w < kernel_.arguments.size(); ++w) {
    const Argument& a = kernel_.arguments[w];
    const std::string& name = names_.of(a.sym);
    switch (a.kind) {
      case Argument::Kind::Pointer: {
        const bool input = program_.input(a.sym) != nullptr;
        const std::string type = (input ? "const " : "") + cpp_memory_type(print_.dtype(a.sym));
        out_.line(fmt::format("{}* const {} = ({}*)words[{}];", type, name, type, w));
        break;
      }
      case Argument::Kind::Stride:
      case Argument::Kind::Size: out_.line(fmt::format("const int64 {} = words[{}];", name, w)); break;
      case Argument::Kind::Error:
        out_.line(fmt::format("int64* const {} = (int64*)words[{}];", name, w));
        break;
      case Argument::Kind::Scalar: {
        const char* type = a.sym.info().integer ? "int64" : "real";
        out_.line(fmt::format("const {} {} = ({})((const double*)words)[{}];", type, name, type, w));
        break;
      }
    }
  }
}

/// Task number -> counters, outermost axis slowest.
void CppKernel::counters() {
  const auto& grid = kernel_.grid;
  for (size_t g = grid.size(); g-- > 0;) {
    const KernelAxis& a = grid[g];
    const std::string& name = names_.of(a.counter);
    const Axis* axis = nullptr;
    for (const Axis& x : mapped_.axes)
      if (x.index == a.index) axis = &x;
    const Expr size = axis && axis->baked() ? axis->size : Expr(a.index.size());
    Expr blocks = a.block == 1 ? size : ceildiv(size, a.block);
    if (std::find(kernel_.at_least_one.begin(), kernel_.at_least_one.end(), a.index) !=
        kernel_.at_least_one.end())
      blocks = max(1, blocks);
    const CValue count = print_.as(print_.value(blocks), CKind::Integer);
    const bool reverse = kernel_.heaviest_first && g + 1 == grid.size();
    const std::string raw = g == 0 ? "task" : fmt::format("task % ({})", count.text);
    out_.line(fmt::format(
        "const int64 {} = {};", name,
        reverse ? fmt::format("{} - 1 - {}", CPrinter::wrap(count, c_precedence::sum_of_terms), raw) : raw));
    if (g > 0) out_.line(fmt::format("task /= {};", count.text));
  }
}

void CppKernel::buffers() {
  for (const Buffer& b : kernel_.buffers) {
    if (b.space == Space::Memory) continue;
    TW_CHECK(b.space == Space::Local && b.slots == 1,
             fmt::format("buffer {} is not task-local", b.sym.name()));
    std::string preferred = b.sym.name();
    for (const Argument& a : kernel_.arguments)
      if (names_.of(a.sym) == preferred) preferred += "_tile";
    const std::string& name = names_.of(b.sym, preferred);
    const std::string type = cpp_local_type(b.dtype, real_);
    std::string axes;
    for (Sym a : b.axes) axes += (axes.empty() ? "" : ", ") + a.name();
    const std::string comment = fmt::format("  // [{}]{}{}", axes, b.comment.empty() ? "" : ", ", b.comment);
    const int64_t n = b.layout.elements();
    if (n == 1)
      out_.line(fmt::format("{} {};{}", type, name, comment));
    else
      out_.line(fmt::format("alignas({}) {} {}[{}];{}", std::max<int64_t>(b.alignment, 64), type, name, n,
                            comment));
  }
}

int64_t CppKernel::panel_of(Sym axis) const {
  auto it = product_vectors_.find(axis);
  return it == product_vectors_.end() ? 0 : int64_t(it->second) * width_;
}

std::vector<cpu::Operand> CppKernel::operands(Expr e) const {
  std::vector<cpu::Operand> list;
  for (Sym s : tensors_read(e))
    if (print_.buffer(s)) list.push_back(cpu::operand_of(kernel_, s));
  return list;
}

/// Names the axes of an op.
void CppKernel::begin(const Frame& frame, Sym lane) {
  std::vector<CppAxis> axes;
  print_.begin({}, {}, 0, width_);  // origins and extents do not depend on the op's coordinates
  for (const AxisFrame& f : frame) {
    TW_CHECK(f.extent, fmt::format("axis {} has no extent", f.axis.name()));
    if (f.origin == Expr(f.axis)) continue;  // one element, whose index is defined outside
    CppAxis a;
    a.axis = f.axis;
    if (f.origin && !f.origin.is_constant(0)) {
      const CValue origin = print_.as(print_.value(f.origin), CKind::Integer);
      a.origin = CPrinter::wrap(origin, c_precedence::primary);
    }
    a.extent = print_.integer(f.extent);
    axes.push_back(std::move(a));
  }
  for (CppAxis& a : axes) a.var = names_.of(a.axis);
  print_.begin(std::move(axes), lane, lane ? panel_of(lane) : 0, width_);
}

void CppKernel::open_axis(Sym axis) {
  const CppAxis* a = print_.axis(axis);
  out_.open(fmt::format("for (int64 {0} = 0; {0} < {1}; ++{0})", a->var, a->extent));
}

void CppKernel::open_panels(Sym lane) {
  if (!lane || !panel_of(lane) || lane == in_panel_) return;
  out_.open(fmt::format("for (int64 p = 0; p * {} < {}; ++p)", panel_of(lane), print_.axis(lane)->extent));
}

void CppKernel::close_panels(Sym lane) {
  if (lane && panel_of(lane) && lane != in_panel_) out_.close();
}

/// Vectors of a panel, or of the whole axis.
void CppKernel::open_vectors(Sym lane) {
  if (!lane) return;
  const CppAxis* a = print_.axis(lane);
  const int64_t panel = panel_of(lane);
  if (!panel) {
    out_.open(fmt::format("for (int64 {0} = 0; {0} < {1}; {0} += {2})", a->var, a->extent, width_));
  } else if (panel == width_) {
    out_.line(fmt::format("const int64 {} = p * {};", a->var, panel));
  } else {
    out_.line("UNROLL");
    out_.open(fmt::format("for (int c = 0; c < {}; ++c)", panel / width_));
    out_.line(fmt::format("const int64 {} = p * {} + c * {};", a->var, panel, width_));
  }
}

void CppKernel::close_vectors(Sym lane) {
  if (lane && panel_of(lane) != width_) out_.close();
}

CppKernel::Vectors CppKernel::panel_vectors(Sym lane) {
  const int64_t panel = lane ? panel_of(lane) : 0;
  return {panel ? int(panel / width_) : 1, "c", [this, lane] { open_vectors(lane); },
          [this, lane] { close_vectors(lane); }};
}

std::string CppKernel::in_step(const Vectors& v, const std::function<std::string()>& value) {
  print_.share("t");
  if (v.count > 1) print_.stage(v.index);
  const std::string text = value();
  const std::vector<std::string> temporaries = print_.take_declarations();
  print_.share("");
  for (const CppPrinter::Stage& s : print_.take_stages()) {
    out_.line(fmt::format("vf {}[{}];", s.array, v.count));
    v.open();
    for (const std::string& t : s.declarations) out_.line(t);
    out_.line(fmt::format("{}[{}] = {};", s.array, v.index, s.argument));
    v.close();
    out_.line(fmt::format("{}({});", s.function, s.array));
  }
  v.open();
  for (const std::string& t : temporaries) out_.line(t);
  return text;
}

void CppKernel::ops(const Ops& list) {
  for (size_t k = 0; k < list.size();) {
    if (const size_t n = by_panels(list, k)) {
      k += n;
      continue;
    }
    if (in_panel_) out_.open("");  // no loop of its own encloses what an op declares
    size_t n = fused(list, k);
    if (n == 0) {
      describe(list[k]);
      std::visit([&](const auto& x) { op(x); }, list[k].node);
      n = 1;
    }
    if (in_panel_) out_.close();
    k += n;
  }
}

void CppKernel::describe(const MappedOp& o) {
  const std::string text = summary(o);
  if (!text.empty()) out_.line("// " + text);
}

std::string CppKernel::summary(const MappedOp& o) const {
  std::string text;
  if (const MapOp* x = std::get_if<MapOp>(&o.node))
    text = fmt::format("{} = {}", x->buffer.name(), to_string(x->value));
  if (const ReduceOp* x = std::get_if<ReduceOp>(&o.node)) {
    std::string axes;
    for (Sym a : x->axes) axes += (axes.empty() ? "" : ", ") + a.name();
    text = fmt::format("{} {}= {}[{}]({})", x->buffer.name(),
                       x->accumulate ? name(x->reducer) + std::string(" ") : "", name(x->reducer), axes,
                       to_string(x->value));
  }
  if (const RankOp* x = std::get_if<RankOp>(&o.node))
    text = fmt::format("{}, {} = first {} of {} ({}, {})", x->keys.name(), x->indices.name(), x->rank.name(),
                       x->axis.name(), to_string(x->value), to_string(x->at));
  if (const Mma* x = std::get_if<Mma>(&o.node)) {
    std::string axes;
    for (Sym a : x->contracted) axes += (axes.empty() ? "" : ", ") + a.name();
    text = fmt::format("{} {}= sum[{}]({} * {})", x->d.name(), x->zero ? "" : "+", axes, x->a.name(),
                       x->b.name());
  }
  if (const Copy* x = std::get_if<Copy>(&o.node))
    text = fmt::format("{} = {}", x->buffer.name(), to_string(tilewright::read(x->tensor, x->index)));
  if (const StoreOut* x = std::get_if<StoreOut>(&o.node))
    text = fmt::format("{} = {}", to_string(tilewright::read(x->tensor, x->index)), x->buffer.name());
  if (!o.comment.empty()) text += (text.empty() ? "" : ": ") + o.comment;
  return text;
}

void CppKernel::op(const Define& x) {
  print_.begin({}, {}, 0, width_);
  const std::string value = print_.integer(x.value);
  out_.line(fmt::format("const int64 {} = {};", names_.of(x.var), value));
  defined_[x.var] = x.value;
}

void CppKernel::op(const Fetch& x) {
  print_.begin({}, {}, 0, width_);
  out_.line(fmt::format("const int64 {} = {}[{}];", names_.of(x.var), names_.of(x.tensor),
                        print_.tensor_offset(x.tensor, x.index)));
}

void CppKernel::op(const MappedLoop& x) {
  print_.begin({}, {}, 0, width_);
  const std::string lo = print_.integer(x.lo), hi = print_.integer(x.hi);
  const std::string& var = names_.of(x.var);
  const std::string& end = names_.part(x.var, "end");
  out_.open(fmt::format("for (int64 {0} = {1}, {3} = {2}; {0} < {3}; ++{0})", var, lo, hi, end));
  if (by_tiles()) {
    const auto first = std::find_if(x.body.begin(), x.body.end(), [](const MappedOp& o) {
      return !std::holds_alternative<Define>(o.node);
    });
    ops(Ops(x.body.begin(), first));
    const bool outer = upcoming_;
    const Ops rest(first, x.body.end());
    bring_chunk(rest);
    ops(rest);
    upcoming_ = outer;
  } else {
    ops(x.body);
  }
  out_.close();
}

void CppKernel::op(const If& x) {
  print_.begin({}, {}, 0, width_);
  const std::string condition = print_.boolean(x.condition);
  out_.open(fmt::format("if ({})", condition));
  ops(x.then);
  if (!x.otherwise.empty()) {
    out_.otherwise();
    ops(x.otherwise);
  }
  out_.close();
}

void CppKernel::op(const Fail& x) { out_.line(fmt::format("fail({}, {});", error_word_, x.check)); }

template <class T>
void CppKernel::op(const T&) {
  TW_CHECK(false, "asynchronous ops do not occur on a CPU");
}

}  // namespace tilewright
