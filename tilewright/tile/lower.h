// Inside of build_tiles: one kernel under construction.
//
// Expressions come in over inputs, results and state variables at their full axes, canonical. tiled() turns
// them into expressions over tiles: it emits the loads and the inner contractions that they need. Pieces (one
// for each statement to be emitted) then go to emit(), which makes temporaries of what several pieces share
// and of what varies along fewer axes than its statement.
#pragma once
#include <map>
#include <set>

#include "tilewright/tile/machine_form.h"
#include "tilewright/tile/tile_program.h"

namespace tilewright {

/// One statement to be emitted: tile = value (Map), tile (+)= r over axes of value (Reduce), or tile (+)= Σ
/// a·b (Dot).
struct Piece {
  enum class Kind { Map, Reduce, Dot } kind = Kind::Map;
  Sym tile;
  std::vector<Sym> axes;  ///< reduced
  Reducer reducer = Reducer::Sum;
  Expr value;                 ///< canonical, over tiles (Map, Reduce)
  Expr a, b;                  ///< Dot operands, likewise
  Expr present;               ///< condition in masked segments, over tiles; null or true: none
  Expr absent;                ///< value of absent elements (Reduce)
  std::vector<DType> direct;  ///< Dot: dtypes of the inputs that are its direct factors
  struct Operand {
    DType dtype = DType::f32;  ///< what it is rounded to
    bool checked = false;      ///< its values may lie outside of the dtype's range
  };
  Operand a_operand, b_operand;  ///< Dot
  bool accumulate = false;
  std::string comment;
};

class KernelBuilder {
 public:
  KernelBuilder(const Program& p, const Derivation& d, const Plan& plan, TileProgram& out, std::string name);

  // ---- axes ----
  void add_group(const Cut& cut);
  void add_part(Sym part);
  void add_stream(Sym axis, int64_t chunk, bool resident);
  void add_whole(Sym axis, int64_t size);
  /// Axes that tiles have: all of the kernel's but grid axes with blocks of one element (and parts).
  bool is_tile_axis(Sym index) const;
  /// Axes of tiles along which the expression varies, in the order of the kernel.
  std::vector<Sym> axes_in(Expr e) const;
  std::vector<Sym> tile_axes(
      const std::vector<Sym>& axes) const;  ///< those of `axes` that tiles have, in order
  const KernelAxis& stream() const;
  bool resident() const;

  // ---- tiles ----
  Sym new_tile(std::string name, std::vector<Sym> axes, DType dtype, Tile::Use use = Tile::Use::Temporary);
  /// Declares a tile for a symbol of the derivation (a point or component).
  void declare(Sym sym, const std::vector<Sym>& axes, DType dtype, Tile::Use use);
  /// The axes at which the derivation reads the tile, with those that tiles do not have.
  void give_axes(Sym tile, std::vector<Sym> axes) { full_axes_[tile] = std::move(axes); }
  Expr at(Sym tile) const;
  DType real() const { return real_; }  ///< f64 if an input is f64 or integers are reduced, else f32

  // ---- statements ----
  void put(decltype(Stmt::node) node, std::string comment = {});
  void map(Sym tile, Expr value, std::string comment = {}) { put(Map{tile, value, {}}, std::move(comment)); }
  /// Opens the body of a loop; `changing` are tiles that its iterations change.
  void open_loop(const std::vector<Sym>& changing);
  void close_loop(std::vector<Segment> segments, std::vector<Expr> presents = {});
  void open_when();
  void close_when(Expr condition, std::vector<Sym> axes, bool slow);

  /// Over tiles, simplified. `condition`: where the value is needed (over tiles).
  Expr tiled(Expr e, Expr condition = truth());
  Expr machine(Expr e, const std::vector<Sym>& domain) { return machine_(e, domain); }
  Expr scalar(Expr e) { return machine_.scalar(e); }
  /// scale·log2 e: exp(scale·x) = exp2(x·binary_scale).
  Expr binary_scale(Expr scale);
  /// A condition over tiles in which whole values (program/compared.h) are read from tiles of their own.
  Expr condition(Expr present);
  /// Emits pieces in order. With `in_place`, pieces are maps that overwrite tiles that others read: they are
  /// ordered so that each reads old values.
  void emit(std::vector<Piece> pieces, bool in_place = false);
  /// Makes a Dot of the piece if `term`, to be summed over `reduced` into a tile over `target`, is a product
  /// of two operands of which one varies along a target axis that the other lacks.
  bool factorise(Expr term, const std::vector<Sym>& reduced, const std::vector<Sym>& target,
                 Piece& piece) const;

  /// A tile that holds the canonical expression.
  Sym tile_of(Expr e, const std::string& name);
  /// An exponential that a tile holds: exp(exponent), of values in [0, limit].
  void remember_exponential(Expr exponent, Sym tile) { exponentials_.emplace_back(exponent, tile); }
  void set_limit(Sym tile, double limit) { limits_[tile] = limit; }
  /// Exponentials that a tile holds replaced by reads of it.
  Expr with_known_exponentials(Expr e);

  /// Tidies up and adds the kernel to the tile program.
  void finish();
  TileKernel& kernel() { return k_; }
  const TileKernel& kernel() const { return k_; }
  const Program& program() const { return p_; }
  const Derivation& derivation() const { return d_; }

 private:
  struct Frame {
    Body body;
    std::map<Expr, Sym> known;  ///< machine expression -> tile that holds it
  };

  Expr tiled_node(Expr e, Expr condition);
  Expr load(Expr read, Expr condition);
  /// Lets the load of an open body fetch what is needed under this condition as well; loads that the condition reads come before it. False where it cannot: the condition
  /// reads what is computed after the load, or the tile itself.
  bool widen(Sym tile, Expr needed);
  /// Does it read a tile that differs between iterations of the open loop?
  bool changes(Expr e) const;
  Expr inner_reduction(Expr e, Expr condition);
  Sym reduction_tile(Expr reduction);
  bool inside(Expr index, Sym axis) const;
  size_t frame_for(Expr e) const;
  void forget(Sym tile);
  Sym known(Expr machine) const;
  Sym remember(size_t frame, Expr machine, Sym tile);
  Expr value(Expr machine, const std::vector<Sym>& domain, const std::set<Expr>& shared);
  Sym materialise(Expr machine, const std::set<Expr>& shared, const std::string& name = {});
  /// A whole value (program/compared.h), in machine form, has a tile of its own wherever it is needed.
  Sym whole_tile(Expr machine, const std::string& name = {});
  Expr inside_whole(Expr e, const std::vector<Sym>& domain, DType dtype);
  void emit_piece(const Piece& piece, const std::set<Expr>& shared);
  Sym operand(Expr machine, DType dtype, const std::set<Expr>& shared);
  Sym rounded(Expr from, Expr v, DType dtype);
  DType operand_dtype(Expr side, const std::vector<DType>& direct) const;
  /// May operands be f16 whose range is not proved? Where the plan feeds units for 16-bit operands; elsewhere products are computed in f32 as they are.
  bool checks_operands() const { return plan_.feeds_units(); }
  void emit_dot(const Piece& piece, const std::set<Expr>& shared);
  std::set<Expr> shared_nodes(const std::vector<Expr>& roots) const;
  void order_in_place(std::vector<Piece>& pieces);
  bool fits_f16(Expr side) const;
  /// Does it vary along an axis whose blocks are cut into pieces, one for each group of threads?
  bool has_rows(Expr side) const;
  std::string unique(std::string name);
  std::string name_for(Expr machine) const;

  const Program& p_;
  const Derivation& d_;
  const Plan& plan_;
  TileProgram& out_;
  TileKernel k_;
  DType real_ = DType::f32;
  Sym stream_;
  std::vector<Frame> frames_;
  size_t current_ = 0;                         ///< frame that put() writes to
  std::map<Sym, std::vector<Sym>> full_axes_;  ///< axes of declared symbols as the derivation reads them
  std::set<Sym> changing_;                     ///< tiles that differ between iterations of the open loop
  std::map<Expr, Sym> loads_;                  ///< Read(tensor, tiled indices) -> operand tile
  std::map<Expr, Sym> earlier_loads_;          ///< of loops that are closed: their tiles serve again
  std::vector<std::pair<Expr, Sym>> exponentials_;
  std::map<Sym, double> limits_;                ///< tiles with values in [0, limit]
  std::map<std::pair<Expr, Expr>, Expr> memo_;  ///< of tiled(), by expression and condition
  std::map<Sym, Sym>
      copies_;  ///< grouped or streamed axes -> the axis over which they are reduced inside a chunk
  std::map<std::string, int> names_;
  MachineForm machine_;
};

/// Removes what is never read, lets maps write over temporaries that end in them, raises loads of shared
/// tiles to the top of their body, sets levels and ring slots, drops unused axes and tiles.
void tidy(TileKernel& k, int stages);

}  // namespace tilewright
