// One block of a kernel: roles as resumable machines over their op trees, completions by the adversary.
#include "tilewright/map/interpreter_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/failures.h"
#include "tilewright/support/error.h"

namespace tilewright::emulation {
namespace {

using Kind = MappedFault::Kind;

TileTable make_table(const Layout& layout) {
  TileTable t;
  t.shape = layout.shape();
  t.elements = layout.elements();
  int64_t n = 1;
  for (int64_t extent : t.shape) n *= extent;
  t.owner.reserve(n);
  t.offset.reserve(n);
  std::vector<int64_t> coords(t.shape.size(), 0);
  for (int64_t k = 0; k < n; ++k) {
    Place p = layout.place(coords);
    t.owner.push_back(int32_t(p.owner));
    t.offset.push_back(int32_t(p.offset));
    for (size_t a = coords.size(); a-- > 0;) {
      if (++coords[a] < t.shape[a]) break;
      coords[a] = 0;
    }
  }
  for (const Digit& d : layout.digits()) {
    if (d.axis >= 0) continue;
    size_t known = t.replicas.size();
    for (int64_t v = 1; v < d.extent; ++v)
      for (size_t k = 0; k < known; ++k) t.replicas.push_back(int32_t(t.replicas[k] + v * d.stride));
  }
  return t;
}

bool is_asynchronous(const Ops& ops) {
  bool found = false;
  for_each_op(ops, [&](const MappedOp& op) {
    found =
        found || std::holds_alternative<CopyAsync>(op.node) || std::holds_alternative<StoreAsync>(op.node);
    if (auto* mma = std::get_if<Mma>(&op.node)) {
      const Atom* atom = find_atom(mma->atom);
      found = found || (atom && atom->completion != Completion::Synchronous);
    }
  });
  return found;
}

}  // namespace

int64_t TileTable::held(int64_t at, int by) const {
  for (int32_t replica : replicas)
    if (owner[at] + replica == by) return int64_t(by) * elements + offset[at];
  return -1;
}

Runner::Runner(Environment& env, const MappedKernel& kernel, int kernel_number, const Adversary& adversary)
    : env_(env),
      kernel_(kernel),
      kernel_number_(kernel_number),
      adversary_(adversary),
      random_(adversary.seed * 0x9e3779b97f4a7c15u + uint64_t(kernel_number)) {
  one_point_.owner = {-1};
  for (const Buffer& b : kernel_.buffers) {
    TW_CHECK(buffer_index_.emplace(b.sym, int(buffers_.size())).second,
             fmt::format("two buffers {}", b.sym.name()));
    buffers_.push_back({.spec = &b});
    if (b.space == Space::Memory) continue;
    TW_CHECK(b.layout.shape().size() == b.axes.size(),
             fmt::format("the layout of {} has another rank", b.sym.name()));
    BufferState& state = buffers_.back();
    state.table = make_table(b.layout);
    if (b.space == Space::Registers) {
      TW_CHECK(b.role >= 0 && b.role < int(kernel_.roles.size()),
               fmt::format("registers {} belong to no role", b.sym.name()));
      TW_CHECK(b.layout.owners() <= kernel_.roles[b.role].threads,
               fmt::format("{} has {} owners in a role of {} threads", b.sym.name(), b.layout.owners(),
                           kernel_.roles[b.role].threads));
    } else {
      TW_CHECK(b.layout.owners() == 1, fmt::format("{} is local and has owners", b.sym.name()));
    }
    if (b.space == Space::Local && b.shares) continue;
    state.storage = int(storages_.size());
    storages_.emplace_back();
    Storage& s = storages_.back();
    s.slot_elements =
        state.table.elements * (b.space == Space::Registers ? kernel_.roles[b.role].threads : 1);
    if (b.space == Space::Local) s.slots.resize(b.slots);
  }
  for (BufferState& state : buffers_) {  // those that share the bytes of another
    const Buffer* b = state.spec;
    if (b->space != Space::Local || !b->shares) continue;
    const Buffer* base = b;
    for (size_t steps = 0; base->shares; ++steps) {
      TW_CHECK(steps < buffers_.size(), fmt::format("{} shares its own bytes", b->sym.name()));
      base = &kernel_.buffer(base->shares);
    }
    state.storage = buffers_[buffer_index(base->sym)].storage;
    Storage& s = storages_[state.storage];
    TW_CHECK(b->slots == base->slots && bytes(b->dtype) == bytes(base->dtype),
             fmt::format("{} and {} share bytes and differ in slots or element size", b->sym.name(),
                         base->sym.name()));
    s.slot_elements = std::max(s.slot_elements, state.table.elements);
  }
  for (Storage& s : storages_) s.data.resize(s.slot_elements * std::max<size_t>(s.slots.size(), 1));

  agents_ = 2 * int(kernel_.roles.size());
  for (const Channel& c : kernel_.channels) {
    channels_.emplace_back();
    channels_.back().agent = agents_;
    agents_ += c.slots;
  }
  racy_ = kernel_.roles.size() > 1 || !kernel_.channels.empty();
  for (const Role& role : kernel_.roles) {
    TW_CHECK(role.threads >= 1 && role.group >= 1, fmt::format("role {} has no threads", role.name));
    TW_CHECK(role.threads <= 32 || role.group % 32 == 0,
             fmt::format("groups of role {} are no whole warps", role.name));
    racy_ = racy_ || role.threads > 1 || is_asynchronous(role.body);
  }
  for (const KernelAxis& a : kernel_.grid) {
    int slot = env_.symbols.slot(a.index.size());
    TW_CHECK(env_.scalars.has(slot), fmt::format("the size of {} is not known", a.index.name()));
    int64_t size = int64_t(env_.scalars.value[slot]);
    counts_.push_back((size + a.block - 1) / a.block);
    elements_ *= counts_.back();
  }
  if (kernel_.sectioned) {
    std::map<Sym, int64_t> sizes;
    for (Sym s : free_symbols(kernel_.section)) sizes[s] = int64_t(env_.scalars.value[env_.symbols.slot(s)]);
    section_ = evaluate_integer(kernel_.section, sizes);
  }
  blocks_ = elements_;
  if (kernel_.persistent)
    blocks_ = std::min(elements_, adversary_.blocks > 0 ? adversary_.blocks : (elements_ + 2) / 3);
}

Runner::~Runner() = default;

void Runner::run_block(int64_t number) {
  random_.seed((adversary_.seed * 0x9e3779b97f4a7c15u + uint64_t(kernel_number_)) * 0x9e3779b97f4a7c15u +
               uint64_t(number));
  start_block(number);
  run_roles();
  end_block();
}

std::string Runner::set_counters(Scalars& scalars, int64_t element) const {
  const std::vector<int64_t> counters = grid_counters(kernel_, counts_, section_, element);
  std::vector<std::string> where;
  for (size_t a = 0; a < kernel_.grid.size(); ++a) {
    const KernelAxis& axis = kernel_.grid[a];
    if (axis.counter) scalars.set(env_.symbols.slot(axis.counter), double(counters[a]));
    scalars.set(env_.symbols.slot(axis.index), double(counters[a] * axis.block));
    where.push_back(fmt::format("{} = {}", axis.index.name(), counters[a] * axis.block));
  }
  return where.empty() ? "" : fmt::format(" ({})", fmt::join(where, ", "));
}

void Runner::start_block(int64_t number) {
  block_ = number;
  tag_ = (int64_t(kernel_number_ + 1) << 32) | (number + 1);
  Scalars scalars = env_.scalars;
  block_text_ = fmt::format("{}", number);
  if (!kernel_.persistent) block_text_ += set_counters(scalars, number);

  for (Storage& s : storages_) {
    std::fill(s.data.begin(), s.data.end(), unwritten());
    for (Slot& slot : s.slots) {
      slot.writes.clear(), slot.reads.clear();
      slot.last_write.assign(kernel_.roles.size(), 0), slot.last_read.assign(kernel_.roles.size(), 0);
      slot.async_writes.clear(), slot.async_reads.clear(), slot.group_writes.clear();
    }
    s.last_access = s.last_write = s.in_flight_d = s.in_flight_a = 0;
  }
  Signal fresh{.clock = Clock(agents_, 0),
               .fenced = Clock(agents_, 0),
               .seen = Clock(agents_, 0),
               .seen_fenced = Clock(agents_, 0)};
  for (size_t c = 0; c < channels_.size(); ++c) {
    channels_[c].full.assign(kernel_.channels[c].slots, fresh);
    channels_[c].empty.assign(kernel_.channels[c].slots, fresh);
  }
  roles_.clear();
  for (const Role& spec : kernel_.roles) {
    RoleState r;
    r.index = int(roles_.size());
    r.spec = &spec;
    r.scalars = scalars;
    r.stack.push_back({.ops = &spec.body});
    r.clock.assign(agents_, 0);
    r.fenced.assign(agents_, 0);
    r.warp_barrier.assign(r.warps(), 0), r.warp_mma_fence.assign(r.warps(), 0),
        r.warp_proxy_fence.assign(r.warps(), 0);
    r.group_barrier.assign(r.groups(), 0);
    roles_.push_back(std::move(r));
  }
  copies_.clear();
  static constexpr double rates[] = {0.02, 0.1, 0.4, 0.8};
  completion_rate_ = rates[random_() % 4];
}

bool Runner::anything_in_flight() const {
  if (!copies_.empty()) return true;
  for (const RoleState& r : roles_) {
    if (std::any_of(r.products.begin(), r.products.end(), [](const Product& p) { return !p.done; }))
      return true;
    if (std::any_of(r.stores.begin(), r.stores.end(), [](const BulkStore& s) { return !s.done; }))
      return true;
    if (std::any_of(r.copies.begin(), r.copies.end(), [](const GroupCopy& c) { return !c.done; }))
      return true;
  }
  return false;
}

void Runner::complete_one() {
  struct Choice {
    size_t copy;
    RoleState* role;
    Product* product;
    BulkStore* store;
    GroupCopy* group_copy;
  };
  std::vector<Choice> choices;
  for (size_t k = 0; k < copies_.size(); ++k) choices.push_back({k, nullptr, nullptr, nullptr, nullptr});
  for (RoleState& r : roles_) {
    for (Product& p : r.products) {
      if (p.done) continue;
      choices.push_back({0, &r, &p, nullptr, nullptr});
      break;  // products complete in order
    }
    for (BulkStore& s : r.stores)
      if (!s.done) choices.push_back({0, &r, nullptr, &s, nullptr});
    for (GroupCopy& c : r.copies)
      if (!c.done) choices.push_back({0, &r, nullptr, nullptr, &c});
  }
  const Choice& c = choices[random_() % choices.size()];
  if (c.product)
    complete(*c.product, *c.role);
  else if (c.store)
    complete(*c.store, *c.role);
  else if (c.group_copy)
    complete(*c.group_copy);
  else
    complete_copy(c.copy);
}

void Runner::run_roles() {
  std::vector<int> order(roles_.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = int(k);
  int burst = 1 << random_() % 6;
  while (true) {
    std::shuffle(order.begin(), order.end(), random_);
    bool progress = false, alive = false;
    for (int k : order) {
      RoleState& r = roles_[k];
      if (r.finished) continue;
      alive = true;
      for (int n = 0; n < burst && !r.finished; ++n) {
        if (adversary_.mode == Adversary::Mode::Random && anything_in_flight() &&
            double(random_() >> 11) * 0x1p-53 < completion_rate_) {
          complete_one();
          progress = true;
        }
        if (!step(r)) break;
        progress = true;
      }
      if (progress) break;
    }
    if (!alive) return;
    if (progress) continue;
    if (!anything_in_flight()) deadlock();
    complete_one();
  }
}

void Runner::end_block() {
  for (const BulkCopy& c : copies_) {
    RoleState& r = roles_[c.role];
    r.node = c.node;
    fault(Kind::Race, r,
          fmt::format("the block ends while the copy into {} may be in flight",
                      slot_name(kernel_.buffer(c.op->buffer), c.slot)));
  }
}

bool Runner::next_op(RoleState& r) {
  while (!r.stack.empty()) {
    Body& b = r.stack.back();
    if (b.next < b.ops->size()) return true;
    if (b.loop && b.counter + 1 < b.end) {
      ++b.counter;
      b.next = 0;
      r.scalars.set(env_.symbols.slot(b.loop->var), double(b.counter));
      continue;
    }
    if (b.items && item_number(b.counter + 1, block_, blocks_) < elements_) {
      ++b.counter;
      b.next = 0;
      begin_item(r, *b.items, b.counter);
      continue;
    }
    if (b.vote && b.otherwise) {
      b.otherwise = false;
      b.ops = &b.vote->otherwise;
      b.next = 0;
      r.mask = b.mask_otherwise;
      continue;
    }
    if (b.vote) {
      r.mask = b.mask_before;
      r.level = b.level_before;
    }
    r.stack.pop_back();
  }
  return false;
}

bool Runner::step(RoleState& r) {
  if (!next_op(r)) {
    r.finished = true;
    if (!r.products.empty()) {
      r.node = r.products.front().node;
      fault(Kind::InFlight, r, "the role ends while this product is in flight; wait for its group");
    }
    if (!r.copies.empty()) {
      r.node = r.copies.front().node;
      fault(Kind::InFlight, r, "the role ends while this copy may be in flight; wait for its group");
    }
    if (!r.stores.empty()) {
      r.node = r.stores.front().node;
      fault(Kind::Race, r, "the role ends while this bulk store may read its source; wait for bulk stores");
    }
    for (const RoleState& other : roles_)
      if (other.block_barrier)
        fault(Kind::BarrierMismatch, other, fmt::format("role {} ends without this barrier", r.spec->name));
    return true;
  }
  Body& body = r.stack.back();
  const MappedOp& op = (*body.ops)[body.next];
  r.node = &op;
  if (auto* wait = std::get_if<Wait>(&op.node)) {
    if (!try_wait(r, *wait)) return false;
  }
  if (auto* barrier = std::get_if<Barrier>(&op.node); barrier && barrier->scope == Scope::Block) {
    if (!pass_block_barrier(r, *barrier)) return false;
    ++body.next;
    return true;
  }
  ++body.next;
  ++r.clock[r.index];
  std::visit(
      [&](const auto& o) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(o)>, Wait>) execute(r, o);
      },
      op.node);
  return true;
}

void Runner::execute(RoleState&, const Fail& op) {
  const RunCheck& check = env_.mapped.checks.at(size_t(op.check));
  TW_CHECK(check.division, "an index is tested where it is read");
  throw division_by_zero(env_.program, check.division);
}

double Runner::scalar(RoleState& r, Expr e) {
  if (auto n = e.number()) return *n;
  auto& program = scalar_programs_[e];
  if (!program)
    program = std::make_unique<PointProgram>(std::vector<Expr>{without_views(e)}, one_point_, false,
                                             context(r, one_point_));
  program->begin(r.scalars, {});
  if (auto bad = program->run(0, 1, nullptr)) {
    fault(bad->kind == BadRead::Kind::Outside ? Kind::OutOfBounds : Kind::Uninitialised, r,
          fmt::format("{} reads what is not there", to_string(e)));
  }
  return program->output(0)[0];
}

int64_t Runner::integer(RoleState& r, Expr e) {
  double x = scalar(r, e);
  TW_CHECK(std::isfinite(x) && x == std::floor(x), fmt::format("{} = {} is no integer", to_string(e), x));
  return int64_t(x);
}

std::vector<int64_t> Runner::integers(RoleState& r, const std::vector<Expr>& list) {
  std::vector<int64_t> result;
  for (Expr e : list) result.push_back(integer(r, e));
  return result;
}

void Runner::execute(RoleState& r, const Define& op) {
  r.scalars.set(env_.symbols.slot(op.var), scalar(r, op.value));
}

void Runner::execute(RoleState& r, const Fetch& op) {
  const Array& array = *env_.arrays.at(op.tensor);
  const std::vector<int64_t> index = integers(r, op.index);
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < 0 || index[d] >= array.sizes[d])
      fault(Kind::OutOfBounds, r, fmt::format("index {} of {}", index[d], op.tensor.name()));
    offset += index[d] * array.strides[d];
  }
  r.scalars.set(env_.symbols.slot(op.var), load_element(array.dtype, array.data, offset));
}

void Runner::execute(RoleState& r, const MappedLoop& op) {
  int64_t lo = integer(r, op.lo), hi = integer(r, op.hi);
  if (lo >= hi || op.body.empty()) return;
  r.scalars.set(env_.symbols.slot(op.var), double(lo));
  r.stack.push_back({.ops = &op.body, .loop = &op, .counter = lo, .end = hi});
}

void Runner::begin_item(RoleState& r, const Items& op, int64_t ordinal) {
  r.scalars.set(env_.symbols.slot(op.ordinal), double(ordinal));
  set_counters(r.scalars, item_number(ordinal, block_, blocks_));
  for (const BufferState& b :
       buffers_) {  // nothing is handed from one element of the grid to the next in registers
    if (b.spec->space != Space::Registers || b.spec->role != r.index) continue;
    Storage& s = storages_[size_t(b.storage)];
    if (s.in_flight_d > 0 || s.in_flight_a > 0)
      fault(Kind::InFlight, r,
            fmt::format("an element of the grid ends while a product uses {}", b.spec->sym.name()));
    std::fill(s.data.begin(), s.data.end(), unwritten());
  }
}

void Runner::execute(RoleState& r, const Items& op) {
  TW_CHECK(kernel_.persistent, "a block of a kernel that is not persistent has one element of the grid");
  if (item_number(0, block_, blocks_) >= elements_) return;
  begin_item(r, op, 0);
  r.stack.push_back({.ops = &op.body, .items = &op});
}

void Runner::execute(RoleState& r, const If& op) {
  r.stack.push_back({.ops = scalar(r, op.condition) != 0 ? &op.then : &op.otherwise});
}

void Runner::execute(RoleState& r, const Vote& op) {
  std::vector<uint8_t> yes = vote(r, op), no(yes.size());
  for (size_t t = 0; t < yes.size(); ++t) {
    bool active = r.active(int(t));
    no[t] = active && !yes[t];
    yes[t] = active && yes[t];
  }
  bool then = std::any_of(yes.begin(), yes.end(), [](uint8_t x) { return x; });
  bool otherwise = !op.otherwise.empty() && std::any_of(no.begin(), no.end(), [](uint8_t x) { return x; });
  if (!then && !otherwise) return;
  Body body{.ops = then ? &op.then : &op.otherwise,
            .vote = &op,
            .mask_before = r.mask,
            .mask_otherwise = no,
            .level_before = r.level};
  body.otherwise = then && otherwise;
  r.mask = then ? yes : no;
  if (std::all_of(r.mask.begin(), r.mask.end(), [](uint8_t x) { return x; })) r.mask.clear();
  r.level = std::min(r.level, op.scope);
  r.stack.push_back(std::move(body));
}

std::string Runner::slot_name(const Buffer& b, int64_t slot) const {
  return b.slots > 1 ? fmt::format("{} slot {}", b.sym.name(), slot) : b.sym.name();
}

void Runner::fault(Kind kind, const RoleState& r, const std::string& what) {
  std::string loops;
  for (const Body& b : r.stack) {
    if (b.loop) loops += fmt::format(", {} = {}", b.loop->var.name(), b.counter);
    if (b.items) {
      Scalars scalars = r.scalars;
      loops += fmt::format(", element {} of the grid{}", b.counter,
                           set_counters(scalars, item_number(b.counter, block_, blocks_)));
    }
  }
  throw MappedFault(
      kind, fmt::format("{}: kernel {}, block {}, role {}{}, op `{}`: {}", name(kind), kernel_.name,
                        block_text_, r.spec->name, loops, r.node ? print(kernel_, *r.node) : "", what));
}

void Runner::deadlock() {
  std::string text;
  const RoleState* first = nullptr;
  for (const RoleState& r : roles_) {
    if (r.finished) continue;
    if (!first) first = &r;
    text += fmt::format("\n  role {} waits at `{}`", r.spec->name, r.node ? print(kernel_, *r.node) : "");
  }
  for (size_t c = 0; c < channels_.size(); ++c) {
    const Channel& spec = kernel_.channels[c];
    for (bool full : {true, false}) {
      for (int s = 0; s < spec.slots; ++s) {
        const Signal& state = signal(int(c), full, s);
        text += fmt::format("\n  {}.{}[{}]: {} phases complete, then {} of {} arrivals", spec.name,
                            full ? "full" : "empty", s, state.completed, state.arrived,
                            full ? spec.full_arrivals : spec.empty_arrivals);
        if (state.bytes > 0) text += fmt::format(", {} announced bytes have not come", state.bytes);
        if (state.bytes < 0) text += fmt::format(", {} bytes more than announced", -state.bytes);
      }
    }
  }
  fault(Kind::Deadlock, *first, "every role waits" + text);
}

}  // namespace tilewright::emulation
