// What the compiler said to parts of a program, kept beside its kernels (runtime/cache.h), so that the search of plan/partition.h is quick at the next start.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tilewright/driver/kernel.h"
#include "tilewright/plan/partition.h"

namespace tilewright {

/// The answers to the parts of one program under the same options, by the same build of Tilewright on the same processor. An entry that
/// cannot be read is no entry.
class Attempts {
 public:
  Attempts(const Program& elaborated, const CompileOptions& o);
  /// The answer for a part, if it is known. A refusal has its text without a position.
  std::optional<Attempt> find(const Program& part) const;
  void add(const Program& part, const Attempt& a);
  /// The kernel that a part, or the whole program, became: what it streams over and its plans as text.
  struct Kept {
    std::string stream, plans;
  };
  std::optional<Kept> kept(const Program& part) const;
  void add(const Program& part, const Kept& k);
  /// How the search began; nullopt where no program has been kept. OneKernel with kept() of the whole program: it ended there.
  std::optional<Start> start() const;
  void add(Start start);
  /// Writes what was added: once the program has been compiled, so that every kept answer led to kernels.
  void keep() const;

 private:
  std::string key_;  ///< empty: nothing is kept
  std::map<std::string, nlohmann::json> known_;
  bool changed_ = false;
};

}  // namespace tilewright
