// Inside of the interpreter of mapped programs: the machine that runs one kernel.
#pragma once
#include <memory>
#include <random>

#include "tilewright/map/interpreter.h"
#include "tilewright/map/interpreter_state.h"

namespace tilewright::emulation {

struct MmaTables;

/// All that outlives a kernel. A copy has scalars of its own and shares the arrays.
struct Environment {
  const Program& program;
  const MappedProgram& mapped;
  Symbols symbols;
  Scalars scalars;                               ///< sizes, params, host scalars
  std::map<Sym, std::shared_ptr<Array>> arrays;  ///< inputs, outputs, workspaces
};

class Runner {
 public:
  Runner(Environment& env, const MappedKernel& kernel, int kernel_number, const Adversary& adversary);
  ~Runner();
  int64_t blocks() const { return blocks_; }  ///< that are launched
  /// Interprets one block. What it does depends on the adversary and `number` alone, so blocks may be shared out
  /// between runners in threads of their own.
  void run_block(int64_t number);

 private:
  // interpreter_runner.cc: blocks, roles, control flow
  void start_block(int64_t number);
  std::string set_counters(Scalars& scalars, int64_t element) const;  ///< of the grid; their text
  void begin_item(RoleState& r, const Items& op, int64_t ordinal);
  void run_roles();
  void end_block();
  bool step(RoleState& r);  ///< executes one op; false: it must wait
  bool next_op(RoleState& r);
  bool pass_block_barrier(RoleState& r, const Barrier& b);
  void complete_one();  ///< some asynchronous op in flight, by the adversary's choice
  bool anything_in_flight() const;
  [[noreturn]] void deadlock();
  double scalar(RoleState& r, Expr e);
  int64_t integer(RoleState& r, Expr e);
  [[noreturn]] void fault(MappedFault::Kind kind, const RoleState& r, const std::string& what);
  std::string slot_name(const Buffer& b, int64_t slot) const;

  void execute(RoleState& r, const Define& op);
  void execute(RoleState& r, const Fetch& op);
  void execute(RoleState& r, const MappedLoop& op);
  void execute(RoleState& r, const Items& op);
  void execute(RoleState& r, const If& op);
  void execute(RoleState& r, const Vote& op);
  void execute(RoleState& r, const Fail& op);
  void execute(RoleState& r, const Arrive& op);
  void execute(RoleState& r, const CopyAsync& op);
  void execute(RoleState& r, const Copy& op);
  void execute(RoleState& r, const StoreOut& op);
  void execute(RoleState& r, const StoreAsync& op);
  void execute(RoleState& r, const BulkWait& op);
  void execute(RoleState& r, const Mma& op);
  void execute(RoleState& r, const MmaFence& op);
  void execute(RoleState& r, const Commit& op);
  void execute(RoleState& r, const WaitGroup& op);
  void execute(RoleState& r, const CopyCommit& op);
  void execute(RoleState& r, const CopyWait& op);
  void execute(RoleState& r, const ProxyFence& op);
  void execute(RoleState& r, const Barrier& op);
  void execute(RoleState& r, const MapOp& op);
  void execute(RoleState& r, const ReduceOp& op);
  void execute(RoleState& r, const RankOp& op);

  // interpreter_order.cc: what is ordered before what
  Unit unit(const RoleState& r, Scope level,
            int index) const;  ///< widened instances that hold nothing else are narrowed
  Unit cover(const RoleState& r, Unit a, Unit b) const;  ///< the smallest set that holds both
  bool ordered(const RoleState& r, int64_t time, Unit first, Unit second) const;  ///< within one role
  bool knows(const RoleState& r, const Access& a, Unit u) const;
  bool fenced(const RoleState& r, const Access& a) const;
  int64_t barrier_time(const RoleState& r,
                       Scope level) const;  ///< of the last barrier of all active instances
  int active_instances(const RoleState& r, Scope level) const;
  void require_level(const RoleState& r, Scope level, const char* what);
  Slot& slot_state(const Buffer& b, int slot);
  void read_local(RoleState& r, const Buffer& b, int slot, Slot& s, int64_t element, Unit u);
  void write_local(RoleState& r, const Buffer& b, int slot, Slot& s, int64_t element, Unit u);
  void read_slot(RoleState& r, const Buffer& b, int slot);  ///< once before the elements of an op are read
  void read_by_product(RoleState& r, const Buffer& b, int slot, const std::vector<int8_t>& region,
                       uint64_t id);
  void read_by_store(RoleState& r, const Buffer& b, int slot, int64_t begin, int64_t end,
                     const StoreAsync& op, uint64_t id);
  void write_by_copy(RoleState& r, const Buffer& b, int slot, int64_t begin, int64_t end, int agent,
                     int64_t phase);
  void touch_registers(RoleState& r, const Buffer& b, bool write);
  void touch_by_product(RoleState& r, const Buffer& b, bool as_d);
  void await(RoleState& r, uint64_t id);  ///< reads of this product or store are over
  bool try_wait(RoleState& r, const Wait& op);
  void arrive(RoleState& r, int channel, bool full, int64_t use, int count, Scope per);
  void advance(int channel, bool full, int slot);  ///< completes the phase when it is due
  Signal& signal(int channel, bool full, int64_t slot);

  // interpreter_points.cc: ops over points
  struct FrameScope;
  PointProgram::Context context(RoleState& r, const Points& points);
  TileRead tile_read(RoleState& r, Expr read, const Points& points);
  Expr without_views(Expr e) const;
  std::vector<int> tiles_of(Expr e, Space space) const;
  const BufferState* widest(const std::vector<int>& buffers) const;  ///< the one with most axes
  bool is_wide(const std::vector<Expr>& exprs) const;
  std::optional<int64_t> axis_extent(Sym axis, const std::vector<int>& buffers) const;
  int buffer_index(Sym s) const;
  int slot_of(RoleState& r, const Buffer& b, const std::vector<Use>& uses);
  int slot_of_written(RoleState& r, const Buffer& b, const std::vector<Use>& uses);
  double* slot_data(const Buffer& b, int slot);
  Slot& tracked(const Buffer& b, int slot);  ///< with records of every element
  Unit owner_unit(const RoleState& r, int owner) const;
  void compile(RoleState& r, PointOp& op, const std::vector<Expr>& values, bool wide);
  void find_readers(RoleState& r, PointOp& op);  ///< of its active points
  void begin(RoleState& r, PointOp& op, const FrameScope& frame, const std::vector<Use>& uses);
  double* begin_write(RoleState& r, const Buffer& b, int slot, const PointOp& op);
  /// Calls commit(point, lane) for each point that is computed; results are in the program's outputs at `lane`.
  template <class F>
  void run_points(RoleState& r, PointOp& op, const FrameScope& frame, F commit);
  bool inside_arrays(const RoleState& r, const PointOp& op, const FrameScope& frame, size_t point) const;
  [[noreturn]] void bad_read(RoleState& r, const PointOp& op, const FrameScope& frame, const BadRead& bad);
  std::string where(const PointOp& op, const FrameScope& frame, size_t point) const;
  PointOp& map_points(RoleState& r, const MapOp& op);
  PointOp& memory_points(RoleState& r, const void* key, const Buffer& b, const std::vector<Expr>& values,
                         bool stored);
  void check_vectors(RoleState& r, const std::string& atom, const Buffer& b, const Array& array,
                     const std::vector<Expr>& index, const FrameScope& frame);
  [[noreturn]] void refuse_index(const Copy& op, const Array& from, const PointOp& points, size_t lane);
  std::optional<int64_t> array_offset(const Array& a, const PointOp& op, size_t lane) const;
  Array& array(Sym s, size_t rank);
  double load_array(RoleState& r, const Array& a, int64_t offset);
  void store_array(RoleState& r, Array& a, int64_t offset, double value);

  // interpreter_reduce.cc: reductions and votes
  std::vector<int64_t> without_padding(const BufferState& b, const std::vector<int>& operands) const;
  PointOp& reduce_points(RoleState& r, const ReduceOp& op, const FrameScope& frame);
  void exchange(RoleState& r, const ReduceOp& op);
  PointOp& rank_points(RoleState& r, const RankOp& op, const FrameScope& frame);
  PointOp& vote_points(RoleState& r, const Vote& op, const FrameScope& frame);
  std::vector<uint8_t> vote(RoleState& r, const Vote& op);

  // interpreter_async.cc: products and bulk copies
  MmaTables& mma_tables(RoleState& r, const Mma& op);
  void find_readers(RoleState& r, MmaTables& t);
  void find_warp_readers(RoleState& r, MmaTables& t);
  void compute(RoleState& r, const Product& p);
  template <class T>
  void multiply(RoleState& r, const Product& p);
  void load_view(RoleState& r, const Product& p, PointOp& view);
  void complete(Product& p, RoleState& r);
  void complete_copy(size_t which);
  void complete(BulkStore& s, RoleState& r);
  // interpreter_copies.cc: copies in groups
  GroupCopy& begin_group_copy(RoleState& r, const Copy& op, const Buffer& b, int slot);
  void complete(GroupCopy& c);
  std::vector<int64_t> integers(RoleState& r, const std::vector<Expr>& list);
  const TensorMap& tensor_map(RoleState& r, int number, const Buffer& b, int64_t offset,
                              size_t rank);  ///< checked
  int64_t box_elements(const TensorMap& map) const;
  /// The engine reads and writes at addresses of 16 bytes.
  void expect_units(RoleState& r, const TensorMap& map, const std::vector<int64_t>& coordinates);
  template <class F>
  void for_each_in_box(RoleState& r, const TensorMap& map, const std::vector<int64_t>& coordinates,
                       int64_t offset, F visit);

  Environment& env_;
  const MappedKernel& kernel_;
  int kernel_number_;
  Adversary adversary_;
  std::mt19937_64 random_;
  double completion_rate_ = 0.5;
  std::map<Sym, int> buffer_index_;
  std::vector<BufferState> buffers_;
  std::vector<Storage> storages_;
  std::vector<ChannelState> channels_;
  std::vector<RoleState> roles_;
  std::vector<BulkCopy> copies_;
  int agents_ = 0;
  bool racy_ = true;             ///< false: one thread and nothing asynchronous
  int64_t tag_ = 0;              ///< of the running block
  std::vector<int64_t> counts_;  ///< blocks along each axis of the grid
  int64_t section_ = 0;          ///< blocks of a section of it
  int64_t elements_ = 1;         ///< of the grid
  int64_t blocks_ = 1;           ///< that are launched
  int64_t block_ = 0;            ///< the running one
  std::string block_text_;
  uint64_t next_id_ = 1;
  Points one_point_;
  std::map<Expr, std::unique_ptr<PointProgram>> scalar_programs_;
  std::map<const void*, std::unique_ptr<OpCache>> caches_;
  std::vector<double> view_values_;
};

/// Whether the atom accepts the layouts of its operands; else what it wants (interpreter_atoms.cc). Tables: for each row and column of d, each
/// row and k of a, each k and column of b: owner and offset.
struct OperandTable {
  Space space = Space::Local;
  Swizzle swizzle;
  int bytes = 2;
  std::vector<int32_t> owner, offset;
};
/// d[m][n] += Σ_k a[m][k]·b[k][n] as atoms in_parts compute it (map/atom.h).
void multiply_in_parts(float* d, const float* a, const float* b, int64_t m, int64_t n, int64_t k);
std::string refuse_layouts(const Atom& atom, int64_t rows, int64_t columns, int64_t depth,
                           const OperandTable& d, const OperandTable& a, const OperandTable& b);

}  // namespace tilewright::emulation
