// Control, waiting and bulk copies.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

bool element_op(const MappedOp& o) {
  return std::holds_alternative<MapOp>(o.node) || std::holds_alternative<ReduceOp>(o.node);
}

/// Units of 16 bytes in which a Local tile is scanned: lines of `held` units that are `apart` from each other.
struct ScannedUnits {
  int64_t count = 0, held = 1, apart = 1;
};
std::optional<ScannedUnits> scanned_units(const Buffer& b) {
  if (b.space != Space::Local) return {};
  if (bytes(b.dtype) == 2) {
    if (b.layout.elements() % 8 != 0) return {};
    return ScannedUnits{b.layout.elements() / 8};
  }
  if (b.dtype != DType::f32 || b.axes.size() != 2 || b.layout.swizzle().bits != 0) return {};
  int64_t line = 1, apart = b.layout.shape()[0] * b.layout.shape()[1];
  for (const Digit& d : b.layout.digits()) {
    if (d.step != 1 || d.extent != b.layout.shape()[size_t(d.axis)]) return {};
    if (d.stride == 1)
      line = d.extent;
    else
      apart = d.stride;
  }
  if (line % 4 != 0 || apart % 4 != 0) return {};
  return ScannedUnits{b.layout.shape()[0] * b.layout.shape()[1] / 4, line / 4, apart / 4};
}

/// Does an integer division stand in the expression?
bool divides(Expr e) {
  return e.is(Op::FloorDiv) || e.is(Op::Mod) || std::any_of(e.args().begin(), e.args().end(), divides);
}

/// not (abs(tile) < inf) over all elements of a Local tile of floats: scanned 16 bytes at a time.
const Buffer* finite_test(const MappedKernel& k, const Vote& v) {
  Expr e = v.condition;
  if (!e.is(Op::Not) || !e.arg(0).is(Op::Lt)) return nullptr;
  const Expr x = e.arg(0).arg(0), bound = e.arg(0).arg(1);
  if (!x.is(Op::Abs) || !x.arg(0).is(Op::Read) || !(bound == Expr::infinity())) return nullptr;
  for (const Buffer& b : k.buffers)
    if (b.sym == x.arg(0)->sym && scanned_units(b)) return &b;
  return nullptr;
}

}  // namespace

void CudaKernel::ops(const Ops& list, Lines& out) {
  const size_t kept_outside = kept_.size();
  for (size_t k = 0; k < list.size();) {
    const size_t end = element_op(list[k]) ? fusible(list, k) : k + 1;
    keep_before(list, k, end, out);
    if (element_op(list[k]))
      element_work(list, k, end, out);
    else
      op(list, k, out);
    k = end;
  }
  for (; kept_.size() > kept_outside; kept_.pop_back()) keep(kept_.back(), out);
}

void CudaKernel::op(const Ops& list, size_t k, Lines& out) {
  const MappedOp& o = list[k];
  index_text_.clear();
  if (!o.comment.empty()) out.line("// " + o.comment);
  if (auto* x = std::get_if<Define>(&o.node))
    out.line(fmt::format("{}{} = {};",
                         x->again                 ? ""
                         : varying_.count(x->var) ? "int "
                                                  : "const int ",
                         names_.of(x->var), constant_int(x->value)));
  if (auto* x = std::get_if<Fetch>(&o.node))
    out.line(fmt::format("const int {} = (int){}[{}];", names_.of(x->var), names_.of(x->tensor),
                         element_address(x->tensor, x->index, Nest{})));
  if (auto* x = std::get_if<MappedLoop>(&o.node)) loop(*x, out);
  if (auto* x = std::get_if<Items>(&o.node)) items(*x, out);
  if (auto* x = std::get_if<If>(&o.node)) {
    out.open(fmt::format("if ({})", scalar_bool(x->condition)));
    ops(x->then, out);
    if (!x->otherwise.empty()) {
      out.chain("else");
      ops(x->otherwise, out);
    }
    out.close();
  }
  if (auto* x = std::get_if<Vote>(&o.node)) vote(*x, out);
  if (auto* x = std::get_if<Wait>(&o.node)) wait(*x, out);
  if (auto* x = std::get_if<Arrive>(&o.node)) arrive(*x, out);
  if (auto* x = std::get_if<CopyAsync>(&o.node)) copy_async(*x, out);
  if (auto* x = std::get_if<Copy>(&o.node)) copy(*x, out);
  if (auto* x = std::get_if<StoreOut>(&o.node)) store(*x, out);
  if (std::holds_alternative<StoreAsync>(o.node) || std::holds_alternative<BulkWait>(o.node))
    throw UserError(Span{}, "bulk stores are not printed for GPUs", "store with store.plain or store.vector");
  if (auto* x = std::get_if<Mma>(&o.node)) mma(*x, out);
  if (std::holds_alternative<MmaFence>(o.node)) fence(list, k, out);
  if (std::holds_alternative<Commit>(o.node)) {
    helpers_.use("tw_products");
    out.line("tw_commit();");
    groups_.push_back(open_group_);
    open_group_.clear();
  }
  if (auto* x = std::get_if<WaitGroup>(&o.node)) wait_group(x->pending, out);
  if (std::holds_alternative<CopyCommit>(o.node)) {
    helpers_.use("tw_copies");
    out.line("tw_copy_commit();");
  }
  if (auto* x = std::get_if<CopyWait>(&o.node)) copy_wait(x->pending, out);
  if (std::holds_alternative<ProxyFence>(o.node)) {
    helpers_.use("tw_proxy_fence");
    out.line("tw_proxy_fence();");
  }
  if (auto* x = std::get_if<Barrier>(&o.node)) barrier(x->scope, out);
}

/// Do the ops load registers and compute with them, and neither wait nor share anything?
bool CudaKernel::moves_registers(const Ops& list) const {
  return std::all_of(list.begin(), list.end(), [&](const MappedOp& op) {
    const Sym written = std::holds_alternative<MapOp>(op.node)  ? std::get<MapOp>(op.node).buffer
                        : std::holds_alternative<Copy>(op.node) ? std::get<Copy>(op.node).buffer
                                                                : Sym();
    constexpr int64_t few = 4;  // elements of a thread
    return written && buffer(written).space == Space::Registers && buffer(written).layout.elements() <= few;
  });
}

void CudaKernel::loop(const MappedLoop& o, Lines& out) {
  const std::string lo = constant_int(o.lo), hi = constant_int(o.hi);
  const std::string& v = names_.of(o.var);
  // Loads of several rounds are under way at once.
  out.line(fmt::format("#pragma unroll {}", moves_registers(o.body) ? 8 : 1));
  out.open(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0})", v, lo, hi));
  // Addresses are computed anew in chunks that wait for their products: held over, they would take registers from tiles.
  bool products = false, pipelined = false;
  for_each_op(o.body, [&](const MappedOp& op) {
    const auto* wait = std::get_if<WaitGroup>(&op.node);
    products = products || wait;
    pipelined = pipelined || (wait && wait->pending > 0);
  });
  if (products && !pipelined) {
    helpers_.use("tw_again");
    const std::string again = names_.fresh("local_again");
    out.line(fmt::format("const unsigned {} = tw_again(local_at);", again));
    out.open("");
    out.line(fmt::format("const unsigned local_at = {};", again));
    ops(o.body, out);
    out.close();
  } else {
    ops(o.body, out);
  }
  out.close();
}

void CudaKernel::items(const Items& o, Lines& out) {
  const std::string& v = names_.of(o.ordinal);
  const std::string element = names_.fresh("element");
  out.line("#pragma unroll 1");
  out.open(fmt::format("for (int {0} = 0;; ++{0})", v));
  // item_number() of map/mapped.h
  out.line(fmt::format(
      "const int {0} = {1} * (int)gridDim.x + (int)({1} & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);",
      element, v));
  out.line(fmt::format("if ({} >= {}) break;", element, elements_));
  decode_grid(element, out);
  ops(o.body, out);
  out.close();
}

std::string CudaKernel::barrier_arguments(Scope scope) const {
  // Named barriers: 0 the block, 1 … 7 the groups of the computing role, 8 + role a whole role.
  if (scope == Scope::Group) return fmt::format("1 + group, {}", role_->group);
  return fmt::format("{}, {}", 8 + role_index_, role_->threads);
}

void CudaKernel::barrier(Scope scope, Lines& out) {
  switch (scope) {
    case Scope::Thread: return;
    case Scope::Warp: out.line("__syncwarp();"); return;
    case Scope::Block: out.line("__syncthreads();"); return;
    case Scope::Group:
    case Scope::Role:
      helpers_.use("tw_barrier");
      out.line(fmt::format("tw_barrier({});", barrier_arguments(scope)));
      return;
  }
}

void CudaKernel::vote(const Vote& o, Lines& out) {
  const std::string flag = names_.fresh("vote");
  out.line(fmt::format("bool {} = false;", flag));
  if (const Buffer* scanned = finite_test(kernel_, o)) {
    index_text_.clear();
    const std::string data = names_.fresh("scanned");
    const int threads = o.scope == Scope::Group ? role_->group : o.scope == Scope::Warp ? 32 : role_->threads;
    const std::string first = o.scope == Scope::Group && role_->threads > role_->group
                                  ? fmt::format("thread & {}", role_->group - 1)
                              : o.scope == Scope::Warp ? "lane"
                                                       : "thread";
    const std::string see = helpers_.use(scanned->dtype == DType::f16   ? "tw_seen_f16"
                                         : scanned->dtype == DType::f32 ? "tw_seen_f32"
                                                                        : "tw_seen_bf16");
    const ScannedUnits units = *scanned_units(*scanned);
    const std::string unit = units.held == units.apart
                                 ? "k"
                                 : fmt::format("k / {} * {} + k % {}", units.held, units.apart, units.held);
    const std::string seen = names_.fresh("seen");
    out.line(fmt::format("const uint4* const {} = (const uint4*){};", data, local_pointer(*scanned, o.uses)));
    out.line(fmt::format("uint4 {} = make_uint4(0, 0, 0, 0);", seen));
    out.line("#pragma unroll 8");
    out.open(fmt::format("for (int k = {}; k < {}; k += {})", first, units.count, threads));
    out.line(fmt::format("const uint4 w = {}[{}];", data, unit));
    for (const char* part : {"x", "y", "z", "w"})
      out.line(fmt::format("{0}.{1} = {2}({0}.{1}, w.{1});", seen, part, see));
    out.close();
    out.line(fmt::format("{0} = (({1}.x | {1}.y | {1}.z | {1}.w) & {2}) != 0;", flag, seen,
                         scanned->dtype == DType::f32 ? "0x7fffffffu" : "0x7fff7fffu"));
  } else {
    std::vector<Sym> buffers = tiles_in(o.condition);
    const Nest nest = nest_of(o.frame, o.axes, buffers, o.uses);
    for (const NestAxis& a : nest.axes)
      TW_CHECK(a.held, fmt::format("a vote over {} reads no register tile with that axis", a.axis.name()));
    nest_ = &nest;
    open_loops(nest, 0, nest.loops.size(), out);
    if (nest.loops.empty()) out.open("");
    coordinates(nest, out);
    CudaPrinter printer(*this, 32, 32);
    // Terms that may all be evaluated are: no branches.
    const std::vector<Sym> read = tensors_read(o.condition);
    const bool harmless = !divides(o.condition) && std::all_of(read.begin(), read.end(), [&](Sym s) {
      return has_buffer(s) && buffer(s).space == Space::Registers;
    });
    std::vector<Expr> terms{o.condition};
    if (harmless && o.condition.is(Op::And)) terms = o.condition.args();
    std::string all;
    for (Expr t : terms)
      all += (all.empty() ? "" : " & ") + CPrinter::wrap(printer.as(printer.value(t), CKind::Boolean),
                                                         harmless ? c_precedence::unary : c_precedence::both);
    out.line(fmt::format("{0} = {0} {1} {2};", flag, harmless ? "|" : "||", all));
    if (nest.loops.empty()) out.close();
    close_loops(nest, 0, nest.loops.size(), out);
    nest_ = nullptr;
  }
  std::string any = flag;
  if (o.scope == Scope::Warp) any = fmt::format("__any_sync(0xffffffffu, {})", flag);
  if (o.scope > Scope::Warp) {
    helpers_.use("tw_any");
    any = fmt::format("tw_any({}, {})", barrier_arguments(o.scope), flag);
  }
  // A vote is about a rare case: a repair, a slow path.
  out.open(fmt::format("if (__builtin_expect({}, 0))", any));
  const bool outside = std::exchange(rare_, true);
  Lines rare;
  ops(o.then, rare);
  rare_ = outside;
  if (o.scope > Scope::Warp && mentions(rare.text(), "thread")) {
    // Products by FMA: what they need of the thread's number is computed there, not in registers that the loop around them lacks.
    const std::string here = names_.fresh("here");
    out.line(fmt::format("const int {} = {}(thread);", here, helpers_.use("tw_seldom")));
    out.open("");
    out.line(fmt::format("const int thread = {};", here));
    out.append(rare);
    out.close();
  } else {
    out.append(rare);
  }
  if (!o.otherwise.empty()) {
    out.chain("else");
    ops(o.otherwise, out);
  }
  out.close();
}

std::string CudaKernel::signal(int channel, bool full, const std::string& slot) const {
  const int64_t at = kernel_.signal_offset(channel) + (full ? 0 : 8);
  return slot.empty() ? fmt::format("local_at + {}", at) : fmt::format("local_at + {} + 16 * {}", at, slot);
}

void CudaKernel::wait(const Wait& o, Lines& out) {
  helpers_.use("tw_signal");
  const Channel& c = kernel_.channels[o.channel];
  const std::string use = "(" + constant_int(o.use) + ")";
  const std::string slot = c.slots == 1 ? "" : remainder(use, c.slots);
  const std::string round = quotient(use, c.slots);
  const std::string parity = o.full ? fmt::format("{} & 1", round) : fmt::format("{} & 1 ^ 1", round);
  out.line(fmt::format("tw_wait({}, {});  // {} of {}", signal(o.channel, o.full, slot), parity,
                       o.full ? "full" : "empty", c.name));
}

void CudaKernel::arrive(const Arrive& o, Lines& out) {
  helpers_.use("tw_signal");
  const Channel& c = kernel_.channels[o.channel];
  const std::string slot = c.slots == 1 ? "" : remainder("(" + constant_int(o.use) + ")", c.slots);
  const std::string text = fmt::format("tw_arrive({});  // {} of {}", signal(o.channel, o.full, slot),
                                       o.full ? "full" : "empty", c.name);
  switch (o.per) {
    case Scope::Thread: out.line(text); return;
    case Scope::Warp:
      out.line("__syncwarp();");
      out.line("if (lane == 0) " + text);
      return;
    case Scope::Group: out.line(fmt::format("if (thread % {} == 0) {}", role_->group, text)); return;
    default: out.line("if (thread == 0) " + text); return;
  }
}

void CudaKernel::copy_async(const CopyAsync& o, Lines& out) {
  const Channel& c = kernel_.channels[o.channel];
  const Buffer& b = buffer(o.buffer);
  const std::string use = "(" + constant_int(o.use) + ")";
  const std::string signal_slot = c.slots == 1 ? "" : remainder(use, c.slots);
  const std::string buffer_slot =
      b.slots == 1 ? "" : fmt::format(" + {} * {}", remainder(use, b.slots), b.slot_bytes());
  const TensorMap& map = kernel_.tensor_maps[o.tensor_map];
  const std::string copy = helpers_.use_bulk_copy(int(map.dims.size()));
  std::string coordinates;
  for (Expr e : o.coordinates) coordinates += ", " + constant_int(e);
  if (!role_is_one_thread_) out.open("if (thread == 0)");
  out.line(fmt::format("tw_expect({}, {});", signal(o.channel, true, signal_slot), o.bytes));
  out.line(fmt::format("{}(local_at + {}{}, &map{}, {}{});  // {}", copy,
                       kernel_.local_offset(o.buffer) + o.offset * bytes(b.dtype), buffer_slot, o.tensor_map,
                       signal(o.channel, true, signal_slot), coordinates, map.name));
  if (!role_is_one_thread_) out.close();
}

}  // namespace tilewright::cuda_text
