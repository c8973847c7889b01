// Passes of a task over what it reads: fewer of them, and each with a share of what is read next.
#pragma once
#include "tilewright/map/mapped.h"

namespace tilewright::cpu {

/// Does an op read a tile?
bool reads(const MappedOp& op, Sym buffer);
/// Does an op write to a tile?
bool writes(const MappedOp& op, Sym buffer);

/// Puts a map in the place of its tile in the reduction behind it where nothing else reads the tile, which goes; and one of
/// few cheap operations in the places of its tile in several reductions, which are printed as one pass. For whole roles.
void inline_maps(MappedKernel& k, Ops& role);

/// Reductions along `stream` of one body bring shares of what views of memory hold there for the next run of the body, `elements` further along `axis`.
void share_reading(const MappedKernel& k, Ops& body, Sym stream, Sym axis, int64_t elements);

}  // namespace tilewright::cpu
