// diagram_of(Program): expressions to boxes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "tilewright/diagram/arrange.h"
#include "tilewright/diagram/normalised.h"
#include "tilewright/diagram/text.h"

namespace tilewright {
namespace {

using Kind = DiagramBox::Kind;

bool is_minus_infinity(Expr e) {
  const auto x = e.number();
  return x && *x == -__builtin_inf();
}

/// The factors of a product; quotients give the inverse of their divisor.
void add_factors(Expr e, std::vector<Expr>& out) {
  if (e.is(Op::Mul)) {
    for (Expr a : e.args()) add_factors(a, out);
  } else if (e.is(Op::Div)) {
    add_factors(e.arg(0), out);
    out.push_back(Expr(1) / e.arg(1));
  } else if (e.is(Op::Neg)) {
    out.push_back(Expr(-1));
    add_factors(e.arg(0), out);
  } else {
    out.push_back(e);
  }
}

Expr product_of(const std::vector<Expr>& factors) {
  Expr e;
  for (Expr f : factors) {
    // x * (1 / y) is written x / y.
    if (e && f.is(Op::Div) && f.arg(0).is_constant(1))
      e = e / f.arg(1);
    else
      e = e ? e * f : f;
  }
  return e;
}

class ProgramDrawing {
 public:
  ProgramDrawing(const Program& p, const std::vector<Sym>* only) : p_(p), names_(p) {
    for (const Definition& def : p.definitions)
      if (!only || holds(*only, def.sym)) drawn_.push_back(&def);
    find_rows();
  }

  Diagram run() {
    d_.title = p_.name;
    std::set<Sym> hidden;
    std::map<Sym, Normalised> normalised;
    if (drawn_.size() == p_.definitions.size()) normalised = normalised_definitions(p_, hidden);
    for (const Definition* def : drawn_) {
      if (hidden.count(def->sym)) continue;
      const auto n = normalised.find(def->sym);
      define(*def, n == normalised.end() ? nullptr : &n->second);
    }
    for (const Output& o : p_.outputs)
      if (tensors_.count(o.sym)) sink(o);
    for (const Definition* def : drawn_) {  // what other drawings read
      const auto it = tensors_.find(def->sym);
      if (it == tensors_.end() || is_output(def->sym) || read_.count(it->second)) continue;
      sink({def->sym, {}, def->dtype.value_or(DType::f32), {}}, def->dtype.has_value());
    }
    for (DiagramArray& a : d_.arrays)
      if (a.name.empty()) a.spare = names_.fresh();
    d_.notes = declarations(p_, drawn_, used_);
    // A result is named at its end.
    const auto readers = readers_of(d_);
    for (size_t a = 0; a < d_.arrays.size(); ++a)
      if (readers[a].size() == 1 && d_.boxes[static_cast<size_t>(readers[a][0])].kind == Kind::Sink)
        d_.arrays[a].label.clear();
    order_wires(d_);
    assign_columns(d_);
    return std::move(d_);
  }

 private:
  // ---- arrays and boxes

  DiagramWire wire(Sym axis) const {
    DiagramWire w{axis, axis.name(), "", ""};
    for (const Axis& a : p_.axes)
      if (a.index == axis && a.baked()) w.size = to_string(a.size);
    return w;
  }

  int add_array(const std::vector<Sym>& axes, const std::string& name = "") {
    DiagramArray a;
    a.name = name;
    for (Sym s : axes) a.wires.push_back(wire(s));
    if (axes.empty()) a.wires.push_back({});
    d_.arrays.push_back(a);
    return static_cast<int>(d_.arrays.size()) - 1;
  }

  int add_box(DiagramBox box) {
    const int b = static_cast<int>(d_.boxes.size());
    depth_.resize(d_.arrays.size(), 0);
    int depth = 0;
    for (int a : box.inputs) {
      read_.insert(a);
      depth = std::max(depth, depth_[static_cast<size_t>(a)] + 1);
    }
    for (int a : box.outputs) {
      d_.arrays[static_cast<size_t>(a)].from = b;
      depth_[static_cast<size_t>(a)] = depth;
    }
    d_.boxes.push_back(std::move(box));
    return b;
  }

  std::vector<Sym> axes_of(int array) const {
    std::vector<Sym> axes;
    for (const DiagramWire& w : d_.arrays[static_cast<size_t>(array)].wires)
      if (w.axis) axes.push_back(w.axis);
    return axes;
  }

  /// What the box reads beside what passes: axes of all inputs, in order, without those that enter.
  std::vector<Sym> passing(const std::vector<int>& inputs, const std::vector<Sym>& enters) const {
    std::vector<Sym> axes;
    for (int a : inputs)
      for (Sym s : axes_of(a))
        if (!holds(axes, s) && !holds(enters, s)) axes.push_back(s);
    return axes;
  }

  bool is_source(int array) const {
    return d_.boxes[static_cast<size_t>(d_.arrays[static_cast<size_t>(array)].from)].kind == Kind::Source;
  }

  std::string& name_of(int array) {
    DiagramArray& a = d_.arrays[static_cast<size_t>(array)];
    if (a.name.empty()) a.name = a.label = names_.fresh();
    return a.name;
  }

  /// One box with one output. `extra`: axes that the output has beside those that pass and leave.
  int box(Kind kind, std::vector<std::string> lines, const std::string& title, std::vector<int> inputs,
          const std::vector<Sym>& enters = {}, const std::vector<Sym>& leaves = {},
          const std::vector<Sym>& extra = {}) {
    std::vector<Sym> axes = passing(inputs, enters);
    for (const auto* more : {&leaves, &extra})
      for (Sym s : *more)
        if (!holds(axes, s)) axes.push_back(s);
    DiagramBox b;
    b.kind = kind;
    b.lines = std::move(lines);
    b.title = title;
    b.inputs = std::move(inputs);
    b.enters = enters;
    b.leaves = leaves;
    b.outputs = {add_array(axes)};
    return d_.boxes[static_cast<size_t>(add_box(b))].outputs[0];
  }

  // ---- tensors

  int tensor(Sym sym) {
    if (const auto it = tensors_.find(sym); it != tensors_.end()) return it->second;
    // An input, or a definition that is drawn elsewhere.
    used_.insert(sym);
    const Input* in = p_.input(sym);
    const Definition* def = p_.definition(sym);
    const DType dtype = in ? in->dtype : def && def->dtype ? *def->dtype : DType::f32;
    const int a = add_array(in ? in->axes() : p_.tensor_axes(sym), sym.name());
    d_.arrays[static_cast<size_t>(a)].title = declaration(p_, sym);
    DiagramBox source;
    source.kind = Kind::Source;
    source.lines = {sym.name(), in || (def && def->dtype) ? name(dtype) : ""};
    source.title = declaration(p_, sym);
    source.outputs = {a};
    add_box(source);
    return tensors_[sym] = a;
  }

  void define(const Definition& def, const Normalised* n) {
    int a = n ? box(Kind::Normalise, {},
                    fmt::format("softmax over {}, written out in {}", axis_names(n->axes), n->where),
                    {array_of(n->value)}, n->axes, n->axes)
              : array_of(def.value);
    std::vector<Sym> missing;
    for (Sym s : def.axes)
      if (!holds(axes_of(a), s)) missing.push_back(s);
    // A definition that only names, or repeats, what exists.
    if (!d_.arrays[static_cast<size_t>(a)].name.empty() || !missing.empty())
      a = box(Kind::Function, {name_of(a)}, fmt::format("{} = {}", def.sym.name(), name_of(a)), {a}, {}, {},
              missing);
    DiagramArray& array = d_.arrays[static_cast<size_t>(a)];
    array.name = def.sym.name();
    array.label = def.dtype ? fmt::format("{} : {}", def.sym.name(), name(*def.dtype)) : def.sym.name();
    array.title = declaration(p_, def.sym);
    tensors_[def.sym] = a;
    // What reads the value without its name reads it before it is rounded.
    if (def.dtype) forget(a);
  }

  void forget(int array) {
    for (auto it = known_.begin(); it != known_.end();)
      it = it->second == array ? known_.erase(it) : std::next(it);
  }

  void sink(const Output& o, bool typed = true) {
    DiagramBox b;
    b.kind = Kind::Sink;
    b.lines = {o.sym.name(), typed ? name(o.dtype) : ""};
    b.title = fmt::format("output {}", o.sym.name());
    b.inputs = {tensors_.at(o.sym)};
    add_box(b);
  }

  bool is_output(Sym s) const {
    return std::any_of(p_.outputs.begin(), p_.outputs.end(), [&](const Output& o) { return o.sym == s; });
  }

  // ---- expressions

  /// The array that holds `e` at each of its free axes.
  int array_of(Expr e) {
    if (const auto it = known_.find(e); it != known_.end()) return it->second;
    const int a = e.is(Op::Read) ? read_array(e) : e.is(Op::Reduce) ? reduction(e) : function(e);
    return known_[e] = a;
  }

  int read_array(Expr e) {
    const int whole = tensor(e->sym);
    const std::vector<Sym> own = p_.tensor_axes(e->sym);
    std::vector<Sym> enters, leaves, passes;
    std::vector<int> inputs{whole};
    std::vector<std::string> lines;
    for (size_t k = 0; k < own.size(); ++k) {
      if (e.arg(k) == Expr(own[k])) {
        passes.push_back(own[k]);
        continue;
      }
      enters.push_back(own[k]);
      lines.push_back(fmt::format("{} = {}", own[k].name(), text_of(e.arg(k), inputs)));
    }
    if (enters.empty()) return whole;
    for (size_t k = 0; k < own.size(); ++k)
      if (e.arg(k) != Expr(own[k]))
        for (Sym s : free_symbols(e.arg(k)))
          if (s.kind() == SymbolKind::Index && !holds(passes, s) && !holds(leaves, s)) leaves.push_back(s);
    // Axes of tables of indices enter with them unless another array brings them along.
    std::vector<Sym> from_tables;
    for (size_t k = 1; k < inputs.size(); ++k)
      for (Sym s : axes_of(inputs[k]))
        if (!holds(passes, s)) from_tables.push_back(s);
    DiagramBox b;
    b.kind = Kind::Reindex;
    b.lines = lines;
    b.title = fmt::format("{} read at {}", e->sym.name(), to_string(e));
    b.inputs = inputs;
    b.enters = enters;
    for (Sym s : from_tables)
      if (!holds(b.enters, s)) b.enters.push_back(s);
    b.leaves = leaves;
    std::vector<Sym> axes = passes;
    axes.insert(axes.end(), leaves.begin(), leaves.end());
    b.outputs = {add_array(axes)};
    return d_.boxes[static_cast<size_t>(add_box(b))].outputs[0];
  }

  int reduction(Expr e) {
    const std::vector<Sym>& over = e->bound;
    if (e->reducer == Reducer::Softmax)
      return box(Kind::Normalise, {}, fmt::format("softmax over {}", axis_names(over)), {array_of(e.arg(0))},
                 over, over);
    if (e->reducer == Reducer::Sum) {
      if (const int a = summed_product(e); a >= 0) return a;
      if (const int a = picked(e); a >= 0) return a;
    }
    std::vector<int> inputs;
    std::string head = fmt::format("{}[{}]", name(e->reducer), axis_names(over));
    std::vector<Sym> leaves;
    if (has_rank(e->reducer)) {
      head = fmt::format("{}[{} -> {}]", name(e->reducer), axis_names(over), to_string(e.arg(1)));
      for (Sym s : free_symbols(e.arg(1)))
        if (s.kind() == SymbolKind::Index) leaves.push_back(s);
    }
    const Expr body = e.arg(0);
    std::string text = head;
    if (body.is(Op::Read) || body.is(Op::Reduce)) {
      inputs = {array_of(body)};
    } else {
      text += "(" + text_of(body, inputs) + ")";
    }
    std::vector<Sym> enters, extra;
    const std::vector<Sym> present = passing(inputs, {});
    for (Sym s : over)
      if (holds(present, s)) enters.push_back(s);
    for (Sym s : free_symbols(body))
      if (s.kind() == SymbolKind::Index && !holds(present, s) && !holds(over, s)) extra.push_back(s);
    return box(Kind::Reduce, broken(text, 24), to_string(e), inputs, enters, leaves, extra);
  }

  /// A sum over a product as a linear or a contracting box; -1 where it is neither.
  int summed_product(Expr e) {
    const std::vector<Sym>& over = e->bound;
    std::vector<Expr> factors;
    add_factors(e.arg(0), factors);
    if (factors.size() < 2) return -1;
    const auto has_all = [&](const std::vector<Sym>& axes) {
      return std::all_of(over.begin(), over.end(), [&](Sym s) { return holds(axes, s); });
    };
    // Which factor stands alone: a weight, else the last that brings an axis of its own, else the second of two.
    int alone = -1;
    bool linear = false;
    for (int k = static_cast<int>(factors.size()) - 1; k >= 0 && !linear; --k) {
      std::vector<Sym> others;
      for (size_t m = 0; m < factors.size(); ++m)
        if (static_cast<int>(m) != k)
          for (Sym s : axes_in(factors[m])) others.push_back(s);
      const std::vector<Sym> own = axes_in(factors[static_cast<size_t>(k)]);
      if (!has_all(own) || !has_all(others)) continue;
      const bool brings = std::any_of(own.begin(), own.end(), [&](Sym s) { return !holds(others, s); });
      if (brings && is_weight(factors[static_cast<size_t>(k)], over, others)) {
        alone = k;
        linear = true;
      } else if (brings && alone < 0) {
        alone = k;
      }
    }
    if (alone < 0 && factors.size() == 2 && factors[0] != factors[1] && has_all(axes_in(factors[0])) &&
        has_all(axes_in(factors[1])))
      alone = 1;
    if (alone < 0) return -1;
    const Expr second = factors[static_cast<size_t>(alone)];
    factors.erase(factors.begin() + alone);
    const int first = array_of(product_of(factors));
    if (linear) {
      std::vector<Sym> leaves;
      for (Sym s : axes_in(second))
        if (!holds(over, s)) leaves.push_back(s);
      used_.insert(second->sym);
      return box(Kind::Linear, {weight_text(second)}, declaration(p_, second->sym), {first}, over, leaves);
    }
    const int other = array_of(second);
    // What comes a long way lies above what is given.
    const bool swap = is_source(first) && depth_[static_cast<size_t>(other)] > 2;
    return box(Kind::Contract, {}, to_string(e), {swap ? other : first, swap ? first : other}, over);
  }

  std::string weight_text(Expr read) const {
    return fmt::format("{} : {}", read->sym.name(), name(p_.input(read->sym)->dtype));
  }

  /// Σ over an axis of where(axis == index, x, 0), with an index that is free of it: the element there.
  int picked(Expr e) {
    const Expr body = e.arg(0);
    if (!body.is(Op::Select) || !body.arg(2).is_constant(0) || e->bound.size() != 1 ||
        !body.arg(0).is(Op::Eq))
      return -1;
    const Sym axis = e->bound[0];
    Expr left = body.arg(0).arg(0), right = body.arg(0).arg(1);
    if (right == Expr(axis)) std::swap(left, right);
    if (left != Expr(axis) || depends_on(right, axis) || !depends_on(body.arg(1), axis)) return -1;
    std::vector<int> inputs{array_of(body.arg(1))};
    const std::string index = text_of(right, inputs);
    return box(Kind::Pick, {fmt::format("{} = {}", axis.name(), index)}, to_string(e), inputs, {axis});
  }

  int function(Expr e) {
    // A mask stands apart from what it keeps.
    if (e.is(Op::Select) && (is_minus_infinity(e.arg(2)) || is_minus_infinity(e.arg(1)))) {
      const bool kept_first = is_minus_infinity(e.arg(2));
      const Expr kept = e.arg(kept_first ? 1 : 2);
      if (!kept.number()) {
        std::vector<int> inputs{array_of(kept)};
        const Expr condition = kept_first ? e.arg(0) : logical_not(e.arg(0));
        std::string text = text_of(condition, inputs);
        return box(Kind::Mask, broken(text, 20), to_string(e), inputs, {}, {}, new_axes(e, inputs));
      }
    }
    std::vector<int> inputs;
    const std::string text = text_of(e, inputs);
    return box(Kind::Function, broken(text, 24), to_string(e), inputs, {}, {}, new_axes(e, inputs));
  }

  /// Axes that the value depends on and no input brings.
  std::vector<Sym> new_axes(Expr e, const std::vector<int>& inputs) const {
    const std::vector<Sym> present = passing(inputs, {});
    std::vector<Sym> axes;
    for (Sym s : axes_in(e))
      if (!holds(present, s)) axes.push_back(s);
    return axes;
  }

  /// The text of `e` with arrays in place of what it reads and reduces; those are added to `inputs`. The only array
  /// without a name is written as a point.
  std::string text_of(Expr e, std::vector<int>& inputs) {
    std::vector<Expr> atoms;
    add_atoms(e, atoms);
    std::vector<std::pair<Expr, std::string>> shown;
    std::vector<int> arrays;
    for (Expr a : atoms) {
      arrays.push_back(array_of(a));
      if (std::find(inputs.begin(), inputs.end(), arrays.back()) == inputs.end())
        inputs.push_back(arrays.back());
    }
    const bool point =
        atoms.size() == 1 && inputs.size() == 1 && d_.arrays[static_cast<size_t>(arrays[0])].name.empty();
    for (size_t k = 0; k < atoms.size(); ++k) shown.emplace_back(atoms[k], point ? "•" : name_of(arrays[k]));
    return with_names(e, shown);
  }

  static void add_atoms(Expr e, std::vector<Expr>& atoms) {
    if (e.is(Op::Read) || e.is(Op::Reduce)) {
      if (std::find(atoms.begin(), atoms.end(), e) == atoms.end()) atoms.push_back(e);
      return;
    }
    for (Expr a : e.args()) add_atoms(a, atoms);
  }

  // ---- weights

  void find_rows() {
    for (const Output& o : p_.outputs)
      if (!o.dims.empty()) rows_.insert(o.dims[0].pieces.begin(), o.dims[0].pieces.end());
    for (const Definition& def : p_.definitions) find_streamed(def.value);
  }

  void find_streamed(Expr e) {
    if (!seen_.insert(e).second) return;
    if (e.is(Op::Reduce)) switch (e->reducer) {
        case Reducer::Max:
        case Reducer::Min:
        case Reducer::Argmax:
        case Reducer::Argmin:
        case Reducer::Softmax:
        case Reducer::Logsumexp:
        case Reducer::Topk:
        case Reducer::Argtopk: rows_.insert(e->bound.begin(), e->bound.end()); break;
        default: break;
      }
    for (Expr a : e.args()) find_streamed(a);
  }

  /// diagram.h states the rule.
  bool is_weight(Expr factor, const std::vector<Sym>& over, const std::vector<Sym>& others) const {
    if (!factor.is(Op::Read) || !p_.input(factor->sym)) return false;
    const std::vector<Sym> own = p_.tensor_axes(factor->sym);
    for (size_t k = 0; k < own.size(); ++k)
      if (factor.arg(k) != Expr(own[k]) || rows_.count(own[k]) ||
          (holds(others, own[k]) && !holds(over, own[k])))
        return false;
    return true;
  }

  const Program& p_;
  Diagram d_;
  FreshNames names_;
  std::vector<const Definition*> drawn_;
  std::map<Sym, int> tensors_;
  std::map<Expr, int> known_;
  std::set<int> read_;
  std::vector<int> depth_;  ///< of each array: boxes on the longest way to it
  std::set<Sym> used_;      ///< inputs that are drawn
  std::set<Sym> rows_;      ///< axes that no weight has
  std::set<Expr> seen_;
};

}  // namespace

Diagram diagram_of(const Program& p, const std::vector<Sym>* definitions) {
  return ProgramDrawing(p, definitions).run();
}

}  // namespace tilewright
