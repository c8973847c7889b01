// Inside the interpreter: expressions compiled to straight-line code over strips of elements.
//
// A strip is a run of consecutive values of one index symbol. Every value is held in a double. In single
// precision each real operation rounds its result to f32 (which equals the f32 operation for + − · / and
// sqrt); integers and conditions are exact.
#pragma once
#include <map>
#include <vector>

#include "tilewright/tile/tile_program.h"

namespace tilewright::interpreter {

constexpr int64_t strip_length = 256;

/// Where the elements of a tile read by a program lie: value(strip element k) = data[k * stride].
struct Source {
  const float* single = nullptr;  ///< one of the two is set
  const double* wide = nullptr;
  int64_t stride = 0;
};

/// Thrown when an integer is divided by zero where the quotient is needed.
struct DividedByZero {
  Expr division;
};

/// Thrown when an element is read where its tensor has none.
struct IndexOutside {
  Sym tensor, axis;
  int64_t index, size;
};

class VectorProgram {
 public:
  /// `strip`: the index symbol that varies along a strip (null: one element). `slots`: position of each
  /// scalar symbol in the array given to run(). `tile_of`: number of a tile read (every read is at the tile's
  /// own axes). `tile_is_integer`: of that number. `wide`: f64 arithmetic.
  VectorProgram() = default;
  VectorProgram(Expr e, Sym strip, const std::map<Sym, int>& slots, const std::map<Sym, int>& tile_of,
                const std::vector<bool>& tile_is_integer, const std::vector<bool>& tile_has_strip, bool wide);

  /// Values at the elements first, first + 1, …, first + n − 1 of the strip. The result is valid until the
  /// next run; `uniform()` says that all are equal and only result[0] is set. Throws DividedByZero.
  const double* run(const double* scalars, const std::vector<Source>& sources, int64_t first, int64_t n);
  bool uniform() const { return registers_[size_t(result_)].uniform; }
  bool empty() const { return code_.empty(); }
  /// Numbers of the tiles that are read.
  const std::vector<int>& tiles() const { return tiles_; }

 private:
  struct Register {
    bool uniform = true;
    bool integer = false;  ///< or boolean: never rounded
    size_t offset = 0;     ///< into values_
  };
  struct Instruction {
    Op op = Op::Constant;
    DType dtype = DType::f32;
    bool round = false;
    int dst = 0, a = -1, b = -1, c = -1;
    int mask = -1;   ///< FloorDiv, Mod: elements for which a zero divisor is an error
    int index = -1;  ///< Symbol: scalar slot (−1: the strip's ramp); Read: position in tiles_
    double number = 0;
    Expr source;  ///< for messages
  };
  struct Compiler;

  void execute(const Instruction& i, const double* scalars, const std::vector<Source>& sources, int64_t first,
               int64_t n);

  std::vector<Instruction> code_;
  std::vector<Register> registers_;
  std::vector<double> values_;
  std::vector<int> tiles_;
  int result_ = -1;
};

}  // namespace tilewright::interpreter
