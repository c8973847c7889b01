#include "tilewright/plan/workspaces.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/verify.h"

namespace tilewright {

WorkspacePlan plan_workspaces(const Program& p, const Partition& partition) {
  WorkspacePlan plan;
  std::vector<size_t> order;
  for (size_t k = 0; k < partition.arrays.size(); ++k) {
    const StoredArray& a = partition.arrays[k];
    Expr size = Expr(bytes(a.dtype));
    for (Sym s : a.axes()) {
      const Axis& axis = p.axis(s);
      size = size * (axis.baked() ? axis.size : Expr(axis.index.size()));
    }
    plan.bytes.push_back(simplify(size));
    plan.region.push_back(-1);
    if (!a.output) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return partition.arrays[a].from < partition.arrays[b].from; });
  for (size_t k : order) {
    int chosen = -1;
    bool equal = false;
    for (size_t r = 0; r < plan.regions.size(); ++r) {
      const size_t last = plan.regions[r].arrays.back();
      if (partition.arrays[last].until >= partition.arrays[k].from) continue;
      const bool same = plan.bytes[last] == plan.bytes[k];
      if (chosen >= 0 && (equal || !same)) continue;
      chosen = static_cast<int>(r);
      equal = same;
    }
    if (chosen < 0) {
      chosen = static_cast<int>(plan.regions.size());
      plan.regions.emplace_back();
    }
    plan.regions[static_cast<size_t>(chosen)].arrays.push_back(k);
    plan.region[k] = chosen;
  }
  return plan;
}

WorkspaceLayout lay_out(const WorkspacePlan& plan, const Sizes& sizes) {
  WorkspaceLayout layout;
  layout.offset.assign(plan.bytes.size(), -1);
  const auto add = [](int64_t a, int64_t b) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum) || sum > INT64_MAX - workspace_alignment)
      throw UserError(Span{}, "the arrays between kernels overflow 64 bits", "use smaller sizes");
    return sum;
  };
  const auto aligned = [](int64_t n) {
    return (n + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  };
  for (const WorkspacePlan::Region& r : plan.regions) {
    int64_t most = 0;
    for (size_t k : r.arrays) {
      const int64_t size = aligned(add(evaluate_integer(plan.bytes[k], sizes), 0));
      layout.offset[k] = layout.bytes;
      layout.separate = add(layout.separate, size);
      most = std::max(most, size);
    }
    layout.bytes = add(layout.bytes, most);
  }
  return layout;
}

std::string to_text(const Partition& partition, const WorkspacePlan& plan) {
  if (partition.arrays.empty()) return {};
  std::string text;
  for (size_t k = 0; k < partition.arrays.size(); ++k) {
    const StoredArray& a = partition.arrays[k];
    text += fmt::format("# {} {}{}: ", a.sym.name(), name(a.dtype), dims_text(a.dims));
    text += a.output ? std::string("the output")
                     : fmt::format("{} bytes in region {}", to_string(plan.bytes[k]), plan.region[k] + 1);
    text += fmt::format(", from kernel {} to {}\n", a.from + 1, a.until + 1);
  }
  std::vector<std::string> regions;
  for (const WorkspacePlan::Region& r : plan.regions) {
    std::vector<std::string> sizes;
    for (size_t k : r.arrays) {
      const std::string size = to_string(plan.bytes[k]);
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
    }
    const std::string all = fmt::format("{}", fmt::join(sizes, ", "));
    regions.push_back(sizes.size() > 1 ? "max(" + all + ")" : all);
  }
  if (!regions.empty())
    text += fmt::format("# workspace: {} bytes (each part rounded up to {})\n", fmt::join(regions, " + "),
                        workspace_alignment);
  return text;
}

}  // namespace tilewright
