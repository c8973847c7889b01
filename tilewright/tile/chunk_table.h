// Masks that read arrays: which chunks of a streamed axis a block visits, found before the kernel runs. On a GPU emit/cuda_chunks.cc prints the same rule.
//
// A condition on tensors (documents, lengths, prefixes, tables of blocks) has no bounds in sizes and counters alone. It is evaluated over intervals, one
// block and one chunk at a time, with every read replaced by its least and greatest value over the tile. That decides for most chunks that no element is
// present, or that all are; the others are visited and tested. Reals are not looked at: a kernel rounds them otherwise.
#pragma once
#include "tilewright/tile/memory.h"

namespace tilewright {

/// The rows of the table, row-major over `table.rows`: begin, full_begin, full_end, limit of each block. Chunks outside [begin, limit) hold no element that
/// `some` lets in; those in [full_begin, full_end) lie inside the array and hold none that `every` keeps out. `scalars`: sizes and params. Time grows with
/// blocks × chunks and with the elements of the arrays that are read; a read of more than 2^26 elements in all is not looked at (its chunks are tested).
std::vector<int64_t> chunk_rows(const ChunkTable& table, const std::map<Sym, double>& scalars,
                                const Sizes& sizes, const std::map<Sym, interpreter::Array>& inputs);

}  // namespace tilewright
