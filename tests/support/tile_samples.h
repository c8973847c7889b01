// Tile programs written by hand, for tests of what comes after them. They are, names aside, exactly what
// build_tiles() makes of the same program and plan (tests/unit/tile_build.cc):
//  - axes of the grid with blocks of one element are scalars: tiles lack them, expressions use the symbol;
//  - operand tiles have the name of their tensor; those that feed a Dot are at Level::Shared and loaded at
//    the top of their loop, others at Level::Registers and loaded before their first use;
//  - a Map whose value is Read(its own tile) does nothing in plain segments (a mask);
//  - an elementwise Map writes over a temporary that ends there (S = exp2(k·S − g));
//  - a tile of a narrower dtype rounds what is written to it; no Cast node is used for that;
//  - state tiles hold their identity before a streamed loop; in the one chunk of a resident axis they are
//    written whole.
#pragma once
#include "tilewright/tile/tile_program.h"

namespace tilewright::testing {

struct TileSample {
  Program program;
  TileProgram tiles;
};

struct AttentionOptions {
  Guard guard = Guard::Always;
  bool causal = true;        ///< aligned to the end: j <= i + size(j) − size(i)
  DType dtype = DType::f16;  ///< of Q, K, V, O; an f32 program has no separate tile P
  int64_t block = 128, piece = 64, chunk = 128;
  int64_t features = 128;  ///< size of d and e
  int stages = 2;
};

/// O[b,h,i,e] = Σ_j softmax_j(Q·K/√d)·V: "group b=1, h=1, i=128/64; stream j=128; keep Q; stages 2".
TileSample attention_sample(const AttentionOptions& options = {});
inline TileSample causal_attention_sample(Guard guard = Guard::Always) {
  return attention_sample({.guard = guard});
}
inline TileSample global_attention_sample(Guard guard = Guard::Always) {
  return attention_sample({.guard = guard, .causal = false});
}

/// Y[r,j] = softmax_j(X): "group r=1; resident j=8192".
TileSample resident_softmax_sample(DType dtype = DType::f32);
/// The same in two passes: "group r=1; stream j=1024".
TileSample two_pass_softmax_sample(DType dtype = DType::f32);
/// y[r,n] = Σ_c (x − mean)·rsqrt(var + 1e-5)·gamma·W in one pass: "group r=64, n=64; stream c=64; stages 2".
TileSample layernorm_matmul_sample(DType dtype = DType::f16);

}  // namespace tilewright::testing
