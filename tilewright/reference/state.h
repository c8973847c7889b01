// Inside the reference evaluator: a table's storage and registers while it is computed, and how values are taken into accumulators.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>

#include "tilewright/reference/code.h"
#include "tilewright/reference/operate.h"

namespace tilewright::reference {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

/// Zeroed; large requests cost nothing until touched.
inline Memory zeroed(int64_t bytes) {
  void* p = std::calloc(size_t(std::max<int64_t>(bytes, 1)), 1);
  if (!p) throw std::bad_alloc();
  return Memory(static_cast<std::byte*>(p));
}

/// Where the lanes of one instruction failed: 0, or 1 + the number of a failure.
struct Poison {
  bool any = false;
  std::array<uint32_t, strip_length> lane{};
};

struct State {
  const Table* table = nullptr;
  Code code;
  bool compiled = false, started = false, open = true, empty = false;

  // Storage.
  int64_t element_bytes = 0, length = 1, rows = 1, blocks = 1;
  std::vector<int64_t> row_strides;  ///< of each axis, in rows; 0 for the row axis
  bool ready = false;                ///< whole and complete
  Memory whole;
  std::vector<bool> done;
  std::unordered_map<int64_t, Memory> parts;
  std::unordered_map<int64_t, uint32_t> failed;  ///< row · length + column -> 1 + failure

  // The block at hand.
  std::vector<Memory> own;
  std::vector<const std::byte*> at;
  std::vector<Poison> poisons;
  int64_t first = 0, count = 1, lanes = 1, row_in_block = 0;
  Memory values;  ///< accumulators, or values of a table without a reducer: strip_length of value_kind
  Memory best;    ///< Argmax, Argmin: values at the indices in `values`
  std::array<uint32_t, strip_length> failures{};
  bool any_failure = false;
};

inline int64_t bytes_of(Kind k, size_t real) {
  return k == Kind::real ? int64_t(real) : k == Kind::integer ? 8 : 1;
}

/// The register's own memory, which becomes what it reads as.
template <class E>
E* out(State& s, int reg) {
  s.at[size_t(reg)] = s.own[size_t(reg)].get();
  return reinterpret_cast<E*>(s.own[size_t(reg)].get());
}
/// The register as an operand; without values for −1.
template <class E>
Operand<E> in(const State& s, int reg) {
  if (reg < 0) return {};
  return {reinterpret_cast<const E*>(s.at[size_t(reg)]), s.code.registers[size_t(reg)].vector};
}
inline int64_t integer(const State& s, int reg) {
  return *reinterpret_cast<const int64_t*>(s.at[size_t(reg)]);
}

inline void taint(Poison& poison, int64_t lane, uint32_t failure) {
  if (!poison.any) poison.lane.fill(0);
  poison.any = true;
  poison.lane[size_t(lane)] = failure;
}

/// Accumulators of the block to the reducer's identity. T: the evaluator's real type.
template <class T>
void clear_accumulators(State& s);
/// The innermost level has run: its value is stored or accumulated, its failures are noted.
template <class T>
void consume(State& s);
/// Values of the block to its storage, rounded as declared.
template <class T>
void store(State& s, std::byte* to);

}  // namespace tilewright::reference
