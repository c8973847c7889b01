// The state of a derivation run on data in f64, step by step: point, lift, repair, combine, merge and finish as they are written in it.
#pragma once
#include <functional>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

#include "tilewright/derive/state.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/program/sizes.h"

namespace tilewright::testing {

/// One step of a history; −1 is the state that has seen nothing.
struct Step {
  bool merge = false;
  int left = -1, right = -1;   ///< merge: both sides; else `left` is the state before
  int64_t begin = 0, end = 0;  ///< no merge: the elements lifted
};
/// How a state came about. The last step is the result; it has seen [0, n).
using History = std::vector<Step>;

/// Chunk after chunk of random lengths up to `longest`, some of them empty.
History random_stream(std::mt19937_64& random, int64_t n, int64_t longest);
/// A merge tree of random shape over chunks of up to `longest`, some sides empty.
History random_tree(std::mt19937_64& random, int64_t n, int64_t longest);

using Index = std::vector<int64_t>;
using InputData = std::function<double(Sym, const Index&)>;

class Streamed {
 public:
  /// `inputs` gives the elements of input arrays.
  Streamed(const Program& elaborated, const Derivation& d, const Sizes& sizes, InputData inputs);

  /// The way in which the states of all passes come about from now on.
  void follow(History h);
  /// An output at the values of its definition's axes.
  double output(const CascadeOutput& o, const Index& at);

  /// What holds nothing of this pass's state, at one index of each axis: inputs, and results of earlier passes.
  double value(Expr e, const Bindings& at);

 private:
  struct Role {
    enum class Kind { Result, Point, Next, Component } kind = Kind::Result;
    size_t pass = 0, index = 0;
  };
  struct Copies {
    std::vector<std::pair<Sym, Sym>> left, right;
    Merge merge;
    std::unordered_map<Sym, std::pair<bool, Role>> of;  ///< is it the left one, and of what
  };
  using Key = std::tuple<Sym, int, Index>;

  double value(Expr e, const Bindings& at, const Reader& tiles);
  double fixed(Expr e, const Bindings& at);
  double input(Sym s, const Index& at);
  double tile(Sym s, const Index& at, size_t pass, int step, int next, bool lifting);
  double result(size_t k, const Index& at);
  double point(size_t pass, size_t k, int step, const Index& at);
  double component(size_t pass, size_t k, int step, const Index& at);
  double lifted(size_t pass, size_t a, const Step& chunk, int points, const Bindings& at);
  double merged(Expr e, const Bindings& at, size_t pass, int step);
  bool holds_tile(Expr e);
  Bindings bind(const std::vector<Sym>& axes, const Index& at) const;
  const State& state(size_t pass) const { return derivation_.passes[pass].state; }

  const Program& program_;
  const Derivation& derivation_;
  Bindings sizes_;
  InputData inputs_;
  History history_;
  std::unordered_map<Sym, Role> roles_;
  std::vector<Copies> copies_;  ///< for each pass
  std::map<Key, double> known_;
  std::map<std::pair<const Node*, std::vector<double>>, double> fixed_;
  std::unordered_map<const Node*, std::vector<Sym>> free_;
  std::unordered_map<const Node*, bool> holds_tile_;
  std::unordered_map<Sym, Expr> written_;
};

/// Seeded values for the inputs of a program: normal, integers uniform in their declared range (0 to 3 where there is none).
class RandomInputs {
 public:
  RandomInputs(const Program& p, const Sizes& sizes, uint64_t seed);
  double operator()(Sym s, const Index& at) const;
  const std::vector<float>& array(Sym s) const {
    return arrays_.at(s);
  }  ///< row-major over the pieces of its dimensions
  std::vector<int64_t> shape(Sym s) const { return shapes_.at(s); }  ///< of those pieces

 private:
  std::map<Sym, std::vector<float>> arrays_;
  std::map<Sym, std::vector<int64_t>> shapes_;
};

}  // namespace tilewright::testing
