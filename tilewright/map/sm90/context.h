// What the phases of the mapping of one kernel share. In order:
//   survey()            what is staged in shared memory, which products there are, how axes lie on threads
//   allocate()          buffers, rings, channels, tensor maps
//   loading_role()      copies into rings
//   making_role()       tiles without rows, into rings
//   computing_role()    statements to ops, waits, pipelines
//   collect_arguments() what the ops read
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tilewright/map/mapped.h"
#include "tilewright/map/sm90/distribution.h"

namespace tilewright::hopper {

/// A Dot and how it is computed.
struct Product {
  const Dot* dot = nullptr;
  const Body* body = nullptr;  ///< where it stands
  size_t number = 0;           ///< statement of the body
  bool in_masked = false;      ///< some masked segment runs it
  Sym a, b;                    ///< operands in the order of the atom: a has the rows
  Sym row, column;             ///< axes of the result; null where it has none
  bool tensor_core = false;    ///< by wgmma; else by FMA instructions
  std::string atom;
  Sym scratch;    ///< Local copy of a register operand for FMA products; null: not needed
  Sym scratched;  ///< the operand copied there

  /// How terms that are absent contribute nothing in masked chunks.
  enum class Absent : uint8_t {
    None,          ///< none is
    Zero,          ///< the register operand is zero there
    Select,        ///< the register operand is set to zero there first
    Instructions,  ///< FMA instructions skip them
  } absent = Absent::None;
  Expr condition;           ///< present, for FMA: parts that other threads know are read from condition_tile
  Sym condition_tile;       ///< Local; null: not needed
  Sym condition_registers;  ///< the same in registers, from where it is copied; null: not needed
  Expr condition_value;     ///< what condition_tile holds
  std::vector<Sym> condition_axes;
};

/// A tile that the computing threads make in shared memory, because two of its axes would lie along the same threads.
struct Made {
  Sym tile;
  Sym inner;                 ///< the axis that is contiguous
  bool tensor_core = false;  ///< some product reads it through the asynchronous proxy
};

/// A tile at Level::Shared.
struct Staged {
  const Tile* tile = nullptr;
  const Load* load = nullptr;      ///< null: made beside
  std::vector<const Loop*> loops;  ///< that load it; empty: loaded once
  bool tensor_core = false;        ///< some product reads it through the asynchronous proxy
  bool bulk = false;               ///< copied by the bulk copy engine
  int channel = -1;                ///< −1: the computing threads copy it themselves
  bool read_beside = false;        ///< the making role reads it
  bool carried = false;  ///< made beside from chunk to chunk: use u of the ring is what it is after u chunks
  Sym sum;               ///< carried: what the making role accumulates to
  bool ring = false;     ///< they copy it some chunks ahead (sm80/rings.cc)
  /// Bulk: one copy, its coordinates over global index symbols (the streamed axis is replaced by its origin where the copy is issued).
  struct Piece {
    int map = 0;
    std::vector<Expr> coordinates;
    int64_t bytes = 0, offset = 0;
  };
  std::vector<Piece> pieces;
  /// Who signals that a slot is filled or free: each thread that wrote or read it by instructions, so that its own arrival orders what it did (decision 86); one
  /// of a warp where the copy engine writes.
  Scope signals() const { return bulk ? Scope::Warp : Scope::Thread; }
};

/// Where the streamed axis stands.
struct Position {
  const Loop* loop = nullptr;  ///< null: outside of loops
  Expr chunk;                  ///< chunk number
  Expr ordinal;                ///< how many chunks of the loop came before
  bool masked = false;
};

/// One segment of a loop with its bounds in variables of the role.
struct SegmentVars {
  Expr lo, hi;
  Expr before;  ///< chunks of the loop in earlier segments
  Expr
      first;  ///< chunk to begin with, where those in front of it were taken together with the segment before (null: lo)
  bool masked = false, empty = false;
  bool last = false;      ///< nothing is streamed behind it
  bool backward = false;  ///< chunks are taken from its end
};

struct Context {
  Context(const Program& p, const TileProgram& t, const TileKernel& k, const Machine& m, LayoutClass l)
      : program(p), tiles(t), kernel(k), machine(m), layout(l) {}

  const Program& program;
  const TileProgram& tiles;
  TileKernel kernel;  ///< with literal sizes put in
  const Machine& machine;
  LayoutClass layout;

  MappedKernel out;
  std::vector<LayoutGuard> guards;
  int loaders = 0, groups = 1;
  int load_role = -1, compute_role = 0;
  bool has_products = false;
  Sym row;  ///< axis of the 64 rows of a group; null: none
  Distribution distribution;
  std::vector<Product> products;
  std::vector<Staged> staged;
  std::vector<Made> made;
  std::vector<const Loop*> loops;
  bool may_use_rings = true;       ///< register tiles may be loaded through rings
  bool may_make_beside = true;     ///< there may be a making role
  std::vector<Sym> through_rings;  ///< rings that register tiles are loaded through
  int makers = 0;                  ///< its threads
  std::set<const Stmt*> beside;    ///< its statements
  std::vector<Sym> kept_beside;    ///< tiles that it alone reads
  /// Blocks take elements of the grid in turn: rings and their signals go on from one element to the next.
  bool persistent = false;
  Sym ordinal;  ///< persistent: elements that the block took before
  std::map<const Loop*, Sym>
      used;  ///< persistent: chunks of each loop that fills rings in elements before this one

  const Tile& tile(Sym s) const { return kernel.tile(s); }
  const KernelAxis& axis(Sym index) const { return kernel.axis(index); }
  Staged* find_staged(Sym tile);
  Made* find_made(Sym tile);
  bool has_ring(const Loop& loop) const;  ///< the computing threads copy tiles of the loop some chunks ahead
  Product& product(const Dot& dot);
  /// Number of elements of an axis in a tile, padding included.
  int64_t extent(Sym axis) const;
  /// index < end of the axis: what lies outside does not exist. Null where every coordinate of a tile exists.
  Expr inside(Sym axis, bool masked) const;
  /// Origins of the axes of an op.
  Frame frame(const Position& at, const std::vector<Sym>& with_extent = {}) const;
  /// Use number of a ring.
  Expr use(const Staged& s, const Position& at) const;
  /// Where the counter of a loop over the segment, from lo on, stands.
  Position position(const Loop& loop, const SegmentVars& segment, Expr counter) const;
  /// Where scores grow or fall with the position and a mask ends the stream, the loop runs backward: chunks near the end of the mask, whose scores are the largest of
  /// positions that count from there, come first, and the reference point of a state is found at once instead of moving in every chunk.
  bool backward(const Loop& loop) const;
  /// Definitions of the segments of `loop` for one role, in the order in which they are taken; appends Define ops. `count_all`: the chunks of the last segment are counted too.
  std::vector<SegmentVars> segments(const Loop& loop, Ops& ops, bool count_all = false);
  /// Chunks of `loop` (variables that segments() defined in this role).
  std::map<const Loop*, Expr> loop_total;
  /// The role's signals guard the tile within `loop` (null: outside of loops, where kept tiles are loaded for each element of the grid).
  bool guarded(const Staged& s, const Loop* loop) const;
  /// Persistent: wraps what a role does for one element of the grid into the loop over those of the block.
  Ops for_each_item(Ops body) const;
  void add_guard(Sym tensor, bool unit_inner, int align);
  std::vector<Dim> dims(Sym tensor) const;  ///< memory dimensions of an input, output or workspace
  Sym stride(Sym tensor, int dim);          ///< always the same symbol
  std::map<std::pair<Sym, int>, Sym> strides;
  /// Products by single warps and copies in groups, as sm_80 and later have them, without a loading role; else by groups of warps and bulk copies of sm_90a.
  bool by_warps = false;
};

/// The steps that fill the program's chunk tables on the device.
std::vector<ChunkStep> chunk_steps(const Program& elaborated, const TileProgram& t);
/// Maps every kernel (sm90.cc). `by_warps`: Context::by_warps of a kernel.
MappedProgram map_kernels(const Program& elaborated, const TileProgram& t, const Machine& m,
                          LayoutClass layout, const std::function<bool(const TileKernel&)>& by_warps);
void survey(Context& c);
/// Register tiles that are loaded in every chunk come through rings, from where threads take what they hold: copies are then under way ahead of time, and
/// memory is read in whole rows.
void load_through_rings(Context& c);
/// Rewrites the kernel with less work per element: votes about the largest value of a row, operands that are cleaned only where a vote asks for it, factors
/// of rows beside constants, positions added where they are needed, values that a slow path needs made there.
void spare_element_work(Context& c);
/// Register tiles with two axes along the same threads, and the loads they are made from, go to shared memory. UserError where threads hold what such
/// a tile is made from.
void share_crowded(Context& c);
/// Elements where the condition holds lie inside of the streamed axis, whatever the coordinates along other axes are inside of theirs.
bool implies_inside(const Context& c, Expr condition, Sym axis);
/// Indices of copies to shared memory that tiles hold are read from the arrays that the tiles are loaded from.
void read_indices_in_place(Context& c);
/// Whether the tile is copied 16 bytes at a time by instructions: the array has its element type and runs along the last memory dimension as the tile does in shared memory. Not
/// single rows, whose length would have to be a multiple of that.
bool in_units(const Context& c, const Staged& s);
/// How the product leaves out absent terms in masked chunks. UserError where no thread can know which are.
void choose_absent(Context& c, Product& p);
/// Tiles without rows that every computing thread would reduce alike are made once for each chunk by threads beside the one that loads.
void choose_beside(Context& c);
void allocate(Context& c);
/// Buffers of what the making role keeps to itself.
void allocate_beside(Context& c);
/// Makes the kernel persistent where the plan asks for it and a role loads ahead; takes sections of the grid from the plan.
void order_grid(Context& c);
/// Registers of a thread of the computing role with so many groups, beside a loading group, and how many of them are for addresses, descriptors and loop counters.
constexpr int64_t registers_of_thread(int groups) { return groups <= 2 ? 240 : groups == 3 ? 160 : 112; }
constexpr int64_t registers_beside_tiles = 40;
/// Registers of a thread that a tile takes.
inline int64_t words_of_thread(const Buffer& b) { return (b.layout.elements() * bytes(b.dtype) + 3) / 4; }
Role loading_role(Context& c);
Role making_role(Context& c);
Role computing_role(Context& c);
void collect_arguments(Context& c);
/// Sums over chunks stay parts of lanes where all that they enter is linear; the parts are added up behind the loop (lane_sums.cc).
void keep_lane_sums(MappedKernel& k, Ops& body);
/// Maps that round what a vote may compute again move in front of the vote (sm80/round_early.cc).
void round_early(const MappedKernel& k, Ops& ops);
/// Moves the map at `at` of `ops` in front of the last vote before it; false where it has to stay.
bool round_before_vote(const MappedKernel& k, Ops& ops, size_t at);
/// UserError when the buffers in shared memory need more than there is.
void check_shared(const Context& c);

/// Tiles that a statement reads (bodies of When included) or writes.
std::vector<Sym> tiles_read(const Context& c, const Stmt& s);
std::vector<Sym> tiles_written(const Stmt& s);
Expr identity(Reducer r);
Expr sum_of(Expr a, Expr b);      ///< without zeros
Expr product_of(Expr a, Expr b);  ///< without ones
int64_t literal(Expr e, int64_t otherwise);
/// Each box of a bulk copy begins where the engine can read: at a multiple of 16 bytes along the last dimension of the array. `inner`: the axis of the tile that runs along it.
bool begins_at_units(const Context& c, const Load& load, Sym inner, DType dtype);

}  // namespace tilewright::hopper
