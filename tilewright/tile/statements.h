// What the statements of a tile program range over, read and write.
#pragma once
#include <functional>

#include "tilewright/tile/tile_program.h"

namespace tilewright {

bool contains_axis(const std::vector<Sym>& axes, Sym axis);
/// `a`, then the axes of `b` that it lacks.
std::vector<Sym> axes_union(std::vector<Sym> a, const std::vector<Sym>& b);

/// The expression that a statement evaluates in a segment; null where it has none. A masked segment without
/// `masked` has the plain value.
Expr value_in(const Map& s, bool masked);
Expr value_in(const Reduce& s, bool masked);
/// All of them, of a statement with several; of any other what value_in gives.
std::vector<Expr> values_in(const Stmt& s, bool masked);

/// Axes that a statement ranges over: those of its tile, then the reduced ones; of lists without the axis of ranks. Loops and Whens have none.
std::vector<Sym> domain(const TileKernel& k, const Stmt& s);

/// Tiles of the kernel that an expression reads, each once, in first-occurrence order.
std::vector<Sym> tiles_read(const TileKernel& k, Expr e);
/// Tiles that the statement itself reads (not those of the bodies inside it; a When reads its condition's).
/// `plain` and `masked` choose the segments asked for. An accumulating statement reads its own tile.
std::vector<Sym> reads(const TileKernel& k, const Stmt& s, bool plain = true, bool masked = true);
/// The tile that the statement itself writes; a null symbol for stores, loops and whens. Lists: the keys.
Sym written(const Stmt& s);
/// All tiles that it writes: of lists the keys and the indices.
std::vector<Sym> all_written(const Stmt& s);

/// Bodies inside a statement.
const Body* inner_body(const Stmt& s);
Body* inner_body(Stmt& s);
/// Every statement, outer before inner, in order.
void for_each_stmt(const Body& body, const std::function<void(const Stmt&)>& f);
void for_each_stmt(Body& body, const std::function<void(Stmt&)>& f);

/// Is the tile one of this kernel's?
bool has_tile(const TileKernel& k, Sym sym);
/// Is the index symbol an axis of this kernel?
bool has_axis(const TileKernel& k, Sym index);

/// Is the axis cut into blocks or chunks that a counter numbers? Whole and Resident axes are not.
bool advances(const KernelAxis& a);
/// First global index of the axis in the current block or chunk: counter·block, 0 for Whole and Resident.
Expr origin(const KernelAxis& a);
/// Size of the axis where the program bakes it in, else its Size symbol.
Expr size_of(const std::vector<Axis>& axes, Sym index);
/// Elements of the current block or chunk that exist: min(block, size − origin).
Expr extent(const std::vector<Axis>& axes, const KernelAxis& a);
/// Blocks or chunks of the axis: ceil(size / block); 1 for Whole and Resident.
Expr count(const std::vector<Axis>& axes, const KernelAxis& a);
/// Bytes of a tile at full size, all slots: what it takes of its level's memory.
int64_t full_bytes(const TileKernel& k, const Tile& t);
/// Expressions over sizes with the literal ones put in.
Expr bake(const std::vector<Axis>& axes, Expr e);

}  // namespace tilewright
