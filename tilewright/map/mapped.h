// The mapped program: who does what, where, in which layout, and who waits for whom. An emitter prints it and decides nothing.
//
// One set of concepts carries every target: spaces, layouts, buffers, atoms, roles, channels (docs/mapped.md).
//  - A block (GPU) or task (CPU) runs all roles at once; each role is a set of `threads` owners with a body of ops executed by all of them together.
//  - Expressions read buffers as Read(buffer, index symbols) and mention index symbols by their global value; a Frame says where a tile lies.
//  - Waiting is only on channels, groups and barriers.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "tilewright/hardware/layout.h"
#include "tilewright/hardware/machine.h"
#include "tilewright/map/atom.h"
#include "tilewright/tile/tile_program.h"

namespace tilewright {

/// Memory: arrays and workspaces. Local: shared memory of a block, or task-local memory of a CPU. Registers: of the threads of one role.
enum class Space : uint8_t { Memory, Local, Registers };

struct Buffer {
  Sym sym;                   ///< kind Tile; expressions read it by this symbol
  std::vector<Sym> axes;     ///< index symbols
  DType dtype = DType::f32;  ///< element type as held
  Space space = Space::Registers;
  Layout layout;           ///< ignored for Memory views
  int slots = 1;           ///< ring slots (Local)
  int64_t alignment = 16;  ///< bytes (Local); every slot is aligned to it
  int role = -1;           ///< Registers: the role that owns it
  Sym shares;  ///< Local: lies in the bytes of this buffer, slot on slot (null: its own); same slots and element size
  /// Memory view: the tile is read where it lies, at tensor[index] (index over global index symbols); no copy.
  Sym tensor;
  std::vector<Expr> index;
  std::string comment;

  int64_t slot_bytes() const;  ///< of one slot, rounded up to the alignment
};

/// A ring's signals. `use` numbers (0, 1, 2 …) count uses of the ring; slot = use % slots, phase = use / slots. full completes when
/// `full_arrivals` arrivals and all expected bytes have come; empty when `empty_arrivals` have.
struct Channel {
  std::string name;
  std::vector<Sym> buffers;  ///< what it guards
  int slots = 1;
  int full_arrivals = 1, empty_arrivals = 1;
};

/// Where the tile of an op lies: global index = origin + local coordinate. `extent`: run-time clipped extent (null: the whole tile; then elements outside the
/// arrays are handled by the op's expressions, by zero fill and by clipped stores).
struct AxisFrame {
  Sym axis;
  Expr origin;
  Expr extent;
};
using Frame = std::vector<AxisFrame>;

/// An op that reads memory runs again on what lies `elements` further along `axis` (null: it does not), which may be brought near meanwhile; a hint that
/// changes no value.
struct Ahead {
  Sym axis;
  int64_t elements = 0;
};

/// Part `part` of `parts` of what a view of memory holds, as Ahead says.
struct Share {
  Sym view;
  Ahead ahead;
  int part = 0, parts = 1;
};

/// Which slot of a ring an op touches.
struct Use {
  Sym buffer;
  Expr number;
};

struct MappedOp;
using Ops = std::vector<MappedOp>;

/// Computes a scalar (loop bounds, origins), the same in all threads. `again`: a variable that was defined outside of the loop around takes a new value.
struct Define {
  Sym var;
  Expr value;
  bool again = false;
};
/// var = tensor[index], an integer of a workspace, the same in all threads.
struct Fetch {
  Sym var;
  Sym tensor;
  std::vector<Expr> index;
};
struct MappedLoop {
  Sym var;
  Expr lo, hi;
  Ops body;
};
/// In a persistent kernel: the body runs for each element of the grid that the block takes, with the counters of that element; `ordinal` counts them from 0.
/// Each role runs through them by itself.
struct Items {
  Sym ordinal;
  Ops body;
};
struct If {
  Expr condition;
  Ops then, otherwise;
};
/// Votes over the owners of `scope`; the body runs when any coordinate of any owner satisfies `condition` (over frame axes).
enum class Scope : uint8_t { Thread, Warp, Group, Role, Block };
struct Vote {
  Expr condition;
  std::vector<Sym> axes;
  Frame frame;
  std::vector<Use> uses;
  Scope scope = Scope::Warp;
  Ops then, otherwise;
};

/// Reports in the error word of the launch that a check failed (map/checks.h).
struct Fail {
  int check = 0;  ///< number in MappedProgram::checks
};

struct Wait {
  int channel = 0;
  bool full = true;
  Expr use;
};  ///< all threads of the role
struct Arrive {
  int channel = 0;
  bool full = false;
  Expr use;
  Scope per = Scope::Warp;
};  ///< one arrival per scope instance
/// Asynchronous copy memory → Local by one elected thread, completing on channel.full(use), whose bytes it announces. Zero fill outside the array.
struct CopyAsync {
  std::string atom;
  Sym buffer;
  Expr use;
  int channel = 0;
  int tensor_map = 0;
  std::vector<Expr> coordinates;
  int64_t bytes = 0;
  int64_t offset = 0;
};  ///< elements behind the start of the slot where the box lands (several copies may fill one slot)
/// Synchronous copy memory → Local or Registers by all threads of the role; converts dtype, zero fill outside the array (and outside frame extents up to the layout's padding).
/// `present` is that of Load: null where every index is proved to lie inside the tensor; else an index outside it is an error where it holds, and where it does
/// not nothing is read and any value will do. `checks`: for each index its number in MappedProgram::checks, −1 where it is proved to lie inside; empty: all are.
/// `in_place`: products alone read the buffer, as their lanes, and where this condition on sizes holds so seldom that they may read memory where it lies instead,
/// if lanes are contiguous there (null: never); a hint that changes no value.
/// An atom that completes in groups copies asynchronously and unchanged, 16 bytes at a time: the copy joins the open group of copies of the role (CopyCommit,
/// CopyWait), and the slot must not be touched before the wait for it.
struct Copy {
  std::string atom;
  Sym buffer;
  Expr use;
  Sym tensor;
  std::vector<Expr> index;
  Frame frame;
  Expr present;
  std::vector<int> checks;
  Ahead ahead;
  Expr in_place;
};
/// Synchronous store to memory, clipped to the array (and frame extents); rounds to the tensor's dtype.
struct StoreOut {
  std::string atom;
  Sym buffer;
  Sym tensor;
  std::vector<Expr> index;
  Frame frame;
  Expr past;  ///< on a CPU, where this holds: past the caches, a hint (null: never)
};
/// Asynchronous store Local → memory by one elected thread of `scope` through a tensor map, in a bulk group (BulkWait); clipped by the map.
struct StoreAsync {
  std::string atom;
  Sym buffer;
  int tensor_map = 0;
  std::vector<Expr> coordinates;
  Scope per = Scope::Role;
};
struct BulkWait {};  ///< the elected thread waits until its bulk stores have read their source
/// d (+)= a·b over the contracted axes, by an atom of the target. On a target whose atom is asynchronous it joins the open group. `next`: a view of memory whose
/// part at next_frame is read by what follows, and may be brought near meanwhile (null: none); a hint that changes no value.
struct Mma {
  std::string atom;
  Sym d, a, b;
  std::vector<Sym> contracted;
  bool zero = false;
  std::vector<Use> uses;
  Frame frame;
  Sym next;
  Frame next_frame;
};
struct MmaFence {};  ///< orders register writes before asynchronous products that read or accumulate them
struct Commit {};    ///< closes the open group
struct WaitGroup {
  int pending = 0;
};                     ///< until at most `pending` groups are in flight
struct CopyCommit {};  ///< closes the open group of copies
/// Until at most `pending` groups of copies are in flight. What the others wrote is then known to the threads that issued them; to the rest behind a barrier.
struct CopyWait {
  int pending = 0;
};
struct ProxyFence {};  ///< generic writes to Local become visible to asynchronous readers
struct Barrier {
  int id = 0;
  Scope scope = Scope::Role;
};
/// buffer = value at every coordinate (rounds to the buffer's dtype).
struct MapOp {
  Sym buffer;
  Expr value;
  Frame frame;
  std::vector<Use> uses;
};
/// buffer (combined)= reducer over axes of value. Value's register operands must be held by owners that hold the result; partial results are combined across
/// `across`: Thread (no exchange), Warp (lane exchange), Group/Role (through `scratch`, a Local buffer, with barriers inside).
/// Without an exchange copies of an element hold the parts of their threads; without axes the copies are combined (sm90/lane_sums.cc).
struct ReduceOp {
  Sym buffer;
  Reducer reducer;
  std::vector<Sym> axes;
  Expr value;
  bool accumulate = false;
  Frame frame;
  std::vector<Use> uses;
  Scope across = Scope::Thread;
  Sym scratch;
  Ahead ahead;
  std::vector<Share> shares;
};

/// Sorted lists take in the pairs (value, at) along `axis`, one after another, as Rank of tile programs says; where `present` is given, those for which it
/// holds. A list and the pairs that it takes in belong to one thread.
struct RankOp {
  Sym keys, indices;
  Sym rank, axis;
  Expr value, at, present;
  Frame frame;  ///< of the axes of the lists, `rank` among them, and of `axis`
  std::vector<Use> uses;
};

// One list generates dispatch.
// clang-format off
#define TW_MAPPED_OPS(X)                                                                        \
  X(Define) X(Fetch) X(MappedLoop) X(Items) X(If) X(Vote) X(Fail)                               \
  X(Wait) X(Arrive) X(CopyAsync) X(Copy) X(StoreOut) X(StoreAsync) X(BulkWait)                  \
  X(Mma) X(MmaFence) X(Commit) X(WaitGroup) X(CopyCommit) X(CopyWait) X(ProxyFence) X(Barrier)  \
  X(MapOp) X(ReduceOp) X(RankOp)
// clang-format on

struct MappedOp {
  std::variant<Define, Fetch, MappedLoop, Items, If, Vote, Fail, Wait, Arrive, CopyAsync, Copy, StoreOut,
               StoreAsync, BulkWait, Mma, MmaFence, Commit, WaitGroup, CopyCommit, CopyWait, ProxyFence,
               Barrier, MapOp, ReduceOp, RankOp>
      node;
  std::string comment;
};

/// Calls f for each body inside an op.
template <class Op, class F>
void for_each_body(Op& op, const F& f) {
  if (auto* x = std::get_if<MappedLoop>(&op.node)) f(x->body);
  if (auto* x = std::get_if<Items>(&op.node)) f(x->body);
  if (auto* x = std::get_if<If>(&op.node)) f(x->then), f(x->otherwise);
  if (auto* x = std::get_if<Vote>(&op.node)) f(x->then), f(x->otherwise);
}
/// Calls f for every op of a body and of the bodies inside, an op before those inside it.
template <class Body, class F>
void for_each_op(Body& ops, const F& f) {
  for (auto& op : ops) {
    f(op);
    for_each_body(op, [&](auto& inside) { for_each_op(inside, f); });
  }
}

struct Role {
  std::string name;  ///< "load", "compute", "task"
  int threads = 1;
  int group = 1;      ///< threads of a Scope::Group (128 on sm_90a)
  int registers = 0;  ///< budget per thread; 0: whatever the compiler takes
  Ops body;
};

/// One 8-byte word of a kernel's argument list, in order.
struct Argument {
  enum class Kind : uint8_t { Pointer, Stride, Size, Scalar, Error };
  Kind kind;
  Sym sym;  ///< Pointer: tensor or workspace. Stride: the symbol of the stride. Size: the size symbol. Scalar: host scalar or param (passed as f64).
            ///< Error: names the address of the launch's error word (map/checks.h)
  Sym tensor;   ///< Stride: whose
  int dim = 0;  ///< Stride: memory dimension (elements)
};

/// A view of an array for bulk tensor copies. Dimension 0 is contiguous. Strides in elements over Stride symbols.
struct TensorMap {
  Sym tensor;
  DType dtype = DType::f16;
  struct Dimension {
    Expr size, stride;
    int box = 1;
  };
  std::vector<Dimension> dims;
  int swizzle_bytes = 128;
  std::string name;
};

/// What the arrays must satisfy for a mapping to be used: stride 1 along the last memory dimension; base and all other strides multiples of `align` bytes.
struct LayoutGuard {
  Sym tensor;
  bool unit_inner = false;
  int align = 1;
};

struct MappedKernel {
  std::string name;
  std::vector<KernelAxis>
      grid;  ///< outermost first; an element's number decodes into the counters (grid_counters)
  bool heaviest_first = false;  ///< the last axis is taken from its end
  Sym sectioned;  ///< grid axis, not the last, that is taken `section` blocks at a time (null: none)
  Expr section;   ///< blocks, over sizes
  bool persistent =
      false;  ///< blocks take elements of the grid in turn (Items); else there is a block for each
  std::vector<Sym>
      at_least_one;  ///< grid axes that have a block even when they are empty, because an array without the axis is stored
  std::vector<Buffer> buffers;
  std::vector<Channel> channels;
  std::vector<Role> roles;  ///< thread ranges in this order... loaders first or last: see `docs/mapped.md`
  std::vector<Argument> arguments;
  std::vector<TensorMap> tensor_maps;
  int64_t tile_registers =
      0;  ///< of a thread that computes, on a GPU: the most that tiles take at once, by their lifetimes
  std::vector<Sym> index32;  ///< reserved: index symbols proved to fit 32 bits

  const Buffer& buffer(Sym s) const;
  int64_t local_bytes() const;  ///< of all Local buffers, aligned, plus channel signals (16 bytes a slot)
  /// Byte offset of slot 0 of a Local buffer: buffers lie in descending order of alignment, then in the order of `buffers`.
  int64_t local_offset(Sym s) const;
  /// Byte offset of a channel's signals, behind all buffers: full of slot k at +16·k, empty at +16·k + 8.
  int64_t signal_offset(int channel) const;
  int threads() const;
};

/// Counters of element `number` of the grid; `counts`: blocks along each axis; `section`: blocks of a section. The last axis varies fastest. Axes from `sectioned` on are
/// taken section by section: in a section the last axis varies slowest, and of the others, the section's blocks among them, the last varies fastest.
std::vector<int64_t> grid_counters(const MappedKernel& k, const std::vector<int64_t>& counts, int64_t section,
                                   int64_t number);
/// The element that a block of a persistent kernel takes as its `ordinal`th. Blocks take turns forth and back, so that where elements grow lighter each gets as much;
/// once the number is beyond the grid the block is through.
int64_t item_number(int64_t ordinal, int64_t block, int64_t blocks);

/// A test made as a kernel runs: of an index of `tensor` along one of its axes, or of the divisor of an integer.
struct RunCheck {
  Sym tensor, axis;
  Expr division;  ///< the quotient or remainder; null for an index
};

/// A kernel that runs in front of the others and fills a chunk table on the device, with a block of threads for each row (emit/cuda_chunks.cc).
struct ChunkStep {
  std::string name;
  ChunkTable table;
  std::vector<Argument> arguments;  ///< the table first
  static constexpr int threads = 512;
};

struct MappedProgram {
  std::string name;
  Target target = Target::Cpu;
  Machine machine;
  std::vector<Axis> axes;
  std::vector<HostScalar> scalars;
  std::vector<Workspace> workspaces;
  std::vector<ChunkTable> chunk_tables;  ///< workspaces that are filled before the kernels run
  std::vector<ChunkStep> chunk_steps;    ///< that fill them; empty: the host does
  std::vector<MappedKernel> kernels;
  std::vector<LayoutGuard> layout;  ///< all must hold
  std::vector<RunCheck> checks;     ///< by number
};

/// Aligned: bulk or vector accesses allowed, guarded by MappedProgram::layout. General: any strides.
enum class LayoutClass : uint8_t { Aligned, General };

/// Chooses atoms, roles, rings and layouts from the dependence graph of the tile program and the plan's attributes. UserError when the plan does not
/// fit (what it needs, what there is); nullopt-like refusals by name.
MappedProgram map_cpu(const Program& elaborated, const TileProgram& t, const Machine& m, LayoutClass layout);
MappedProgram map_sm90(const Program& elaborated, const TileProgram& t, const Machine& m, LayoutClass layout);
MappedProgram map_sm80(const Program& elaborated, const TileProgram& t, const Machine& m, LayoutClass layout);
/// The mapping for the architecture of a GPU: map_sm90 for sm_90a, but for kernels whose products are of f32 operands, and map_sm80 for others.
MappedProgram map_gpu(const Program& elaborated, const TileProgram& t, const Machine& m, LayoutClass layout);

/// All tables of the program's kernels.
std::vector<ChunkTable> chunk_tables(const TileProgram& t);
/// Fetches the bounds that the loop's segments mention, if they are found before the kernel runs.
void fetch_chunks(const TileKernel& k, const Loop& loop, Ops& ops);

/// Readable text of every op, buffer and channel.
std::string print(const Program& p, const MappedProgram& m);
/// One op in one line, without the bodies of loops and branches.
std::string print(const MappedKernel& k, const MappedOp& op);

/// Offset in elements of tensor[index] over Stride symbols (composite dimensions expanded: piece stride = stride × sizes of the pieces inside).
Expr element_offset(const std::vector<Dim>& dims, const std::vector<Expr>& index,
                    const std::vector<Sym>& strides);
/// Memory dims of an input, output or workspace of the program.
std::vector<Dim> memory_dims(const Program& p, const MappedProgram& m, Sym tensor);

}  // namespace tilewright
