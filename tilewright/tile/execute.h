// Inside the interpreter: one kernel compiled for a run, and its execution.
#pragma once
#include "tilewright/tile/memory.h"
#include "tilewright/tile/vector_program.h"

namespace tilewright::interpreter {

/// Runs one kernel on all blocks of its grid and adds what it moved to `counts`. `scalars`: sizes, params and
/// host scalars.
void run_kernel(const TileProgram& t, const TileKernel& k, const std::map<Sym, double>& scalars,
                const Sizes& sizes, const Arrays& arrays, Counts& counts);

/// A tile's storage at full size, row-major over its axes.
struct TileData {
  const Tile* tile = nullptr;
  std::vector<int> axes;         ///< numbers of kernel axes
  std::vector<int64_t> strides;  ///< one for each of axes
  bool wide = false;             ///< f64, integers and bools are kept in doubles
  std::vector<float> single;
  std::vector<double> wides;
  double get(int64_t at) const { return wide ? wides[size_t(at)] : double(single[size_t(at)]); }
  void set(int64_t at, double x);  ///< rounds to the tile's dtype
  int64_t stride_of(int axis) const;
};

/// Values of one axis in the block or chunk under way.
struct AxisState {
  const KernelAxis* axis = nullptr;
  int64_t size = 0;
  int64_t first = 0;   ///< global index of the first element
  int64_t length = 0;  ///< elements that exist
  int64_t at = 0;      ///< current element, from first
  int index_slot = -1, counter_slot = -1;
};

/// A statement with its expressions compiled.
struct Code {
  const Stmt* stmt = nullptr;
  std::vector<int> domain;  ///< numbers of axes, the strip's last
  VectorProgram plain,
      masked;  ///< Map, Reduce, Rank: values; When: condition; Load, Dot, Rank (masked): present
  std::vector<VectorProgram> index;  ///< Load, Store: indices; Rank: at; Loop: lo and hi of each segment
  std::vector<Code> body;
  bool present_along_vector = false;  ///< Dot: `present` varies along the vector axis
  int vector_axis = -1,
      vector_operand = 1;  ///< Dot: axis of the innermost loop, and the operand (0 a, 1 b) that has it
};

class Kernel {
 public:
  Kernel(const TileProgram& t, const TileKernel& k, const std::map<Sym, double>& scalars, const Sizes& sizes,
         const Arrays& arrays, Counts& counts);
  void run();

 private:
  // execute.cc
  /// UserError where the tiles take more than this machine's memory.
  void check_memory() const;
  void compile_axes(const std::map<Sym, double>& scalars, const Sizes& sizes);
  std::vector<Code> compile(const Body& body);
  Code compile(const Stmt& s);
  void prepare_dot(Code& c, const Dot& x);
  VectorProgram program(Expr e, const std::vector<int>& domain, const Tile* target) const;
  std::vector<int> numbers(const std::vector<Sym>& axes) const;
  void run_block();
  void find_chunks();
  void run(std::vector<Code>& body, bool masked);
  void run(Code& c, bool masked);
  void execute(Code& c, const Load& x);
  void execute(Code& c, const Store& x);
  void execute(Code& c, const Map& x, bool masked);
  void execute(Code& c, const Reduce& x, bool masked);
  void execute(Code& c, const Rank& x, bool masked);
  void execute(Code& c, const Loop& x);
  void execute(Code& c, const When& x, bool masked);
  // dot.cc
  void execute(Code& c, const Dot& x, bool masked);
  template <class T>
  void multiply(Code& c, const Dot& x, bool masked);

  void place(int axis, int64_t at);
  void enter(int axis, int64_t counter);
  /// Calls f for each coordinate of `axes` inside the arrays; empty axes give one call.
  template <class F>
  void each(const std::vector<int>& axes, const F& f, size_t from = 0) {
    if (from == axes.size()) return f();
    const int64_t length = axes_[size_t(axes[from])].length;
    for (int64_t i = 0; i < length; ++i) {
      place(axes[from], i);
      each(axes, f, from + 1);
    }
  }
  /// Calls f(first, n) for the strips of the domain's last axis at each coordinate of the others; first
  /// counts from the axis' first element.
  template <class F>
  void strips(const std::vector<int>& domain, const F& f) {
    if (domain.empty()) return f(int64_t(0), int64_t(1));
    std::vector<int> outer(domain.begin(), domain.end() - 1);
    const int last = domain.back();
    each(outer, [&] {
      const int64_t length = axes_[size_t(last)].length;
      for (int64_t i = 0; i < length; i += strip_length) {
        place(last, i);
        f(i, std::min(strip_length, length - i));
      }
    });
  }
  int64_t offset(const TileData& d) const;
  const double* evaluate(VectorProgram& p, const std::vector<int>& domain, int64_t n);
  /// Copies the tiles at Level::Shared that the program reads next to the arithmetic, and counts their bytes.
  void fetch(const VectorProgram& p, std::vector<int>& fetched);

  const TileProgram& t_;
  const TileKernel& k_;
  const Arrays& arrays_;
  Counts& counts_;
  LevelBytes *memory_, *shared_;  ///< tallies in force: slow paths have their own
  std::vector<AxisState> axes_;
  std::map<Sym, int> axis_number_, slots_, tile_number_;
  std::vector<double> scalars_;
  std::vector<TileData> tiles_;
  std::vector<TileData> fetched_;  ///< copies, as far as read at Level::Shared
  std::vector<bool> use_fetched_;
  std::vector<Code> code_;
  std::vector<std::vector<int64_t>> chunk_rows_;  ///< of each chunk table
};

}  // namespace tilewright::interpreter
