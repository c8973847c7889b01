// Inside of the interpreter of mapped programs: arrays, points and compiled expressions.
//
// An expression is compiled once for an op into a list of instructions over the op's points, a point being a
// coordinate held by one owner. Each instruction runs over a batch of points; what is the same at all points
// runs once.
#pragma once
#include <bit>
#include <functional>
#include <unordered_map>

#include "tilewright/map/mapped.h"

namespace tilewright::emulation {

/// What storage holds before it is written: a NaN that no arithmetic makes.
inline constexpr uint64_t unwritten_bits = 0x7ff4dead00000001;
inline double unwritten() { return std::bit_cast<double>(unwritten_bits); }
inline bool is_unwritten(double x) { return std::bit_cast<uint64_t>(x) == unwritten_bits; }

/// An array in memory, addressed by piece axes.
struct Array {
  Sym sym;
  DType dtype = DType::f32;
  const void* data = nullptr;
  void* writable = nullptr;             ///< outputs and workspaces
  std::vector<int64_t> sizes, strides;  ///< of each piece axis; strides in elements
  int64_t limit = 0;                    ///< 1 + largest element offset; 0 when empty
  std::vector<int64_t> writer;          ///< writable: for each offset the tag of its last writer; 0: none
};

/// Dense numbers for symbols that stand for scalars.
class Symbols {
 public:
  int slot(Sym s);
  size_t size() const { return index_.size(); }

 private:
  std::unordered_map<Sym, int> index_;
};

/// Values of scalar symbols in one role, by slot.
struct Scalars {
  std::vector<double> value;
  std::vector<char> known;
  void set(int slot, double x);
  bool has(int slot) const { return slot < int(known.size()) && known[slot]; }
};

/// Where an op computes: for each point its local coordinate on each axis, and its owner (−1: any thread).
struct Points {
  std::vector<Sym> axes;
  std::vector<std::vector<int32_t>> coords;
  std::vector<int32_t> owner;
  size_t size() const { return owner.size(); }
};

/// A read of a tile at every point: index of the element within the slot (registers: owner · elements +
/// offset).
struct TileRead {
  int buffer = -1;
  std::vector<int32_t> index;
  const double* base = nullptr;  ///< set before each run
  bool integer = false;
};

/// A read that must not happen where its value is used.
struct BadRead {
  enum class Kind {
    Unwritten,
    Outside,
    Foreign,
    ZeroDivisor
  } kind;  ///< Foreign: another block of this
           ///< launch wrote the element
  Sym sym;
  size_t point;
  Expr division;  ///< ZeroDivisor
};

class PointProgram {
 public:
  static constexpr size_t lanes = 256;

  struct Context {
    Symbols& symbols;
    const int64_t& tag;                  ///< of the running block: kernel and block number
    std::function<TileRead(Expr)> tile;  ///< for reads of buffers
    std::function<Array*(Sym)> array;    ///< null: the symbol is a buffer
  };
  /// Compiles `values`. `wide`: arithmetic in f64. `points` and what `context` refers to must outlive the
  /// program.
  PointProgram(const std::vector<Expr>& values, const Points& points, bool wide, const Context& context);

  std::vector<TileRead>& tiles() { return tiles_; }
  /// Computes what is the same at all points. `origins`: of the axes of the points.
  void begin(const Scalars& scalars, std::vector<double> origins);
  /// Computes points [first, first + n), n <= lanes. Points where `active` is 0 are computed but not checked; divisors
  /// count only at points that are `inside` of the arrays (null: all).
  std::optional<BadRead> run(size_t first, size_t n, const uint8_t* active,
                             const std::function<bool(size_t)>& inside = {});
  const double* output(size_t k) const { return reg(outputs_[k]); }

 private:
  struct Instruction {
    enum class Kind : uint8_t { Apply, Constant, Scalar, Coordinate, Tile, Array } kind = Kind::Apply;
    Op op = Op::Constant;
    int dst = 0;
    int a = -1, b = -1, c = -1;  ///< registers
    int number = -1;             ///< of a scalar, axis, tile, array or check
    bool round = false;          ///< to f32
    DType dtype = DType::f32;    ///< Cast
    double constant = 0;
  };
  struct ArrayRead {
    Array* array;
    std::vector<int> index;  ///< registers
  };
  /// Something that must not go wrong where its value is used.
  struct Check {
    Sym sym;
    Expr division;
    BadRead::Kind kind = BadRead::Kind::Unwritten;
    int need = -1;  ///< register of the condition; −1: always
    std::vector<uint8_t> bad;
    bool any = false;
  };
  static constexpr int always = -1, never = -2;

  int compile(Expr e, const Context& context);
  int emit(Instruction i, bool uniform, bool integer);
  int apply(Op op, int a, int b, int c, bool integer);
  int mask(Op op, int a, int b);
  int add_check(Sym s);
  void find_needs(const std::vector<Expr>& values);
  void execute(const Instruction& i, size_t first, size_t n);
  void read_array(const Instruction& i, size_t n);
  double* reg(int r) { return registers_.data() + size_t(r) * width_; }
  const double* reg(int r) const { return registers_.data() + size_t(r) * width_; }

  const Points& points_;
  const int64_t& tag_;
  const Scalars* scalars_ = nullptr;
  bool wide_;
  size_t width_;
  std::vector<double> registers_;
  std::vector<char> uniform_, integer_;  ///< of each register
  std::vector<Instruction> once_, each_, masks_;
  std::unordered_map<Expr, int> compiled_;  ///< register of each expression
  std::unordered_map<Expr, int> check_of_;
  std::vector<Expr> order_;  ///< children before parents
  std::vector<TileRead> tiles_;
  std::vector<ArrayRead> arrays_;
  std::vector<int> scalar_slots_;
  std::vector<std::string> scalar_names_;
  std::vector<Check> checks_;
  std::vector<int> outputs_;
  std::vector<double> origins_;
};

}  // namespace tilewright::emulation
