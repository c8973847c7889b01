// Element work: loops over the registers of a thread.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

constexpr int64_t most_partials = 8;  ///< partial results of one thread for one element

bool contains(const std::vector<Sym>& v, Sym s) { return std::find(v.begin(), v.end(), s) != v.end(); }

bool is_element_op(const MappedOp& op) {
  return std::holds_alternative<MapOp>(op.node) || std::holds_alternative<ReduceOp>(op.node);
}

struct Element {
  std::vector<Sym> range;  ///< axes
  const Frame* frame;
  Expr value;
  Sym target;
  std::vector<Sym> buffers;  ///< target and tiles read
  const std::vector<Use>* uses;
};

Element element_of(const MappedOp& op, const MappedKernel& k) {
  Element e;
  if (auto* m = std::get_if<MapOp>(&op.node)) {
    e = {k.buffer(m->buffer).axes, &m->frame, m->value, m->buffer, {m->buffer}, &m->uses};
  } else {
    const ReduceOp& r = std::get<ReduceOp>(op.node);
    e = {k.buffer(r.buffer).axes, &r.frame, r.value, r.buffer, {r.buffer}, &r.uses};
    for (Sym a : r.axes) e.range.push_back(a);
  }
  for (Sym t : tiles_in(e.value)) e.buffers.push_back(t);
  return e;
}

/// Reduced axes that no register operand distributes: every thread runs through them.
bool sequential(const MappedOp& op, const MappedKernel& k) {
  auto* r = std::get_if<ReduceOp>(&op.node);
  if (!r) return false;
  std::set<Sym> held;
  for (Sym t : tiles_in(r->value)) {
    const Buffer& b = k.buffer(t);
    if (b.space == Space::Registers) held.insert(b.axes.begin(), b.axes.end());
  }
  return std::any_of(r->axes.begin(), r->axes.end(), [&](Sym a) { return !held.count(a); });
}

bool same_frame(const Frame& a, const Frame& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (!(a[k].axis == b[k].axis) || !(a[k].origin == b[k].origin) || !(a[k].extent == b[k].extent))
      return false;
  return true;
}

}  // namespace

size_t CudaKernel::fusible(const Ops& list, size_t first) const {
  auto plain = [&](const MappedOp& op) {
    if (!is_element_op(op) || sequential(op, kernel_)) return false;
    auto* m = std::get_if<MapOp>(&op.node);
    if (m && (copies_words(*m) || copies_registers(*m))) return false;
    return buffer(m ? m->buffer : std::get<ReduceOp>(op.node).buffer).space == Space::Registers;
  };
  if (!plain(list[first])) return first + 1;
  const Element head = element_of(list[first], kernel_);
  std::set<Sym> range(head.range.begin(), head.range.end()), reduced;
  size_t end = first;
  for (; end < list.size(); ++end) {
    if (!plain(list[end])) break;
    const Element e = element_of(list[end], kernel_);
    if (std::set<Sym>(e.range.begin(), e.range.end()) != range || !same_frame(*e.frame, *head.frame)) break;
    const bool reads_result =
        std::any_of(e.buffers.begin(), e.buffers.end(), [&](Sym s) { return reduced.count(s) > 0; });
    if (reads_result) break;
    auto* r = std::get_if<ReduceOp>(&list[end].node);
    if (r) reduced.insert(r->buffer);
    if (r && r->axes.empty()) return end == first ? first + 1 : end;
  }
  return std::max(end, first + 1);
}

/// Hyperbolic tangents in an expression, each once.
static void tangents_in(Expr e, std::vector<Expr>& found) {
  if (e.is(Op::Tanh) && std::find(found.begin(), found.end(), e) == found.end()) found.push_back(e);
  if (e.is(Op::Read)) return;
  for (Expr a : e.args()) tangents_in(a, found);
}

void CudaKernel::element_work(const Ops& list, size_t first, size_t last, Lines& out) {
  if (auto* m = std::get_if<MapOp>(&list[first].node); m && buffer(m->buffer).space == Space::Local)
    return map_to_local(*m, out);
  if (auto* m = std::get_if<MapOp>(&list[first].node); m && copies_words(*m)) return copy_words(*m, out);
  if (auto* m = std::get_if<MapOp>(&list[first].node); m && copies_registers(*m)) {
    if (!list[first].comment.empty()) out.line("// " + list[first].comment);
    out.line("#pragma unroll");
    out.line(fmt::format("for (int k = 0; k < {}; ++k) {}[k] = {}[k];",
                         buffer(m->buffer).layout.elements() / 2, names_.of(m->buffer),
                         names_.of(m->value->sym)));
    return;
  }
  if (auto* r = std::get_if<ReduceOp>(&list[first].node); r && buffer(r->buffer).space == Space::Local)
    return reduce_to_local(*r, out);
  if (sequential(list[first], kernel_)) return reduce_sequential(std::get<ReduceOp>(list[first].node), out);
  std::vector<Sym> buffers;
  std::vector<Use> uses;
  bool wide = false;
  for (size_t k = first; k < last; ++k) {
    const Element e = element_of(list[k], kernel_);
    for (Sym s : e.buffers) {
      if (!contains(buffers, s)) buffers.push_back(s);
      if (has_buffer(s)) wide = wide || buffer(s).dtype == DType::f64;
    }
    uses.insert(uses.end(), e.uses->begin(), e.uses->end());
  }
  const Element head = element_of(list[first], kernel_);
  const Nest nest = nest_of(*head.frame, head.range, buffers, uses);
  nest_ = &nest;
  replaced_.clear();
  if (!groups_.empty() && nest.loops.size() > 1)
    worked_in_flight_ = element_of(list[last - 1], kernel_).target;
  out.open("");
  for (size_t k = first; k < last; ++k)
    if (!list[k].comment.empty()) out.line("// " + list[k].comment);

  // The innermost loop runs over pairs where packed registers are written, over partial results where something is reduced.
  const DigitLoop* inner = nest.loops.empty() ? nullptr : &nest.loops.back();
  const size_t outer_loops = nest.loops.empty() ? 0 : nest.loops.size() - 1;
  struct Partial {
    const ReduceOp* op;
    std::string name;
    int64_t elements, each;
  };
  std::vector<Partial> partials;
  for (size_t k = first; k < last; ++k) {
    auto* r = std::get_if<ReduceOp>(&list[k].node);
    if (!r) continue;
    const bool along =
        inner && contains(r->axes, nest.axes[inner->axis].axis) && inner->extent <= most_partials;
    Partial p{r, names_.fresh(names_.of(r->buffer) + "_part"), buffer(r->buffer).layout.elements(),
              along ? inner->extent : 1};
    const std::string type = element_type(buffer(r->buffer).dtype);
    out.line(fmt::format("{} {}[{}];", type, p.name, p.elements * p.each));
    partials.push_back(p);
  }
  const auto begin = [&] {
    for (const Partial& p : partials) {
      out.line("#pragma unroll");
      out.line(fmt::format("for (int k = 0; k < {}; ++k) {}[k] = {};", p.elements * p.each, p.name,
                           identity_text(p.op->reducer, buffer(p.op->buffer).dtype)));
    }
  };
  begin();
  Front front;
  front_ = &front;
  struct Work {
    Lines before, body, after;  ///< in front of the innermost loop, in it, behind it
  };
  const auto work = [&] {
    Work w;
    replaced_.clear();
    size_t next_partial = 0;
    for (size_t k = first; k < last; ++k) {
      const Element e = element_of(list[k], kernel_);
      const Buffer& target = buffer(e.target);
      CudaPrinter printer(*this, wide ? 64 : 32, target.dtype == DType::i64 ? 64 : 32);
      const auto* reduction = std::get_if<ReduceOp>(&list[k].node);
      std::string value = reduction                        ? term(*reduction, printer, wide)
                          : target.dtype == DType::boolean ? printer.boolean(e.value)
                          : is_integer(target.dtype)       ? printer.integer(e.value)
                                                           : printer.real(e.value);
      const std::string offset = register_offset(target, nest);
      if (auto* r = std::get_if<ReduceOp>(&list[k].node)) {
        const Partial& p = partials[next_partial++];
        const std::string place = p.each > 1
                                      ? fmt::format("{}[({}) * {} + {}]", p.name, offset, p.each, inner->var)
                                      : fmt::format("{}[{}]", p.name, offset);
        w.body.line(
            fmt::format("{} = {};", place, r->axes.empty() ? value : combine(r->reducer, place, value)));
      } else if (packed(target)) {
        TW_CHECK(inner && inner->step == 1, fmt::format("pairs of {} are not innermost", target.sym.name()));
        const std::string pair = names_.fresh(names_.of(target.sym) + "_pair");
        w.before.line(fmt::format("float {}[{}];", pair, inner->extent));
        w.body.line(fmt::format("{}[{}] = {};", pair, inner->var, value));
        std::vector<std::string> terms;  // offset without the innermost digit
        for (const Digit& d : target.layout.digits()) {
          if (d.axis < 0 || d.to == Digit::To::Owner || (d.stride == 1 && d.step == 1)) continue;
          const int axis = nest.find(target.axes[d.axis]);
          for (const DigitLoop& l : nest.loops)
            if (l.axis == axis && l.step >= d.step && l.step * l.extent <= d.step * d.extent)
              terms.push_back(times(l.var, d.stride * (l.step / d.step)));
        }
        helpers_.use(target.dtype == DType::f16 ? "tw_f16" : "tw_bf16");
        w.after.line("#pragma unroll");
        w.after.line(fmt::format(
            "for (int k = 0; k < {}; ++k) {}[({}) / 2 + k] = tw_pack_{}({}[2 * k], {}[2 * k + 1]);",
            inner->extent / 2, names_.of(target.sym), join_sum(terms), name(target.dtype), pair, pair));
        replaced_[target.sym] =
            load_value(target.dtype, store_value(target.dtype, fmt::format("{}[{}]", pair, inner->var)));
      } else {
        if (bytes(target.dtype) < 4 && is_float(target.dtype))
          value = load_value(target.dtype, store_value(target.dtype, value));
        w.body.line(fmt::format("{}[{}] = {};", names_.of(target.sym), offset, value));
      }
    }
    return w;
  };
  // Only coordinates that the body mentions.
  const auto declare = [&](const std::string& text) {
    Lines all;
    coordinates(nest, all);
    std::vector<std::string> declared, needed;
    const std::string lines = all.text();
    for (size_t at = 0; at < lines.size();) {
      const size_t end = lines.find('\n', at);
      declared.push_back(lines.substr(at, end - at));
      at = end + 1;
    }
    std::string below = text;
    for (size_t k = declared.size(); k-- > 0;) {
      const size_t from = declared[k].find("int ") + 4;
      const std::string name = declared[k].substr(from, declared[k].find(' ', from) - from);
      if (!mentions(below, name)) continue;
      needed.insert(needed.begin(), declared[k]);
      below += declared[k].substr(declared[k].find('='));
    }
    for (const std::string& line : needed) out.line(line);
  };
  const auto loops = [&](const Work& w) {
    open_loops(nest, 0, outer_loops, out);
    out.append(w.before);
    if (inner) open_loops(nest, outer_loops, outer_loops + 1, out);
    declare(w.body.text());
    out.append(w.body);
    if (inner) close_loops(nest, outer_loops, outer_loops + 1, out);
    out.append(w.after);
    close_loops(nest, 0, outer_loops, out);
  };
  std::vector<Expr> tangents;
  bool twice = true;  // what is written is not read before, so that the loops may run twice
  std::set<Sym> written;
  for (size_t k = first; k < last && !wide && !stores_wide_ && inner && !rare_; ++k) {
    const Element e = element_of(list[k], kernel_);
    tangents_in(e.value, tangents);
    for (size_t n = k; n < last; ++n)
      for (Sym s : tiles_in(e.value))
        twice = twice && (written.count(s) || !(element_of(list[n], kernel_).target == s));
    written.insert(e.target);
  }
  if (tangents.empty()) {
    const Work all = work();
    out.append(front.lines);
    loops(all);
  } else {
    // Hyperbolic tangents by a polynomial that holds near 0, without a branch for each; where an argument of the warp lies outside, by loops that hold for all, the next
    // time too.
    seen_ = names_.fresh("seen");
    tangents_ = twice ? Tangents::Scaled : Tangents::Near;
    const Work near = work();
    tangents_ = twice ? Tangents::Tested : Tangents::All;
    const Work all = work();
    tangents_ = Tangents::All;
    out.append(front.lines);
    out.line(fmt::format("int {} = -1;", seen_));
    if (twice) {
      if (near_.empty()) near_ = names_.fresh("near");
      out.open(fmt::format("if (__builtin_expect({}, 1))", near_));
      loops(near);
      out.line(fmt::format("{} = __all_sync(0xffffffffu, {} < 0);", near_, seen_));
      out.close();
      out.open(fmt::format("if (__builtin_expect(!{}, 0))", near_));
      begin();
      out.line(fmt::format("{} = -1;", seen_));
      loops(all);
      out.line(fmt::format("{} = __all_sync(0xffffffffu, {} < 0);", near_, seen_));
    } else {
      // What they read would be gone, so the largest argument is found first.
      const std::string most = names_.fresh("most");
      constexpr int chains = 4;
      std::string turn;
      for (const DigitLoop& l : nest.loops) turn += (turn.empty() ? "" : " + ") + l.var;
      out.line(fmt::format("float {}[{}] = {{}};", most, chains));
      Lines test;
      for (Expr x : tangents)
        test.line(fmt::format("{0}[({1}) % {2}] = fmaxf({0}[({1}) % {2}], fabsf({3}));", most, turn, chains,
                              CudaPrinter(*this, 32, 32).real(x.arg(0))));
      open_loops(nest, 0, nest.loops.size(), out);
      declare(test.text());
      out.append(test);
      close_loops(nest, 0, nest.loops.size(), out);
      out.open(
          fmt::format("if (__builtin_expect(!__all_sync(0xffffffffu, fmaxf(fmaxf({0}[0], {0}[1]), "
                      "fmaxf({0}[2], {0}[3])) < 0.3f), 0))",
                      most));
      loops(all);
      out.chain("else");
      loops(near);
    }
    out.close();
  }
  front_ = nullptr;
  // Partial results that warps exchange through shared memory are all written between two barriers, then all read.
  struct Exchanged {
    const Partial* partial;
    Scope scope;
    Lines read;
  };
  std::vector<Exchanged> exchanged;
  const auto each = [&](const Partial& p) {
    out.line("#pragma unroll");
    out.open(fmt::format("for (int k = 0; k < {}; ++k)", p.elements));
  };
  const auto take = [&](const Partial& p) {
    const std::string place = fmt::format("{}[k]", names_.of(p.op->buffer));
    out.line(
        fmt::format("{} = {};", place, p.op->accumulate ? combine(p.op->reducer, place, "total") : "total"));
    out.close();
  };
  for (const Partial& p : partials) {
    std::vector<std::string> terms;
    for (int64_t k = 0; k < p.each; ++k)
      terms.push_back(p.each > 1 ? fmt::format("{}[{} * k + {}]", p.name, p.each, k)
                                 : fmt::format("{}[k]", p.name));
    while (terms.size() > 1) {  // pairwise
      std::vector<std::string> half;
      for (size_t k = 0; k + 1 < terms.size(); k += 2)
        half.push_back("(" + combine(p.op->reducer, terms[k], terms[k + 1]) + ")");
      if (terms.size() % 2) half.push_back(terms.back());
      terms = half;
    }
    each(p);
    out.line(fmt::format("{} total = {};", element_type(buffer(p.op->buffer).dtype), terms[0]));
    Lines read;
    if (const std::optional<Scope> scope = exchange(*p.op, "total", nest, out, read)) {
      out.close();
      exchanged.push_back({&p, *scope, std::move(read)});
    } else {
      take(p);
    }
  }
  for (size_t from = 0, next; from < exchanged.size(); from = next) {
    const Scope scope = exchanged[from].scope;
    barrier(scope, out);
    for (next = from; next < exchanged.size() && exchanged[next].scope == scope; ++next) {
      const Partial& p = *exchanged[next].partial;
      each(p);
      out.line(fmt::format("{} total;", element_type(buffer(p.op->buffer).dtype)));
      out.append(exchanged[next].read);
      take(p);
    }
    barrier(scope, out);
  }
  out.close();
  nest_ = nullptr;
  replaced_.clear();
}

void CudaKernel::map_to_local(const MapOp& o, Lines& out) {
  const Buffer& target = buffer(o.buffer);
  std::vector<Sym> buffers{o.buffer};
  for (Sym t : tiles_in(o.value)) buffers.push_back(t);
  const Nest nest = nest_of(o.frame, target.axes, buffers, o.uses);
  nest_ = &nest;
  out.open("");
  const Buffer* widest = nullptr;
  for (Sym t : tiles_in(o.value)) {
    const Buffer& b = buffer(t);
    if (b.space == Space::Registers && (!widest || b.axes.size() > widest->axes.size())) widest = &b;
  }
  CudaPrinter printer(*this, target.dtype == DType::f64 ? 64 : 32, target.dtype == DType::i64 ? 64 : 32);
  std::vector<std::string> local;
  for (Sym a : target.axes) local.push_back(names_.part(a, "in"));
  auto write = [&] {
    const std::string value = target.dtype == DType::boolean ? printer.boolean(o.value)
                              : is_integer(target.dtype)     ? printer.integer(o.value)
                                                             : printer.real(o.value);
    out.line(fmt::format("{}[{}] = {};", local_text_.at(o.buffer), local_offset(target, local),
                         store_value(target.dtype, value)));
  };
  if (!widest) {  // any thread may write any element: neighbours write neighbours
    std::vector<size_t> order;
    for (size_t a = target.axes.size(); a-- > 0;) order.push_back(a);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return target.layout.contiguous(int(a)) > target.layout.contiguous(int(b));
    });
    int64_t total = 1, step = 1;
    for (int64_t n : target.layout.shape()) total *= n;
    const std::string element = names_.fresh("element");
    out.open(fmt::format("for (int {0} = thread; {0} < {1}; {0} += {2})", element, total, role_->threads));
    for (size_t a : order) {
      const int64_t extent = target.layout.shape()[a];
      std::string value = quotient(element, step);
      if (step * extent < total) value = remainder(value, extent);
      out.line(fmt::format("const int {} = {};", local[a], value));
      step *= extent;
    }
    for (const NestAxis& a : nest.axes)
      out.line(fmt::format("const int {} = {};", names_.of(a.axis),
                           join_sum({a.origin, names_.part(a.axis, "in")})));
    write();
    out.close();
  } else {
    TW_CHECK(widest->axes.size() == target.axes.size(),
             fmt::format("{} is written from no register tile of its shape", target.sym.name()));
    const std::string guard = replica_guard(*widest);
    if (!guard.empty()) out.open(fmt::format("if ({})", guard));
    open_loops(nest, 0, nest.loops.size(), out);
    coordinates(nest, out);
    write();
    close_loops(nest, 0, nest.loops.size(), out);
    if (!guard.empty()) out.close();
  }
  out.close();
  nest_ = nullptr;
}

}  // namespace tilewright::cuda_text
