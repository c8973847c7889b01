// One part of a program as a Program of its own (plan/partition.h). Outside of plan/ explain/ makes kernels of single statements with it.
#pragma once
#include <set>

#include "tilewright/plan/partition.h"

namespace tilewright::parts {

/// Names of everything that a program declares.
std::vector<std::string> names_of(const Program& p);
/// `wish`, or with a number where it is taken.
std::string unique_name(const std::string& wish, const std::vector<std::string>& taken);

/// A new axis; `size` null: known when it runs.
Axis new_axis(const std::string& name, Expr size, Span span, const std::string& written = {});

/// The array that holds a stored definition: the output array where the whole program outputs it in the dtype in which
/// it is stored, else an array between kernels. Made once for each definition.
StoredArray array_of(const Program& p, Sym definition);

/// Calls `visit` once for each node of `e`, bound symbols included; reads of definitions are not followed.
void each_node(Expr e, std::set<Expr>& seen, const std::function<void(Expr)>& visit);

/// What the part that computes `sinks` (definitions, or inputs that are outputs) needs: definitions in order.
std::vector<Sym> definitions_of(const Program& p, const std::vector<Sym>& sinks, const std::set<Sym>& stored);

/// The part. `stored` are the definitions that other parts read, `arrays` where they are held.
Program program_of(const Program& p, const std::vector<Sym>& sinks, const std::set<Sym>& stored,
                   const std::map<Sym, StoredArray>& arrays);

}  // namespace tilewright::parts
