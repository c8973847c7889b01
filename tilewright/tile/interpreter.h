// Runs a tile program on real data and counts every byte that crosses a level.
#pragma once
#include "tilewright/reference/reference.h"
#include "tilewright/tile/tile_program.h"

namespace tilewright {

/// Bytes inside arrays, summed over all blocks. Slow paths (When with slow_path) are tallied apart.
struct LevelBytes {
  int64_t loaded =
      0;  ///< memory→shared or memory→registers loads (memory level); shared→registers operand reads (shared level)
  int64_t stored = 0;
};
struct Counts {
  LevelBytes memory, shared;
  LevelBytes slow_memory, slow_shared;
  int64_t peak_shared = 0,
          peak_registers =
              0;  ///< M: largest total of live bytes of one block at full tile sizes, rings times stages
  std::map<Sym, int64_t> loaded_by_tensor;       ///< memory level
  int64_t chunks_visited = 0, chunks_total = 0;  ///< of streamed loops
};

/// A mutable host array.
struct MutableArray {
  DType dtype = DType::f32;
  void* data = nullptr;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< elements; empty: row-major
};

/// Arithmetic as on a target: f32 (f64 for f64 tiles), tiles rounded to their dtype. A dot reads each operand held at Level::Shared once for each level-2 piece of
/// the axes that the operand lacks.
Counts interpret(const Program& p, const TileProgram& t, const Sizes& sizes,
                 const std::map<std::string, ArrayView>& inputs, const std::map<std::string, double>& params,
                 const std::map<std::string, MutableArray>& outputs);

}  // namespace tilewright
