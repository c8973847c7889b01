// A state run in f32, as kernels hold it: every operation on it is rounded, sums over elements run in sixteen lanes. One element of each free axis.
#pragma once
#include "tests/support/streamed.h"
#include "tilewright/derive/check.h"

namespace tilewright::testing {

class F32State {
 public:
  /// `element` gives, at an index of the streamed axis, the value of an expression that holds no point of the state.
  using Element = std::function<double(Expr, int64_t)>;
  /// `ranks` are the lengths of the state's lists, by their axes.
  F32State(const State& s, int64_t n, const Element& element, const std::map<Sym, int64_t>& ranks = {});

  struct List {
    std::vector<double> keys, indices;  ///< keys are rounded to f32
  };
  struct Values {
    std::vector<float> points, components;
    std::vector<List> lists;  ///< of the components that are keys; empty elsewhere
  };
  Values run(const History& h) const;

  /// A value of the state, and what it stands for.
  struct Held {
    std::string name;
    double got = 0;
    double want =
        0;  ///< components: the lifts at the point that is held, in f64; points: their definition in f64
    double scale = 0;    ///< what was added up in magnitude; of an extremum its own magnitude
    bool exact = false;  ///< nothing is rounded: the pairs of lists
  };
  std::vector<Held> compare(const Values& v) const;

  /// An expression of points, components and the results that `finish` gives; `sizes` for everything else.
  float finished(Expr e, const Values& v, const std::function<Expr(Sym)>& finish,
                 const Bindings& sizes) const;

 private:
  using Slots = std::vector<double>;
  /// Rounds to f32 after each operation, or does not.
  using Code = std::function<double(const Slots&, bool rounds)>;
  Code compile(Expr e) const;
  double lifted(size_t a, const Step& chunk, const std::vector<float>& points, bool rounds,
                double* scale = nullptr) const;
  float moved(size_t k, const Values& before, const Step& chunk) const;
  Values empty() const;
  void insert(size_t a, List& list, int64_t element, const std::vector<float>& points) const;
  void set_points(int64_t element, const std::vector<float>& points) const;
  Values merged(const Values& l, const Values& r) const;
  Values streamed(const Values& before, const Step& chunk) const;

  const State& state_;
  int64_t n_;
  std::map<Sym, int64_t> ranks_;
  derivation::Abstraction abstract_;
  std::map<Sym, size_t> slots_;  ///< variables, points, the copies that a merge reads
  size_t variables_ = 0;
  std::vector<std::pair<Sym, Sym>> left_, right_;
  std::vector<Code> lifts_, u_, point_merges_, component_merges_;
  std::vector<std::vector<Code>> repairs_;
  std::vector<std::vector<bool>> present_, point_present_;  ///< component or point, element
  std::vector<Slots> elements_;
};

}  // namespace tilewright::testing
