#include "tilewright/map/sm90/distribution.h"

#include <fmt/format.h>

#include <algorithm>

#include "tilewright/support/error.h"

namespace tilewright::hopper {
namespace {

constexpr int64_t warp = 32;
constexpr int64_t group = 128;
// Ranks of the offset digits of the accumulator pattern: column pair, row g | g + 8, column block, block of 64 rows.
constexpr int pair_rank = 0, half_rank = 1, column_rank = 2, block_rank = 3;

}  // namespace

Distribution Distribution::fragment(int groups, int64_t group_rows) {
  TW_CHECK(group_rows % 64 == 0, "a group holds whole blocks of 64 rows");
  Distribution d;
  d.threads_ = groups * group;
  d.group_rows_ = group_rows;
  d.slots_ = {{4, 1}, {8, 4}, {4, warp}};
  if (groups > 1) d.slots_.push_back({groups, group});
  return d;
}

Distribution Distribution::rows(int64_t threads, int64_t lanes) {
  TW_CHECK(threads % lanes == 0, "lanes divide the threads");
  Distribution d;
  d.threads_ = threads;
  d.lanes_ = lanes;
  if (lanes > 1) d.slots_.push_back({lanes, 1});
  if (threads > lanes) d.slots_.push_back({threads / lanes, lanes});
  return d;
}

void Distribution::place_row(Sym axis) {
  std::vector<Part> parts{
      {8, Digit::To::Owner, 4}, {2, Digit::To::Offset, half_rank}, {4, Digit::To::Owner, warp}};
  if (group_rows_ > 64) parts.push_back({group_rows_ / 64, Digit::To::Offset, block_rank});
  if (threads_ > group) parts.push_back({threads_ / group, Digit::To::Owner, group});
  parts_[axis] = parts;
}

void Distribution::place_column(Sym axis, int64_t size, int64_t multiple) {
  std::vector<Part> parts{{2, Digit::To::Offset, pair_rank}, {4, Digit::To::Owner, 1}};
  int64_t blocks = round_up(size, multiple) / 8;
  if (blocks > 1) parts.push_back({blocks, Digit::To::Offset, column_rank});
  parts_[axis] = parts;
}

void Distribution::place_fast(Sym axis, int64_t size, int64_t vector) {
  TW_CHECK(size % vector == 0, "an axis holds whole vectors");
  std::vector<Part> parts;
  if (vector > 1) parts.push_back({vector, Digit::To::Offset, 0});
  int64_t units = size / vector;
  int64_t along = lanes_;
  while (along > 1 && units % along != 0) along /= 2;
  if (along > 1) parts.push_back({along, Digit::To::Owner, 1});
  if (units / along > 1) parts.push_back({units / along, Digit::To::Offset, 1});
  parts_[axis] = parts;
}

void Distribution::place_slow(Sym axis, int64_t size, int rank) {
  int64_t along = threads_ / lanes_;
  while (along > 1 && size % along != 0) along /= 2;
  std::vector<Part> parts;
  if (along > 1) parts.push_back({along, Digit::To::Owner, lanes_});
  if (size / along > 1) parts.push_back({size / along, Digit::To::Offset, rank + 1});
  parts_[axis] = parts;
}

void Distribution::place_registers(Sym axis, int64_t size, int rank) {
  parts_[axis] = size > 1 ? std::vector<Part>{{size, Digit::To::Offset, rank + 1}} : std::vector<Part>{};
}

int64_t Distribution::extent(Sym axis) const {
  auto it = parts_.find(axis);
  TW_CHECK(it != parts_.end(), fmt::format("axis {} lies nowhere", axis.name()));
  int64_t n = 1;
  for (const Part& p : it->second) n *= p.extent;
  return n;
}

Layout Distribution::layout(const std::vector<Sym>& axes) const {
  std::vector<int64_t> shape;
  std::vector<Digit> digits;
  std::vector<std::pair<int64_t, size_t>> ranked;  // rank, index into digits
  for (size_t a = 0; a < axes.size(); ++a) {
    int64_t step = 1;
    for (const Part& p : parts_.at(axes[a])) {
      digits.push_back({int(a), p.extent, step, p.to, p.stride});
      if (p.to == Digit::To::Offset) ranked.emplace_back(p.stride, digits.size() - 1);
      step *= p.extent;
    }
    shape.push_back(step);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](auto& a, auto& b) { return a.first < b.first; });
  int64_t next = 1;
  for (auto& [rank, k] : ranked) {
    digits[k].stride = next;
    next *= digits[k].extent;
  }
  // Threads that no axis of the tile selects hold replicas.
  std::vector<Digit> replicas;
  for (const Slot& slot : slots_) {
    const Digit* user = nullptr;
    for (const Digit& d : digits) {
      if (d.to != Digit::To::Owner || d.stride != slot.stride) continue;
      if (user) {
        throw UserError(Span{},
                        fmt::format("axes {} and {} of one tile lie along the same threads",
                                    axes[user->axis].written(), axes[d.axis].written()),
                        "group one of the two in blocks of one element");
      }
      user = &d;
    }
    const int64_t used = user ? user->extent : 1;
    if (slot.extent > used)
      replicas.push_back({-1, slot.extent / used, 0, Digit::To::Owner, slot.stride * used});
  }
  digits.insert(digits.end(), replicas.begin(), replicas.end());
  return Layout(std::move(shape), std::move(digits));
}

bool Distribution::collide(Sym a, Sym b) const {
  auto x = parts_.find(a), y = parts_.find(b);
  if (a == b || x == parts_.end() || y == parts_.end()) return false;
  for (const Part& p : x->second)
    for (const Part& q : y->second)
      if (p.to == Digit::To::Owner && q.to == Digit::To::Owner &&
          std::max(p.stride, q.stride) < std::min(p.stride * p.extent, q.stride * q.extent))
        return true;
  return false;
}

Scope Distribution::across(const std::vector<Sym>& axes) const {
  Scope scope = Scope::Thread;
  for (Sym axis : axes) {
    auto it = parts_.find(axis);
    if (it == parts_.end()) continue;
    for (const Part& p : it->second) {
      if (p.to != Digit::To::Owner) continue;
      scope = std::max(scope, p.stride * p.extent <= warp ? Scope::Warp : Scope::Role);
    }
  }
  return scope;
}

}  // namespace tilewright::hopper
