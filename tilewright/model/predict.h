// From formulas to seconds on a machine: a time for each resource alone, occupancy and waves, and what follows for the whole.
#pragma once
#include <memory>
#include <unordered_map>

#include "tilewright/hardware/machine_file.h"
#include "tilewright/model/core_work.h"
#include "tilewright/model/optimum.h"
#include "tilewright/model/work.h"

namespace tilewright {

/// A plan's formulas, made once.
struct Model {
  const Program* program = nullptr;
  const TileProgram* tiles = nullptr;
  TileSymbols symbols;
  Cost exact, smooth;
  std::vector<Operation> operations;
  std::vector<Visits> visits;
  std::vector<Expr> blocks;  ///< of each kernel
  Expr held;                 ///< M where a block has one memory: peaks (cost.h)
  CoreStatements core;       ///< what a CPU computes
  std::optional<TileProblem> problem;
  std::optional<Canonical> form, leading;  ///< with every term of M, and with the leading ones
  std::string why_no_form;
};
/// What a model is for. A price that counts chunks at a few blocks (Counting::Sampled) needs no closed forms, which take longer than everything else together, no sums
/// over blocks, and on a CPU, whose blocks have one memory, neither peaks of each level nor transfers between them.
enum class Purpose : uint8_t { Report, PriceOnCpu, PriceOnGpu };
/// `p` and `t` must outlive the model.
Model model_of(const Program& p, const TileProgram& t, Purpose purpose = Purpose::Report);

/// Numbers for symbols: the plan's tile sizes, widths and literal sizes, with the sizes and integer params that are given.
using Integers = std::map<Sym, int64_t>;
Integers values_of(const Model& m, const Sizes& sizes);
/// Is every size and param that the formulas need known?
bool complete(const Model& m, const Integers& values);
/// Values of formulas at many plans: each is found once for all plans that agree in the numbers which it depends on.
class KnownValues {
 public:
  std::optional<double> operator()(Expr e, const Integers& values);
  /// In doubles. nullopt: a symbol has no value.
  std::optional<double> operator()(Expr e, const Bindings& values);

 private:
  template <class Number>
  struct Formula {
    std::vector<Sym> depends_on;
    std::map<std::vector<Number>, double> found;
  };
  std::unordered_map<Expr, Formula<int64_t>> exact_;
  std::unordered_map<Expr, Formula<double>> smooth_;
};

/// Bounds of blocks that a step in front finds have no value: such a formula, and one that lacks a size, has none.
std::optional<double> value_of(Expr e, const Integers& values);
/// A formula of bytes: exactly, or where a step in front finds the bounds of blocks with every chunk visited. `smooth` may be null: none.
std::optional<double> transferred(const Model& m, Expr exact, Expr smooth, const Integers& values);

struct Occupancy {
  double by_shared = 0, by_registers = 0, by_threads = 0,
         by_blocks = 0;  ///< blocks a core, not rounded; 0: no limit known
  int64_t blocks_per_core = 1;
  int64_t slots = 1;   ///< blocks that run at a time
  int64_t blocks = 0;  ///< of the first kernel
  int64_t waves = 0;
  double efficiency = 1;  ///< work over what the cores could do in the time of the busiest
  bool uneven = false;    ///< masks give blocks unlike work
  bool sorted = false;    ///< and those with most of it start first
  std::string limit;      ///< what limits blocks_per_core
  bool fits = true;
};

struct ResourceTime {
  std::string name;      ///< "memory -> L2", "matrix f16"
  double amount = 0;     ///< bytes or operations
  std::string unit;      ///< "bytes", "multiply-adds", "exponentials", "instructions", "kernels"
  double rate = 0;       ///< amount a second at best; 0: not known
  double seconds = 0;    ///< with waves and what the tiles waste; 0 where the rate is not known
  std::string unpriced;  ///< why there is no rate
  enum class Kind : uint8_t { Transfer, Compute, Wait, Launch } kind = Kind::Transfer;
};

/// Does the operation run on matrix units there? f32 products do where three of TF32 take less time than one by FMA instructions.
bool uses_matrix_unit(const MachineFile& machine, const Operation& op);
/// Products of the matrix unit for one of the operands: three of TF32 for one of f32 (map/atom.h).
double matrix_products(DType operands);

struct Prediction {
  Occupancy occupancy;
  std::vector<ResourceTime> resources;
  double overlapped = 0;  ///< seconds where every unit works at the same time
  double serial = 0;  ///< seconds where the units of a block wait for each other, transfers in the background
  int64_t groups = 1;    ///< of a core that compute
  double predicted = 0;  ///< seconds, between the two: docs/model.md, "Prediction"
  std::string bound_by;
  double operations = 0;  ///< of products: two for each multiply-add
  double transfers = 0;   ///< H: bytes that blocks load from memory and store there
};

/// How chunks under a mask are counted: by the exact sums over all blocks, or at a few blocks (sampled.h), which is what hundreds of plans can afford.
enum class Counting : uint8_t { Exact, Sampled };

/// Times on one machine of the plans that a model stands for. What does not depend on their numbers is found once.
class Predictor {
 public:
  /// `m` and `machine` must outlive it.
  Predictor(const Model& m, const MachineFile& machine, Counting counting = Counting::Exact);
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  /// `values`: sizes, tile sizes, widths and integer params.
  Prediction of(const Integers& values) const;
  /// M: bytes of one block's memory.
  double held(const Integers& values) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
Prediction predict(const Model& m, const MachineFile& machine, const Integers& values);

/// Clocks of one core for one whole chunk of the first loop of the first kernel.
struct ClockLine {
  std::string what, role;        ///< role: "load", "matrix", "special", "vector"
  double count = 0, clocks = 0;  ///< clocks 0: no rate
};
struct ClockBudget {
  std::vector<ClockLine> lines;
  int64_t rows =
      1;  ///< of a block: clocks over them are clocks of a row, which is a thread where a thread holds a row
  double matrix = 0, special = 0, vector = 0, load = 0;
  double products = 0;  ///< operations of products in the chunk
  /// Operations a second of the whole machine where matrix units never wait: products / matrix clocks · cores · clock.
  double matrix_bound = 0;
};
std::optional<ClockBudget> clock_budget(const Model& m, const MachineFile& machine, const Integers& values);

/// Blocks that fit beside what they share: (capacity − shared) / each.
double fitting(double capacity, double shared, double each);
/// Share of a unit's peak where `other` takes as long as stated and does not overlap with it.
double utilisation(double unit, double other);

/// Tiles that minimise transfers at memory under the machine's capacities, in whole numbers: multiples that matrix units and coalesced transfers ask for.
struct IntegerTiles {
  std::map<Sym, int64_t> tiles;                     ///< of groups and chunks
  std::map<Sym, int64_t> multiple;                  ///< what each is a multiple of
  double transfers = 0, shared = 0, registers = 0;  ///< bytes: of all blocks; of one block
  int64_t tried = 0;
};
std::optional<IntegerTiles> best_tiles(const Model& m, const MachineFile& machine, const Integers& values);
/// What a tile must be a multiple of, and why: the shape of the matrix unit in a product that has the axis (of a CPU the lanes of a vector), or the elements
/// of a memory line where the axis is contiguous in an array that is loaded.
struct Divisor {
  Sym tile;
  int64_t of = 1;
  std::string why;  ///< "rows of the matrix unit in S", "a line of 128 bytes of K"
};
/// In the order of the program, each reason once. Axes that are whole or cut into single indices have none.
std::vector<Divisor> divisors(const Model& m, const MachineFile& machine);
/// The least common multiple of the divisors of each tile; 1 where it has none.
std::map<Sym, int64_t> multiples(const Model& m, const MachineFile& machine);

}  // namespace tilewright
