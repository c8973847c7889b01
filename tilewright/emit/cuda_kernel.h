// Inside of the CUDA emitter: one kernel.
#pragma once
#include <optional>

#include "tilewright/emit/c_expr.h"
#include "tilewright/emit/cuda_prelude.h"
#include "tilewright/emit/cuda_text.h"
#include "tilewright/map/mapped.h"

namespace tilewright::cuda_text {

/// One loop over a digit of an axis that registers hold.
struct DigitLoop {
  int axis = 0;  ///< index into Nest::axes
  int64_t extent = 1, step = 1;
  int64_t order = 0;  ///< offset stride in the widest buffer: larger ones go outside
  std::string var;
};

/// An axis of an op's range.
struct NestAxis {
  Sym axis;
  std::string origin;  ///< global index of local coordinate 0 (int)
  std::string owner;   ///< what the thread number contributes to the local coordinate; "" for none
  std::vector<Digit> owner_digits;
  int64_t extent = 1;      ///< of the tile
  Expr clip;               ///< run-time extent of the frame, or null
  bool held = false;       ///< a register buffer distributes it; else `sequential` says how it runs
  std::string sequential;  ///< loop variable (local coordinate) of an axis that every thread runs through
};

/// Coordinates that one thread covers in an op: loops over register digits, the thread's share of every axis.
struct Nest {
  std::vector<NestAxis> axes;
  std::vector<DigitLoop> loops;  ///< outermost first
  int find(Sym axis) const;
};

/// Text in front of the loops of an op: what does not change in them, each value once.
struct Front {
  Lines lines;
  std::map<std::string, std::string> names;  ///< by type and value
};

class CudaPrinter;

class CudaKernel {
 public:
  CudaKernel(const Program& p, const MappedProgram& m, const MappedKernel& k, Helpers& helpers);
  std::string text();

 private:
  friend class CudaPrinter;
  // cuda_kernel.cc
  void header(Lines& out);
  void unpack_words(Lines& out);
  void count_grid(Lines& out);  ///< blocks along each axis of the grid
  void decode_grid(const std::string& element,
                   Lines& out);  ///< the counters of an element of the grid, by its number
  void init_signals(Lines& out);
  void role(const Role& r, int first_thread, Lines& out);
  void declare_registers(const Role& r, Lines& out);
  bool single_thread(const Ops& ops) const;  ///< only copies and waits: one thread does all

  // cuda_ops.cc
  void ops(const Ops& list, Lines& out);
  void op(const Ops& list, size_t k, Lines& out);
  void loop(const MappedLoop& o, Lines& out);
  void items(const Items& o, Lines& out);
  void vote(const Vote& o, Lines& out);
  void wait(const Wait& o, Lines& out);
  void arrive(const Arrive& o, Lines& out);
  bool moves_registers(const Ops& list) const;
  void copy_async(const CopyAsync& o, Lines& out);
  void barrier(Scope scope, Lines& out);
  std::string barrier_arguments(Scope scope) const;  ///< "id, threads"
  std::string signal(int channel, bool full, const std::string& slot) const;

  // cuda_access.cc: arrays
  void copy(const Copy& o, Lines& out);
  void copy_to_local(const Copy& o, Lines& out);
  /// Of the element `number` of `total`, counted along axes of `b` in `order`, the fastest first: where it lies in the tile, and in the axes of `nest`.
  void element_coordinates(const Buffer& b, const std::vector<size_t>& order, const std::string& number,
                           int64_t total, const Nest& nest, Lines& out);
  void copy_to_registers(const Copy& o, Lines& out);
  void store(const StoreOut& o, Lines& out);
  void store_quads(const StoreOut& o, Lines& out);
  std::string element_address(Sym tensor, const std::vector<Expr>& index,
                              const Nest& nest);  ///< offset in elements, 64 bits
  /// Conditions that the element lies in the array; `slack` elements behind it as well.
  std::vector<std::string> inside(Sym tensor, const std::vector<Expr>& index, const Nest& nest,
                                  int64_t slack);
  /// The condition under which a copy reads an element, and reports an index that lies outside of its array; empty: always.
  std::string may_read(const Copy& o, const Nest& nest, int64_t slack, Sym slack_axis);
  /// Its two parts: does the copy take the element, and do indices that are read from memory lie inside? These report what does not.
  std::vector<std::string> reached(const Copy& o, const Nest& nest, int64_t slack, Sym slack_axis);
  std::vector<std::string> found_inside(const Copy& o, const std::vector<Expr>& index);
  std::string error_word();
  std::vector<std::string> clips(const Nest& nest, int64_t slack, Sym slack_axis);

  // cuda_elements.cc: element work
  void element_work(const Ops& list, size_t first, size_t last, Lines& out);
  size_t fusible(const Ops& list, size_t first) const;  ///< end of the run of ops that share one nest
  void map_to_local(const MapOp& o, Lines& out);

  // cuda_nest.cc: the elements of a thread, and where they lie
  Nest nest_of(const Frame& frame, const std::vector<Sym>& axes, const std::vector<Sym>& buffers,
               const std::vector<Use>& uses);
  void bind(const Frame& frame);  ///< index symbols outside of the range
  void open_loops(const Nest& nest, size_t from, size_t to, Lines& out);
  void close_loops(const Nest& nest, size_t from, size_t to, Lines& out);
  void coordinates(const Nest& nest, Lines& out);  ///< declares local and global coordinates
  std::string register_offset(const Buffer& b, const Nest& nest) const;
  std::string local_offset(const Buffer& b, const std::vector<std::string>& local) const;
  std::string local_pointer(const Buffer& b, const std::vector<Use>& uses);
  std::string replica_guard(const Buffer& b) const;  ///< true in the first replica only; "" without replicas

  // cuda_reduce.cc
  /// The loops over a reduction's points, and whether it is computed in f64.
  std::pair<Nest, bool> nest_of_reduction(const ReduceOp& o);
  void reduce_sequential(const ReduceOp& o, Lines& out);  ///< some axes that every thread runs through
  // cuda_share.cc
  void reduce_to_local(const ReduceOp& o, Lines& out);  ///< the threads of the role share the results
  bool copies_words(const MapOp& o) const;  ///< pairs as they lie in shared memory to packed registers
  void copy_words(const MapOp& o, Lines& out);
  bool copies_registers(const MapOp& o) const;  ///< packed registers as they are
  /// A partial result among threads: by shuffles, and what warps give one another through shared memory: written in `out`, read in `behind`, with
  /// barriers of the returned scope in between and at the end.
  std::optional<Scope> exchange(const ReduceOp& o, const std::string& partial, const Nest& nest, Lines& out,
                                Lines& behind);
  std::string combine(Reducer r, const std::string& a, const std::string& b);
  /// What a reduction takes in; `wide`: computed in f64.
  std::string term(const ReduceOp& o, CudaPrinter& printer, bool wide);
  std::string identity_text(Reducer r, DType t);

  // cuda_products.cc
  void mma(const Mma& o, Lines& out);
  void fence(const Ops& list, size_t k, Lines& out);
  void wait_group(int pending, Lines& out);
  /// Uses what `kept_` names and ops [first, last) of the list write.
  void keep_before(const Ops& list, size_t first, size_t last, Lines& out);
  void keep(Sym registers, Lines& out);

  // cuda_warps.cc: sm_80 and later
  void mma_by_warps(const Mma& o, Lines& out);
  void mma_in_parts(const Mma& o, Lines& out);
  void copy_in_group(const Copy& o, Lines& out);
  void copy_wait(int pending, Lines& out);

  const Buffer& buffer(Sym s) const { return kernel_.buffer(s); }
  bool has_buffer(Sym s) const;
  bool packed(const Buffer& b) const;        ///< two elements of 2 bytes in each register
  std::string element_type(DType t) const;   ///< as computed with: float, double, int, long long, bool
  static std::string storage_type(DType t);  ///< as stored in memory
  std::string load_value(DType t, const std::string& raw);
  std::string store_value(DType t, const std::string& value);
  std::string constant_int(Expr e);  ///< scalar integer expression of the role
  std::string scalar_bool(Expr e);
  std::string slot_of(Sym b, const std::vector<Use>& uses);  ///< "" for buffers with one slot
  std::string size_text(Sym size);

  const Program& program_;
  const MappedProgram& mapped_;
  const MappedKernel& kernel_;
  Helpers& helpers_;
  const bool stores_wide_;  ///< results keep more digits than those of f16
  Identifiers names_ = kernel_names();
  const Role* role_ = nullptr;
  int role_index_ = 0;
  bool role_is_one_thread_ = false;
  std::map<Sym, std::string> index_text_;  ///< index symbols bound in the op that is printed
  const Nest* nest_ = nullptr;             ///< of the op that is printed
  Front* front_ = nullptr;                 ///< of that op, where its loops are unrolled
  bool rare_ = false;                      ///< what is printed seldom runs: short code
  /// How hyperbolic tangents are printed: for all arguments, telling which lie near 0, or for those alone; then also with scalars beside and inside taken into a polynomial.
  enum class Tangents { All, Tested, Near, Scaled } tangents_ = Tangents::All;
  std::string seen_;  ///< variable that loses bit 31 where an argument is not near 0
  std::string near_;  ///< variable of the role: those of the warp were near 0 the last time; "": none
  std::map<Sym, std::string> local_text_;  ///< local pointers of the op that is printed
  std::map<Sym, std::string> replaced_;  ///< register buffers read from elsewhere (pairs that are being made)
  std::vector<std::vector<Sym>> groups_;  ///< committed groups in flight, oldest first: registers they touch
  std::vector<Sym> open_group_;
  /// What element work on tiles of many elements wrote last since products were committed; null: none did.
  Sym worked_in_flight_;
  /// Operands of products that were waited for and are to be used once more (tw_keep). The use is a branch, which nothing is moved across: it is printed as late as the next
  /// write, where less is left to move than at the wait.
  std::vector<Sym> kept_;
  std::set<Sym> varying_;            ///< variables that are defined again
  std::vector<std::string> counts_;  ///< of count_grid, for each axis
  std::string elements_;             ///< persistent: of the grid
};

/// Prints expressions of one op.
class CudaPrinter : public CPrinter {
 public:
  CudaPrinter(CudaKernel& k, int real_bits, int integer_bits);

 protected:
  CValue symbol(Sym s) override;
  CValue read(Expr e) override;
  CValue function(Op op, Expr argument, CValue v) override;
  CValue comparison(Op op, Expr a, Expr b) override;
  CValue real_of_integer(Expr e, CValue v) override;
  CValue sum(const std::vector<Expr>& terms) override;
  CValue product(const std::vector<Expr>& factors, bool negate) override;
  bool evaluates_both(Expr yes, Expr no) const override;

 private:
  /// e = steps + rest: steps are constants once the loops over registers are unrolled, rest does not change in them.
  struct Unrolled {
    std::string steps, rest;
    std::vector<Sym> axes;  ///< that e changes with
  };
  std::optional<Unrolled> unrolled(Expr e);
  /// scale·tanh(argument) near 0.
  CValue scaled_tangent(Expr argument, const std::vector<Expr>& scale);
  std::string in_front(const std::string& type, const std::string& name, const std::string& value);

  CudaKernel& k_;
};

}  // namespace tilewright::cuda_text
