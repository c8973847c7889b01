// The tile program: readable pseudocode over tiles, independent of the target.
//
// A kernel runs once for each block of its grid. Expressions read tiles as Read(tile, index symbols) and mention index symbols of axes by their
// *global* value, so masks are written as in the program. Elements outside the arrays do not exist: every statement ranges over the part of
// its tile that lies inside (the mapping decides how to honour that).
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tilewright/plan/plan.h"

namespace tilewright {

enum class Level : uint8_t { Memory, Shared, Registers };
const char* name(Level level);

/// How an axis of the program occurs in a kernel.
struct KernelAxis {
  enum class Kind : uint8_t { Group, Stream, Resident, Whole, Part };
  Sym index;  ///< global index symbol
  Kind kind = Kind::Whole;
  int64_t block = 1;  ///< elements at level 1 (chunk for Stream, capacity for Resident, size for Whole)
  int64_t piece = 1;  ///< elements at level 2 (<= block)
  Sym counter;  ///< Group: block number in the grid; Stream: chunk number. Origin of the axis = counter * block (0 for Whole, Resident)
  Expr begin,
      end;  ///< range of global indices this kernel instance covers, for Stream inside a split part: [part*split, min(…)); null: whole axis
};

struct Tile {
  Sym sym;                ///< kind Tile; name as printed
  std::vector<Sym> axes;  ///< index symbols
  DType dtype = DType::f32;
  Level level = Level::Registers;
  enum class Use : uint8_t { Operand, State, Temporary } use = Use::Temporary;
  bool kept = false;  ///< operand loaded once, outside the stream
  int slots = 1;      ///< ring slots (plan stages) for streamed operands at Level::Shared
};

struct Stmt;
using Body = std::vector<Stmt>;

/// tile = elements of `tensor` at `index`: one expression for each piece axis of the tensor (or axis of the workspace), over index symbols and reads
/// of tiles loaded before (a table of pages). `present` is null where every index is proved to lie inside the tensor. Else an index outside it is an
/// error where `present` holds, and where it does not the element is not needed (nothing may be read out of bounds; any value will do).
struct Load {
  Sym tile;
  Sym tensor;
  std::vector<Expr> index;
  Expr present;
};
/// tensor[index] = tile, rounded to the tensor's dtype.
struct Store {
  Sym tensor;
  std::vector<Expr> index;
  Sym tile;
};
/// tile = value at each of its coordinates. In masked segments `masked` replaces it (null: the same).
struct Map {
  Sym tile;
  Expr value;
  Expr masked;
};
/// tile (+)= Σ over axes of a·b, both tiles. In masked segments terms where `present` is false contribute nothing, whatever a and b hold (also NaN).
struct Dot {
  Sym tile;
  Sym a, b;
  std::vector<Sym> axes;
  bool accumulate = false;
  Expr present;
};
/// tile (combined)= reducer over axes of value. In masked segments `masked` replaces value (null: the same).
struct Reduce {
  Sym tile;
  Reducer reducer;
  std::vector<Sym> axes;
  Expr value;
  Expr masked;
  bool accumulate = false;
};
/// Sorted lists take in pairs: of each list and the pairs (value, at) along `axis` together the first remain, as many as the list is long, in the
/// order of stands_before (derive/state.h). `keys` and `indices` hold the two sides along `rank`; value, at and present are free of it. In masked
/// segments only pairs where `present` holds are taken in (null: all).
struct Rank {
  Sym keys, indices;
  Sym rank, axis;
  Expr value, at;
  Expr present;
};
/// One range of chunk numbers, masked or plain. `stop`: elements of the axis from there on are absent for the whole block (null: not known).
struct Segment {
  Expr lo, hi;
  bool masked = false;
  Expr stop;
};
/// for each segment in order, for counter in [lo, hi): body. A resident axis has one chunk and one masked segment.
struct Loop {
  Sym axis;
  std::vector<Segment> segments;
  Body body;
  /// Where an element takes part, one condition for each part of the pass: what `segments` are made of by analyse_masks, for other tile sizes. Empty where
  /// they are not: a resident axis, partial states that are merged, bounds that a step in front finds.
  std::vector<Expr> presents;
};
/// if any coordinate of `axes` satisfies condition: body. The vote may be taken over any superset of the coordinates that share data (a warp, a block, or one coordinate);
/// the body is right, if slower, for coordinates that do not need it.
struct When {
  Expr condition;
  std::vector<Sym> axes;
  Body body;
  bool slow_path = false;
};

// One list generates dispatch.
#define TW_TILE_STMTS(X) X(Load) X(Store) X(Map) X(Dot) X(Reduce) X(Rank) X(Loop) X(When)

struct Stmt {
  std::variant<Load, Store, Map, Dot, Reduce, Rank, Loop, When> node;
  std::string comment;  ///< from the derivation, printed behind the statement
};

/// A scalar that the host computes once for a launch from sizes and params (f64).
struct HostScalar {
  Sym sym;
  Expr value;
};

/// An array between kernels (split parts; f32, f64, i64 for indices of lists), or one that a step in front of the kernel fills (ChunkTable; i64). Row-major over axes.
struct Workspace {
  Sym sym;
  std::vector<Sym> axes;
  DType dtype = DType::f32;
};

/// Chunks that a block visits where the mask reads arrays: a step in front of the kernel finds them, on the host (tile/chunk_table.h) or on the device by the
/// same rule (ChunkStep of map/mapped.h).
struct ChunkTable {
  Sym table;  ///< a workspace of i64: for each block of `rows` begin, full_begin, full_end and limit, in chunks
  std::vector<KernelAxis> rows;  ///< grid axes that the mask or the stream's range depends on
  KernelAxis stream;
  Expr some, every;         ///< where an element is needed by some part of the pass, and by all of it
  std::vector<Sym> bounds;  ///< the row of the block under way, in segments: four symbols of kind Variable
  std::vector<Expr> index() const;  ///< of the first of them in `table`, over counters
};

struct TileKernel {
  std::string name;
  std::vector<KernelAxis> grid;   ///< Group (and Part) axes, outermost first
  std::vector<KernelAxis> inner;  ///< Stream, Resident, Whole axes
  std::vector<Tile> tiles;
  Body body;
  std::vector<ChunkTable> chunk_tables;
  bool heaviest_first =
      false;  ///< blocks of the last grid axis are ordered from the end (masks make them heavier)

  const KernelAxis& axis(Sym index) const;
  const Tile& tile(Sym sym) const;
};

struct TileProgram {
  std::string name;
  std::vector<Axis> axes;  ///< the program's, and axes of parts (size an expression over other sizes)
  std::vector<HostScalar> scalars;
  std::vector<Workspace> workspaces;
  std::vector<TileKernel> kernels;  ///< run in order
  Plan plan;
};

/// Plan -> tile program. Deterministic: the same derivation and plan give the same text up to names.
TileProgram build_tiles(const Program& elaborated, const Derivation& d, const Plan& plan);

/// Readable pseudocode. `canonical` renames everything by order of occurrence, so that two programs equal up to names print the same.
std::string print(const Program& p, const TileProgram& t, bool canonical = false);

/// The mask of a streamed axis, analysed by intervals for one block: chunks [begin, limit) hold elements that may be present; of those [full_begin, full_end)
/// are wholly present and inside the array. Expressions over grid counters and sizes; begin <= full_begin <= full_end <= limit for all values.
struct MaskBounds {
  Expr begin, full_begin, full_end, limit;
  Expr stop;  ///< elements from there on are absent (null: not known)
};
/// `block` gives elements of a block or chunk of an axis, where they are not the kernel's own (null): positive integers, also symbols.
using BlockOf = std::function<Expr(const KernelAxis&)>;
MaskBounds analyse_mask(Expr present, const TileKernel& k, const KernelAxis& stream,
                        const BlockOf& block = {});
/// The same of a loop whose parts need an element where their own of `presents` holds: visited is what some part needs, wholly present what every part needs.
MaskBounds analyse_masks(const std::vector<Expr>& presents, const TileKernel& k, const KernelAxis& stream,
                         const BlockOf& block = {});
/// The ranges of chunks that the bounds mean: masked, plain, masked; empty ones are left out.
std::vector<Segment> segments_of(const MaskBounds& bounds);

}  // namespace tilewright
