#include "tilewright/reference/code.h"

#include <algorithm>
#include <cmath>

#include "tilewright/program/elaborate.h"

namespace tilewright::reference {
namespace {

using Do = Instruction::Do;

class Compiler {
 public:
  Compiler(Graph& graph, const Table& table) : graph_(graph), table_(table) {}

  Code run() {
    set_up_loops();
    contexts_.push_back({});
    int context = 0;
    int guard = -1;
    if (table_.guard) {
      guard = compile(table_.guard, 0, Kind::boolean);
      Instruction i;
      i.what = Do::Guard;
      i.a = guard;
      code_.levels[size_t(level(guard))].push_back(i);
      context = child(0, guard, false);
    }
    finish(context, guard);
    return std::move(code_);
  }

 private:
  /// Under which condition values are needed: `condition` (or its negation) and the parent's.
  struct Context {
    int parent = -1, condition = -1;
    bool negated = false;
    int mask = -1;
  };

  int level(int reg) const { return code_.registers[size_t(reg)].level; }
  bool vector(int reg) const { return code_.registers[size_t(reg)].vector; }
  Kind kind(int reg) const { return code_.registers[size_t(reg)].kind; }

  int add_register(Kind k, bool is_vector, int at_level) {
    code_.registers.push_back({k, is_vector, at_level});
    return int(code_.registers.size()) - 1;
  }

  int add_constant(Kind k, double real, int64_t integer) {
    int reg = add_register(k, false, 0);
    code_.constants.push_back({reg, real, integer});
    return reg;
  }

  void set_up_loops() {
    auto scalar = [&](Sym s, int at_level) {
      int reg = add_register(Kind::integer, false, at_level);
      indices_[s] = reg;
      return reg;
    };
    code_.axis_registers.assign(table_.axes.size(), -1);
    const bool bound_strip = table_.strip_is_bound();
    for (size_t k = 0; k < table_.axes.size(); ++k)
      if (int(k) != table_.row) code_.axis_registers[k] = scalar(table_.axes[k], 1);
    auto add_loop = [&](Sym s, int64_t size, bool strip, bool row) {
      int reg = scalar(s, int(code_.loops.size()) + 2);
      code_.loops.push_back({s, size, strip, row, reg});
      return reg;
    };
    int first = -1;
    if (bound_strip)
      first = add_loop(table_.strip, graph_.size_of(table_.strip), true, false);
    else if (table_.row >= 0)
      first = code_.axis_registers[size_t(table_.row)] = scalar(table_.strip, 1);
    code_.strip_level = bound_strip ? 2 : 1;
    for (size_t k = 0; k < table_.bound.size(); ++k)
      if (!bound_strip || !(table_.bound[k] == table_.strip))
        add_loop(table_.bound[k], table_.bound_sizes[k], false, false);
    if (bound_strip && table_.row >= 0) {
      const size_t row = size_t(table_.row);
      code_.axis_registers[row] = add_loop(table_.axes[row], table_.sizes[row], false, true);
    }
    if (table_.reducer == Reducer::Argmax || table_.reducer == Reducer::Argmin)
      code_.argument = indices_.at(table_.bound[0]);
    code_.levels.resize(code_.loops.size() + 2);
    if (table_.strip) {
      SymbolInfo info = table_.strip.info();
      first_ = Sym::fresh(info);
      indices_.erase(table_.strip);
      indices_[first_] = first;
    }
  }

  void finish(int context, int guard) {
    const bool partial = guard >= 0 && vector(guard);
    if (!table_.reducer) {
      code_.value = compile(table_.body, context, graph_.kind(table_.body));
      return;
    }
    Kind k = table_.value_kind;
    switch (*table_.reducer) {
      case Reducer::Argmax:
      case Reducer::Argmin:
        k = graph_.kind(table_.body) == Kind::real ? Kind::real : Kind::integer;
        if (partial) code_.mask = guard;
        code_.value = compile(table_.body, context, k);
        return;
      case Reducer::Sum:
        if (k == Kind::real && !partial && table_.body.is(Op::Mul) && table_.body.args().size() >= 2) {
          std::vector<Expr> factors = table_.body.args();
          code_.factor = compile(factors.back(), context, k);
          factors.pop_back();
          code_.value = compile(factors.size() == 1 ? factors[0] : make(Op::Mul, factors), context, k);
          return;
        }
        break;
      default: break;
    }
    code_.value = compile(table_.body, context, k);
    if (partial)
      code_.value = operate(Op::Select, k, k, {guard, code_.value, compile(identity_value(k), 0, k)});
  }

  Expr identity_value(Kind k) const {
    Expr e = identity(*table_.reducer);
    const bool extreme = *table_.reducer == Reducer::Max || *table_.reducer == Reducer::Min;
    if (extreme && k == Kind::integer)
      return Expr(*table_.reducer == Reducer::Max ? std::numeric_limits<int64_t>::min()
                                                  : std::numeric_limits<int64_t>::max());
    return e;
  }

  int child(int parent, int condition, bool negated) {
    for (size_t k = 0; k < contexts_.size(); ++k)
      if (contexts_[k].parent == parent && contexts_[k].condition == condition &&
          contexts_[k].negated == negated)
        return int(k);
    contexts_.push_back({parent, condition, negated, -1});
    return int(contexts_.size()) - 1;
  }

  int mask_of(int context) {
    if (context == 0) return -1;
    if (contexts_[size_t(context)].mask >= 0) return contexts_[size_t(context)].mask;
    const Context c = contexts_[size_t(context)];
    int mask = c.negated ? operate(Op::Not, Kind::boolean, Kind::boolean, {c.condition}) : c.condition;
    int outer = mask_of(c.parent);
    if (outer >= 0) mask = operate(Op::And, Kind::boolean, Kind::boolean, {outer, mask});
    contexts_[size_t(context)].mask = mask;
    return mask;
  }

  int convert(int reg, Kind to) {
    if (kind(reg) == to) return reg;
    auto known = converted_.find({reg, to});
    if (known != converted_.end()) return known->second;
    Instruction i;
    i.what = Do::Convert;
    i.kind = kind(reg);
    i.a = reg;
    i.dst = add_register(to, vector(reg), level(reg));
    code_.levels[size_t(level(reg))].push_back(i);
    converted_[{reg, to}] = i.dst;
    return i.dst;
  }

  /// Emits op over registers of kind `operands` (the condition of a Select is boolean) giving `result`.
  int operate(Op op, Kind operands, Kind result, std::vector<int> args, Instruction i = {}) {
    int at_level = i.mask >= 0 ? level(i.mask) : 0;
    bool is_vector = i.mask >= 0 && vector(i.mask);
    for (int r : args) {
      at_level = std::max(at_level, level(r));
      is_vector |= vector(r);
    }
    i.what = Do::Operate;
    i.op = op;
    i.kind = operands;
    i.a = args[0];
    if (args.size() > 1) i.b = args[1];
    if (args.size() > 2) i.c = args[2];
    i.dst = add_register(result, is_vector, at_level);
    if (i.poison == 0) i.poison = add_poison(is_vector);
    code_.levels[size_t(at_level)].push_back(i);
    return i.dst;
  }

  int add_poison(bool is_vector) {
    code_.poisons.push_back(is_vector);
    return int(code_.poisons.size()) - 1;
  }

  int compile(Expr e, int context, Kind as) { return convert(compile(e, context), as); }

  int compile(Expr e, int context) {
    if (!graph_.can_fail(e) && !graph_.reads_computed(e)) context = 0;
    auto& known = values_[e];
    for (int c = context; c >= 0; c = contexts_[size_t(c)].parent)
      for (auto& [where, reg] : known)
        if (where == c) return reg;
    int reg = compile_new(e, context);
    values_[e].emplace_back(context, reg);
    return reg;
  }

  int compile_new(Expr e, int context) {
    const Kind k = graph_.kind(e);
    if (auto value = graph_.constant(e)) {
      if (e.is(Op::Constant) && e->number.is_integer()) return add_constant(k, *value, e->number.num());
      if (k == Kind::real) return add_constant(k, *value, 0);
      if (std::fabs(*value) < 0x1p53) return add_constant(k, *value, int64_t(*value));
      if (e.is(Op::Symbol) && e->sym.kind() == SymbolKind::Size)
        return add_constant(k, *value, graph_.sizes().at(e->sym));
    }
    auto same = [&](Kind operands) {
      int reg = compile(e.arg(0), context, operands);
      for (size_t a = 1; a < e.args().size(); ++a)
        reg = operate(e.op(), operands, k, {reg, compile(e.arg(a), context, operands)});
      return reg;
    };
    auto unary = [&](Kind operands) {
      return operate(e.op(), operands, k, {compile(e.arg(0), context, operands)});
    };
    auto binary = [&](Kind operands) {
      int a = compile(e.arg(0), context, operands), b = compile(e.arg(1), context, operands);
      return operate(e.op(), operands, k, {a, b});
    };
    switch (e.op()) {
      case Op::Constant:
      case Op::Real: break;
      case Op::Symbol: return compile_symbol(e->sym);
      case Op::Read: return compile_read(e, context);
      case Op::Add:
      case Op::Mul:
      case Op::Max:
      case Op::Min: return same(k);
      case Op::Sub:
      case Op::Div: return binary(k);
      case Op::Pow:
        if (e.arg(1).number() == std::optional<double>(2)) {
          int x = compile(e.arg(0), context, k);
          return operate(Op::Mul, k, k, {x, x});
        }
        return binary(k);
      case Op::Neg:
      case Op::Abs:
      case Op::Sign:
      case Op::Floor:
      case Op::Round:
      case Op::Exp:
      case Op::Exp2:
      case Op::Log:
      case Op::Log2:
      case Op::Sqrt:
      case Op::Rsqrt:
      case Op::Tanh:
      case Op::Sigmoid:
      case Op::Erf: return unary(k);
      case Op::Select: {
        int c = compile(e.arg(0), context, Kind::boolean);
        int then = compile(e.arg(1), child(context, c, false), k);
        int otherwise = compile(e.arg(2), child(context, c, true), k);
        return operate(Op::Select, k, k, {c, then, otherwise});
      }
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne: {
        bool real = graph_.kind(e.arg(0)) == Kind::real || graph_.kind(e.arg(1)) == Kind::real;
        return binary(real ? Kind::real : Kind::integer);
      }
      case Op::And:
      case Op::Or: {
        int reg = compile(e.arg(0), context, Kind::boolean), last = reg;
        for (size_t a = 1; a < e.args().size(); ++a) {
          context = child(context, last, e.is(Op::Or));
          last = compile(e.arg(a), context, Kind::boolean);
          reg = operate(e.op(), Kind::boolean, Kind::boolean, {reg, last});
        }
        return reg;
      }
      case Op::Not: return unary(Kind::boolean);
      case Op::FloorDiv:
      case Op::Mod: {
        Instruction i;
        i.source = e;
        IntegerRange d = graph_.range(e.arg(1));
        int a = compile(e.arg(0), context, Kind::integer), b = compile(e.arg(1), context, Kind::integer);
        if (d.lo <= 0 && d.hi >= 0) {
          i.mask = mask_of(context);
          i.poison = 0;
        }
        return operate(e.op(), Kind::integer, k, {a, b}, i);
      }
      case Op::Cast: {
        Instruction i;
        i.dtype = e->dtype;
        int a = compile(e.arg(0), context);
        if (e->dtype == DType::boolean) {
          int zero = add_constant(kind(a), 0, 0);
          return kind(a) == Kind::boolean ? a : operate(Op::Ne, kind(a), k, {a, zero});
        }
        if (kind(a) == Kind::boolean) a = convert(a, Kind::integer);
        if (k == Kind::real) a = convert(a, Kind::real);
        return operate(Op::Cast, kind(a), k, {a}, i);
      }
      case Op::Reduce:
      case Op::RangeSum: break;
    }
    TW_CHECK(false, "cannot evaluate " + to_string(e));
  }

  int compile_symbol(Sym s) {
    if (table_.strip && s == table_.strip) {
      Instruction i;
      i.what = Do::Iota;
      i.a = indices_.at(first_);
      i.dst = add_register(Kind::integer, true, code_.strip_level);
      code_.levels[size_t(code_.strip_level)].push_back(i);
      return i.dst;
    }
    auto it = indices_.find(s);
    TW_CHECK(it != indices_.end(), "symbol " + s.name() + " is not in scope");
    return it->second;
  }

  int compile_read(Expr e, int context) {
    Site site;
    site.table = graph_.table_of(e->sym);
    site.source = e;
    const Table& source = graph_.tables[size_t(site.table)];
    site.guarded = source.can_fail;
    int at_level = 0;
    for (size_t k = 0; k < e.args().size(); ++k) {
      Expr index = e.arg(k);
      Site::Index entry;
      entry.checked = !graph_.in_bounds(e, int(k));
      site.guarded |= entry.checked;
      if (table_.strip && depends_on(index, table_.strip)) {
        site.vector = true;
        if (auto c = graph_.coefficient(index, table_.strip)) {
          entry.coefficient = *c;
          index = substitute(index, {{table_.strip, Expr(first_)}});
        }
      }
      entry.reg = compile(index, context, Kind::integer);
      entry.vector = vector(entry.reg);
      site.vector |= entry.vector;
      site.gather |= entry.vector;
      at_level = std::max(at_level, level(entry.reg));
      site.indices.push_back(entry);
    }
    Instruction i;
    i.what = Do::Load;
    if (site.guarded || !source.input) i.mask = mask_of(context);
    if (i.mask >= 0) {
      at_level = std::max(at_level, level(i.mask));
      site.vector |= vector(i.mask) && site.guarded;  // whether a lane fails then depends on the lane
      if (vector(i.mask) && !site.vector) i.mask = -1;
    }
    if (site.vector) at_level = std::max(at_level, code_.strip_level);
    i.dst = add_register(source.kind, site.vector, at_level);
    if (site.guarded) i.poison = add_poison(site.vector);
    i.site = int(code_.sites.size());
    code_.sites.push_back(std::move(site));
    code_.levels[size_t(at_level)].push_back(i);
    return i.dst;
  }

  Graph& graph_;
  const Table& table_;
  Code code_;
  Sym first_;  ///< index of the strip's lane 0
  std::unordered_map<Sym, int> indices_;
  std::vector<Context> contexts_;
  std::unordered_map<Expr, std::vector<std::pair<int, int>>> values_;
  std::map<std::pair<int, Kind>, int> converted_;
};

}  // namespace

Code compile(Graph& graph, const Table& table) { return Compiler(graph, table).run(); }

}  // namespace tilewright::reference
