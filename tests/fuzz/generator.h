// Random programs that the whole pipeline can be asked to compile: scores over two axes, masks, reductions along
// one of them, and arithmetic of their results.
#pragma once
#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace tilewright::fuzz {

struct Generated {
  std::string text;
  std::map<std::string, int64_t> sizes;
  std::string schedule;  ///< empty: the default plans
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}
  Generated program();

 private:
  int pick(int n) { return int(random_() % uint64_t(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  std::string one(std::initializer_list<const char*> all) { return all.begin()[pick(int(all.size()))]; }

  std::string exact(int depth);     ///< over r and j, computed without rounding that differs between orders
  std::string score(int depth);     ///< over r and j, of moderate size
  std::string mask(int depth);      ///< over r and j
  std::string weight();             ///< over r and j, from the masked scores c
  std::string statistic();          ///< over r, a reduction along j
  std::string combined(int depth);  ///< over r, of the statistics t0, t1, …

  std::mt19937_64 random_;
  int statistics_ = 0;
};

}  // namespace tilewright::fuzz
