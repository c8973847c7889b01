// Statements of a kernel that reduce: sums and extrema over lanes, registers and loops, and sorted lists.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/emit/cpp_kernel.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

bool contains(const std::vector<Sym>& list, Sym s) {
  return std::find(list.begin(), list.end(), s) != list.end();
}

/// How tightly a value must bind to stand behind the operator that takes it into a total.
int operand_precedence(Reducer r) {
  switch (r) {
    case Reducer::Sum: return c_precedence::sum_of_terms + 1;  // a difference is taken before it is added
    case Reducer::Prod: return c_precedence::unary;
    case Reducer::Any:
    case Reducer::All: return c_precedence::equality;
    default: return 0;  // an argument of a function
  }
}

}  // namespace

/// The value that a reduction takes; what produces it is stored on the way.
std::string CppKernel::reduced_value(const Vectors& v, Expr value, CKind kind, int precedence) {
  const std::string text = in_step(v, [&] {
    return print_.value_text(producer_ ? producer_->value : value, kind, producer_ ? 0 : precedence);
  });
  if (!producer_) return text;
  out_.line(fmt::format("const {} made = {};", accumulator_type(kind, true), text));
  store_local(kernel_.buffer(producer_->buffer), "made", true);
  return "made";
}

std::string CppKernel::accumulator_type(CKind kind, bool vector) const {
  if (kind == CKind::Real) return vector ? "vf" : "real";
  if (kind == CKind::Integer) return vector ? "vl" : "int64";
  return vector ? "vm" : "bool";
}

std::string CppKernel::identity(Reducer r, CKind kind, bool vector) const {
  std::string text;
  CValue v;
  v.kind = kind;
  v.literal = true;
  switch (r) {
    case Reducer::Sum:
    case Reducer::Any: v.number = 0; break;
    case Reducer::Prod:
    case Reducer::All: v.number = 1; break;
    case Reducer::Max:
    case Reducer::Min:
      if (kind == CKind::Integer) {
        const int64_t least = INT64_MIN, most = INT64_MAX;
        v = CValue::integer(print_.dialect().integer_literal(r == Reducer::Max ? least : most, 64));
      } else {
        v.number = r == Reducer::Max ? -__builtin_inf() : __builtin_inf();
      }
      break;
    default: TW_CHECK(false, fmt::format("reducer {} is expanded before mapping", name(r)));
  }
  v = print_.as(v, kind);
  if (vector && v.text.find_first_not_of("0.f") == std::string::npos)
    return fmt::format("({}){{}}", accumulator_type(kind, true));
  if (vector && kind == CKind::Boolean && v.text == "false") return "(vm){}";
  return vector ? print_.splat(v).text : v.text;
}

std::string CppKernel::combined(Reducer r, CKind kind, const std::string& a, const std::string& b) const {
  switch (r) {
    case Reducer::Sum: return fmt::format("{} + {}", a, b);
    case Reducer::Prod: return fmt::format("{} * {}", a, b);
    case Reducer::Any: return fmt::format("{} | {}", a, b);
    case Reducer::All: return fmt::format("{} & {}", a, b);
    case Reducer::Max: return fmt::format("{}_max({}, {})", kind == CKind::Real ? "v" : "i", a, b);
    case Reducer::Min: return fmt::format("{}_min({}, {})", kind == CKind::Real ? "v" : "i", a, b);
    default: TW_CHECK(false, fmt::format("reducer {} is expanded before mapping", name(r)));
  }
}

void CppKernel::op(const ReduceOp& x) { reduce({&x}); }

void CppKernel::reduce(const std::vector<const ReduceOp*>& together) {
  const ReduceOp& x = *together[0];
  const Buffer& b = kernel_.buffer(x.buffer);
  const Sym lane = lane_of(x);
  begin(x.frame, lane);
  if (lane && contains(b.axes, lane)) {
    reduce_along(x, b, lane);
    return;
  }
  std::vector<std::string> next;
  for (const ReduceOp* r : together)
    for (const std::string& call : bring_next(*r, lane))
      if (std::find(next.begin(), next.end(), call) == next.end()) next.push_back(call);
  begin(x.frame, lane);
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) open_axis(a);
  for (const std::string& call : next) out_.line(call);
  out_.open("");
  std::vector<Taken> taken;
  std::vector<NextPart> parts;
  for (const ReduceOp* r : together) {
    taken.push_back({r->reducer, CppPrinter::kind(kernel_.buffer(r->buffer).dtype), r->value});
    for (NextPart& part : shares(*r, lane)) {
      const auto before = std::find_if(parts.begin(), parts.end(), [&](const NextPart& p) {
        return p.at == part.at && p.part + p.count == part.part;
      });
      if (before != parts.end())
        before->count += part.count;
      else
        parts.push_back(std::move(part));
    }
  }
  const std::vector<std::string> totals = reduce_across(taken, x.axes, lane, parts);
  for (size_t n = 0; n < together.size(); ++n) {
    const Buffer& result = kernel_.buffer(together[n]->buffer);
    const CKind kind = taken[n].kind;
    const std::string place = result.layout.elements() == 1
                                  ? names_.of(result.sym)
                                  : fmt::format("{}[{}]", names_.of(result.sym), print_.offset(result));
    const std::string type = kind == CKind::Boolean ? "bool" : kind == CKind::Integer ? "int64" : "real";
    store_local(result,
                together[n]->accumulate
                    ? combined(taken[n].reducer, kind, fmt::format("({})({})", type, place), totals[n])
                    : totals[n],
                false);
  }
  out_.close();
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) out_.close();
}

/// Elements are compared with the last of their list, a vector at a time where they lie side by side; most stand behind it.
void CppKernel::op(const RankOp& x) {
  const Buffer &keys = kernel_.buffer(x.keys), &indices = kernel_.buffer(x.indices);
  begin(x.frame, {});
  Sym lane;
  if (x.at == Expr(x.axis) && print_.axis(x.axis) && !panel_of(x.axis) && extents_[x.axis] >= width_) {
    const cpu::Operand none;
    const Expr all = x.present ? select(x.present, x.value, 0) : x.value;
    lane = cpu::vector_axis(none, {x.axis}, operands(all), extents_);
    begin(x.frame, lane);
    if (!print_.at_one_stride(all)) lane = {};
  }
  begin(x.frame, lane);
  const std::string length = print_.axis(x.rank)->extent;
  std::vector<CppAxis> places;
  for (const AxisFrame& f : x.frame)
    if (const CppAxis* a = print_.axis(f.axis)) {
      places.push_back(*a);
      if (f.axis == x.rank) places.back().var = "0";
    }
  print_.begin(places, lane, 0, width_);
  std::vector<Sym> loops;
  for (Sym a : scalar_axes(keys, {}))
    if (a != x.rank && print_.axis(a)) loops.push_back(a);
  for (Sym a : loops) open_axis(a);
  if (lane)
    open_vectors(lane);
  else if (print_.axis(x.axis))
    open_axis(x.axis);
  else
    out_.open("");
  const Vectors single{1, "c", [] {}, [] {}};
  const auto text = [&](Expr e, CKind kind) {
    return in_step(single, [&] { return print_.value_text(e, kind); });
  };
  const auto insert = [&](const std::string& key, const std::string& index) {
    out_.line(fmt::format("rank_in({}, {}, {}, {}, {}, {}, {});", pointer(keys), print_.step(keys, x.rank),
                          pointer(indices), print_.step(indices, x.rank), length, key, index));
  };
  if (lane) {
    const std::string key = names_.fresh("key"), ahead = names_.fresh("ahead");
    out_.line(fmt::format("const vf {} = {};", key, text(x.value, CKind::Real)));
    const std::string there = x.present ? text(x.present, CKind::Boolean) : "";
    out_.line(fmt::format("const vm {} = ~({} < splat(({})[({} - 1) * {}])){};", ahead, key, pointer(keys),
                          length, print_.step(keys, x.rank),
                          there.empty() ? "" : fmt::format(" & ({})", there)));
    out_.line(fmt::format("if (!any({})) continue;", ahead));
    out_.open(fmt::format("for (int64 lane = 0; lane < LANES && lane < {}; ++lane)", print_.remaining()));
    out_.open(fmt::format("if ({}[lane])", ahead));
    insert(key + "[lane]", print_.at_lane_0([&] { return print_.integer(x.at); }) + " + lane");
    out_.close();
    out_.close();
  } else {
    if (x.present) out_.open(fmt::format("if ({})", text(x.present, CKind::Boolean)));
    const std::string key = text(x.value, CKind::Real), index = text(x.at, CKind::Integer);
    insert(key, index);
    if (x.present) out_.close();
  }
  out_.close();
  for (size_t k = 0; k < loops.size(); ++k) out_.close();
}

std::vector<std::string> CppKernel::bring_next(const ReduceOp& x, Sym lane) {
  std::vector<std::string> calls;
  if (!lane || !x.ahead.axis || !contains(kernel_.buffer(x.buffer).axes, x.ahead.axis)) return calls;
  begin(x.frame, {});
  if (!print_.axis(lane) || !print_.axis(x.ahead.axis)) return calls;
  const std::string elements = print_.axis(lane)->extent;
  std::vector<CppAxis> places;
  for (const AxisFrame& f : x.frame)
    if (const CppAxis* a = print_.axis(f.axis)) {
      places.push_back(*a);
      if (contains(x.axes, f.axis)) places.back().var = "0";
    }
  for (Sym s : tensors_read(x.value)) {
    const Buffer* b = print_.buffer(s);
    if (!b || b->space != Space::Memory || cpu::operand_of(kernel_, s).fastest != lane) continue;
    begin(x.frame, {});
    const std::string step = print_.tensor_step(b->tensor, b->index, x.ahead.axis);
    if (step.empty() || step == "0") continue;
    print_.begin(places, {}, 0, width_);
    calls.push_back(fmt::format("bring({} + {} + {} * {}, {} * {});", names_.of(b->tensor),
                                print_.tensor_offset(b->tensor, b->index), x.ahead.elements, as_factor(step),
                                bytes(print_.dtype(b->tensor)), as_factor(elements)));
  }
  return calls;
}

std::vector<CppKernel::NextPart> CppKernel::shares(const ReduceOp& x, Sym lane) {
  std::vector<NextPart> parts;
  if (!lane || panel_of(lane)) return parts;
  for (const Share& s : x.shares) {
    const Buffer& b = kernel_.buffer(s.view);
    const std::string step = print_.tensor_step(b.tensor, b.index, lane),
                      further = print_.tensor_step(b.tensor, b.index, s.ahead.axis);
    if (step.empty() || further.empty()) continue;
    std::vector<CppAxis> places;
    for (const AxisFrame& f : x.frame)
      if (const CppAxis* a = print_.axis(f.axis)) {
        places.push_back(*a);
        if (f.axis == lane) places.back().var = "0";
      }
    print_.begin(places, {}, 0, width_);
    const std::string at =
        fmt::format("{} + {} + {} * {}", names_.of(b.tensor), print_.tensor_offset(b.tensor, b.index),
                    s.ahead.elements, as_factor(further));
    begin(x.frame, lane);
    parts.push_back({at, step, bytes(print_.dtype(b.tensor)), s.part, s.parts});
  }
  return parts;
}

/// Lanes are elements of the result: every lane has totals of its own, several to shorten the chain of additions.
void CppKernel::reduce_along(const ReduceOp& x, const Buffer& b, Sym lane) {
  const CKind kind = CppPrinter::kind(b.dtype);
  const std::string type = accumulator_type(kind, true);
  const int64_t panel = panel_of(lane);
  const int vectors = panel ? int(panel / width_) : 1;
  const int copies = producer_ && vectors > 1 ? 1 : vectors >= 3 ? 2 : 4;
  std::vector<Sym> reduced;
  for (Sym a : x.axes)
    if (print_.axis(a)) reduced.push_back(a);
  std::stable_sort(reduced.begin(), reduced.end(), [&](Sym p, Sym q) { return extents_[p] < extents_[q]; });

  open_panels(lane);
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) open_axis(a);
  if (!panel) open_vectors(lane);
  out_.line(fmt::format("{} total[{}][{}];", type, copies, vectors));
  out_.line("UNROLL");
  out_.open(fmt::format("for (int u = 0; u < {}; ++u)", copies));
  out_.line("UNROLL");
  out_.line(fmt::format("for (int c = 0; c < {}; ++c) total[u][c] = {};", vectors,
                        identity(x.reducer, kind, true)));
  out_.close();
  const auto element = [&](const Vectors& v, const std::string& total) {
    const std::string value = reduced_value(v, x.value, kind, operand_precedence(x.reducer));
    out_.line(fmt::format("{} = {};", total, combined(x.reducer, kind, total, value)));
    v.close();
  };
  const std::string c = vectors > 1 ? "c" : "0";
  const Vectors single = panel ? panel_vectors(lane) : Vectors{1, "c", [] {}, [] {}};
  for (size_t k = 0; k + 1 < reduced.size(); ++k) open_axis(reduced[k]);
  if (reduced.empty()) {
    out_.open("");
    element(single, fmt::format("total[0][{}]", c));
    out_.close();
  } else if (copies == 1) {
    open_axis(reduced.back());
    element(single, fmt::format("total[0][{}]", c));
    out_.close();
  } else {
    const CppAxis* a = print_.axis(reduced.back());
    const auto open_copies = [&] {
      out_.line("UNROLL");
      out_.open(fmt::format("for (int u = 0; u < {}; ++u)", copies));
      out_.line(fmt::format("const int64 {} = first + u;", a->var));
    };
    out_.open(fmt::format("for (int64 first = 0; first + {0} <= {1}; first += {0})", copies, a->extent));
    if (vectors == 1) {
      const auto open = [&] {
        open_copies();
        single.open();
      };
      element({copies, "u", open, [this] { out_.close(); }}, "total[u][0]");
    } else {
      open_copies();
      element(single, fmt::format("total[u][{}]", c));
      out_.close();
    }
    out_.close();
    out_.open(
        fmt::format("for (int64 {0} = ({1}) / {2} * {2}; {0} < {1}; ++{0})", a->var, a->extent, copies));
    element(single, fmt::format("total[0][{}]", c));
    out_.close();
  }
  for (size_t k = 0; k + 1 < reduced.size(); ++k) out_.close();
  if (panel)
    open_vectors(lane);
  else
    out_.open("");
  std::string all = fmt::format("total[0][{}]", c);
  for (int u = 1; u < copies; ++u) all = combined(x.reducer, kind, all, fmt::format("total[{}][{}]", u, c));
  if (x.accumulate) {
    const std::string old =
        kind == CKind::Real ? fmt::format("ld({})", pointer(b))
        : kind == CKind::Integer
            ? fmt::format("{}(ld_int({}))", b.dtype == DType::i64 ? "" : "to_long", pointer(b))
            : fmt::format("to_mask(ld_int({}) != 0)", pointer(b));
    all = combined(x.reducer, kind, old,
                   x.reducer == Reducer::Sum || x.reducer == Reducer::Prod ? "(" + all + ")" : all);
  }
  store_local(b, all, true);
  if (panel)
    close_vectors(lane);
  else
    out_.close();
  if (!panel) close_vectors(lane);
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) out_.close();
  close_panels(lane);
}

/// Lanes are reduced: totals lane by lane, then across lanes. Returns the texts of the results, which are of one kind.
std::vector<std::string> CppKernel::reduce_across(const std::vector<Taken>& taken,
                                                  const std::vector<Sym>& axes, Sym lane,
                                                  const std::vector<NextPart>& parts) {
  const auto total = [&](size_t n) {
    return taken.size() == 1 ? std::string("total") : fmt::format("total[{}]", n);
  };
  /// `at`: which of the copies of a total.
  const auto element = [&](const Vectors& v, const std::string& at, bool masked) {
    const auto precedence = [&](const Taken& t) { return masked ? 0 : operand_precedence(t.reducer); };
    std::vector<std::string> texts;
    if (taken.size() == 1) {
      texts.push_back(reduced_value(v, taken[0].value, taken[0].kind, precedence(taken[0])));
    } else {
      in_step(v, [&] {
        std::vector<Expr> values;
        for (const Taken& t : taken) values.push_back(t.value);
        print_.expect(values);
        for (const Taken& t : taken) texts.push_back(print_.value_text(t.value, t.kind, precedence(t)));
        return std::string();
      });
    }
    for (size_t n = 0; n < taken.size(); ++n) {
      const auto& [r, kind, value] = taken[n];
      if (masked) {
        const std::string exists = fmt::format("valid({})", print_.remaining());
        if (kind == CKind::Boolean)
          texts[n] = r == Reducer::All ? fmt::format("(({}) | ~{})", texts[n], exists)
                                       : fmt::format("(({}) & {})", texts[n], exists);
        else
          texts[n] = fmt::format("{}({}, {}, {})", kind == CKind::Real ? "select" : "select_int", exists,
                                 texts[n], identity(r, kind, true));
      }
      out_.line(fmt::format("{0}{1} = {2};", total(n), at, combined(r, kind, total(n) + at, texts[n])));
    }
    v.close();
  };
  const Vectors single{1, "c", [] {}, [] {}};
  std::vector<Sym> others;
  for (Sym a : axes)
    if (!(a == lane) && print_.axis(a)) others.push_back(a);
  std::vector<std::string> results;
  TW_CHECK(taken.size() == 1 || lane, "several reductions are taken together in lanes");
  if (!lane) {
    const auto& [r, kind, value] = taken[0];
    out_.line(fmt::format("{} total = {};", accumulator_type(kind, false), identity(r, kind, false)));
    for (Sym a : others) open_axis(a);
    if (others.empty()) out_.open("");
    element(single, "", false);
    if (others.empty()) out_.close();
    for (size_t k = 0; k < others.size(); ++k) out_.close();
    return {"total"};
  }
  const int64_t panel = panel_of(lane);
  const int copies = panel ? int(panel / width_) : 4;
  out_.line(fmt::format("{} total{}[{}];", accumulator_type(taken[0].kind, true),
                        taken.size() > 1 ? fmt::format("[{}]", taken.size()) : "", copies));
  for (size_t n = 0; n < taken.size(); ++n) {
    out_.line("UNROLL");
    out_.line(fmt::format("for (int u = 0; u < {}; ++u) {}[u] = {};", copies, total(n),
                          identity(taken[n].reducer, taken[n].kind, true)));
  }
  if (panel) {
    open_panels(lane);
    for (Sym a : others) open_axis(a);
    element(panel_vectors(lane), copies > 1 ? "[c]" : "[0]", true);
    for (size_t k = 0; k < others.size(); ++k) out_.close();
    close_panels(lane);
  } else {
    for (Sym a : others) open_axis(a);
    const CppAxis* a = print_.axis(lane);
    const int64_t step = int64_t(copies) * width_;
    out_.open(fmt::format("for (int64 first = 0; first + {0} <= {1}; first += {0})", step, a->extent));
    for (const NextPart& part : parts) {
      // Every line of them: those that are left out are waited for.
      const int64_t bytes = step * part.size * part.count,
                    lines = (bytes + 64 * part.parts - 1) / (64 * part.parts);
      for (int64_t line = 0; line < lines; ++line)
        out_.line(fmt::format("__builtin_prefetch({} + ({} * {} + {}first{}) / {} * {}, 0, 2);", part.at,
                              part.part, as_factor(a->extent),
                              part.count > 1 ? fmt::format("{} * ", part.count) : "",
                              line ? fmt::format(" + {}", line * 64 * part.parts / part.size) : "",
                              part.parts, as_factor(part.step)));
    }
    const auto open_copies = [&] {
      out_.line("UNROLL");
      out_.open(fmt::format("for (int u = 0; u < {}; ++u)", copies));
      out_.line(fmt::format("const int64 {} = first + u * {};", a->var, width_));
    };
    element({copies, "u", open_copies, [this] { out_.close(); }}, "[u]", false);
    out_.close();
    out_.open(fmt::format("for (int64 {0} = ({1}) / {2} * {2}; {0} < {1}; {0} += {3})", a->var, a->extent,
                          step, width_));
    element(single, "[0]", true);
    out_.close();
    for (size_t k = 0; k < others.size(); ++k) out_.close();
  }
  for (size_t n = 0; n < taken.size(); ++n) {
    const auto& [r, kind, value] = taken[n];
    const auto one = [&](int u) { return fmt::format("{}[{}]", total(n), u); };
    std::string all = one(0);
    if (copies == 2) all = combined(r, kind, all, one(1));
    if (copies == 3) all = combined(r, kind, combined(r, kind, all, one(1)), one(2));
    if (copies == 4)
      all = combined(r, kind, "(" + combined(r, kind, all, one(1)) + ")",
                     "(" + combined(r, kind, one(2), one(3)) + ")");
    results.push_back(kind == CKind::Boolean ? fmt::format("{}({})", r == Reducer::All ? "all" : "any", all)
                                             : fmt::format("{}_lanes({})", name(r), all));
  }
  return results;
}

}  // namespace tilewright
