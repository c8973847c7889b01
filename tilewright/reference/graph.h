// Inside the reference evaluator: the program as a graph of tables.
//
// A table is a set of values over axes that is computed and remembered in blocks along one of its axes: an input (converted from its array), a
// definition, a reduction inside a definition, or a part of a reduction's body that depends on fewer axes than the body does (so that it is
// computed once and not once for each of the others). Tables read tables of lower number only.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilewright/reference/reference.h"

namespace tilewright::reference {

/// What a value is held as: a floating point number in the evaluator's precision, int64_t, or uint8_t.
enum class Kind : uint8_t { real, integer, boolean };

Kind kind_of(DType t);

/// Most lanes of a vector register, and most elements of a block.
constexpr int64_t strip_length = 256;

/// A closed interval of integers that saturates: `low` and `high` stand for "unbounded".
struct IntegerRange {
  static constexpr int64_t low = -(int64_t(1) << 62), high = int64_t(1) << 62;
  int64_t lo = low, hi = high;
};

struct Table {
  Sym sym;                ///< what reads name it by
  std::vector<Sym> axes;  ///< index symbols that are free in `guard` and `body`
  std::vector<int64_t> sizes;
  Kind kind = Kind::real;          ///< of the elements
  Kind value_kind = Kind::real;    ///< of the body's or reduction's value, before `rounded` and `operand`
  const Input* input = nullptr;    ///< values come from an array; no body
  std::optional<Reducer> reducer;  ///< over `bound`; none: one value for each element
  std::vector<Sym> bound;
  std::vector<int64_t> bound_sizes;
  Expr guard;  ///< reductions: elements for which it is false do not take part; null: all do
  Expr body;
  std::optional<DType> rounded;  ///< declared dtype: values round to it
  bool beside_ties = false;      ///< Precision::ties: `rounded` takes the other neighbour near ties
  std::optional<DType>
      operand;  ///< naive only: an operand of a contraction, its significand rounded to this dtype's (range kept)
  bool inlinable = false;  ///< so cheap that reads of it are replaced by its body
  bool can_fail =
      false;           ///< some element may be an error (an index out of bounds, an integer divided by zero)
  IntegerRange range;  ///< of integer values

  // How it is computed and kept.
  int row = -1;   ///< axis along which elements are neighbours in memory; −1: a table without axes
  Sym strip;      ///< axis along which it is computed: axes[row], or one of `bound`; null when neither exists
  int shift = 0;  ///< a block is 1 << shift elements along the row axis
  double operations = 0;  ///< for one point of axes and bound
  double unit_cost = 0;   ///< estimated operations for one element when nothing is known yet

  double elements() const;  ///< their number
  double points() const;    ///< of bound, for each element
  bool strip_is_bound() const { return strip && (row < 0 || !(strip == axes[size_t(row)])); }
};

/// Builds the tables of a program for given sizes.
class Graph {
 public:
  /// `program` is elaborated. `input_ranges`: value ranges of integer inputs, one for each of program.inputs.
  Graph(const Program& program, const Sizes& sizes, const std::map<Sym, double>& params,
        const std::vector<IntegerRange>& input_ranges, Precision precision);

  const Program& program() const { return program_; }
  std::vector<Table> tables;

  int table_of(Sym tensor) const { return by_sym_.at(tensor); }
  int64_t size_of(Sym index) const;  ///< of an index symbol
  const Sizes& sizes() const { return sizes_; }
  double param(Sym s) const { return params_.at(s); }

  Kind kind(Expr e);
  /// Bounds of an integer expression.
  IntegerRange range(Expr e);
  /// Value of an expression of sizes, params and numbers alone, in f64; nullopt for others.
  std::optional<double> constant(Expr e);
  /// c where e = c·s + (something free of s) with a constant c; nullopt where e is not of that form.
  std::optional<int64_t> coefficient(Expr e, Sym s);
  /// Free index symbols of `e`: those of `order` first, in that order, then the rest as they occur.
  static std::vector<Sym> index_symbols(Expr e, const std::vector<Sym>& order);
  /// True when some element of `e` may be an error.
  bool can_fail(Expr e);
  /// True when `e` reads a table that is computed (not an input).
  bool reads_computed(Expr e);
  /// True when every index of a read is proved inside its axis; `axis` alone when given.
  bool in_bounds(Expr read, int axis = -1);

 private:
  void add_input(const Input& input, IntegerRange range);
  void add_definition(const Definition& d);
  int add(Table t);
  void declare(Table& t, std::optional<DType> dtype);
  Expr round_operands(Expr e, const std::vector<Sym>& order);
  Expr round_operand(Expr factor, DType t, const std::vector<Sym>& order);
  Expr round_beside_ties(Expr cast, const std::vector<Sym>& order);
  Expr lower(Expr e, const std::vector<Sym>& order);
  Expr lower_read(Expr e);
  int add_reduction(Expr reduce, std::vector<Sym> axes, std::string name);
  IntegerRange range_of(Expr e);
  std::optional<double> constant_of(Expr e);
  Expr split(Expr body, const std::vector<Sym>& loops);
  Table pointwise(std::string name, std::vector<Sym> axes, Expr body);
  double weight(Expr e);
  void choose_layout(Table& t);
  double strip_cost(const Table& t, Sym strip, const std::vector<Expr>& reads);
  void choose_block(Table& t, const std::vector<Expr>& reads);

  const Program& program_;
  const Sizes& sizes_;
  const std::map<Sym, double>& params_;
  Precision precision_;
  std::unordered_map<Sym, int> by_sym_;
  std::unordered_map<Expr, int> reductions_;
  std::unordered_map<Expr, int> parts_;
  std::map<std::pair<Expr, DType>, int> operands_;
  std::unordered_map<Expr, Kind> kinds_;
  std::unordered_map<Expr, IntegerRange> ranges_;
  std::unordered_map<Expr, std::optional<double>> constants_;
  std::unordered_map<Expr, bool> fails_;
  std::unordered_map<Expr, bool> computed_;
};

/// Reads of tables in `e`, those inside indices of others included.
std::vector<Expr> reads_in(Expr e);

}  // namespace tilewright::reference
