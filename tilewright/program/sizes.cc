#include "tilewright/program/sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/verify.h"
#include "tilewright/support/advice.h"

namespace tilewright {

namespace {

/// Sizes are found in rounds: what arrays and --size say, then composite dimensions with one unknown factor
/// and axes whose size is an expression, until nothing more follows.
class Binder {
 public:
  Binder(const Program& p, const std::map<std::string, std::vector<int64_t>>& shapes,
         const std::map<std::string, int64_t>& given)
      : program_(p), shapes_(shapes), given_(given) {}

  Sizes run() {
    for (const Axis& a : program_.axes)
      if (a.baked()) set(a, a.size.rational()->num(), "its declaration", a.span);
    for (const auto& [name, size] : given_) from_command(name, size);
    for (const auto& [name, shape] : shapes_) check_input_name(name);
    for (const Input& in : program_.inputs)
      if (const auto found = shapes_.find(in.sym.name()); found != shapes_.end())
        from_array(in, found->second);
    while (composite_round() || declared_round()) {
    }
    check_declared();
    check_all_known();
    Sizes sizes;
    for (const auto& [sym, fact] : known_) sizes[sym] = fact.value;
    for (const Input& in : program_.inputs) check_bytes(in.sym, in.dims, in.dtype, sizes, in.span);
    for (const Output& o : program_.outputs) check_bytes(o.sym, o.dims, o.dtype, sizes, o.span);
    return sizes;
  }

 private:
  struct Fact {
    int64_t value;
    std::string source;  ///< what said so, for messages
  };

  const Fact* known(Sym index) const {
    const auto found = known_.find(index.size());
    return found == known_.end() ? nullptr : &found->second;
  }

  void set(const Axis& a, int64_t value, const std::string& source, const Span& span) {
    if (value < 0)
      throw UserError(span, fmt::format("axis `{}` has size {} by {}", a.name(), value, source),
                      "a size is not negative");
    const auto [at, fresh] = known_.emplace(a.index.size(), Fact{value, source});
    if (fresh || at->second.value == value) return;
    std::string hint = "give arrays and sizes that agree";
    if (a.baked())
      hint = "the size stands in the program; to compile for another one: " +
             advice::literal_size(a.name(), std::to_string(value));
    else if (value == 1 || at->second.value == 1)
      hint = "size 1 is not broadcast: leave the axis away where the array does not vary along it";
    throw UserError(span,
                    fmt::format("axis `{}` is {} by {}, but {} by {}", a.name(), at->second.value,
                                at->second.source, value, source),
                    hint);
  }

  void from_command(const std::string& name, int64_t size) {
    const Axis* a = program_.axis(name);
    if (!a) {
      std::vector<std::string> names;
      for (const Axis& other : program_.axes) names.push_back(other.name());
      const std::string near = nearest_name(name, names);
      throw UserError({}, fmt::format("{}: the program has no axis `{}`", advice::size(name, size), name),
                      near.empty() ? fmt::format("its axes are {}", fmt::join(names, ", "))
                                   : fmt::format("did you mean `{}`?", near));
    }
    set(*a, size, advice::size(name, size), a->span);
  }

  void check_input_name(const std::string& name) const {
    std::vector<std::string> names;
    for (const Input& in : program_.inputs) names.push_back(in.sym.name());
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    const std::string near = nearest_name(name, names);
    throw UserError({}, fmt::format("the program has no input `{}`", name),
                    near.empty() ? fmt::format("its inputs are {}", fmt::join(names, ", "))
                                 : fmt::format("did you mean `{}`?", near));
  }

  void from_array(const Input& in, const std::vector<int64_t>& shape) {
    if (shape.size() != in.dims.size())
      throw UserError(
          in.span,
          fmt::format("`{0}` is declared as {0}{1}, {2} dimension{3}, and the array has shape {4}",
                      in.sym.name(), dims_text(in.dims), in.dims.size(), in.dims.size() == 1 ? "" : "s",
                      shape_text(shape)),
          "give an array with one dimension for each declared one; a composite (k g) is one dimension");
    for (size_t k = 0; k < shape.size(); ++k) {
      const Dim& d = in.dims[k];
      if (shape[k] < 0)
        throw UserError(in.span,
                        fmt::format("the array for `{}` has shape {}", in.sym.name(), shape_text(shape)),
                        "a size is not negative");
      if (d.pieces.size() == 1)
        set(program_.axis(d.pieces[0]), shape[k], described(in, shape), in.span);
      else
        composites_.push_back({&in, k, shape});
    }
  }

  static std::string described(const Input& in, const std::vector<int64_t>& shape) {
    return fmt::format("{}{} of shape {}", in.sym.name(), dims_text(in.dims), shape_text(shape));
  }

  bool composite_round() {
    bool progress = false;
    for (Composite& c : composites_) {
      if (c.done) continue;
      const Dim& d = c.input->dims[c.dim];
      const int64_t total = c.shape[c.dim];
      __int128 product = 1;
      Sym open;
      int unknown = 0;
      std::vector<std::string> factors;
      for (Sym piece : d.pieces) {
        if (const Fact* f = known(piece)) {
          product = std::min<__int128>(product * f->value, __int128(1) << 100);
          factors.push_back(fmt::format("{} = {} by {}", piece.name(), f->value, f->source));
        } else {
          open = piece;
          ++unknown;
        }
      }
      if (unknown > 1 || (unknown == 1 && product == 0 && total == 0)) continue;
      c.done = true;
      const bool fits = unknown == 0 ? product == total : product != 0 && total % product == 0;
      if (!fits)
        throw UserError(
            c.input->span,
            fmt::format("dimension {} of {} is {}, which does not agree with {}", c.dim + 1,
                        described(*c.input, c.shape), total, fmt::join(factors, ", ")),
            unknown == 0
                ? "its length must be the product of the sizes of its pieces"
                : fmt::format("its length must be a multiple of them to give the size of `{}`", open.name()));
      if (unknown == 1) {
        set(program_.axis(open), int64_t(total / product), described(*c.input, c.shape), c.input->span);
        progress = true;
      }
    }
    return progress;
  }

  /// Values of the sizes that `e` reads, except `but`; nullopt when one is not known.
  std::optional<std::map<Sym, int64_t>> values_for(Expr e, Sym but = {}) const {
    std::map<Sym, int64_t> values;
    for (Sym s : free_symbols(e)) {
      if (s == but) continue;
      const auto found = known_.find(s);
      if (found == known_.end()) return std::nullopt;
      values[s] = found->second.value;
    }
    return values;
  }

  std::string declaration(const Axis& a) const {
    return fmt::format("its declaration {} = {}", a.name(), to_string(a.size));
  }

  bool declared_round() {
    for (const Axis& a : program_.axes) {
      if (!a.size || a.baked()) continue;
      if (!known(a.index)) {
        const auto values = values_for(a.size);
        if (!values) continue;
        set(a, evaluate(a, *values), declaration(a), a.span);
        return true;
      }
      if (solve(a)) return true;
    }
    return false;
  }

  int64_t evaluate(const Axis& a, const std::map<Sym, int64_t>& values) const {
    try {
      return evaluate_integer(a.size, values);
    } catch (const UserError& e) {
      throw UserError(a.span, fmt::format("the size of axis `{}`: {}", a.name(), e.diagnostics()[0].what),
                      e.diagnostics()[0].hint);
    }
  }

  /// A known size whose expression has one unknown size, in which it is linear, gives that one by exact
  /// division.
  bool solve(const Axis& a) {
    std::vector<Sym> open;
    for (Sym s : free_symbols(a.size))
      if (!known_.count(s)) open.push_back(s);
    if (open.size() != 1) return false;
    const auto form = affine(a.size, open);
    if (!form) return false;
    const auto values = values_for(a.size, open[0]);
    const int64_t slope = evaluate_integer(form->coefficient[0], *values),
                  rest = evaluate_integer(form->rest, *values);
    if (slope == 0) return false;
    const Fact fact = *known(a.index);
    const int64_t over = fact.value - rest;
    for (const Axis& other : program_.axes) {
      if (!(other.index.size() == open[0])) continue;
      if (over % slope != 0 || over / slope < 0)
        throw UserError(a.span,
                        fmt::format("axis `{}` is {} by {}, which no size of `{}` gives by {}", a.name(),
                                    fact.value, fact.source, other.name(), declaration(a)),
                        "give arrays whose sizes agree with the declaration");
      set(other, over / slope, fmt::format("{} with {} = {}", declaration(a), a.name(), fact.value), a.span);
    }
    return true;
  }

  void check_declared() {
    for (const Axis& a : program_.axes) {
      if (!a.size || a.baked()) continue;
      if (const auto values = values_for(a.size)) set(a, evaluate(a, *values), declaration(a), a.span);
    }
  }

  void check_all_known() const {
    std::vector<std::string> open, options;
    Span first;
    for (const Axis& a : program_.axes) {
      if (known(a.index)) continue;
      if (!first) first = a.span;
      open.push_back(fmt::format("`{}`", a.name()));
      if (a.size) continue;
      options.push_back(advice::InPython::active() ? fmt::format("\"{}\": N", a.name()) : a.name() + "=N");
    }
    if (open.empty()) return;
    throw UserError(first,
                    fmt::format("nothing fixes the size of ax{} {}", open.size() == 1 ? "is" : "es",
                                fmt::join(open, ", ")),
                    advice::InPython::active()
                        ? fmt::format("give it: sizes={{{}}}", fmt::join(options, ", "))
                        : fmt::format("give it: --size {}", fmt::join(options, ",")));
  }

  static void check_bytes(Sym tensor, const std::vector<Dim>& dims, DType dtype, const Sizes& sizes,
                          const Span& span) {
    bool empty = false;
    for (const Dim& d : dims)
      for (Sym piece : d.pieces) empty |= sizes.at(piece.size()) == 0;
    if (empty) return;
    constexpr __int128 limit = __int128(1) << 62;
    __int128 total = bytes(dtype);
    for (const Dim& d : dims)
      for (Sym piece : d.pieces) {
        total *= sizes.at(piece.size());
        if (total <= limit) continue;
        throw UserError(
            span,
            fmt::format("the size of `{}`, shape {}, overflows: it would take more than 2^62 bytes",
                        tensor.name(), shape_text(shape_of_checked(dims, sizes))),
            "give smaller sizes");
      }
  }

  /// Shapes for a message may themselves overflow in a composite dimension; those show their pieces.
  static std::vector<int64_t> shape_of_checked(const std::vector<Dim>& dims, const Sizes& sizes) {
    std::vector<int64_t> all;
    for (const Dim& d : dims)
      for (Sym piece : d.pieces) all.push_back(sizes.at(piece.size()));
    return all;
  }

  struct Composite {
    const Input* input;
    size_t dim;
    std::vector<int64_t> shape;
    bool done = false;
  };

  const Program& program_;
  const std::map<std::string, std::vector<int64_t>>& shapes_;
  const std::map<std::string, int64_t>& given_;
  std::map<Sym, Fact> known_;
  std::vector<Composite> composites_;
};

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Sizes bind_sizes(const Program& p, const std::map<std::string, std::vector<int64_t>>& shapes,
                 const std::map<std::string, int64_t>& given) {
  return Binder(p, shapes, given).run();
}

std::vector<int64_t> shape_of(const std::vector<Dim>& dims, const Sizes& sizes) {
  std::vector<int64_t> shape;
  for (const Dim& d : dims) {
    int64_t length = 1;
    for (Sym piece : d.pieces) length *= sizes.at(piece.size());
    shape.push_back(length);
  }
  return shape;
}

}  // namespace tilewright
