// Where the arrays between the kernels of a program lie: one allocation, cut into regions that arrays share whose
// lifetimes do not overlap.
#pragma once
#include "tilewright/plan/partition.h"
#include "tilewright/program/sizes.h"

namespace tilewright {

/// Regions begin at multiples of this many bytes.
constexpr int64_t workspace_alignment = 64;

struct WorkspacePlan {
  struct Region {
    std::vector<size_t> arrays;  ///< indices into Partition::arrays, in the order in which they are written
  };
  std::vector<Region> regions;
  std::vector<int> region;  ///< of each array of the partition; −1 for an output of the program
  std::vector<Expr> bytes;  ///< of each array, over the sizes of axes
};

/// An array lives from the kernel that writes it to the last one that reads it. Arrays take regions in the order in
/// which they are written: a region that is free by then, one of the same symbolic size first, else a new one.
WorkspacePlan plan_workspaces(const Program& p, const Partition& partition);

struct WorkspaceLayout {
  std::vector<int64_t> offset;  ///< of each array of the partition, bytes; −1 for an output of the program
  int64_t bytes = 0;            ///< of the allocation
  int64_t separate = 0;         ///< what it would be without reuse
};

/// Offsets at given sizes. UserError where they overflow 64 bits.
WorkspaceLayout lay_out(const WorkspacePlan& plan, const Sizes& sizes);

/// Lines for people, each beginning with `#`: arrays with dtype, axes, lifetime, region and size.
std::string to_text(const Partition& partition, const WorkspacePlan& plan);

}  // namespace tilewright
