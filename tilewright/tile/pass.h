// Inside of build_tiles: the state of one pass, carried through the streamed axis.
#pragma once
#include "tilewright/tile/lower.h"

namespace tilewright {

class PassBuilder {
 public:
  /// `guard`: when points that may lag move. A resident axis is one chunk: the state is written, not rolled.
  PassBuilder(KernelBuilder& b, const State& s, Guard guard);

  /// Tiles of points and components, declared once for a kernel.
  static void declare(KernelBuilder& b, const State& s);
  static std::vector<Sym> tiles(const State& s);
  /// Identities into the state, before a streamed loop.
  static void initialise(KernelBuilder& b, const State& s);
  /// The statements of one chunk: points, repairs, lifts.
  void chunk();

 private:
  struct PointParts {
    Expr present;     ///< over tiles
    Expr u;           ///< over tiles
    Sym tile;         ///< holds u, −inf where absent (exponential points); null: u is read as it is
    Sym exponential;  ///< exp(scale·(u − ρ))
    Sym difference;   ///< scale·(u − ρ), where several lifts hold it
  };

  Expr rho(const Point& p) const;
  Expr next(const Point& p) const;
  Expr exponent(const Point& p) const;
  PointParts parts(const Point& p);
  bool varies_inside(const Point& p) const;
  void move_extremum(size_t k);
  void move_mean(size_t k);
  void extremum(const Point& p, const PointParts& x);
  void move(size_t k);
  void repair(size_t k);
  void exponential(const Point& p, const PointParts& x);
  void exponential_of(const Point& p, Expr u, Sym target, const std::string& comment = {});
  void speculative_exponential(const Point& p, const PointParts& x);
  int is_difference(Expr x, const Point& p) const;
  void differences();
  Piece lift(size_t component, Sym target, bool accumulate, Expr without = {});
  void list(const Component& keys);
  void lifts();

  KernelBuilder& b_;
  const State& s_;
  Guard guard_;
  std::vector<PointParts> parts_;
  std::map<size_t, Sym> chunk_values_;  ///< components whose value on the chunk is known already
};

/// Points and components of two states merged: the state in the kernel's tiles takes in `other` (symbol of
/// the state -> tile that holds the other's value).
void merge_state(KernelBuilder& b, const State& s, const std::vector<std::pair<Sym, Sym>>& other);

}  // namespace tilewright
