// Names and expressions of one kernel in C++.
#pragma once
#include <map>
#include <set>

#include "tilewright/emit/c_expr.h"
#include "tilewright/emit/identifiers.h"
#include "tilewright/map/mapped.h"

namespace tilewright {

/// Names for the symbols of one kernel, apart from the helpers and from what the kernel's text uses itself.
Identifiers cpp_names();

/// How an axis runs in the op at hand.
struct CppAxis {
  Sym axis;
  std::string origin;  ///< global index of local coordinate 0; empty: 0
  std::string var;     ///< local coordinate
  std::string extent;  ///< of the tile that exists
};

/// Prints expressions of an op. Along the lane axis values are vectors: element l belongs to local coordinate var + l.
class CppPrinter : public CPrinter {
 public:
  CppPrinter(const Program& p, const MappedProgram& m, const MappedKernel& k, Identifiers& names, DType real);

  /// Begins an op: its axes, the lane axis (null: scalar) and, where lanes run in panels, the panel's width and counters' names.
  void begin(std::vector<CppAxis> axes, Sym lane, int64_t panel, int width);
  const CppAxis* axis(Sym s) const;

  /// Element offset in a Local buffer at the local coordinates of the op (at lane 0 along the lane axis).
  std::string offset(const Buffer& b);
  /// Offset of one step along an axis in a Local buffer where it is constant.
  int64_t step(const Buffer& b, Sym axis) const;
  /// Element offset of tensor[index], at lane 0; and its change along an axis where it is affine (empty: it is not).
  std::string tensor_offset(Sym tensor, const std::vector<Expr>& index);
  std::string tensor_step(Sym tensor, const std::vector<Expr>& index, Sym axis);
  /// Does every axis of the op move tensor[index] by a step that the others do not change?
  bool moves_by_steps(Sym tensor, const std::vector<Expr>& index) const;
  /// "extent − var": lanes that exist from lane 0 on.
  std::string remaining() const;

  /// Converted to `kind`, a vector if the op has lanes.
  CValue value_as(Expr e, CKind kind);
  /// Its text; in parentheses unless it binds at least as tightly as `precedence`.
  std::string value_text(Expr e, CKind kind, int precedence = 0) {
    return wrap(value_as(e, kind), precedence);
  }
  const Buffer* buffer(Sym s) const;
  DType dtype(Sym tensor) const;
  /// A function of vectors that is computed for all vectors of a loop in step, before what reads it: argument into x<number>[index], then
  /// function(x<number>).
  struct Stage {
    std::vector<std::string> declarations;  ///< that the argument may mention
    std::string array, argument, function;
  };
  /// From here on functions of vectors are set apart as stages, whose vectors are numbered by `index`.
  void stage(std::string index) { index_ = std::move(index); }
  std::vector<Stage> take_stages();
  /// Kind of the elements of a dtype.
  static CKind kind(DType t) {
    return t == DType::boolean ? CKind::Boolean : is_float(t) ? CKind::Real : CKind::Integer;
  }
  /// Runs `f` with the lane axis standing for its coordinate at lane 0.
  template <class F>
  auto at_lane_0(F f) {
    if (scalar_ || !lane_) return f();
    scalar_ = true;
    auto result = unshared(f);
    scalar_ = false;
    return result;
  }
  bool same_in_all_lanes(Expr e) const;
  /// Do the lanes of every array that `e` reads lie at one stride?
  bool at_one_stride(Expr e);
  std::string type_of(const CValue& v) const override;
  CValue splat(CValue v) const override;

 protected:
  CValue symbol(Sym s) override;
  CValue read(Expr e) override;
  CValue convert_lanes(CValue v, CKind kind) const override;
  CValue comparison(Op op, Expr a, Expr b) override;
  CValue compare(Op op, CValue a, CValue b) override;
  CValue real_of_integer(Expr e, CValue v) override;
  CValue function(Op op, Expr argument, CValue v) override;

 private:
  CValue read_local(const Buffer& b);
  CValue read_bf16(const Buffer& b, bool vector);  ///< of a tile in Local (cpp_bf16.cc)
  CValue read_memory(Sym tensor, const std::vector<Expr>& index);
  bool reads_along(const Buffer& b, Sym axis) const;
  Expr element(Sym tensor, const std::vector<Expr>& index) const;
  CValue lane_bound(Op op, Expr difference, int64_t coefficient);
  CValue narrow_equality(Op op, Expr a, Expr b, bool& done);

  const Program& program_;
  const MappedProgram& mapped_;
  const MappedKernel& kernel_;
  Identifiers& names_;
  DType real_;
  std::vector<CppAxis> axes_;
  Sym lane_;
  int64_t panel_ = 0;
  int width_ = 1;
  bool scalar_ = false;
  std::string index_;  ///< of stages; empty: none are made
  std::vector<Stage> stages_;
};

/// C type in which elements of a dtype lie in memory, and in Local buffers.
std::string cpp_memory_type(DType t);
std::string cpp_local_type(DType t, DType real);

}  // namespace tilewright
