// From canonical expressions to the operations that a machine has.
#pragma once
#include <functional>
#include <map>

#include "tilewright/tile/tile_program.h"

namespace tilewright {

/// Rewrites canonical expressions (simplify.h) for evaluation element by element:
///  - Add with negative terms → Sub; Mul with negative powers → Div, or · (1/x) where x varies along fewer
///  axes than the statement, so that the
///    reciprocal is taken once for each of its elements; small powers → products; powers 1/2 and −1/2 → Sqrt,
///    Rsqrt;
///  - exp(c·Σ ±tᵢ) → exp2((Σ ±tᵢ)·(c·log2 e)) where the terms of a sum share a scalar factor up to sign: a
///  difference of large values is taken before it is scaled, and so is exact where they are close;
///  - else exp(Σ tᵢ) → exp2((Σ tᵢ)·log2 e) where some of the terms vary along fewer axes (they may be the maximum of the
///  others), and exp2(Σ (tᵢ·log2 e)), the factor folded into constants, where none does;
///  - j·r − i·r → (j − i)·r: differences of indices are taken as integers, which are exact;
///  - what a cast makes a whole value (program/compared.h) in one form, whatever statement it stands in: products in order, no row taken apart;
///  - numbers folded to one constant for each product; real subexpressions of sizes and params alone → host
///  scalars.
/// Integer and boolean expressions keep their form.
class MachineForm {
 public:
  /// `axes_of`: the axes of tiles along which an expression varies. New host scalars are added to `scalars`.
  /// `often`: is a statement over these axes run for each element of the stream? There a division by a number
  /// is a product with its reciprocal. `real`: the dtype in which reals are computed.
  MachineForm(std::vector<HostScalar>& scalars, std::function<std::vector<Sym>(Expr)> axes_of,
              std::function<bool(const std::vector<Sym>&)> often, std::function<DType()> real)
      : scalars_(scalars), axes_of_(std::move(axes_of)), often_(std::move(often)), real_(std::move(real)) {}

  /// `domain`: axes that the statement ranges over.
  Expr operator()(Expr e, const std::vector<Sym>& domain);
  /// A value free of tiles and indices: a number, a param, or a host scalar.
  Expr scalar(Expr e);

 private:
  Expr convert(Expr e);
  Expr product(Expr e);
  Expr sum(const std::vector<Expr>& terms);
  Expr power(Expr base, Rational q);
  Expr exponential(Expr a);
  bool fewer_axes(Expr e) const;
  Expr whole_value(Expr e);

  std::vector<HostScalar>& scalars_;
  std::function<std::vector<Sym>(Expr)> axes_of_;
  std::function<bool(const std::vector<Sym>&)> often_;
  std::function<DType()> real_;
  std::vector<Sym> domain_;
  bool whole_ = false;  ///< inside of a whole value
  std::map<Expr, Expr> done_;
};

/// The truth of a constant condition: And without arguments, or a number other than 0.
bool is_true(Expr condition);
/// Made of numbers, sizes and params alone.
bool is_scalar(Expr e);
Expr truth();
/// `a and b` without true operands.
Expr conjunction(Expr a, Expr b);

}  // namespace tilewright
