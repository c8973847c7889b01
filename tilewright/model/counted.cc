#include "tilewright/model/counted.h"

#include <algorithm>
#include <cmath>

namespace tilewright {

Counted::Counted(const Model& m, const Integers& values, const Sampler* sampler, KnownValues& known)
    : m_(m), values_(values), known_(known), sampled_(sampler && !m.symbols.visited.empty()) {
  for (const auto& [sym, n] : values) numbers_[sym] = double(n);
  if (sampler) {
    visits_ = sampler->visits(numbers_);
    return;
  }
  for (const Visits& v : m.visits) {
    SampledVisits x;
    const auto plain = value(v.plain), masked = value(v.masked), elements = value(v.elements),
               all = value(v.all);
    x.all = all.value_or(0);
    x.known = plain && masked;
    if (x.known) {
      x.plain = *plain, x.masked = *masked;
      x.elements = elements.value_or(x.all);
    } else {
      const auto block = m.symbols.block.find(v.loop->axis);
      x.plain = x.all / double(block == m.symbols.block.end() ? 1 : values.at(block->second));
      x.elements = x.all;
    }
    visits_.push_back(x);
  }
}

double Counted::length(Sym index) const {
  if (const auto it = numbers_.find(index.size()); it != numbers_.end()) return it->second;
  for (const Axis& a : m_.tiles->axes)
    if (a.index == index && a.size) return value(a.size).value_or(1);
  return 1;
}

double Counted::count(const KernelAxis& a) const {
  return count_of(m_.symbols, a, length(a.index), numbers_);
}

double Counted::extent(const TileKernel& k, Sym axis) const {
  const double n = length(axis);
  for (const auto* list : {&k.grid, &k.inner})
    for (const KernelAxis& a : *list)
      if (a.index == axis && a.kind != KernelAxis::Kind::Part) return n / std::max(1.0, count(a));
  return n;
}

double Counted::elements(const TileKernel& k, const std::vector<Sym>& axes) const {
  double n = 1;
  for (Sym a : axes) n *= extent(k, a);
  return n;
}

double Counted::blocks(size_t kernel) const {
  double n = 1;
  for (const KernelAxis& a : m_.tiles->kernels[kernel].grid) n *= count(a);
  return n;
}

const SampledVisits* Counted::visits(const Loop* loop) const {
  for (size_t n = 0; n < m_.visits.size() && n < visits_.size(); ++n)
    if (m_.visits[n].loop == loop) return &visits_[n];
  return nullptr;
}

double Counted::times(size_t kernel, const Loop* loop, bool plain, bool masked) const {
  const SampledVisits* v = loop ? visits(loop) : nullptr;
  if (!v) return blocks(kernel);
  if (!v->known) return plain || masked ? v->plain : 0;
  return (plain ? v->plain : 0) + (masked ? v->masked : 0);
}

Bindings Counted::smooth_numbers(const Integers& values) const {
  Bindings b;
  for (const auto& [sym, n] : values) b[sym] = double(n);
  // No block holds more than there is: a smooth formula of tiles longer than their axes would count less than an array once.
  for (const auto& [axis, block] : m_.symbols.block)
    if (const auto it = b.find(block); it != b.end())
      if (const auto size = b.find(axis.size()); size != b.end())
        it->second = std::max(1.0, std::min(it->second, size->second));
  for (size_t n = 0; n < m_.visits.size() && n < visits_.size(); ++n)
    if (const auto share = m_.symbols.visited.find(m_.visits[n].loop); share != m_.symbols.visited.end())
      b[share->second] = visits_[n].all > 0 ? visits_[n].elements / visits_[n].all : 1;
  return b;
}

std::optional<double> Counted::bytes(Expr exact, Expr smooth, const Integers* larger) const {
  const Integers& values = larger ? *larger : values_;
  if (!sampled_ || !smooth)
    if (const auto n = value(exact, values)) return n;
  if (!smooth) return std::nullopt;
  return known_(smooth, smooth_numbers(values));
}

double Counted::loaded() const {
  double sum = 0;
  for (size_t n = 0; n < m_.exact.loaded_by_tensor.size(); ++n)
    sum += bytes(m_.exact.loaded_by_tensor[n].second, m_.smooth.loaded_by_tensor[n].second).value_or(0);
  return sum;
}
double Counted::stored() const { return bytes(m_.exact.memory.stored, m_.smooth.memory.stored).value_or(0); }

std::optional<double> transferred(const Model& m, Expr exact, Expr smooth, const Integers& values) {
  KnownValues known;
  return Counted(m, values, nullptr, known).bytes(exact, smooth);
}

}  // namespace tilewright
