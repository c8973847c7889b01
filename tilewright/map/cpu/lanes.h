// Vector lanes on a CPU: along which axis of a tile they run, and how tiles lie in memory for it.
//
// One axis of a kernel, the panel axis, is cut into panels of C vectors (W = C·V elements): a tile that has it lies as [panel][other axes][W], so that
// a product reads its lanes operand and writes its result in consecutive vectors. It is the group axis of at least a vector that is a row axis of most
// products, of several one along which operands are contiguous in memory. Every other tile is row-major, with the axis along which its operands are
// contiguous innermost.
#pragma once
#include <map>
#include <optional>

#include "tilewright/map/mapped.h"

namespace tilewright::cpu {

/// A product on a unit that multiplies pairs (pairs.h).
struct PairProduct {
  Sym lanes, broadcast;  ///< operands
  Sym inner;             ///< summed
};

struct Lanes {
  int width = 4;            ///< elements of a vector register
  DType real = DType::f32;  ///< in which reals are held and computed: f64 if any tile is
  Sym panel_axis;           ///< null: none
  std::map<Sym, DType>
      held;  ///< tile -> element type in memory: every real in `real`, as are integers that only products read; others as they are
  std::map<Sym, Sym> fastest;  ///< tile -> its contiguous axis; null for tiles without axes
  std::map<Sym, int>
      vectors;  ///< axis -> vectors of a panel (C); 1 where no product has its lanes along the axis

  std::map<const Dot*, PairProduct> by_pairs;  ///< products on a unit for pairs of bf16 (pairs.h)
  std::map<Sym, Sym>
      paired;  ///< lanes operand of such products -> the axis of which two elements are neighbours

  int64_t panel(Sym axis) const { return int64_t(vectors.at(axis)) * width; }
};

Lanes choose_lanes(const TileKernel& k, const Machine& m);

/// Elements of an axis in one block or chunk.
int64_t block_of(const TileKernel& k, Sym axis);
/// Vectors of a panel that waste least along `elements`, given the registers. `rows`: do the products that use it have rows?
int vectors_of_panel(int64_t elements, int width, int registers, bool rows = true);
/// Rows of the outer-product micro-kernel with `vectors` vectors of lanes: as many accumulators as leave registers for operands.
int rows_of_product(int vectors, int registers);
/// [panel][other axes][W] for tiles with the panel axis, else row-major with the fastest axis innermost, padded to whole panels; [W][2] and half the paired
/// axis where two of its elements are neighbours.
Layout layout_of(const Lanes& lanes, const TileKernel& k, const Tile& tile);

/// What of an op decides along which axis its vectors run.
struct Operand {
  std::vector<Sym> axes;
  Sym fastest;  ///< null: no unit stride is known
};
/// The axis along which the vectors of an op run: the fastest axis of the result or, under a reduction, an axis that reads more operands
/// contiguously. Null: the op is scalar.
Sym vector_axis(const Operand& result, const std::vector<Sym>& reduced, const std::vector<Operand>& reads,
                const std::map<Sym, int64_t>& extents);

/// A product by outer products: lanes[k.., lane]·broadcast[row, k..] into d[row, lane].
struct ProductAxes {
  Sym lanes, broadcast;    ///< operands
  Sym lane, row, inner;    ///< row may be null
  std::vector<Sym> outer;  ///< loops around: batches, further rows, further contracted axes
};
/// Nullopt when the lane axis of d is not the fastest axis of exactly one operand.
std::optional<ProductAxes> product_axes(const Operand& d, Sym a, const Operand& oa, Sym b, const Operand& ob,
                                        const std::vector<Sym>& contracted,
                                        const std::map<Sym, int64_t>& extents);

/// The product that covers a dot, or nullopt.
std::optional<ProductAxes> product_axes(const Lanes& lanes, const TileKernel& k, const Dot& dot);
/// A buffer of a mapped kernel as an operand, for emitters.
Operand operand_of(const MappedKernel& k, Sym buffer);

}  // namespace tilewright::cpu
