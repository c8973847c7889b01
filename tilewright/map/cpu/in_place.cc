#include "tilewright/map/cpu/in_place.h"

#include "tilewright/expr/simplify.h"
#include "tilewright/map/cpu/passes.h"

namespace tilewright::cpu {
namespace {

/// Does an op read a buffer other than as the lanes of a product?
bool reads_otherwise(const MappedOp& op, Sym buffer) {
  const Mma* product = std::get_if<Mma>(&op.node);
  return product ? product->b == buffer || product->d == buffer : reads(op, buffer);
}

}  // namespace

void read_in_place(Ops& body, const std::map<Sym, Expr>& uses) {
  for (MappedOp& op : body) {
    Copy* copy = std::get_if<Copy>(&op.node);
    if (!copy || copy->present || !uses.count(copy->buffer)) continue;
    bool otherwise = false;
    for_each_op(body,
                [&](MappedOp& reader) { otherwise = otherwise || reads_otherwise(reader, copy->buffer); });
    const Expr few = simplify(logical_not(less(few_uses, uses.at(copy->buffer))));
    if (!otherwise && !few.is_constant(0)) copy->in_place = few;
  }
}

}  // namespace tilewright::cpu
