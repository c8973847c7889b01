// Arrays in memory: addresses, copies by instructions, stores.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

DType dtype_of(const Program& p, const MappedProgram& m, Sym tensor) {
  for (const Output& o : p.outputs)
    if (o.sym == tensor) return o.dtype;
  for (const Workspace& w : m.workspaces)
    if (w.sym == tensor) return w.dtype;
  const Input* input = p.input(tensor);
  TW_CHECK(input, fmt::format("{} is no array", tensor.name()));
  return input->dtype;
}

std::string vector_type(int64_t bytes) {
  switch (bytes) {
    case 2: return "unsigned short";
    case 4: return "unsigned";
    case 8: return "uint2";
    case 16: return "uint4";
    default: return "";
  }
}

}  // namespace

std::string CudaKernel::element_address(Sym tensor, const std::vector<Expr>& index, const Nest&) {
  const std::vector<Dim> dims = memory_dims(program_, mapped_, tensor);
  CudaPrinter printer(*this, 32, 32);
  std::vector<std::string> terms;
  size_t piece = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    std::string position;
    for (Sym axis : dims[d].pieces) {
      const CValue v = printer.as(printer.value(index[piece++]), CKind::Integer);
      position = position.empty() ? CPrinter::wrap(v, c_precedence::unary)
                                  : fmt::format("({} * {} + {})", position, size_text(axis.size()),
                                                CPrinter::wrap(v, c_precedence::product_of_factors));
    }
    if (position.empty()) continue;
    for (const Argument& a : kernel_.arguments)
      if (a.kind == Argument::Kind::Stride && a.tensor == tensor && a.dim == int(d))
        terms.push_back(fmt::format("{} * {}", names_.of(a.sym), position));
  }
  return join_sum(terms);
}

std::vector<std::string> CudaKernel::inside(Sym tensor, const std::vector<Expr>& index, const Nest& nest,
                                            int64_t slack) {
  std::vector<std::string> terms;
  size_t piece = 0;
  CudaPrinter printer(*this, 32, 32);
  const std::vector<Dim> dims = memory_dims(program_, mapped_, tensor);
  for (size_t d = 0; d < dims.size(); ++d) {
    for (Sym axis : dims[d].pieces) {
      const Expr e = index[piece++];
      const bool last = piece == index.size();
      const std::string size = size_text(axis.size());
      // A scalar axis of the grid is inside by the number of blocks; a whole axis without padding by its literal size.
      bool sure = false;
      for (const KernelAxis& g : kernel_.grid)
        sure = sure || (g.block == 1 && e == Expr(g.index) && g.index == axis);
      const int at = e.is(Op::Symbol) ? nest.find(e->sym) : -1;
      if (at >= 0 && e->sym == axis) {
        for (const Axis& a : mapped_.axes)
          if (a.index == axis && a.baked() && a.size.rational()->num() == nest.axes[at].extent &&
              nest.axes[at].origin == "0")
            sure = true;
      }
      if (sure) continue;
      const CValue v = printer.as(printer.value(e), CKind::Integer);
      const bool plain = e.is(Op::Symbol);
      if (!plain && !provably_nonnegative(e))
        terms.push_back(fmt::format("{} >= 0", CPrinter::wrap(v, c_precedence::shift)));
      if (last && slack > 0)
        terms.push_back(
            fmt::format("{} + {} < {}", CPrinter::wrap(v, c_precedence::sum_of_terms), slack, size));
      else
        terms.push_back(fmt::format("{} < {}", CPrinter::wrap(v, c_precedence::shift), size));
    }
  }
  return terms;
}

static bool checked(const Copy& o) {
  return std::any_of(o.checks.begin(), o.checks.end(), [](int check) { return check >= 0; });
}

std::vector<std::string> CudaKernel::reached(const Copy& o, const Nest& nest, int64_t slack, Sym slack_axis) {
  std::vector<std::string> conditions;
  if (!checked(o)) conditions = inside(o.tensor, o.index, nest, slack);
  for (const std::string& c : clips(nest, slack, slack_axis)) conditions.push_back(c);
  if (checked(o))  // only of elements that exist
    for (Sym a : buffer(o.buffer).axes)
      conditions.push_back(fmt::format("{} < {}", names_.of(a), size_text(a.size())));
  if (o.present) conditions.push_back("(" + scalar_bool(o.present) + ")");
  return conditions;
}

std::vector<std::string> CudaKernel::found_inside(const Copy& o, const std::vector<Expr>& index) {
  std::vector<std::string> conditions;
  CudaPrinter printer(*this, 64, 64);
  for (size_t k = 0; k < o.checks.size(); ++k) {
    if (o.checks[k] < 0) continue;
    helpers_.use("tw_inside");
    conditions.push_back(fmt::format("tw_inside({}, {}, {}, {})", printer.integer(index[k]),
                                     size_text(mapped_.checks[size_t(o.checks[k])].axis.size()), error_word(),
                                     o.checks[k]));
  }
  return conditions;
}

std::string CudaKernel::may_read(const Copy& o, const Nest& nest, int64_t slack, Sym slack_axis) {
  std::vector<std::string> conditions = reached(o, nest, slack, slack_axis);
  for (const std::string& c : found_inside(o, o.index)) conditions.push_back(c);
  return join_and(conditions);
}

std::string CudaKernel::error_word() {
  const auto at = std::find_if(kernel_.arguments.begin(), kernel_.arguments.end(),
                               [](const Argument& a) { return a.kind == Argument::Kind::Error; });
  TW_CHECK(at != kernel_.arguments.end(), "a kernel with checks has an error word");
  return names_.of(at->sym);
}

std::vector<std::string> CudaKernel::clips(const Nest& nest, int64_t slack, Sym slack_axis) {
  std::vector<std::string> terms;
  for (const NestAxis& a : nest.axes) {
    if (!a.clip) continue;
    if (auto r = a.clip.rational(); r && r->num() >= a.extent) continue;
    const std::string in = names_.part(a.axis, "in");
    terms.push_back(a.axis == slack_axis && slack
                        ? fmt::format("{} + {} < {}", in, slack, constant_int(a.clip))
                        : fmt::format("{} < {}", in, constant_int(a.clip)));
  }
  return terms;
}

void CudaKernel::copy(const Copy& o, Lines& out) {
  const Atom* atom = find_atom(o.atom);
  if (atom && atom->completion == Completion::Group) return copy_in_group(o, out);
  out.open("");
  if (buffer(o.buffer).space == Space::Local)
    copy_to_local(o, out);
  else
    copy_to_registers(o, out);
  out.close();
}

void CudaKernel::element_coordinates(const Buffer& b, const std::vector<size_t>& order,
                                     const std::string& number, int64_t total, const Nest& nest, Lines& out) {
  int64_t step = 1;
  for (size_t a : order) {
    const int64_t extent = b.layout.shape()[a];
    std::string value = quotient(number, step);
    if (step * extent < total) value = remainder(value, extent);
    out.line(fmt::format("const int {} = {};", names_.part(b.axes[a], "in"), value));
    step *= extent;
  }
  for (const NestAxis& a : nest.axes)
    out.line(fmt::format("const int {0} = {1};", names_.of(a.axis),
                         join_sum({a.origin, names_.part(a.axis, "in")})));
}

void CudaKernel::copy_to_local(const Copy& o, Lines& out) {
  const Buffer& b = buffer(o.buffer);
  const DType from = dtype_of(program_, mapped_, o.tensor);
  std::vector<Use> uses;
  if (o.use) uses.push_back({o.buffer, o.use});
  const Nest nest = nest_of(o.frame, b.axes, {o.buffer}, uses);
  nest_ = &nest;
  // Neighbouring threads take neighbouring elements of memory.
  std::vector<size_t> order;
  for (size_t a = b.axes.size(); a-- > 0;) order.push_back(a);
  if (!o.index.empty()) {
    auto inner = std::find_if(order.begin(), order.end(),
                              [&](size_t a) { return depends_on(o.index.back(), b.axes[a]); });
    if (inner != order.end()) std::rotate(order.begin(), inner, inner + 1);
  }
  int64_t total = 1;
  for (int64_t n : b.layout.shape()) total *= n;
  const std::string to = names_.fresh("to");
  out.line(fmt::format("{0}* const {1} = {2};", storage_type(b.dtype), to, local_text_.at(o.buffer)));
  out.line("#pragma unroll 8");
  const std::string element_number = names_.fresh("element");
  out.open(
      fmt::format("for (int {0} = thread; {0} < {1}; {0} += {2})", element_number, total, role_->threads));
  element_coordinates(b, order, element_number, total, nest, out);
  const std::string conditions = may_read(o, nest, 0, {});
  std::vector<std::string> local;
  for (Sym a : b.axes) local.push_back(names_.part(a, "in"));
  const std::string element =
      fmt::format("{}[{}]", names_.of(o.tensor), element_address(o.tensor, o.index, nest));
  std::string value = element, zero = "0";
  if (from != b.dtype) value = store_value(b.dtype, load_value(from, element));
  if (!conditions.empty())
    value = fmt::format("{} ? {} : ({}){}", conditions, value, storage_type(b.dtype), zero);
  out.line(fmt::format("{}[{}] = {};", to, local_offset(b, local), value));
  out.close();
  nest_ = nullptr;
}

void CudaKernel::copy_to_registers(const Copy& o, Lines& out) {
  const Buffer& b = buffer(o.buffer);
  const DType from = dtype_of(program_, mapped_, o.tensor);
  const Nest nest = nest_of(o.frame, b.axes, {o.buffer}, {});
  nest_ = &nest;
  const std::string& name = names_.of(o.buffer);
  const DigitLoop* inner = nest.loops.empty() ? nullptr : &nest.loops.back();
  const bool pairs = packed(b);
  const int64_t run = inner && inner->step == 1 ? inner->extent : 1;
  const int64_t width = std::min<int64_t>(16, run * bytes(from));
  const bool vector = o.atom == "copy.vector" && from == b.dtype && run > 1 && !o.present &&
                      width * bytes(from) > 0 && !vector_type(width).empty() && (bytes(from) == 4 || pairs);
  auto whole = [&](bool as_vector) {
    // The element at the innermost digit's zero, then its neighbours.
    const int64_t per = as_vector ? width / bytes(from) : 1;
    return may_read(o, nest, as_vector ? per - 1 : 0, inner ? nest.axes[inner->axis].axis : Sym());
  };
  const size_t outer = nest.loops.empty() ? 0 : nest.loops.size() - 1;
  auto element = [&](Lines& to, const std::string& target) {
    const std::string value = load_value(
        from, fmt::format("{}[{}]", names_.of(o.tensor), element_address(o.tensor, o.index, nest)));
    const std::string conditions = whole(false);
    std::string text =
        conditions.empty() ? value : fmt::format("{} ? {} : ({})0", conditions, value, element_type(b.dtype));
    if (from != b.dtype && is_float(b.dtype) && bytes(b.dtype) < 4)
      text = load_value(b.dtype, store_value(b.dtype, text));
    to.line(fmt::format("{} = {};", target, text));
  };
  const std::string offset = register_offset(b, nest);
  if (!vector && !pairs) {
    open_loops(nest, 0, nest.loops.size(), out);
    if (nest.loops.empty()) out.open("");
    coordinates(nest, out);
    element(out, fmt::format("{}[{}]", name, offset));
    if (nest.loops.empty()) out.close();
    close_loops(nest, 0, nest.loops.size(), out);
    nest_ = nullptr;
    return;
  }
  const int64_t per = vector ? width / bytes(from) : run;  // elements at a time
  open_loops(nest, 0, outer, out);
  out.line("#pragma unroll");
  out.open(fmt::format("for (int first = 0; first < {}; first += {})", run, per));
  const std::string element_array = names_.fresh("element");
  if (vector) {
    out.open("");
    out.line(fmt::format("const int {} = first;", inner->var));
    coordinates(nest, out);
    const std::string conditions = whole(true);
    if (!conditions.empty()) out.open(fmt::format("if ({})", conditions));
    out.line(fmt::format("const {0} w = *(const {0}*)({1} + ({2}));", vector_type(width), names_.of(o.tensor),
                         element_address(o.tensor, o.index, nest)));
    const int64_t words = width / 4;
    const char* part[] = {".x", ".y", ".z", ".w"};
    for (int64_t k = 0; k < words; ++k) {
      const std::string word = words == 1 ? "w" : fmt::format("w{}", part[k]);
      if (pairs)
        out.line(fmt::format("{}[({}) / 2 + {}] = {};", name, offset, k, word));
      else
        out.line(
            fmt::format("{}[({}) + {}] = {};", name, offset, k,
                        b.dtype == DType::f32 ? fmt::format("__uint_as_float({})", word) : "(int)" + word));
    }
    if (conditions.empty()) {
      out.close();
      out.close();
      close_loops(nest, 0, outer, out);
      nest_ = nullptr;
      return;
    }
    out.chain("else");
  }
  if (pairs) {
    out.line(fmt::format("float {}[{}];", element_array, per));
    out.line("#pragma unroll");
    out.open(fmt::format("for (int k = 0; k < {}; ++k)", per));
    out.line(fmt::format("const int {} = first + k;", inner->var));
    coordinates(nest, out);
    element(out, element_array + "[k]");
    out.close();
    helpers_.use(b.dtype == DType::f16 ? "tw_f16" : "tw_bf16");
    if (!vector) out.line(fmt::format("const int {} = first;", inner->var));
    out.line("#pragma unroll");
    out.line(fmt::format(
        "for (int k = 0; k < {0}; ++k) {1}[({2}) / 2 + k] = tw_pack_{3}({4}[2 * k], {4}[2 * k + 1]);",
        per / 2, name, offset, tilewright::name(b.dtype), element_array));
  } else {
    out.line("#pragma unroll");
    out.open(fmt::format("for (int k = 0; k < {}; ++k)", per));
    out.line(fmt::format("const int {} = first + k;", inner->var));
    coordinates(nest, out);
    element(out, fmt::format("{}[{}]", name, offset));
    out.close();
  }
  if (vector) {
    out.close();
    out.close();
  }
  out.close();
  close_loops(nest, 0, outer, out);
  nest_ = nullptr;
}

void CudaKernel::store_quads(const StoreOut& o, Lines& out) {
  const Buffer& b = buffer(o.buffer);
  const DType to = dtype_of(program_, mapped_, o.tensor);
  const Nest nest = nest_of(o.frame, b.axes, {o.buffer}, {});
  nest_ = &nest;
  const int along = nest.find(o.index.back()->sym);
  TW_CHECK(along >= 0 && bytes(to) == 2, fmt::format("{} does not lie in quads", o.buffer.name()));
  std::vector<DigitLoop> others;
  std::string pair, block;
  int64_t blocks = 0;
  for (const DigitLoop& l : nest.loops) {
    if (l.axis == along && l.step == 1)
      pair = l.var;
    else if (l.axis == along)
      block = l.var, blocks = l.extent;
    else
      others.push_back(l);
  }
  const std::string type = name(to), &tensor = names_.of(o.tensor), &axis = names_.of(nest.axes[along].axis),
                    &inside_block = names_.part(nest.axes[along].axis, "in");
  helpers_.use("tw_gather_quad");
  helpers_.use(to == DType::f16 ? "tw_f16" : "tw_bf16");
  out.open("");
  std::string strides;
  for (const Argument& a : kernel_.arguments)
    if (a.kind == Argument::Kind::Stride && a.tensor == o.tensor &&
        a.dim + 1 < int(memory_dims(program_, mapped_, o.tensor).size()))
      strides += " | " + names_.of(a.sym) + " << 1";
  const std::string whole = names_.fresh("whole"), quad = names_.fresh("quad"), at = names_.fresh("at");
  out.line(fmt::format("const bool {} = (((long long){}{}) & 15) == 0;  // 16 bytes at a time", whole, tensor,
                       strides));
  Nest outer = nest;
  outer.loops = others;
  open_loops(outer, 0, others.size(), out);
  for (size_t k = 0; k < nest.axes.size(); ++k) {  // of the axes across
    if (int(k) == along) continue;
    const NestAxis& a = nest.axes[k];
    std::vector<std::string> terms;
    if (!a.owner.empty()) terms.push_back(a.owner);
    for (const DigitLoop& l : others)
      if (l.axis == int(k)) terms.push_back(times(l.var, l.step));
    out.line(fmt::format("const int {} = {};", names_.part(a.axis, "in"),
                         a.held ? join_sum(terms) : a.sequential));
    out.line(fmt::format("const int {} = {};", names_.of(a.axis),
                         join_sum({a.origin, names_.part(a.axis, "in")})));
  }
  out.line("#pragma unroll");
  out.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", quad, blocks / 4));
  out.line("unsigned w[4];");
  out.line("#pragma unroll");
  out.open("for (int k = 0; k < 4; ++k)");
  out.line(fmt::format("const int {} = 4 * {} + k;", block, quad));
  out.line("float element[2];");
  out.line("#pragma unroll");
  CudaPrinter printer(*this, 32, 32);
  const std::string value = printer.real(read(o.buffer, std::vector<Expr>(b.axes.begin(), b.axes.end())));
  out.line(fmt::format("for (int {0} = 0; {0} < 2; ++{0}) element[{0}] = {1};", pair, value));
  out.line(fmt::format("w[k] = tw_pack_{}(element[0], element[1]);", type));
  out.close();
  out.line("tw_gather_quad(w, lane);");
  out.line(fmt::format("const int {} = 8 * (4 * {} + (lane & 3));", at, quad));
  const auto place = [&](const std::string& further) {
    out.line(fmt::format("const int {} = {}{};", inside_block, at, further));
    out.line(fmt::format("const int {} = {};", axis, join_sum({nest.axes[along].origin, inside_block})));
  };
  const auto conditions = [&](int64_t slack) {
    std::vector<std::string> terms = inside(o.tensor, o.index, nest, slack);
    for (const std::string& c : clips(nest, slack, nest.axes[along].axis)) terms.push_back(c);
    return terms;
  };
  out.open("");
  place("");
  std::vector<std::string> all = conditions(7);
  all.insert(all.begin(), whole);
  out.open(fmt::format("if ({})", join_and(all)));
  out.line(fmt::format("*(uint4*)({} + ({})) = make_uint4(w[0], w[1], w[2], w[3]);", tensor,
                       element_address(o.tensor, o.index, nest)));
  out.chain("else");
  out.line("#pragma unroll");
  out.open("for (int k = 0; k < 8; ++k)");
  place(" + k");
  const std::string where = join_and(conditions(0));
  out.line(fmt::format("{}{}[{}] = (unsigned short)(w[k >> 1] >> 16 * (k & 1));",
                       where.empty() ? "" : fmt::format("if ({}) ", where), tensor,
                       element_address(o.tensor, o.index, nest)));
  out.close();
  out.close();
  out.close();
  out.close();
  close_loops(outer, 0, others.size(), out);
  out.close();
  nest_ = nullptr;
}

void CudaKernel::store(const StoreOut& o, Lines& out) {
  if (o.atom == "store.quad") return store_quads(o, out);
  const Buffer& b = buffer(o.buffer);
  const DType to = dtype_of(program_, mapped_, o.tensor);
  const Nest nest = nest_of(o.frame, b.axes, {o.buffer}, {});
  nest_ = &nest;
  const DigitLoop* inner = nest.loops.empty() ? nullptr : &nest.loops.back();
  const int64_t run = inner && inner->step == 1 ? inner->extent : 1;
  const int64_t width = std::min<int64_t>(16, run * bytes(to));
  const bool vector = o.atom == "store.vector" && run > 1 && !vector_type(width).empty() && width >= 4 &&
                      is_float(to) && bytes(to) <= 4 && bytes(to) >= 2;
  const int64_t per = vector ? width / bytes(to) : 1;
  const std::string guard = replica_guard(b);
  out.open(guard.empty() ? "" : fmt::format("if ({})", guard));
  std::vector<Expr> own(b.axes.begin(), b.axes.end());
  CudaPrinter printer(*this, to == DType::f64 ? 64 : 32, to == DType::i64 ? 64 : 32);
  auto value_of = [&] {
    Expr e = read(o.buffer, own);
    if (is_integer(to) && is_float(b.dtype)) e = cast(to, e);  // a state holds integers as reals
    return to == DType::boolean ? printer.boolean(e) : is_integer(to) ? printer.integer(e) : printer.real(e);
  };
  auto conditions = [&](int64_t slack) {
    std::vector<std::string> terms = inside(o.tensor, o.index, nest, slack);
    for (const std::string& c : clips(nest, slack, inner ? nest.axes[inner->axis].axis : Sym()))
      terms.push_back(c);
    return join_and(terms);
  };
  const std::string& tensor = names_.of(o.tensor);
  auto one = [&](Lines& lines) {
    const std::string where = conditions(0);
    lines.line(fmt::format("{}{}[{}] = {};", where.empty() ? "" : fmt::format("if ({}) ", where), tensor,
                           element_address(o.tensor, o.index, nest), store_value(to, value_of())));
  };
  if (!vector) {
    open_loops(nest, 0, nest.loops.size(), out);
    if (nest.loops.empty()) out.open("");
    coordinates(nest, out);
    one(out);
    if (nest.loops.empty()) out.close();
    close_loops(nest, 0, nest.loops.size(), out);
  } else {
    const size_t outer = nest.loops.size() - 1;
    open_loops(nest, 0, outer, out);
    out.line("#pragma unroll");
    out.open(fmt::format("for (int first = 0; first < {}; first += {})", run, per));
    out.line(fmt::format("float element[{}];", per));
    out.line("#pragma unroll");
    out.open(fmt::format("for (int k = 0; k < {}; ++k)", per));
    out.line(fmt::format("const int {} = first + k;", inner->var));
    out.line(fmt::format("element[k] = {};", value_of()));
    out.close();
    out.line(fmt::format("const int {} = first;", inner->var));
    coordinates(nest, out);
    const std::string all = conditions(per - 1);
    if (!all.empty()) out.open(fmt::format("if ({})", all));
    std::vector<std::string> words;
    for (int64_t k = 0; k < width / 4; ++k) {
      if (bytes(to) == 4) {
        words.push_back(fmt::format("__float_as_uint(element[{}])", k));
      } else {
        helpers_.use(to == DType::f16 ? "tw_f16" : "tw_bf16");
        words.push_back(fmt::format("tw_pack_{}(element[{}], element[{}])", name(to), 2 * k, 2 * k + 1));
      }
    }
    std::string made;
    for (const std::string& w : words) made += (made.empty() ? "" : ", ") + w;
    if (words.size() > 1) made = fmt::format("make_uint{}({})", words.size(), made);
    out.line(fmt::format("*({}*)({} + ({})) = {};", vector_type(width), tensor,
                         element_address(o.tensor, o.index, nest), made));
    if (!all.empty()) {
      out.chain("else");
      out.line("#pragma unroll");
      out.open(fmt::format("for (int k = 0; k < {}; ++k)", per));
      out.line(fmt::format("const int {} = first + k;", inner->var));
      coordinates(nest, out);
      const std::string where = conditions(0);
      out.line(fmt::format("if ({}) {}[{}] = {};", where.empty() ? "true" : where, tensor,
                           element_address(o.tensor, o.index, nest), store_value(to, "element[k]")));
      out.close();
      out.close();
    }
    out.close();
    close_loops(nest, 0, outer, out);
  }
  out.close();
  nest_ = nullptr;
}

}  // namespace tilewright::cuda_text
