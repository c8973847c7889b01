// Runs a mapped program without its hardware: roles are coroutines, asynchronous atoms complete at any moment between
// their issue and the wait that orders them, chosen by an adversary with a seed. Data lives where layouts put it, so a
// wrong layout gives wrong values. What every op means stands in docs/mapped.md.
#pragma once
#include "tilewright/map/mapped.h"
#include "tilewright/tile/interpreter.h"

namespace tilewright {

/// A fault of the mapped program: what, where.
struct MappedFault : std::runtime_error {
  enum class Kind : uint8_t {
    Race,  ///< a buffer is written while a reader or an atom in flight may use it, or read while a write by
           ///< instructions may be in flight
    EarlyRead,     ///< a value read before the completion that makes it visible
    InFlight,      ///< an accumulator or register operand touched while a product is in flight
    MissingFence,  ///< instructions' writes read by the asynchronous proxy without ProxyFence, register accesses
                   ///< before products without MmaFence
    StalePhase,       ///< a parity wait that passes for another phase than the one meant
    EarlyRelease,     ///< a slot released or refilled while a consumer still uses it
    Deadlock,         ///< every role waits
    BarrierMismatch,  ///< threads of a barrier's scope disagree, more arrivals than a channel counts
    Uninitialised,    ///< read of something never written
    Placement,  ///< an owner needs what another holds; a layout, box or operand that an atom does not accept
    OutOfBounds,  ///< access outside an array or a slot
  };
  MappedFault(Kind k, const std::string& message) : std::runtime_error(message), kind(k) {}
  Kind kind;
};
const char* name(MappedFault::Kind k);

struct Adversary {
  uint64_t seed = 0;
  enum class Mode : uint8_t {
    Random,
    Eager,
    Lazy
  } mode = Mode::Random;  ///< Lazy: completions at the last legal moment; Eager: at once
  int64_t blocks = 0;  ///< how many of a persistent kernel run at once; 0: one for three elements of the grid
};

/// Interprets all kernels, their blocks shared out between `threads` threads (at least 1); results and faults do not depend on
/// how many. Throws the MappedFault of the first faulty block, with op, buffer, slot and iteration in the message. UserError: a missing array, a wrong shape, an integer divided by zero.
void interpret(const Program& elaborated, const MappedProgram& m, const Sizes& sizes,
               const std::map<std::string, ArrayView>& inputs, const std::map<std::string, double>& params,
               const std::map<std::string, MutableArray>& outputs, const Adversary& adversary = {},
               int threads = 1);

}  // namespace tilewright
