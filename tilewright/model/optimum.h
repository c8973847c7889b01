// The least transfers that a memory of M bytes allows: H*(M), by geometric programming.
//
// A plan's smooth formulas are H = Σ α_t Π g^(−e_t) and M = Σ μ_k Π g^(f_k) over its group tiles g. Chunks of the stream do not occur in H, so they are taken as
// small as possible and leave M. Minimising H under M is then a geometric program; where it has as many terms as its dual has equations (degree of difficulty
// zero; Duffin, Peterson, Zener 1967) the optimum is the closed form
//     H*(M) = constant + α M^(−β),     β = Σ γ_k,     α = Π (α_t / δ_t)^δ_t · Π (μ_k λ / γ_k)^γ_k
// with the dual weights δ, γ. It is what "FlashAttention on a Napkin" (arXiv 2412.03317) calls the canonical form, found there by Lagrange's method.
// Bytes throughout; with every width 1 they are elements.
#pragma once
#include <optional>
#include <string>

#include "tilewright/model/cost.h"
#include "tilewright/model/laurent.h"

namespace tilewright {

/// What is minimised: transfers and memory over tiles.
struct TileProblem {
  std::vector<Sym> tiles;       ///< g: group tiles that save transfers
  std::vector<Sym> least;       ///< group tiles that save none: one element is best
  std::vector<Sym> chunks;      ///< s: taken as small as possible
  std::vector<Sym> widths;      ///< q: bytes of elements
  std::map<Sym, Expr> size;     ///< of the axis that a tile cuts
  Laurent transfers;            ///< H at memory, loaded and stored
  std::vector<Laurent> memory;  ///< columns of M without chunks; the largest counts
};
/// Of a tile program: from its smooth formulas. nullopt with `why` where they are no sums of products of powers.
std::optional<TileProblem> tile_problem(const Program& p, const TileProgram& t, const TileSymbols& symbols,
                                        std::string* why = nullptr);

struct Canonical {
  Sym memory;     ///< M, bytes of one block
  Expr constant;  ///< transferred whatever the tiles are
  Expr alpha;     ///< of alpha·M^(−beta); 0 where nothing depends on M
  Rational beta;
  Expr formula;                             ///< constant + alpha·M^(−beta)
  std::vector<std::pair<Sym, Expr>> tiles;  ///< best tiles that are determined one by one
  /// Products of tiles of which only the product is determined, as expressions over tiles, with their best value.
  std::vector<std::pair<Expr, Expr>> products;
  std::vector<std::pair<Expr, Expr>>
      valid;  ///< (tile or product, bound): the form holds while M <= bound, where the tile fills its axis
  Expr compulsory;  ///< H with every group whole: no memory makes it less
};
/// The closed form, from leading terms alone where `leading_terms` (terms of H and M that divide others are dropped). nullopt with `why` where there is none.
std::optional<Canonical> canonical(const TileProblem& problem, bool leading_terms,
                                   std::string* why = nullptr);

/// The least transfers at numbers: values of sizes, widths and shares, M in bytes; tiles between 1 and their axes, not rounded. Never below the compulsory
/// transfers. `tiles` receives the tiles. Infinite where one element of each tile does not fit.
double least_transfers(const TileProblem& problem, const Bindings& values, double memory,
                       std::map<Sym, double>* tiles = nullptr);

/// The factor by which the M-dependent term falls when widths change from `before` to `after` at a memory of the same bytes.
double gain_of_widths(const Canonical& c, const Bindings& sizes, const Bindings& before,
                      const Bindings& after);

/// Transfers of N blocks that reach each other's memory: (1/B_h − 1/B_x) H(N·M) + H(M)/B_x, seconds (arXiv 2412.03317).
double cluster_seconds(double transfers_at_m, double transfers_at_nm, double bandwidth,
                       double cross_bandwidth);
/// 1 − that time over H(M)/B_h.
double cluster_saving(double transfers_at_m, double transfers_at_nm, double bandwidth,
                      double cross_bandwidth);

/// A condition under which one term of H per operation stays below what a machine delivers: `symbol` >= `value`.
struct BalancePoint {
  Expr per_operation;  ///< the term of H over the operations, bytes
  Sym symbol;          ///< M or a size
  double value = 0;
};
/// For each term of the form, alone; `operations` is a polynomial of sizes, `bytes_per_operation` the machine's bandwidth over its rate. Terms whose condition
/// involves several unknowns are left out.
std::vector<BalancePoint> balance(const Canonical& c, Expr operations, const Bindings& widths,
                                  double bytes_per_operation);

}  // namespace tilewright
