#include "tilewright/driver/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/checks.h"
#include "tilewright/program/failures.h"
#include "tilewright/program/params.h"
#include "tilewright/support/advice.h"

namespace tilewright {

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= std::max<int64_t>(1, shape[k]);
  }
  return strides;
}

void bind_added_axes(const std::vector<Axis>& axes, Sizes& sizes) {
  for (const Axis& a : axes)
    if (a.size && !sizes.count(a.index.size())) sizes[a.index.size()] = evaluate_integer(a.size, sizes);
}

std::map<Sym, double> bind_scalars(const Program& p, const std::vector<HostScalar>& scalars,
                                   const Sizes& sizes, const std::map<std::string, double>& params) {
  Bindings values;
  for (const auto& [sym, size] : sizes) values[sym] = static_cast<double>(size);
  std::map<Sym, double> bound;
  for (const auto& [name, value] : params) {
    bool known = false;
    for (const Param& q : p.params) known = known || q.sym.name() == name;
    if (!known) {
      std::vector<std::string> names;
      for (const Param& q : p.params) names.push_back(q.sym.name());
      const std::string near = nearest_name(name, names);
      throw UserError(
          Span{}, fmt::format("no param is called `{}`", name),
          near.empty() ? "pass params that the program declares" : fmt::format("did you mean `{}`?", near));
    }
  }
  for (const Param& q : p.params) {
    double value = 0;
    if (auto it = params.find(q.sym.name()); it != params.end()) {
      value = param_value(q, it->second);
    } else if (q.value) {
      refuse_zero_divisors(p, q.value, values);
      value = param_value(q, evaluate(q.value, values));
    } else {
      throw UserError(q.span, fmt::format("param `{}` has no value", q.sym.name()),
                      "pass " + advice::param(q.sym.name()));
    }
    if (q.range) {
      for (Expr e : {q.range.lo, q.range.hi}) refuse_zero_divisors(p, e, values);
      const double lo = evaluate(q.range.lo, values), hi = evaluate(q.range.hi, values);
      if (!(value >= lo && value < hi))
        throw UserError(
            q.span, fmt::format("param `{}` is {}, outside its range [{}, {})", q.sym.name(), value, lo, hi),
            "pass a value inside the range");
    }
    values[q.sym] = bound[q.sym] = value;
  }
  for (const HostScalar& s : scalars) {
    refuse_zero_divisors(p, s.value, values);
    values[s.sym] = bound[s.sym] = evaluate(s.value, values);
  }
  return bound;
}

bool admits(const std::vector<LayoutGuard>& guards, const Bound& b) {
  for (const LayoutGuard& g : guards) {
    const Tensor& t = b.tensors.at(g.tensor);
    const int64_t width = bytes(t.dtype);
    int64_t elements = 1;
    for (int64_t n : t.shape) elements *= n;
    if (elements == 0) continue;  // never touched
    if (reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(g.align) != 0) return false;
    for (size_t k = 0; k < t.shape.size(); ++k) {
      const bool last = k + 1 == t.shape.size();
      if (last && g.unit_inner) {
        if (t.strides[k] != 1 && t.shape[k] != 1) return false;
        continue;
      }
      if (t.shape[k] == 1) continue;  // the stride is never used
      if (t.strides[k] < 0 || t.strides[k] * width % g.align != 0 || t.shape[k] > (int64_t{1} << 32) ||
          t.strides[k] * width >= (int64_t{1} << 40))
        return false;
    }
  }
  return true;
}

int64_t blocks_of(const MappedKernel& k, const Sizes& sizes) {
  int64_t blocks = 1;
  for (const KernelAxis& a : k.grid) {
    const int64_t n = sizes.at(a.index.size());
    int64_t count = (n + a.block - 1) / a.block;
    if (n == 0 && std::find(k.at_least_one.begin(), k.at_least_one.end(), a.index) != k.at_least_one.end()) {
      if (a.block == 1)
        throw UserError(
            Span{},
            fmt::format(
                "size({0}) is 0, and an output without the axis `{0}` is computed for each index along it",
                a.index.name()),
            fmt::format("compute that output by a program of its own, or write `group {}=64`",
                        a.index.name()));
      count = 1;
    }
    if (count > 0 && blocks > (int64_t{1} << 62) / count)
      throw UserError(Span{}, "the grid overflows 64 bits", "use smaller sizes");
    blocks *= count;
  }
  return blocks;
}

void throw_failed_check(int64_t error_word, const Program& p, const MappedProgram& m, const Sizes& sizes) {
  const auto failed = failed_check(error_word);
  if (!failed) return;
  TW_CHECK(failed->check >= 0 && failed->check < static_cast<int>(m.checks.size()),
           "an error word names a check");
  const RunCheck& check = m.checks[static_cast<size_t>(failed->check)];
  if (check.division) throw division_by_zero(p, check.division);
  throw index_outside(p, check.tensor, check.axis, failed->index, sizes.at(check.axis.size()));
}

int64_t rows_of(const ChunkTable& table, const Sizes& sizes) {
  int64_t rows = 1;
  for (const KernelAxis& a : table.rows)
    rows *= std::max<int64_t>(1, (sizes.at(a.index.size()) + a.block - 1) / a.block);
  return rows;
}

std::vector<int64_t> words_of(const std::vector<Argument>& arguments, const Bound& b) {
  std::vector<int64_t> words;
  words.reserve(arguments.size());
  for (const Argument& a : arguments) {
    int64_t word = 0;
    switch (a.kind) {
      case Argument::Kind::Pointer: word = reinterpret_cast<int64_t>(b.tensors.at(a.sym).data); break;
      case Argument::Kind::Stride:
        word = b.tensors.at(a.tensor).strides.at(static_cast<size_t>(a.dim));
        break;
      case Argument::Kind::Size: word = b.sizes.at(a.sym); break;
      case Argument::Kind::Error: word = reinterpret_cast<int64_t>(b.error); break;
      case Argument::Kind::Scalar: {
        const double value = b.scalars.at(a.sym);
        std::memcpy(&word, &value, sizeof word);
        break;
      }
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace tilewright
