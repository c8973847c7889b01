// One kernel of a mapped program as a C++ function for a task and an exported function for a range of tasks.
#pragma once
#include <functional>

#include "tilewright/emit/cpp_printer.h"
#include "tilewright/map/cpu/lanes.h"

namespace tilewright {

/// Indented lines.
class CppText {
 public:
  void line(const std::string& text);
  void open(const std::string& head);  ///< "head {"
  void otherwise();                    ///< "} else {"
  void close(const std::string& tail = {});
  const std::string& str() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

/// Axes of a tile other than the lane axis, slowest in memory first.
std::vector<Sym> scalar_axes(const Buffer& b, Sym lane);
/// Elements from one panel of lanes to the next.
int64_t panel_step(const Buffer& b, Sym lane, int64_t panel);
/// Elements from one pair to the next along the axis of which two are neighbours.
int64_t pair_step(const Buffer& b);
/// "(2 * stride)": what may stand behind a multiplication.
std::string as_factor(const std::string& text);

class CppKernel {
 public:
  CppKernel(const Program& p, const MappedProgram& m, const MappedKernel& k, DType real);
  std::string str();

 private:
  void arguments();
  void counters();
  void buffers();
  void ops(const Ops& list);
  void op(const Define& x);
  void op(const Fetch& x);
  void op(const MappedLoop& x);
  void op(const If& x);
  void op(const Vote& x);
  void op(const Fail& x);
  void op(const Copy& x);
  void op(const StoreOut& x);
  void op(const Mma& x);
  void op(const MapOp& x);
  void op(const ReduceOp& x);
  void op(const RankOp& x);
  template <class T>
  void op(const T&);
  /// Prints list[k] and its successors as one where their loops coincide (cpp_fuse.cc); how many, 0 if it stands alone.
  size_t fused(const Ops& list, size_t k);
  /// Prints list[k] and what follows in one loop over panels where each op touches the elements of its own panel alone and a product by tile registers
  /// is among them (cpp_panels.cc); how many, 0 if there is no such run.
  size_t by_panels(const Ops& list, size_t k);
  Sym tile_lane(const MappedOp& o) const;
  void end_with_panel(Ops& run, Sym lane);
  bool panel_by_panel(const MappedOp& o, Sym lane, const AxisFrame& place) const;
  void bring_chunk(const Ops& body);  ///< `upcoming`: what the next chunk reads, for the products of this one
  const Mma* scaled_product(const Ops& list, size_t k) const;
  bool takes_extremes(const Mma& x, const MappedOp& next) const;
  bool feeds(const MapOp& map, const MappedOp& next) const;
  bool leaves(const MapOp& map, const MappedOp& next) const;
  bool only_leaves(const Ops& list, size_t k) const;
  /// Loops over a tile that make its elements and store them in memory; `keep`: in the tile too.
  void make_and_store(const MapOp& map, const StoreOut& x, bool keep);
  void store_elements(Sym lane, const StoreOut& x, const std::string& value);
  std::string read_next(const Mma& x);  ///< arguments of a product that say what is read next
  /// The product, what it accumulates onto scaled by `scale`, its values taken into the result of `extremes`, its first rows with the one of `beside`;
  /// null: none of them.
  void product(const Mma& x, const MapOp* scale, const ReduceOp* extremes, const Mma* beside = nullptr);
  /// `x` has one row, which the product `next` can take along.
  bool rides(const Mma& x, const MappedOp& next) const;
  int64_t rows_of(const Mma& x) const;  ///< of a block of its result, that a vector of lanes serves
  int64_t most_rows(Sym lanes)
      const;  ///< of the products with these lanes: the one that takes longest brings the next ones near
  /// Loops over the vectors that are computed in step: over those of a panel by `c`, or over the copies of a total by `u`.
  struct Vectors {
    int count = 1;
    const char* index = "c";
    std::function<void()> open, close;
  };
  /// Text of what `value` prints, inside the loop over the vectors, which is open; what it needs stands before.
  std::string in_step(const Vectors& v, const std::function<std::string()>& value);
  std::string reduced_value(const Vectors& v, Expr value, CKind kind, int precedence);
  Vectors panel_vectors(Sym lane);
  /// Tiles of bf16, factors of products on a unit for pairs (cpp_bf16.cc): copied as they are, or rounded from what is computed.
  void copy_bf16(const Copy& x, const Buffer& b);
  void map_bf16(const MapOp& x, const Buffer& b);
  bool by_tiles() const;  ///< does a product use tile registers?
  /// The frame's axes, those of `at` at the given coordinates.
  std::vector<CppAxis> placed(const Frame& frame, const std::map<Sym, std::string>& at) const;
  /// Moves a tile between memory and Local by calls of pack or unpack, where elements stay what they are; false: nothing is printed.
  bool move_tile(const Buffer& b, Sym lane, Sym tensor, const std::vector<Expr>& index, const Frame& frame,
                 bool store, const Copy* copy);
  /// Calls that bring near what a reduction along `lane` reads when it runs again, for each element of the result.
  std::vector<std::string> bring_next(const ReduceOp& x, Sym lane);

  /// Names the axes of an op, whose vectors run along `lane` (null: none).
  void begin(const Frame& frame, Sym lane);
  int64_t panel_of(Sym axis) const;  ///< elements of a panel where products have lanes along the axis, else 0
  std::vector<cpu::Operand> operands(Expr e) const;
  Sym lane_of(const ReduceOp& x)
      const;  ///< the axis along which a reduction takes its values in vectors; null: one by one

  void open_axis(Sym axis);
  void open_panels(Sym lane);  ///< nothing inside of a loop over panels around several ops
  void close_panels(Sym lane);
  void open_vectors(Sym lane);
  void close_vectors(Sym lane);
  void open_tile(const Buffer& b, Sym lane);  ///< all loops over a tile in Local, slowest axis first
  void close_tile(const Buffer& b, Sym lane);
  std::string pointer(const Buffer& b);
  void store_local(const Buffer& b, const std::string& value, bool vector);

  std::string accumulator_type(CKind kind, bool vector) const;
  std::string identity(Reducer r, CKind kind, bool vector) const;
  std::string combined(Reducer r, CKind kind, const std::string& a, const std::string& b) const;
  void reduce_along(const ReduceOp& x, const Buffer& b, Sym lane);
  /// What a loop of reductions brings near as it runs: elements of `size` bytes, `step` apart, from the address `at` on, `count` of `parts` parts from `part` on.
  struct NextPart {
    std::string at, step;
    int64_t size;
    int part, parts, count = 1;
  };
  std::vector<NextPart> shares(const ReduceOp& x, Sym lane);
  /// What a total takes.
  struct Taken {
    Reducer reducer;
    CKind kind;
    Expr value;
  };
  std::vector<std::string> reduce_across(const std::vector<Taken>& taken, const std::vector<Sym>& axes,
                                         Sym lane, const std::vector<NextPart>& parts = {});
  /// Reductions of one loop over the same elements.
  void reduce(const std::vector<const ReduceOp*>& together);
  std::vector<const ReduceOp*> together(const Ops& list,
                                        size_t k) const;  ///< from list[k] on: those that one loop takes
  std::string may_read(const Copy& x);  ///< condition under which an element is read; empty: always
  void gather_element(const Copy& x, const Buffer& b, Sym lane);
  std::string summary(const MappedOp& o) const;
  void describe(const MappedOp& o);  ///< the summary as a comment

  const Program& program_;
  const MappedProgram& mapped_;
  const MappedKernel& kernel_;
  DType real_;
  int width_;
  Identifiers names_ = cpp_names();
  CppPrinter print_;
  CppText out_;
  std::map<Sym, int> product_vectors_;  ///< lane axis of a product -> vectors of its panels
  const MapOp* producer_ = nullptr;     ///< made and stored in the loops of the reduction that is printed
  Sym in_panel_;                 ///< lane axis whose loop over panels is open around several ops; null: none
  std::map<Sym, Expr> defined_;  ///< scalars -> their values
  bool past_caches_ = false;     ///< does a store go past the caches?
  bool upcoming_ = false;        ///< is there an `upcoming` for products by tile registers?
  std::string error_word_;       ///< name of the pointer to it
  /// A tile that may be read where it lies: names of variables that hold a pointer, its steps from panel to panel and from row to row, what the next chunk
  /// reads of memory and how many rows; and the bytes from row to row and of a row.
  struct Lanes {
    std::string at, panel, row, next, rows, bytes, stride;
    bool as_they_are;  ///< else always a copy
  };
  std::map<Sym, Lanes> in_place_;
  std::map<Sym, std::string>
      next_rows_;  ///< a copied tile -> arguments of a product that say what the next copy reads
  std::map<Sym, int64_t> extents_;  ///< elements of an axis in one block or chunk, padding included
};

}  // namespace tilewright
