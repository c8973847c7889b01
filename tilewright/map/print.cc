// The text form of mapped programs: one line an op, bodies indented.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/map/mapped.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

std::string text(Expr e) { return e ? to_string(e) : "whole"; }

std::string names(const std::vector<Sym>& syms) {
  std::vector<std::string> list;
  for (Sym s : syms) list.push_back(s.name());
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string texts(const std::vector<Expr>& exprs) {
  std::vector<std::string> list;
  for (Expr e : exprs) list.push_back(text(e));
  return fmt::format("{}", fmt::join(list, ", "));
}

const char* name(Space s) {
  switch (s) {
    case Space::Memory: return "memory";
    case Space::Local: return "local";
    case Space::Registers: return "registers";
  }
  return "?";
}

const char* name(Scope s) {
  switch (s) {
    case Scope::Thread: return "thread";
    case Scope::Warp: return "warp";
    case Scope::Group: return "group";
    case Scope::Role: return "role";
    case Scope::Block: return "block";
  }
  return "?";
}

const char* name(KernelAxis::Kind k) {
  switch (k) {
    case KernelAxis::Kind::Group: return "group";
    case KernelAxis::Kind::Stream: return "stream";
    case KernelAxis::Kind::Resident: return "resident";
    case KernelAxis::Kind::Whole: return "whole";
    case KernelAxis::Kind::Part: return "part";
  }
  return "?";
}

const char* name(Argument::Kind k) {
  switch (k) {
    case Argument::Kind::Pointer: return "pointer";
    case Argument::Kind::Stride: return "stride";
    case Argument::Kind::Size: return "size";
    case Argument::Kind::Scalar: return "scalar";
    case Argument::Kind::Error: return "error word";
  }
  return "?";
}

/// " at i = 128*block, j < min(64, n)": where a tile lies and how much of it there is.
std::string where(const Frame& frame) {
  std::vector<std::string> list;
  for (const AxisFrame& f : frame) {
    std::string s = fmt::format("{} from {}", f.axis.name(), f.origin ? to_string(f.origin) : "0");
    if (f.extent) s += fmt::format(" for {}", to_string(f.extent));
    list.push_back(s);
  }
  return list.empty() ? "" : fmt::format(" at {}", fmt::join(list, ", "));
}

std::string further(const Ahead& a) {
  return a.axis ? fmt::format(", then {} further along {}", a.elements, a.axis.name()) : std::string();
}

std::string shares(const std::vector<Share>& list) {
  std::string text;
  for (const Share& s : list)
    text += fmt::format(", part {} of {} of {} at {} + {} near", s.part + 1, s.parts, s.view.name(),
                        s.ahead.axis.name(), s.ahead.elements);
  return text;
}

std::string slot(Expr use) { return use ? fmt::format("[use {}]", to_string(use)) : ""; }

std::string slots(const std::vector<Use>& uses) {
  std::vector<std::string> list;
  for (const Use& u : uses) list.push_back(u.buffer.name() + slot(u.number));
  return list.empty() ? "" : fmt::format(" with {}", fmt::join(list, ", "));
}

std::string channel(const MappedKernel& k, int c) {
  return c >= 0 && c < int(k.channels.size()) ? k.channels[c].name : fmt::format("channel {}", c);
}

std::string map_name(const MappedKernel& k, int t) {
  return t >= 0 && t < int(k.tensor_maps.size()) ? k.tensor_maps[t].name : fmt::format("map {}", t);
}

struct OpText {
  const MappedKernel& k;
  std::string operator()(const Define& o) const {
    return fmt::format("{} {} {}", o.var.name(), o.again ? "<-" : "=", text(o.value));
  }
  std::string operator()(const Fetch& o) const {
    return fmt::format("{} = {}", o.var.name(), text(read(o.tensor, o.index)));
  }
  std::string operator()(const MappedLoop& o) const {
    return fmt::format("for {} in [{}, {})", o.var.name(), text(o.lo), text(o.hi));
  }
  std::string operator()(const Items& o) const {
    return fmt::format("for the block's elements of the grid, {} counts them", o.ordinal.name());
  }
  std::string operator()(const If& o) const { return fmt::format("if {}", text(o.condition)); }
  std::string operator()(const Vote& o) const {
    return fmt::format("if any over {} of {}, by {}{}{}", names(o.axes), text(o.condition), name(o.scope),
                       where(o.frame), slots(o.uses));
  }
  std::string operator()(const Wait& o) const {
    return fmt::format("wait {}.{}{}", channel(k, o.channel), o.full ? "full" : "empty", slot(o.use));
  }
  std::string operator()(const Arrive& o) const {
    return fmt::format("arrive {}.{}{} each {}", channel(k, o.channel), o.full ? "full" : "empty",
                       slot(o.use), name(o.per));
  }
  std::string operator()(const CopyAsync& o) const {
    std::string at = o.offset > 0 ? fmt::format(" + {}", o.offset) : "";
    return fmt::format("{}{}{} <- {}({}) by {}, {} bytes on {}.full", o.buffer.name(), slot(o.use), at,
                       map_name(k, o.tensor_map), texts(o.coordinates), o.atom, o.bytes,
                       channel(k, o.channel));
  }
  std::string operator()(const Copy& o) const {
    std::string needed = o.present ? fmt::format(" where {}", to_string(o.present)) : "";
    std::string lies = o.in_place ? fmt::format(", or read where it lies if {}", to_string(o.in_place)) : "";
    return fmt::format("{}{} <- {}[{}]{} by {}{}{}{}", o.buffer.name(), slot(o.use), o.tensor.name(),
                       texts(o.index), needed, o.atom, where(o.frame), further(o.ahead), lies);
  }
  std::string operator()(const StoreOut& o) const {
    return fmt::format("{}[{}] <- {} by {}{}{}", o.tensor.name(), texts(o.index), o.buffer.name(), o.atom,
                       where(o.frame), o.past ? ", past the caches if " + to_string(o.past) : "");
  }
  std::string operator()(const StoreAsync& o) const {
    return fmt::format("{}({}) <- {} by {} each {}", map_name(k, o.tensor_map), texts(o.coordinates),
                       o.buffer.name(), o.atom, name(o.per));
  }
  std::string operator()(const Fail& o) const { return fmt::format("fail check {}", o.check); }
  std::string operator()(const BulkWait&) const { return "wait for bulk stores"; }
  std::string operator()(const Mma& o) const {
    const std::string next =
        o.next ? fmt::format(", then read {}{}", o.next.name(), where(o.next_frame)) : std::string();
    return fmt::format("{} {}= {} . {} over {} by {}{}{}{}", o.d.name(), o.zero ? "" : "+", o.a.name(),
                       o.b.name(), names(o.contracted), o.atom, where(o.frame), slots(o.uses), next);
  }
  std::string operator()(const MmaFence&) const { return "fence registers"; }
  std::string operator()(const Commit&) const { return "commit group"; }
  std::string operator()(const WaitGroup& o) const {
    return fmt::format("wait groups, {} pending", o.pending);
  }
  std::string operator()(const CopyCommit&) const { return "commit group of copies"; }
  std::string operator()(const CopyWait& o) const {
    return fmt::format("wait groups of copies, {} pending", o.pending);
  }
  std::string operator()(const ProxyFence&) const { return "fence local"; }
  std::string operator()(const Barrier& o) const {
    return fmt::format("barrier {} of {}", o.id, name(o.scope));
  }
  std::string operator()(const MapOp& o) const {
    return fmt::format("{} = {}{}{}", o.buffer.name(), text(o.value), where(o.frame), slots(o.uses));
  }
  std::string operator()(const ReduceOp& o) const {
    std::string scratch = o.scratch ? fmt::format(" through {}", o.scratch.name()) : "";
    const std::string over = o.axes.empty() ? "" : " over " + names(o.axes);
    return fmt::format("{} {}= {}{} of {}, across {}{}{}{}{}", o.buffer.name(), o.accumulate ? "combine" : "",
                       name(o.reducer), over, text(o.value), name(o.across), scratch, where(o.frame),
                       slots(o.uses), further(o.ahead)) +
           shares(o.shares);
  }
  std::string operator()(const RankOp& o) const {
    return fmt::format("{}, {} = merge first {} over {} of ({}, {}){}{}{}", o.keys.name(), o.indices.name(),
                       o.rank.name(), o.axis.name(), text(o.value), text(o.at),
                       o.present ? " where " + to_string(o.present) : "", where(o.frame), slots(o.uses));
  }
};

void print_ops(const MappedKernel& k, const Ops& ops, int depth, std::string& out) {
  std::string indent(size_t(depth) * 2, ' ');
  for (const MappedOp& op : ops) {
    out += indent + print(k, op);
    if (!op.comment.empty()) out += "  # " + op.comment;
    out += "\n";
    auto body = [&](const Ops& inner) { print_ops(k, inner, depth + 1, out); };
    auto branches = [&](const Ops& then, const Ops& otherwise) {
      body(then);
      if (otherwise.empty()) return;
      out += indent + "else\n";
      body(otherwise);
    };
    if (auto* loop = std::get_if<MappedLoop>(&op.node)) body(loop->body);
    if (auto* items = std::get_if<Items>(&op.node)) body(items->body);
    if (auto* cond = std::get_if<If>(&op.node)) branches(cond->then, cond->otherwise);
    if (auto* vote = std::get_if<Vote>(&op.node)) branches(vote->then, vote->otherwise);
  }
}

std::string print_buffer(const MappedKernel& k, const Buffer& b) {
  std::string s = fmt::format("{}[{}] {} {}", b.sym.name(), names(b.axes), name(b.dtype), name(b.space));
  if (b.space == Space::Memory) return s + fmt::format(" {}[{}]", b.tensor.name(), texts(b.index));
  if (b.space == Space::Registers && b.role >= 0 && b.role < int(k.roles.size()))
    s += " of " + k.roles[b.role].name;
  s += " " + b.layout.str();
  if (b.space == Space::Local) {
    if (b.slots > 1) s += fmt::format(", {} slots", b.slots);
    s += b.shares ? fmt::format(", in {}", b.shares.name()) : fmt::format(", aligned to {}", b.alignment);
  }
  return s;
}

std::string print_argument(const Argument& a) {
  std::string s = fmt::format("{} {}", name(a.kind), a.sym ? a.sym.name() : "?");
  if (a.kind == Argument::Kind::Stride) s += fmt::format(" of {} dimension {}", a.tensor.name(), a.dim);
  return s;
}

std::string print_map(const TensorMap& t) {
  std::vector<std::string> dims;
  for (const TensorMap::Dimension& d : t.dims)
    dims.push_back(fmt::format("{} of {} by {}", d.box, text(d.size), text(d.stride)));
  return fmt::format("{}: {} {}, box {{{}}}, swizzle {}", t.name, t.tensor.name(), name(t.dtype),
                     fmt::join(dims, ", "), t.swizzle_bytes);
}

void print_kernel(const MappedKernel& k, std::string& out) {
  out += fmt::format(
      "kernel {}{}{}{}: {} threads, {} local bytes\n", k.name, k.heaviest_first ? ", heaviest first" : "",
      k.persistent ? ", persistent" : "",
      k.sectioned ? fmt::format(", sections of {} of {}", text(k.section), k.sectioned.name()) : "",
      k.threads(), k.local_bytes());
  for (const KernelAxis& a : k.grid) {
    out += fmt::format("  grid {} {}={}", name(a.kind), a.index.name(), a.block);
    if (a.piece != a.block) out += fmt::format("/{}", a.piece);
    if (a.counter) out += fmt::format(" by {}", a.counter.name());
    if (a.begin) out += fmt::format(" over [{}, {})", text(a.begin), text(a.end));
    out += "\n";
  }
  for (const Argument& a : k.arguments) out += fmt::format("  argument {}\n", print_argument(a));
  for (const TensorMap& t : k.tensor_maps) out += fmt::format("  map {}\n", print_map(t));
  for (const Buffer& b : k.buffers) {
    out += fmt::format("  buffer {}", print_buffer(k, b));
    if (!b.comment.empty()) out += "  # " + b.comment;
    out += "\n";
  }
  for (const Channel& c : k.channels)
    out += fmt::format("  channel {} of {}: {} slot{}, full by {}, empty by {}\n", c.name, names(c.buffers),
                       c.slots, c.slots == 1 ? "" : "s", c.full_arrivals, c.empty_arrivals);
  for (const Role& r : k.roles) {
    out += fmt::format("  role {}: {} threads in groups of {}", r.name, r.threads, r.group);
    if (r.registers > 0) out += fmt::format(", {} registers", r.registers);
    out += "\n";
    print_ops(k, r.body, 2, out);
  }
}

}  // namespace

std::string print(const MappedKernel& k, const MappedOp& op) { return std::visit(OpText{k}, op.node); }

std::string print(const Program&, const MappedProgram& m) {
  std::string out = fmt::format("mapped {} for {} on {}\n", m.name, name(m.target), m.machine.name);
  for (const HostScalar& s : m.scalars) out += fmt::format("scalar {} = {}\n", s.sym.name(), text(s.value));
  for (const Workspace& w : m.workspaces)
    out += fmt::format("workspace {}[{}] {}\n", w.sym.name(), names(w.axes), name(w.dtype));
  for (const LayoutGuard& g : m.layout)
    out += fmt::format("guard {}{}: aligned to {}\n", g.tensor.name(), g.unit_inner ? ", last stride 1" : "",
                       g.align);
  for (const ChunkStep& s : m.chunk_steps) {
    out += fmt::format("step {}: {} threads for each row of {}\n", s.name, s.threads, s.table.table.name());
    for (const Argument& a : s.arguments) out += fmt::format("  argument {}\n", print_argument(a));
  }
  for (const MappedKernel& k : m.kernels) print_kernel(k, out);
  return out;
}

}  // namespace tilewright
