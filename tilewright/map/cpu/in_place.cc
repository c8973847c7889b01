#include "tilewright/map/cpu/in_place.h"

#include <algorithm>

#include "tilewright/expr/simplify.h"

namespace tilewright::cpu {
namespace {

/// Does an op read a buffer other than as the lanes of a product?
struct ReadsOtherwise {
  Sym buffer;

  bool in(Expr e) const {
    if (!e) return false;
    const std::vector<Sym> read = tensors_read(e);
    return std::find(read.begin(), read.end(), buffer) != read.end();
  }
  bool in(const std::vector<Expr>& list) const {
    return std::any_of(list.begin(), list.end(), [&](Expr e) { return in(e); });
  }

  bool operator()(const Define& x) const { return in(x.value); }
  bool operator()(const Fetch& x) const { return in(x.index); }
  bool operator()(const If& x) const { return in(x.condition); }
  bool operator()(const Vote& x) const { return in(x.condition); }
  bool operator()(const Copy& x) const { return in(x.index) || in(x.present); }
  bool operator()(const StoreOut& x) const { return x.buffer == buffer || in(x.index); }
  bool operator()(const Mma& x) const { return x.b == buffer || x.d == buffer; }
  bool operator()(const MapOp& x) const { return in(x.value); }
  bool operator()(const ReduceOp& x) const { return in(x.value); }
  bool operator()(const RankOp& x) const { return in(x.value) || in(x.at) || in(x.present); }
  template <class T>
  bool operator()(const T&) const {
    return false;  // loops and what they hold are visited one by one; waiting and asynchronous ops do not occur
  }
};

}  // namespace

void read_in_place(Ops& body, const std::map<Sym, Expr>& uses) {
  for (MappedOp& op : body) {
    Copy* copy = std::get_if<Copy>(&op.node);
    if (!copy || copy->present || !uses.count(copy->buffer)) continue;
    bool otherwise = false;
    for_each_op(body, [&](MappedOp& reader) {
      otherwise = otherwise || std::visit(ReadsOtherwise{copy->buffer}, reader.node);
    });
    const Expr few = simplify(logical_not(less(few_uses, uses.at(copy->buffer))));
    if (!otherwise && !few.is_constant(0)) copy->in_place = few;
  }
}

}  // namespace tilewright::cpu
