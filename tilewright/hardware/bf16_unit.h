// Units that multiply pairs of bf16 numbers and add in f32.
#pragma once
#include <cstdint>

namespace tilewright {

/// Dot: one instruction on vector registers adds the products of two neighbouring pairs to each lane (AVX512_BF16). Tiles: registers of 16 × 16 sums and
/// 16 × 32 factors, one instruction for a whole product (AMX). None: products are computed in f32.
enum class Bf16Unit : uint8_t { None, Dot, Tiles };

/// "", "bf16_dot", "bf16_tiles".
const char* name(Bf16Unit unit);

/// The best that this processor has and the system lets this process use. Tile registers need the system's permission, which is asked for here once
/// for the process; where it is refused the answer is Dot.
Bf16Unit detect_bf16_unit();

}  // namespace tilewright
