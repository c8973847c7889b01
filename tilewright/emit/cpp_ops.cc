// Statements of a kernel: copies, stores, products, maps, votes.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tilewright/emit/cpp_kernel.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/map/cpu/in_place.h"
#include "tilewright/map/cpu/pairs.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
/// Rows between what a copy takes and what it brings near, for so many bytes of a row: as many as a core moves while memory answers, twice over. What a copy leaves of the next
/// chunk the product brings near, a line at a time: long rows all at once would wait for the addresses of their pages. A whole chunk further, rows that lie a power of two
/// apart drive one another out of the few sets of a cache that they share.
static int64_t rows_ahead_of(int64_t bytes_of_row) {
  constexpr int64_t bytes_ahead = 4096, fewest = 2, most = 16;
  return std::clamp(bytes_ahead / std::max<int64_t>(1, bytes_of_row), fewest, most);
}

int64_t panel_step(const Buffer& b, Sym lane, int64_t panel) {
  const int64_t unit = cpu::pair_axis(b) ? 2 : 1;
  for (size_t a = 0; a < b.axes.size(); ++a)
    for (const Digit& d : b.layout.digits())
      if (b.axes[a] == lane && d.axis == int(a) && d.step == panel) return d.stride;
  return unit * panel;  // row-major: panels are neighbours
}

std::vector<Sym> scalar_axes(const Buffer& b, Sym lane) {
  std::vector<std::pair<int64_t, Sym>> order;
  for (size_t a = 0; a < b.axes.size(); ++a) {
    if (b.axes[a] == lane) continue;
    int64_t stride = 0;
    for (const Digit& d : b.layout.digits())
      if (d.axis == int(a)) stride = std::max(stride, d.stride);
    order.push_back({-stride, b.axes[a]});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Sym> axes;
  for (const auto& [stride, axis] : order) axes.push_back(axis);
  return axes;
}

std::string as_factor(const std::string& text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return std::isalnum(c) || c == '_'; });
  return plain ? text : "(" + text + ")";
}

/// Those of `axes` that loops run over: of the others one element is there, whose index is defined outside.
static std::vector<Sym> looped(const std::vector<Sym>& axes, const Frame& frame) {
  std::vector<Sym> kept;
  for (Sym a : axes)
    if (std::none_of(frame.begin(), frame.end(),
                     [&](const AxisFrame& f) { return f.axis == a && f.origin == Expr(a); }))
      kept.push_back(a);
  return kept;
}

Sym CppKernel::lane_of(const ReduceOp& x) const {
  return cpu::vector_axis(cpu::operand_of(kernel_, x.buffer), looped(x.axes, x.frame), operands(x.value),
                          extents_);
}

void CppKernel::open_tile(const Buffer& b, Sym lane) {
  open_panels(lane);
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) open_axis(a);
  open_vectors(lane);
}

void CppKernel::close_tile(const Buffer& b, Sym lane) {
  close_vectors(lane);
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) out_.close();
  close_panels(lane);
}

std::string CppKernel::pointer(const Buffer& b) {
  const std::string at = print_.offset(b);
  return at == "0" ? names_.of(b.sym) : fmt::format("{} + {}", names_.of(b.sym), at);
}

void CppKernel::store_local(const Buffer& b, const std::string& value, bool vector) {
  const CKind kind = CppPrinter::kind(b.dtype);
  if (vector) {
    if (kind == CKind::Real)
      out_.line(fmt::format("st({}, {});", pointer(b), value));
    else
      out_.line(fmt::format("st_int({}, {});", pointer(b),
                            kind == CKind::Boolean ? fmt::format("({}) & 1", value) : value));
    return;
  }
  const std::string place =
      b.layout.elements() == 1 ? names_.of(b.sym) : fmt::format("{}[{}]", names_.of(b.sym), print_.offset(b));
  out_.line(fmt::format("{} = {};", place, value));
}

void CppKernel::op(const MapOp& x) {
  const Buffer& b = kernel_.buffer(x.buffer);
  if (b.dtype == DType::bf16) return map_bf16(x, b);
  const Sym lane = cpu::operand_of(kernel_, b.sym).fastest;
  begin(x.frame, lane);
  open_panels(lane);
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) open_axis(a);
  const Vectors vectors = panel_vectors(lane);
  const auto print = [&] { return print_.value_text(x.value, CppPrinter::kind(b.dtype)); };
  bool scope = false;  // of temporaries that no loop encloses
  if (b.axes.empty()) {
    print_.share("t");
    print();
    scope = !print_.take_declarations().empty();
    print_.share("");
  }
  if (scope) out_.open("");
  store_local(b, in_step(vectors, print), bool(lane));
  if (scope) out_.close();
  close_tile(b, lane);
}

void CppKernel::op(const Vote& x) {
  std::string condition;
  if (x.axes.empty()) {
    begin(x.frame, {});
    condition = print_.boolean(x.condition);
  } else {
    cpu::Operand none;
    Sym lane = cpu::vector_axis(none, looped(x.axes, x.frame), operands(x.condition), extents_);
    begin(x.frame, lane);
    if (lane && !print_.at_one_stride(x.condition)) {
      lane = {};
      begin(x.frame, lane);
    }
    condition = names_.fresh("vote");
    out_.line(fmt::format("bool {};", condition));
    out_.open("");
    const std::string total = reduce_across({{Reducer::Any, CKind::Boolean, x.condition}}, x.axes, lane)[0];
    out_.line(fmt::format("{} = {};", condition, total));
    out_.close();
  }
  out_.open(fmt::format("if ({})", condition));
  ops(x.then);
  if (!x.otherwise.empty()) {
    out_.otherwise();
    ops(x.otherwise);
  }
  out_.close();
}

bool CppKernel::move_tile(const Buffer& b, Sym lane, Sym tensor, const std::vector<Expr>& index,
                          const Frame& frame, bool store, const Copy* copy) {
  const DType there_type = print_.dtype(tensor);
  if (!lane || b.space != Space::Local || b.dtype != real_) return false;
  const bool rounded = store && by_tiles() && there_type == DType::bf16 && real_ == DType::f32;
  if (store ? there_type != real_ && !rounded : !is_float(there_type)) return false;
  begin(frame, {});
  if (!print_.axis(lane)) return false;
  Sym row;  // the longest other axis
  const std::vector<Sym> others = scalar_axes(b, lane);
  for (Sym a : others)
    if (print_.axis(a) && (!row || extents_[a] >= extents_[row])) row = a;
  if (!print_.moves_by_steps(tensor, index)) return false;
  const std::string lanes = print_.axis(lane)->extent, rows = row ? print_.axis(row)->extent : "1";
  const std::string lane_step = print_.tensor_step(tensor, index, lane),
                    row_step = row ? print_.tensor_step(tensor, index, row) : "0";
  if (lane_step.empty() || row_step.empty()) return false;
  const int64_t rows_ahead = rows_ahead_of(extents_[lane] * bytes(there_type));
  std::string further;
  const Ahead ahead = copy ? copy->ahead : Ahead{};
  if (ahead.axis && row && (ahead.axis == row || extents_[row] > 2 * rows_ahead))
    further = fmt::format("{} * {}", rows_ahead, as_factor(row_step));
  else if (ahead.axis && print_.axis(ahead.axis))
    further =
        fmt::format("{} * {}", ahead.elements, as_factor(print_.tensor_step(tensor, index, ahead.axis)));
  std::vector<CppAxis> places;
  for (const AxisFrame& f : frame) {
    const CppAxis* p = print_.axis(f.axis);
    if (!p) continue;
    places.push_back(*p);
    if (f.axis == lane || f.axis == row) places.back().var = "0";
  }
  print_.begin(places, {}, 0, width_);
  const int at = int(std::find(b.axes.begin(), b.axes.end(), lane) - b.axes.begin());
  const auto& digits = b.layout.digits();
  const bool panels =
      std::count_if(digits.begin(), digits.end(), [&](const Digit& d) { return d.axis == at; }) > 1;
  const int64_t panel = panels ? panel_of(lane) : 0, width = panel ? panel : b.layout.shape()[size_t(at)];
  const std::string there = fmt::format("{} + {}", names_.of(tensor), print_.tensor_offset(tensor, index));
  for (Sym a : others)
    if (a != row && print_.axis(a)) open_axis(a);
  const std::string local = pointer(b);
  const int64_t local_row = row ? print_.step(b, row) : 0,
                local_panel = panel ? panel_step(b, lane, panel) : 0;
  next_rows_.erase(b.sym);
  const bool rows_lie = copy && ahead.axis && ahead.axis == row && depends_on(index.back(), lane);
  if (rows_lie && ahead.elements > rows_ahead && others.size() == 1)
    next_rows_[b.sym] =
        fmt::format(", {} + {} * {}, {} * {}, {}, {} * {}", there, ahead.elements + rows_ahead,
                    as_factor(row_step), bytes(there_type), as_factor(row_step), ahead.elements - rows_ahead,
                    bytes(there_type), as_factor(lanes));
  const bool seldom =
      rows_lie && copy->in_place && panel_of(lane) > 0 &&
      std::none_of(others.begin(), others.end(), [&](Sym a) { return a != row && print_.axis(a); });
  const bool in_place = seldom && there_type == real_;
  if (seldom) {
    const std::string tile = b.sym.name(), stride = as_factor(row_step);
    const Lanes lies{names_.fresh(tile + "_at"),
                     names_.fresh(tile + "_panel"),
                     names_.fresh(tile + "_row"),
                     names_.fresh(tile + "_next"),
                     names_.fresh(tile + "_rows"),
                     names_.fresh(tile + "_bytes"),
                     fmt::format("{} * {}", bytes(there_type), stride),
                     in_place};
    out_.line(fmt::format("const real* {} = {};", lies.at, local));
    out_.line(fmt::format("int64 {} = {}, {} = {};", lies.panel, panel_step(b, lane, panel_of(lane)),
                          lies.row, local_row));
    // The copy brings the first rows of the next chunk near, the product the others.
    out_.line(fmt::format("const {}* {} = {} + {} * {};", cpp_memory_type(there_type), lies.next, there,
                          ahead.elements + rows_ahead, stride));
    out_.line(fmt::format("int64 {} = {}, {} = {} * {};", lies.rows,
                          std::max<int64_t>(0, ahead.elements - rows_ahead), lies.bytes, bytes(there_type),
                          as_factor(lanes)));
    if (in_place) {
      std::string condition = fmt::format("{} == 1", lane_step);
      if (!copy->in_place.is_constant(1)) condition += " && " + print_.boolean(copy->in_place);
      condition += fmt::format(" && {} % {} == 0", as_factor(lanes), panel_of(lane));
      out_.open(fmt::format("if ({})", condition));
      out_.line(fmt::format("{} = {};", lies.at, there));
      out_.line(fmt::format("{} = {};", lies.panel, panel_of(lane)));
      out_.line(fmt::format("{} = {};", lies.row, row_step));
      out_.line(fmt::format("{} = {} + {} * {};", lies.next, lies.at, ahead.elements, stride));
      out_.line(fmt::format("{} = 0;", lies.bytes));  // the same lanes of the next chunk
      out_.otherwise();
    }
    in_place_[b.sym] = lies;
  }
  if (store)
    out_.line(fmt::format("{}({}, {}, {}, {}, {}, {}, {}, {}, {});", rounded ? "unpack_bf16" : "unpack",
                          there, lane_step, row_step, local, local_panel, local_row, width, lanes, rows));
  else
    out_.line(fmt::format("pack<{}, load_{}>({}, {}, {}, {}, {}, {}, {}, {}, {}{});",
                          cpp_memory_type(there_type), there_type == real_ ? "real" : name(there_type), local,
                          local_panel, local_row, width, there, lane_step, row_step, lanes, rows,
                          further.empty() ? "" : ", " + further));
  if (in_place) out_.close();
  for (Sym a : others)
    if (a != row && print_.axis(a)) out_.close();
  return true;
}

void CppKernel::op(const Copy& x) {
  const Buffer& b = kernel_.buffer(x.buffer);
  if (b.dtype == DType::bf16) return copy_bf16(x, b);
  const Sym lane = cpu::operand_of(kernel_, b.sym).fastest;
  const bool tested = std::any_of(x.checks.begin(), x.checks.end(), [](int check) { return check >= 0; });
  in_place_.erase(b.sym);
  if (!x.present && !tested && move_tile(b, lane, x.tensor, x.index, x.frame, false, &x)) return;
  begin(x.frame, lane);
  open_tile(b, lane);
  const std::string step = lane ? print_.tensor_step(x.tensor, x.index, lane) : "0";
  bool uniform = !x.present || print_.same_in_all_lanes(x.present);
  for (size_t k = 0; k < x.checks.size(); ++k)
    uniform = uniform && (x.checks[k] < 0 || print_.same_in_all_lanes(x.index[k]));
  if (step.empty() || !uniform) {
    gather_element(x, b, lane);
  } else {
    const DType t = print_.dtype(x.tensor);
    const bool real = CppPrinter::kind(b.dtype) == CKind::Real;
    const std::string f = !real          ? "load_int"
                          : !is_float(t) ? "to_real(load_int"
                          : t == real_   ? "load_real"
                                         : fmt::format("load_{}", name(t));
    const std::string where =
        fmt::format("{} + {}", names_.of(x.tensor), print_.tensor_offset(x.tensor, x.index));
    std::string value = lane ? fmt::format("{}({}, {}, {})", f, where, step, print_.remaining())
                             : fmt::format("{}({}, 1, 1)", f, where);
    if (real && !is_float(t)) value += ")";
    if (!lane) value += "[0]";
    const std::string condition = print_.at_lane_0([&] { return may_read(x); });
    if (!condition.empty()) {
      const std::string zero = !lane ? "0" : real ? "(vf){}" : b.dtype == DType::i64 ? "(vl){}" : "(vi){}";
      value = fmt::format("{} ? {} : {}", condition, value, zero);
    }
    store_local(b, value, bool(lane));
  }
  close_tile(b, lane);
}

std::string CppKernel::may_read(const Copy& x) {
  std::string text;
  if (x.present && !x.present.is_constant(1))
    text = print_.value_text(x.present, CKind::Boolean, c_precedence::both);
  for (size_t k = 0; k < x.checks.size(); ++k) {
    const int check = x.checks[k];
    if (check < 0) continue;
    const std::string index = print_.integer(x.index[k]),
                      size = print_.integer(size_of(mapped_.axes, mapped_.checks[size_t(check)].axis));
    text +=
        fmt::format("{}inside({}, {}, {}, {})", text.empty() ? "" : " && ", index, size, error_word_, check);
  }
  return text;
}

/// Element by element, where lanes do not lie at one stride or what is tested differs among them.
void CppKernel::gather_element(const Copy& x, const Buffer& b, Sym lane) {
  const CKind kind = CppPrinter::kind(b.dtype);
  const std::string type = cpp_local_type(b.dtype, real_);
  const std::string destination = lane ? pointer(b) : "";
  std::vector<CppAxis> axes;
  std::string exists;
  for (const AxisFrame& f : x.frame) {
    const CppAxis* a = print_.axis(f.axis);
    if (!a) continue;
    axes.push_back(*a);
    if (f.axis == lane) {
      axes.back().var = fmt::format("({} + lane)", a->var);
      exists = fmt::format("{} < {}", axes.back().var, a->extent);
    }
  }
  print_.begin(axes, {}, 0, width_);
  const std::string value = print_.value_text(read(x.tensor, x.index), kind);
  std::string condition = may_read(x);
  if (!exists.empty()) condition = exists + (condition.empty() ? "" : " && " + condition);
  const std::string text = condition.empty() ? value : fmt::format("{} ? {} : 0", condition, value);
  if (!lane) {
    store_local(b, text, false);
    return;
  }
  out_.line(fmt::format("for (int64 lane = 0; lane < LANES; ++lane) ({})[lane] = ({})({});", destination,
                        type, text));
}

void CppKernel::op(const StoreOut& x) {
  const Buffer& b = kernel_.buffer(x.buffer);
  const Sym lane = cpu::operand_of(kernel_, b.sym).fastest;
  if (move_tile(b, lane, x.tensor, x.index, x.frame, true, nullptr)) return;
  begin(x.frame, lane);
  open_tile(b, lane);
  const DType t = print_.dtype(x.tensor);
  Expr element = read(b.sym, {b.axes.begin(), b.axes.end()});
  if (is_integer(t) && CppPrinter::kind(b.dtype) == CKind::Real)
    element = cast(t, element);  // a state holds integers as reals
  store_elements(lane, x, print_.value_text(element, CppPrinter::kind(t)));
  close_tile(b, lane);
}

/// One vector, or one element where there are no lanes, to memory.
void CppKernel::store_elements(Sym lane, const StoreOut& x, const std::string& value) {
  const DType t = print_.dtype(x.tensor);
  const bool to_real = is_float(t);
  const std::string where =
      fmt::format("{} + {}", names_.of(x.tensor), print_.tensor_offset(x.tensor, x.index));
  const std::string f = !to_real ? "store_int" : t == real_ ? "store_real" : fmt::format("store_{}", name(t));
  if (!lane) {
    const std::string vector =
        to_real ? fmt::format("splat({})", value) : fmt::format("splat_int({})", value);
    out_.line(fmt::format("{}({}, 1, 1, {});", f, where, vector));
    return;
  }
  const std::string step = print_.tensor_step(x.tensor, x.index, lane);
  TW_CHECK(!step.empty(), fmt::format("{} is stored at indices that are not affine", x.tensor.name()));
  if (x.past && t == real_) {
    past_caches_ = true;
    out_.line(fmt::format("store_past({}, {}, {}, {}, {});", where, step, print_.remaining(), value,
                          print_.boolean(x.past)));
    return;
  }
  out_.line(fmt::format("{}({}, {}, {}, {});", f, where, step, print_.remaining(),
                        t == DType::boolean ? "(" + value + ") & 1" : value));
}

void CppKernel::make_and_store(const MapOp& map, const StoreOut& x, bool keep) {
  const Buffer& b = kernel_.buffer(map.buffer);
  const Sym lane = cpu::operand_of(kernel_, b.sym).fastest;
  begin(map.frame, lane);
  for (Sym a : scalar_axes(b, lane))
    if (print_.axis(a)) open_axis(a);
  const Vectors vectors = panel_vectors(lane);
  const std::string value =
      in_step(vectors, [&] { return print_.value_text(map.value, CppPrinter::kind(b.dtype)); });
  if (keep) {
    out_.line(fmt::format("const vf made = {};", value));
    store_local(b, "made", true);
  }
  store_elements(lane, x, keep ? "made" : value);
  close_tile(b, lane);
}

void CppKernel::op(const Mma& x) { product(x, nullptr, nullptr); }

/// ", array + offset, bytes to the next row, rows, bytes of a row"; empty where nothing is known.
std::string CppKernel::read_next(const Mma& x) {
  if (!x.next) return {};
  const Buffer& b = kernel_.buffer(x.next);
  const Sym along = cpu::operand_of(kernel_, x.next).fastest;
  begin(x.next_frame, {});
  Sym row;
  std::vector<CppAxis> places;
  for (const AxisFrame& f : x.next_frame) {
    const CppAxis* p = print_.axis(f.axis);
    if (!p) continue;
    if (f.axis != along && row) return {};
    if (f.axis != along) row = f.axis;
    places.push_back(*p);
    places.back().var = "0";
  }
  if (!along || !print_.axis(along) || !row) return {};
  const std::string rows = print_.axis(row)->extent, elements = print_.axis(along)->extent,
                    step = print_.tensor_step(b.tensor, b.index, row);
  print_.begin(places, {}, 0, width_);
  const int64_t size = bytes(print_.dtype(b.tensor));
  return fmt::format(", {} + {}, {} * {}, {}, {} * {}", names_.of(b.tensor),
                     print_.tensor_offset(b.tensor, b.index), size, as_factor(step), rows, size,
                     as_factor(elements));
}

int64_t CppKernel::rows_of(const Mma& x) const {
  const Sym lane = cpu::operand_of(kernel_, x.d).fastest;
  int64_t rows = 1;
  for (Sym a : kernel_.buffer(x.d).axes)
    if (a != lane) rows *= extents_.at(a);
  return rows;
}

int64_t CppKernel::most_rows(Sym lanes) const {
  int64_t most = 0;
  for (const Role& r : kernel_.roles)
    for_each_op(r.body, [&](const MappedOp& o) {
      const Mma* x = std::get_if<Mma>(&o.node);
      if (x && (x->a == lanes || x->b == lanes)) most = std::max(most, rows_of(*x));
    });
  return most;
}

void CppKernel::product(const Mma& x, const MapOp* scale, const ReduceOp* extremes, const Mma* beside) {
  const Atom* atom = find_atom(x.atom);
  const Buffer& d = kernel_.buffer(x.d);
  const auto axes = cpu::product_axes(cpu::operand_of(kernel_, x.d), x.a, cpu::operand_of(kernel_, x.a), x.b,
                                      cpu::operand_of(kernel_, x.b), x.contracted, extents_);
  TW_CHECK(atom && axes, fmt::format("{} is no product of lanes", x.atom));
  const Buffer& a = kernel_.buffer(axes->lanes);
  const Buffer& b = kernel_.buffer(axes->broadcast);
  std::string ahead = axes->outer.empty() ? read_next(x) : std::string();
  begin(x.frame, {});
  const CppAxis lane = *print_.axis(axes->lane), inner = *print_.axis(axes->inner);
  const std::string rows = axes->row ? print_.axis(axes->row)->extent : "1";
  std::vector<CppAxis> places;
  for (const AxisFrame& f : x.frame) {
    const CppAxis* p = print_.axis(f.axis);
    if (!p) continue;
    places.push_back(*p);
    if (f.axis == axes->lane || f.axis == axes->inner || f.axis == axes->row) places.back().var = "0";
  }
  print_.begin(places, {}, 0, width_);
  for (Sym o : axes->outer)
    if (print_.axis(o)) open_axis(o);
  const auto step = [&](const Buffer& buffer, Sym axis) -> std::string {
    if (!axis) return "0";
    if (buffer.space == Space::Local) return fmt::format("{}", print_.step(buffer, axis));
    const std::string s = print_.tensor_step(buffer.tensor, buffer.index, axis);
    TW_CHECK(!s.empty(), fmt::format("{} does not lie at constant strides", buffer.sym.name()));
    return s;
  };
  const auto place = [&](const Buffer& buffer) {
    return buffer.space == Space::Local ? pointer(buffer)
                                        : fmt::format("{} + {}", names_.of(buffer.tensor),
                                                      print_.tensor_offset(buffer.tensor, buffer.index));
  };
  const std::string from = place(b);
  const int64_t panel = int64_t(atom->n) * width_;
  std::string scaled = "0", taken = "0", more, top;
  if (extremes) {
    top = extremes->reducer == Reducer::Max ? ", 1" : ", -1";
    taken = names_.of(extremes->buffer);
  }
  if (scale) {
    for (Sym s : tensors_read(scale->value))
      if (s != x.d) scaled = names_.of(s);
  }
  std::string near_cache;
  std::string lanes_at = pointer(a), lanes_panel = fmt::format("{}", panel_step(a, axes->lane, panel)),
              lanes_row = atom->dtype == DType::bf16 ? std::string() : step(a, axes->inner);
  if (const auto it = in_place_.find(a.sym); it != in_place_.end()) {
    const Lanes& lies = it->second;
    lanes_at = lies.at;
    lanes_panel = lies.panel;
    lanes_row = lies.row;
    // What lies in rows shares a few sets of the first cache and would soon be pushed out of it.
    if (lies.as_they_are && rows_of(x) <= cpu::few_uses) near_cache = extremes ? ", 2" : ", 0, 2";
    if (axes->outer.empty() && rows_of(x) == most_rows(a.sym))
      ahead = fmt::format(", {}, {}, {}, {}", lies.next, lies.stride, lies.rows, lies.bytes);
  }
  // Where both operands are copies, the product brings near what its own copy does not.
  for (const Buffer* side : {&a, &b})
    if (const auto it = next_rows_.find(side->sym);
        it != next_rows_.end() && ahead.empty() && axes->outer.empty() && b.space == Space::Local)
      ahead = it->second;
  if (!ahead.empty() && near_cache.empty()) near_cache = extremes ? ", 1" : ", 0, 1";
  if (beside && ahead.empty()) ahead = ", 0, 0, 0, 0";
  if (!ahead.empty() || extremes || scale) more = ", " + scaled;
  if (!ahead.empty() || extremes) more += ", " + taken;
  more += ahead;
  if (beside) {
    const Buffer &row = kernel_.buffer(beside->b), &result = kernel_.buffer(beside->d);
    more += fmt::format(", {}, {}, {}, {}", place(row), step(row, axes->inner), pointer(result),
                        panel_step(result, axes->lane, panel));
    near_cache = (near_cache.empty() ? extremes ? ", 0" : ", 0, 0" : near_cache) + ", 1";
  }
  const bool one = in_panel_ && in_panel_ == axes->lane;
  const bool tiles = atom->dtype == DType::bf16 && atom->k > 2;
  const std::string lanes = one     ? tiles ? "1" : fmt::format("{}", panel)
                                : tiles ? fmt::format("({} + {}) / {}", lane.extent, panel - 1, panel)
                                    : lane.extent;
  if (atom->dtype == DType::bf16) {
    const auto at_panel = [&](const std::string& at, int64_t stride) {
      return one && at != "0" ? fmt::format("{} + p * {}", at, stride) : at;
    };
    const int64_t d_panel = panel_step(d, axes->lane, panel), a_panel = panel_step(a, axes->lane, panel);
    const std::string arguments =
        fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}", lanes, rows, inner.extent,
                    at_panel(pointer(d), d_panel), d_panel, step(d, axes->row), at_panel(pointer(a), a_panel),
                    a_panel, pair_step(a), from, step(b, axes->row), step(b, axes->inner),
                    x.zero ? "false" : "true", at_panel(scaled, panel), at_panel(taken, panel),
                    !tiles      ? ""
                    : upcoming_ ? ", &upcoming"
                                : ", 0");
    const int per_call = tiles ? cpu::rows_of_product(atom->n, mapped_.machine.vector.registers) : atom->m;
    out_.line(fmt::format("{}<{}, {}{}>({});", tiles ? "product_by_tiles" : "product_of_pairs", per_call,
                          atom->n, top, arguments));
  } else {
    out_.line(fmt::format("product<{}, {}{}{}>({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{});",
                          atom->m, atom->n, top, near_cache, lanes, rows, inner.extent, pointer(d),
                          panel_step(d, axes->lane, panel), step(d, axes->row), lanes_at, lanes_panel,
                          lanes_row, from, step(b, axes->row), step(b, axes->inner),
                          x.zero ? "false" : "true", more));
  }
  for (Sym o : axes->outer)
    if (print_.axis(o)) out_.close();
}

}  // namespace tilewright
