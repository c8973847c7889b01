// From a program to an ordered list of kernels (docs/schedule.md, "Several kernels").
//
// A part is a Program of its own, one kernel: it reads inputs of the whole program and arrays that earlier parts
// store, and its outputs are such arrays and outputs of the whole. What is stored between parts keeps the symbol of its
// definition, which is an input of the parts that read it. Derivation, plans, tiles, mapping and source take a part as
// they take any program.
//
// The rule, which looks at axes and reductions alone:
//  1. A definition that holds a reduction is stored when fusing it would compute it again: it is read under a later
//     reduction, and the kernel that reads it has an axis that it lacks and that no tile holds whole (a literal size of
//     at most whole_limit). A reduction along the axis of the later one, with a result free of that axis, is part of
//     the same cascade and stays. An unnamed reduction inside of a statement is treated alike, under a made-up name; so are
//     the reductions of a definition that have fewer axes than it has, in its place, where the others are not computed again.
//  2. Where a kernel is refused, fused definitions are stored, those of the fewest axes without a literal size first (of
//     equals those that hold a reduction, then the last): one with which the kernel is accepted, else those up to it
//     without the needless; where none suffices, all that hold a reduction and that it reads; then reductions of its own
//     statement, or those over the last of several axes.
//  3. Results of the same rows, streamed over the same axis in as many passes, share a kernel.
// That is where a search begins, which changes one thing at a time while it saves counted bytes and operations (choose.cc): something more is
// stored, something stored is computed where it is read, two kernels become one.
// `store` and `fuse` of a schedule decide for the definitions that they name.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tilewright/program/program.h"

namespace tilewright {

/// What kernels cost at nominal sizes (driver/price.h).
struct Price {
  double bytes = 0;       ///< moved between memory and kernels, as model/cost.h counts them
  double products = 0;    ///< operations of contractions, a multiplication and an addition each
  double operations = 0;  ///< all others
  double total = 0;       ///< everything as bytes that cross memory once
  int kernels = 0;
  Price& operator+=(const Price& p);
};

/// What the rest of the compiler says to a program as one kernel.
struct Attempt {
  Sym stream;      ///< the axis that it would be streamed over
  int passes = 0;  ///< how many times
  std::optional<UserError> refusal;
  Price price = {};           ///< where it is accepted
  std::vector<Sym> cut = {};  ///< axes that its plan for nominal sizes cuts into blocks
};
using Attempting = std::function<Attempt(const Program& part)>;

/// An array between kernels, row-major over `dims`, or an output of the whole program that later parts read. Axes lie in the order of the definition, but that the pieces of
/// an input's composite dimension lie side by side, where the last of them would: the kernels that share it may then take them as one axis.
struct StoredArray {
  Sym sym;         ///< as parts read and write it
  Sym definition;  ///< whose values it holds
  std::vector<Dim> dims;
  std::vector<Sym> axes() const;
  DType dtype = DType::f32;    ///< declared at the definition, else f32 (f64, i64, bool by type)
  bool output = false;         ///< an output array of the whole program: no memory of its own
  size_t from = 0, until = 0;  ///< the parts that write it and that read it last
  Span span;
};

struct Part {
  Program program;           ///< elaborated; its axes are those it uses
  std::vector<Sym> stores;   ///< definitions whose values it stores or outputs, in the order of the program
  Sym stream;                ///< the axis that the attempt streamed over
  std::string name() const;  ///< of a kernel in schedules: "u, v"
};

/// Two ways to make the kernels of a program, of which the cheaper was taken.
struct Choice {
  enum class Kind {
    Stored,  ///< `what` is stored; otherwise it would be computed where it is read
    Fused,   ///< `what` is computed where it is read; otherwise it would be stored
    Held,    ///< the axis `what` is held on chip and read once; otherwise it would be read in several passes
    Read,    ///< the axis `what` is read in several passes; otherwise it would be held
    Apart,   ///< the kernels of `what` and `with` are two; otherwise one would compute both
  } kind = Kind::Stored;
  std::string what, with;
  Price taken, otherwise;  ///< of all kernels
  std::string
      refused;  ///< why there is no other way: what the compiler says to it; then `otherwise` is empty
};

/// What a search compares at most: attempts to compile a part as one kernel.
constexpr int most_attempts = 24;
/// A change must save this share of what all kernels cost.
constexpr double least_saving = 0.03;

struct Partition {
  std::vector<Part> parts;          ///< in an order in which they can run
  std::vector<StoredArray> arrays;  ///< in the order in which they are stored
  std::vector<Sym> fused;           ///< definitions that hold a reduction and are not stored, nor in part
  std::vector<Choice> choices;      ///< what was compared last, in the order of the program
  bool single() const { return parts.size() == 1; }
};

/// What a schedule decides. Symbols are definitions of the program that hold a reduction.
struct Forced {
  std::vector<Sym> store, fuse;
};

/// Where the search begins: with what the rules store, or with all outputs in one kernel, which was accepted.
enum class Start { Rules, OneKernel };

/// The parts of an elaborated program. `sixteen_bits`: the target multiplies matrices of 16-bit elements, so that operands may be stored for it.
/// `cut`, with Start::OneKernel: axes that the plan of the one kernel cuts into blocks, where that is known.
/// UserError: the refusal of a part that cannot be cut any further.
Partition partition(const Program& elaborated, const Forced& forced, const Attempting& attempt,
                    Start start = Start::Rules, bool sixteen_bits = false,
                    const std::optional<std::vector<Sym>>& cut = std::nullopt);

/// Definitions of an elaborated program whose value holds a reduction, also through definitions that it reads and that are not
/// stored.
std::vector<Sym> holding_reductions(const Program& elaborated, const std::set<Sym>& stored = {});

/// Axes made of two neighbouring pieces, outer and inner.
using JoinedAxes = std::map<std::pair<Sym, Sym>, Axis>;

/// Pieces of composite dimensions that a program uses only together, as one axis each: (k g) becomes an axis `kg` of
/// size(k)·size(g) where every array has k and g as neighbours in one dimension and every read and reduction takes
/// both. Memory stays as it is, and a sum over k and g can be streamed. `joined` keeps the axes that are made, so that
/// several parts share them.
Program with_joined_axes(const Program& p, JoinedAxes& joined);

}  // namespace tilewright
