// Inside of the interpreter of mapped programs: the state of one block.
//
// What orders what is kept by vector clocks. Agents are the roles (time: ops executed), what each role has awaited (time
// of its last WaitGroup or BulkWait as seen by others) and the full signals (time: completed phases). A role knows of an
// event when its clock has reached the event's time. Threads of one role are told apart by the barriers between them.
#pragma once
#include <deque>
#include <memory>

#include "tilewright/map/interpreter_values.h"

namespace tilewright::emulation {

using Clock = std::vector<int64_t>;

/// Threads of a role that act together: thread, warp or group number `index`, or the whole role.
struct Unit {
  Scope level = Scope::Role;
  int index = 0;
};

/// The last access by instructions to one element. time 0: none; role −1: by several roles.
struct Access {
  int32_t time = 0;
  int16_t index = 0;
  Scope level = Scope::Thread;
  int8_t role = 0;
};

/// A write by a bulk copy to elements [begin, end): complete for those who know of `phase` + 1 phases of the signal.
struct AsyncWrite {
  int agent = 0;
  int64_t phase = 0;
  int64_t begin = 0, end = 0;
};

/// A read by a product or a bulk store.
struct AsyncRead {
  uint64_t id = 0;  ///< of the product or store
  int role = 0;
  bool bulk = false;
  const std::vector<int8_t>* region = nullptr;  ///< product: which group reads an element; −1: none, 127: all
  int64_t begin = 0, end = 0;                   ///< bulk store: elements
  int64_t time = -1;                            ///< of the role when it awaited the read; −1: in flight
};

/// A write by a copy in a group, to elements [0, end) of the slot, that was not awaited yet.
struct GroupWrite {
  uint64_t id = 0;
  int64_t end = 0;
};

/// One slot of Local storage.
struct Slot {
  std::vector<Access> writes, reads;           ///< of each element, by instructions
  std::vector<int64_t> last_write, last_read;  ///< of each role, by instructions
  std::vector<AsyncWrite> async_writes;
  std::vector<AsyncRead> async_reads;
  std::vector<GroupWrite> group_writes;
};

/// The elements of a buffer, or of several that share bytes.
struct Storage {
  int64_t slot_elements = 0;                ///< Registers: owners × elements
  std::vector<double> data;                 ///< slot after slot
  std::vector<Slot> slots;                  ///< Local
  int64_t last_access = 0, last_write = 0;  ///< Registers: time of the role, by instructions
  int in_flight_d = 0, in_flight_a = 0;     ///< Registers: products not yet awaited
};

/// A layout as a table: the first place of each coordinate (row-major), and the owners of replicas relative to it.
struct TileTable {
  std::vector<int64_t> shape;
  std::vector<int32_t> owner, offset;
  std::vector<int32_t> replicas{0};
  int64_t elements = 1;  ///< of one owner

  /// Element index (owner · elements + offset) of what `owner` holds at row-major coordinate `at`; −1: nothing.
  int64_t held(int64_t at, int owner) const;
};

/// What an op needs again every time it runs: tables of points and offsets.
struct OpCache {
  virtual ~OpCache() = default;
};

/// The threads that read one element in one run of an op: the smallest unit that holds them all.
struct Readers {
  int32_t element = 0;
  Unit unit;
};

/// An op compiled over its points.
struct PointOp : OpCache {
  Points points;
  std::unique_ptr<PointProgram> program;
  std::vector<int32_t> dest;     ///< element of the written buffer; −1: none
  std::vector<int> tile_slots;   ///< of this run, for each tile read
  std::vector<uint8_t> active;   ///< of this run: points that are computed; empty: all
  std::vector<uint8_t> clipped;  ///< of this run: points beyond an extent; empty: none
  std::vector<std::vector<Readers>>
      readers;  ///< of each tile read in Local, for the points of `readers_active`
  std::vector<uint8_t> readers_active;
  // ReduceOp
  std::vector<int64_t> extents;  ///< of the reduced axes when the points were made
  bool exchanged = false;        ///< partial results of several owners are combined
};

struct BufferState {
  const Buffer* spec = nullptr;
  int storage = -1;  ///< −1: a view
  TileTable table;
};

/// A barrier in memory that counts arrivals and bytes; one for each side and slot of a channel.
struct Signal {
  int64_t completed = 0;    ///< phases
  int arrived = 0;          ///< in the open phase
  int64_t bytes = 0;        ///< announced and not delivered
  Clock clock, fenced;      ///< what arrivals of the open phase know
  Clock seen, seen_fenced;  ///< what those of the last completed phase knew
};

struct ChannelState {
  std::vector<Signal> full, empty;
  int agent = 0;  ///< of full[0]
};

struct BulkCopy {
  const CopyAsync* op = nullptr;
  const MappedOp* node = nullptr;
  int role = 0, slot = 0, signal = 0;
  std::vector<int64_t> coordinates;
};

struct BulkStore {
  uint64_t id = 0;
  const StoreAsync* op = nullptr;
  const MappedOp* node = nullptr;
  std::vector<int64_t> coordinates;
  bool done = false;
};

struct Product {
  uint64_t id = 0;
  const Mma* op = nullptr;
  const MappedOp* node = nullptr;
  int64_t group = 0;
  std::vector<uint8_t> mask;                 ///< active owners; empty: all
  std::vector<int> slots;                    ///< of d, a, b
  std::vector<std::vector<int32_t>> inside;  ///< numbers within the extents along batch, rows, columns, depth
  bool done = false;
};

/// A copy in a group: elements of the slot and their values, written when the adversary likes.
struct GroupCopy {
  uint64_t id = 0;
  const Copy* op = nullptr;
  const MappedOp* node = nullptr;
  int64_t group = 0;
  int slot = 0;
  std::vector<std::pair<int32_t, double>> values;
  bool done = false;
};

/// A list of ops being executed.
struct Body {
  const Ops* ops = nullptr;
  size_t next = 0;
  const MappedLoop* loop = nullptr;
  const Items* items = nullptr;
  int64_t counter = 0, end = 0;  ///< of loop; ordinal of items
  const Vote* vote = nullptr;
  std::vector<uint8_t> mask_before, mask_otherwise;  ///< vote: owners outside, owners of its second branch
  Scope level_before = Scope::Block;
  bool otherwise = false;  ///< vote: the second branch is still to come
};

struct RoleState {
  int index = 0;
  const Role* spec = nullptr;
  Scalars scalars;
  std::vector<Body> stack;
  const MappedOp* node = nullptr;  ///< being executed
  bool finished = false;
  const Barrier* block_barrier = nullptr;  ///< where it waits
  bool barrier_open = false;               ///< the barrier it waits at has completed
  std::vector<uint8_t> mask;               ///< active owners; empty: all
  Scope level = Scope::Block;              ///< of the innermost vote
  Clock clock, fenced;                     ///< what it knows; what it knew at its last ProxyFence
  int64_t own = 0,
          own_awaited = 0;  ///< times up to which all its threads know of each other through channels
  std::vector<int64_t> warp_barrier, group_barrier;  ///< time of the last
  int64_t role_barrier = 0;
  std::vector<int64_t> warp_mma_fence, warp_proxy_fence;
  std::deque<Product> products;
  int64_t group_number = 0;  ///< of the open group
  std::deque<BulkStore> stores;
  std::deque<GroupCopy> copies;
  int64_t copy_group = 0;  ///< of the open group of copies

  int64_t now() const { return clock[index]; }
  int warps() const { return (spec->threads + 31) / 32; }
  int groups() const { return (spec->threads + spec->group - 1) / spec->group; }
  bool active(int owner) const { return mask.empty() || owner < 0 || mask[owner]; }
};

}  // namespace tilewright::emulation
