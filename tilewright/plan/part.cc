#include "tilewright/plan/part.h"

#include <fmt/format.h>

#include <algorithm>

#include "tilewright/plan/axes.h"

namespace tilewright::parts {

std::vector<std::string> names_of(const Program& p) {
  std::vector<std::string> names;
  for (const Axis& a : p.axes) names.push_back(a.name());
  for (const Param& q : p.params) names.push_back(q.sym.name());
  for (const Let& l : p.lets) names.push_back(l.sym.name());
  for (const Input& in : p.inputs) names.push_back(in.sym.name());
  for (const Definition& d : p.definitions) names.push_back(d.sym.name());
  return names;
}

std::string unique_name(const std::string& wish, const std::vector<std::string>& taken) {
  std::string name = wish;
  for (int k = 2; std::find(taken.begin(), taken.end(), name) != taken.end(); ++k)
    name = fmt::format("{}_{}", wish, k);
  return name;
}

Axis new_axis(const std::string& name, Expr size, Span span, const std::string& written) {
  SymbolInfo length;
  length.name = name;
  length.written = written;
  length.kind = SymbolKind::Size;
  length.integer = length.nonnegative = true;
  SymbolInfo index = length;
  index.kind = SymbolKind::Index;
  index.size = &Sym::fresh(length).info();
  return Axis{Sym::fresh(index), size, span};
}

void each_node(Expr e, std::set<Expr>& seen, const std::function<void(Expr)>& visit) {
  if (!e || !seen.insert(e).second) return;
  visit(e);
  for (Expr a : e.args()) each_node(a, seen, visit);
}

std::vector<Sym> definitions_of(const Program& p, const std::vector<Sym>& sinks,
                                const std::set<Sym>& stored) {
  std::set<Sym> needed;
  std::function<void(Sym)> add = [&](Sym s) {
    const Definition* d = p.definition(s);
    if (d == nullptr || !needed.insert(s).second) return;
    for (Sym read : tensors_read(d->value))
      if (!stored.count(read)) add(read);
  };
  for (Sym s : sinks) add(s);
  std::vector<Sym> ordered;
  for (const Definition& d : p.definitions)
    if (needed.count(d.sym)) ordered.push_back(d.sym);
  return ordered;
}

namespace {

/// The dimensions of an array between kernels (plan/partition.h, StoredArray).
std::vector<Dim> dims_of(const Program& p, const std::vector<Sym>& axes) {
  std::vector<Dim> composite, groups;
  for (const Input& in : p.inputs)
    for (const Dim& d : in.dims)
      if (d.pieces.size() > 1) composite.push_back(d);
  std::stable_sort(composite.begin(), composite.end(),
                   [](const Dim& a, const Dim& b) { return a.pieces.size() > b.pieces.size(); });
  std::set<Sym> grouped;
  for (const Dim& d : composite) {
    const bool fits = std::all_of(d.pieces.begin(), d.pieces.end(),
                                  [&](Sym s) { return contains(axes, s) && !grouped.count(s); });
    if (!fits) continue;
    groups.push_back(d);
    grouped.insert(d.pieces.begin(), d.pieces.end());
  }
  std::vector<Dim> dims;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (!grouped.count(axes[k])) {
      dims.push_back(Dim{{axes[k]}});
      continue;
    }
    for (const Dim& g : groups) {
      const bool last = contains(g.pieces, axes[k]) &&
                        std::none_of(axes.begin() + static_cast<std::ptrdiff_t>(k) + 1, axes.end(),
                                     [&](Sym s) { return contains(g.pieces, s); });
      if (last) dims.push_back(g);
    }
  }
  return dims;
}

}  // namespace

StoredArray array_of(const Program& p, Sym definition) {
  const Definition& d = *p.definition(definition);
  StoredArray a;
  a.definition = definition;
  a.dims = dims_of(p, d.axes);
  a.span = d.span;
  if (d.dtype) {
    a.dtype = *d.dtype;
  } else if (definition.info().integer) {
    a.dtype = definition.info().nonnegative ? DType::boolean : DType::i64;
  } else {
    std::set<Sym> seen;
    std::function<bool(Sym)> wide = [&](Sym s) {
      if (!seen.insert(s).second) return false;
      if (const Input* in = p.input(s)) return in->dtype == DType::f64;
      const std::vector<Sym> read = tensors_read(p.definition(s)->value);
      return std::any_of(read.begin(), read.end(), wide);
    };
    a.dtype = wide(definition) ? DType::f64 : DType::f32;
  }
  bool rounded = false;
  for (const Output& o : p.outputs) {
    if (o.sym != definition) continue;
    a.output = o.dtype == a.dtype;
    rounded = !a.output;
    if (a.output) a.dims = o.dims;
  }
  if (rounded) {
    SymbolInfo info = definition.info();
    info.name = unique_name(definition.name() + "_stored", names_of(p));
    a.sym = Sym::fresh(info);
  } else {
    a.sym = definition;
  }
  return a;
}

namespace {

/// Reads of a stored definition as reads of its array, whose axes may lie in another order.
Expr reading(const std::map<Sym, StoredArray>& arrays, const Program& p, const std::set<Sym>& read, Expr e) {
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Read) || !read.count(x->sym)) return x;
    const StoredArray& a = arrays.at(x->sym);
    const std::vector<Sym>& order = p.definition(x->sym)->axes;
    std::vector<Expr> indices;
    for (Sym s : a.axes())
      indices.push_back(x.arg(static_cast<size_t>(std::find(order.begin(), order.end(), s) - order.begin())));
    return tilewright::read(a.sym, indices);
  });
}

Expr read_own(Sym tensor, const std::vector<Sym>& axes) {
  return read(tensor, std::vector<Expr>(axes.begin(), axes.end()));
}

/// Keeps the axes and params that the rest of the program mentions.
void drop_unused(Program& q) {
  std::set<Sym> sizes, params;
  std::set<Expr> seen;
  const auto scan = [&](Expr e) {
    each_node(e, seen, [&](Expr x) {
      if (x.is(Op::Symbol)) {
        if (x->sym.kind() == SymbolKind::Index) sizes.insert(x->sym.size());
        if (x->sym.kind() == SymbolKind::Size) sizes.insert(x->sym);
        if (x->sym.kind() == SymbolKind::Param) params.insert(x->sym);
      }
      for (Sym s : x->bound) sizes.insert(s.size());
    });
  };
  const auto scan_dims = [&](const std::vector<Dim>& dims) {
    for (const Dim& d : dims)
      for (Sym s : d.pieces) sizes.insert(s.size());
  };
  for (const Definition& d : q.definitions) {
    scan(d.value);
    for (Sym s : d.axes) sizes.insert(s.size());
  }
  for (const Input& in : q.inputs) {
    scan_dims(in.dims);
    scan(in.range.lo), scan(in.range.hi);
  }
  for (const Output& o : q.outputs) scan_dims(o.dims);
  std::erase_if(q.params, [&](const Param& x) { return !params.count(x.sym); });
  for (const Param& x : q.params) scan(x.value), scan(x.range.lo), scan(x.range.hi);
  for (size_t before = 0; before != sizes.size();) {
    before = sizes.size();
    for (const Axis& a : q.axes)
      if (sizes.count(a.index.size())) scan(a.size);
  }
  std::erase_if(q.axes, [&](const Axis& a) { return !sizes.count(a.index.size()); });
}

}  // namespace

Program program_of(const Program& p, const std::vector<Sym>& sinks, const std::set<Sym>& stored,
                   const std::map<Sym, StoredArray>& arrays) {
  Program q;
  q.name = p.name + "_" + sinks.front().name();
  q.axes = p.axes;
  q.params = p.params;
  q.spans = p.spans;

  const std::vector<Sym> defined = definitions_of(p, sinks, stored);
  std::set<Sym> read;
  for (Sym s : sinks)
    if (p.input(s)) read.insert(s);
  for (Sym s : defined)
    for (Sym t : tensors_read(p.definition(s)->value)) read.insert(t);
  for (const Input& in : p.inputs)
    if (read.count(in.sym)) q.inputs.push_back(in);
  std::set<Sym> others;
  for (const Definition& d : p.definitions) {
    if (!read.count(d.sym) || contains(defined, d.sym)) continue;
    const StoredArray& a = arrays.at(d.sym);
    q.inputs.push_back(Input{a.sym, a.dims, a.dtype, {}, a.span});
    others.insert(d.sym);
  }
  for (const Definition& d : p.definitions) {
    if (!contains(defined, d.sym)) continue;
    q.definitions.push_back(d);
    q.definitions.back().value = reading(arrays, p, others, d.value);
    const bool inside = std::any_of(defined.begin(), defined.end(), [&](Sym s) {
      const std::vector<Sym> all = tensors_read(p.definition(s)->value);
      return contains(all, d.sym);
    });
    if (stored.count(d.sym) && !inside) q.definitions.back().axes = arrays.at(d.sym).axes();
  }
  for (Sym s : sinks) {
    for (const Output& o : p.outputs)
      if (o.sym == s) q.outputs.push_back(o);
    if (!stored.count(s)) continue;
    const StoredArray& a = arrays.at(s);
    if (a.output) continue;
    if (a.sym != s)
      q.definitions.push_back(Definition{a.sym, a.axes(), {}, read_own(s, q.definition(s)->axes), a.span});
    q.outputs.push_back(Output{a.sym, a.dims, a.dtype, a.span});
  }
  drop_unused(q);
  return q;
}

}  // namespace tilewright::parts
