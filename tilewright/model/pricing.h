// Inside of model/ only: how a prediction is put together on a GPU (predict_gpu.cc) and on a CPU (predict_cpu.cc).
#pragma once
#include "tilewright/map/cpu/lanes.h"
#include "tilewright/model/counted.h"

namespace tilewright::pricing {

/// A prediction under way.
struct Sheet {
  const Model& m;
  const MachineFile& machine;
  const Counted& counted;
  Prediction& prediction;

  /// A resource at `scale` times a rate of the machine file, stretched by idle cores where it computes; not priced where the file lacks the rate.
  ResourceTime& add(const std::string& name, double amount, const std::string& unit, const MaybeFigure& rate,
                    const std::string& figure, ResourceTime::Kind kind, double scale = 1);
  /// What is waited for, whatever the machine's rates are.
  void wait(const std::string& name, double amount, const std::string& unit, double seconds);
  double sum(ResourceTime::Kind kind) const;  ///< seconds
};

void price_gpu(Sheet& sheet);

/// What of a plan's price on a CPU does not depend on its numbers.
class Cpu {
 public:
  Cpu(const Model& m, const MachineFile& machine, Counting counting);
  void price(Sheet& sheet) const;

 private:
  struct Product {
    Sym lane, row, inner;  ///< row may be null; lane is null where the product has no vectors
  };
  struct Copy {     ///< a load that makes a tile of what could not be read in place
    size_t domain;  ///< of domains_
    bool along;     ///< in vectors, along the rows of both
    bool widened;   ///< its elements are converted, which is priced apart
  };
  struct Run {  ///< elements of an array that follow one another in memory and in a tile
    const TileKernel* kernel;
    Sym axis;
  };
  size_t domain_of(const CoreDomain& d);
  double elements(const Counted& c, size_t domain) const;
  double held_by_block(const Counted& c) const;
  void memory(Sheet& sheet) const;
  void products(Sheet& sheet, const std::vector<double>& elements) const;

  const Model& m_;
  int width_ = 8;  ///< lanes of f32
  int registers_ = 16;
  double hertz_ = 0;        ///< of a core; 0: not known
  bool read_once_ = false;  ///< transfers lie behind computing
  std::vector<CoreDomain> domains_;
  std::vector<Expr> exact_;  ///< elements of each domain; empty where chunks are sampled
  std::map<const Stmt*, Product> products_;
  std::vector<Copy> copies_;
  std::map<Sym, Run> runs_;  ///< by tensor
};

}  // namespace tilewright::pricing
