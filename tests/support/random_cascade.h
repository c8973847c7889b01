// Random cascades inside the separable class (docs/derivation.md) and beside it: chains of reductions over j whose bodies are sums of products of
// factors that separate, kept in parts so that they can be shrunk.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tilewright::testing {

/// A piece of text over the inputs and over earlier results.
struct Piece {
  std::string text;
  std::vector<size_t> reads = {};  ///< statements whose results it holds
  bool features = false;           ///< varies along e
  double bound = 1;                ///< of its magnitude, roughly
  double least = 0;                ///< positive: it is at least this
};

/// A body wrapped once more: `before` body `after`.
struct Wrapper {
  std::string before, after;
  std::vector<size_t> reads = {};
  bool features = false;
};

struct Statement {
  std::string reducer = "sum";
  std::vector<std::vector<Piece>> terms = {};  ///< the body is their sum, each the product of its factors
  std::vector<Wrapper> wrappers = {};          ///< around the body, the innermost first
  // What later statements may know of the result.
  double bound = 1, least = 0;
  bool boolean = false, integer = false;
  std::string maximum_of = {};  ///< the text that it is the maximum of
};

struct RandomCascade {
  std::vector<Statement> statements;
  /// Outside of the class: the factor of the last statement's first term that mixes, and what its refusal names.
  std::optional<Piece> mixing = {};
  std::string mixing_op = {};  ///< name of the operator (expr.h)

  std::string text() const;
  size_t size() const;  ///< statements, terms, factors and wrappers
};

/// The cascade of that seed. `outside`: its last statement holds a factor that does not separate.
RandomCascade random_cascade(uint64_t seed, bool outside);

/// The smallest cascade found by dropping statements, terms, factors and wrappers for which `fails` still holds.
RandomCascade shrunk(RandomCascade c, const std::function<bool(const RandomCascade&)>& fails);

}  // namespace tilewright::testing
