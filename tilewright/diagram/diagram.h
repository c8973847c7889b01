// Neural Circuit Diagrams (arXiv 2402.05424, 2412.03317): a program, or a kernel of a plan, as boxes in columns and
// arrays between them. docs/diagrams.md says how a picture is read.
//
// An array is a bundle of wires, one for each axis. A box takes arrays on its left and gives arrays on its right. An
// axis over which a box is mapped passes beside it: it stands in inputs and outputs and in neither `enters` nor
// `leaves`. A wire that several inputs have joins at a dot; a wire of an output that no input has begins at the box.
// Nothing here has a place on the page: layout.h gives it one.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tilewright/tile/tile_program.h"

namespace tilewright {

/// Where an array lies; it decides the colour of its wires.
enum class Shade : uint8_t { Memory, Shared, Registers, Matrix };

struct DiagramWire {
  Sym axis;  ///< null: the value of an array without axes
  /// Text on the wire: `name`, lowered `sub`, then `size`: "d", "", "128", or "g", "i", "128/64" of a group label.
  std::string name, sub, size;
};

struct DiagramArray {
  std::string name;                ///< what boxes call it
  std::string spare;               ///< a name where it needs one to continue in another row of the picture
  std::string label;               ///< stands above its wires where it begins; may be empty
  std::string title;               ///< shown while the pointer rests on a wire
  std::vector<DiagramWire> wires;  ///< top to bottom
  Shade shade = Shade::Memory;
  int from = -1;       ///< the box that gives it
  bool state = false;  ///< carried from chunk to chunk of a loop
};

struct DiagramBox {
  enum class Kind : uint8_t {
    Source,     ///< an array that is given: no inputs; `lines` name it
    Sink,       ///< a result: no outputs
    Function,   ///< a scalar function of its inputs at each index; rectangle
    Mask,       ///< keeps its input where the condition in `lines` holds; rectangle with a slanted corner
    Contract,   ///< Σ of a product of two arrays: the wires of the summed axes meet in cups; no text
    Linear,     ///< a product with a weight, which is named in `lines`; rectangle with a clipped corner
    Reduce,     ///< a reduction of one array; rounded rectangle at which the wires end
    Normalise,  ///< a softmax along the wire that enters; expanding triangle
    Reindex,    ///< values read at other indices; hexagon
    Pick,       ///< one element along the axis that enters; pentagon pointing left
    Load,       ///< a tile comes to a level nearer to the arithmetic; arrow to the right
    Store,      ///< a tile goes to memory; arrow to the right
    Step,       ///< several statements that are not drawn one by one; dashed rectangle
  };
  Kind kind = Kind::Function;
  std::vector<std::string> lines;    ///< text inside, in the language's syntax
  std::string title;                 ///< shown while the pointer rests on it
  std::vector<int> inputs, outputs;  ///< arrays
  std::vector<Sym> enters, leaves;   ///< axes whose wires end at the shape, and begin there
  int column = 0;  ///< boxes of one column run side by side; every input comes from a column before
  Shade shade = Shade::Memory;  ///< Contract: the unit that computes it
  int stage = 0;  ///< boxes of a stage stand right of all of the stages before: what a loop holds is one
  std::vector<std::string> figures;  ///< numbers below its column (DiagramTable)
};

/// Columns that are run once for each chunk of a streamed axis.
struct DiagramLoop {
  int first = 0, last = 0;  ///< columns
  std::string label;        ///< "j in chunks of 128"
};

/// Numbers under the columns, and what they sum to.
struct DiagramTable {
  std::vector<std::string> rows;                    ///< names of the figures
  std::vector<std::vector<std::string>> of_column;  ///< [column][row]; may be empty
  std::vector<std::string> totals;                  ///< lines below
};

struct Diagram {
  std::string title;
  std::vector<DiagramArray> arrays;
  std::vector<DiagramBox> boxes;
  std::vector<DiagramLoop> loops;
  DiagramTable table;
  std::vector<std::string> notes;  ///< what a reader needs beside the picture: declarations, fields of states
  int columns() const;
};

/// The program as it is written. `definitions`: draw these alone; what they read of others is given to them (null: all).
///
/// A definition becomes boxes by its expression alone: a sum over a product of two factors is a contraction, with
/// further factors joined before it; a product with a weight is a linear box; a softmax reducer, or the same
/// written out in definitions of its own (maximum, exponential, sum, quotient), is a normalisation; other reductions,
/// selections against −inf, and reads at other indices than axes have boxes of their own; what remains is a scalar
/// function. A weight is an input, read at its own axes as a factor of a sum, that
///  - holds no leading axis of an output and no axis that a softmax, logsumexp, maximum, minimum or arg reduction removes,
///  - shares with the other factors summed axes only, and
///  - has a summed axis and one that stays.
Diagram diagram_of(const Program& p, const std::vector<Sym>* definitions = nullptr);

/// What a drawing of a kernel is told beside its tile program.
struct KernelDrawing {
  std::string title;
  std::vector<std::string> notes;   ///< before its own
  std::vector<Sym> on_matrix_unit;  ///< tiles that products on a matrix unit make
  std::map<Sym, int64_t> sizes;     ///< by size symbol: formulas whose sizes are all here get their values
};

/// One kernel of a plan, statement by statement: loads and stores where arrays change level, products, reductions and functions on tiles, loops
/// with the state that they carry. Labels on wires: g, lowered axis, block (/piece) of a group axis; s, lowered axis, chunk of a streamed one.
/// Under the columns stand the bytes that a block moves, and those of the tiles that are live (their largest is M of model/cost.h); below them
/// H and M of the whole, by the model. `kernel` counts kernels of `t`; totals are those of all of them and stand under the last.
Diagram diagram_of(const Program& elaborated, const Derivation& d, const TileProgram& t, size_t kernel,
                   const KernelDrawing& drawing);

}  // namespace tilewright
