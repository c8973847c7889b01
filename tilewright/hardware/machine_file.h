// Machines as data: what the performance model knows of a machine, each figure with the place it was taken from.
//
// A machine is a TOML file (docs/adding_a_machine.md). Those of hardware/ are part of the library. Every figure is written
//   name = { value = 3.35e12, source = "datasheet" }
// with `source` a key of the table [sources]. A figure that no source gives is left out, and what needs it is reported as not priced.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/support/dtype.h"
#include "tilewright/support/error.h"

namespace tilewright {

struct Figure {
  double value = 0;
  std::string source;  ///< key of MachineFile::sources
};
using MaybeFigure = std::optional<Figure>;

/// A level of memory, from the farthest to the nearest.
struct MemoryLevel {
  std::string name;
  /// What the levels of a tile program are on this machine: "memory" (arrays), "shared" (tiles of a block or task), "registers"; or "cache": the hardware
  /// decides what it holds.
  std::string role;
  MaybeFigure capacity;   ///< bytes of one unit
  MaybeFigure per_block;  ///< bytes of it that one block may have
  MaybeFigure units;      ///< how many there are; each is shared by cores / units cores
  MaybeFigure
      bandwidth;  ///< bytes per second between it and the level before it in the list, all units together (reads)
  MaybeFigure writes;    ///< the same of writes
  MaybeFigure copies;    ///< the same of copies, bytes read and written
  MaybeFigure one_core;  ///< reads by one core alone
};

/// A unit that multiplies matrices of one dtype.
struct MatrixUnit {
  MaybeFigure
      rate;  ///< operations per second of the whole machine, dense; a multiplication and an addition are two
  MaybeFigure sustained;  ///< the same of long products, where the machine's power limits its clock
  std::array<int64_t, 3> shape{1, 1, 1};  ///< rows, columns and depth that a product is a multiple of
};

/// Blocks that reach each other's shared memory.
struct Cluster {
  MaybeFigure size;       ///< blocks
  MaybeFigure bandwidth;  ///< bytes per second between them, of the whole machine
};

struct MachineFile {
  std::string name;  ///< as people call it
  bool gpu = false;
  std::string about;
  std::string arch;  ///< of a GPU: what kernels and plans for it are made for (gpu_machine); empty: not known
  std::map<std::string, std::string> sources;  ///< key -> where to look it up
  std::map<std::string, std::string> unknown;  ///< figure -> why it is left out

  // counts
  MaybeFigure cores;              ///< multiprocessors, compute units, or cores of a CPU
  MaybeFigure threads_per_group;  ///< of a warp or wavefront
  MaybeFigure groups_per_core;    ///< warps or wavefronts that a core holds
  MaybeFigure blocks_per_core;
  MaybeFigure registers_per_core;  ///< of 32 bits
  MaybeFigure registers_per_thread;
  MaybeFigure fma_per_clock;      ///< f32 multiply-adds of one core's vector units in a clock
  MaybeFigure special_per_clock;  ///< exponentials of one core in a clock
  MaybeFigure vector_bytes;       ///< of a vector register of a CPU
  MaybeFigure vector_registers;
  // rates
  MaybeFigure clock;             ///< Hz, at which the rates below hold
  MaybeFigure fma_f32, fma_f64;  ///< operations per second of the whole machine (two for each multiply-add)
  MaybeFigure special;           ///< exponentials per second of the whole machine
  MaybeFigure
      products;  ///< of a CPU: operations per second of products as kernels compute them, of tiles in the caches of a core
  MaybeFigure quotients, tangents;  ///< of a CPU: divisions of f32, and tanh of f32, per second of all cores
  MaybeFigure
      conversions;  ///< of a CPU: elements of f16 widened to f32, or rounded from it, per second of all cores
  MaybeFigure
      runs;  ///< of a CPU: pieces of 1 KiB of memory, each in another page, that all cores read one after another per second
  MaybeFigure tasks;  ///< of a CPU: empty tasks that all cores take from the pool per second
  std::map<DType, MatrixUnit> matrix;
  // others
  MaybeFigure line_bytes;           ///< of one memory transaction that wastes nothing
  MaybeFigure launch;               ///< seconds from one kernel or parallel region to the next
  std::vector<MemoryLevel> levels;  ///< farthest first
  std::vector<Cluster> clusters;

  /// The level with this role; null: none.
  const MemoryLevel* level(const std::string& role) const;
  /// Why a figure is missing, in words.
  std::string missing(const std::string& figure) const;
};

/// One figure of a machine outside of levels, matrix units and clusters. One list reads, prints and documents them.
struct MachineField {
  const char *table, *key, *unit;
  MaybeFigure MachineFile::*figure;
};
const std::vector<MachineField>& machine_fields();

/// Reads a machine. UserError with the place: TOML that does not parse, a missing name or count of cores, a key that is not known (the nearest is
/// named), a figure without a value or a source, a value that is not a positive number, levels without "memory".
MachineFile parse_machine(const std::string& text, const std::string& name);
/// The file's text; parse_machine gives the same machine.
std::string to_toml(const MachineFile& m);
/// A table for people: every figure with its unit and source, and what is left out.
std::string to_text(const MachineFile& m);

/// The machines of the library by key ("h100-sxm"), in order.
const std::vector<std::pair<std::string, std::string>>& machine_texts();
/// A machine by key, by name, or of a file (what holds a "/" or ends in .toml). UserError: none of that name (the nearest is named).
MachineFile find_machine(const std::string& name_or_file);

/// This machine's processor: cores, vector unit, sizes of its caches where the system tells them. No rates.
MachineFile detect_cpu();

/// A number with a unit for people: 3.35e12, "bytes/s" -> "3.35 TB/s"; 232448, "bytes" -> "227 KiB".
std::string quantity(double value, const std::string& unit);

}  // namespace tilewright
