// The processor that this process runs on. What the system does not tell is left to `tilewright hardware calibrate`.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>

#include "tilewright/hardware/machine.h"
#include "tilewright/hardware/machine_file.h"

namespace tilewright {
namespace {

MaybeFigure told(long value, const char* source) {
  if (value <= 0) return {};
  return Figure{double(value), source};
}

/// Model name of the processor; empty where the system does not tell.
std::string processor_name() {
  std::string name;
  if (FILE* f = std::fopen("/proc/cpuinfo", "r")) {
    char line[512];
    while (name.empty() && std::fgets(line, sizeof line, f)) {
      const std::string s = line;
      const size_t colon = s.find(": ");
      if (s.rfind("model name", 0) == 0 && colon != std::string::npos)
        name = s.substr(colon + 2, s.find_last_not_of("\n") - colon - 1);
    }
    std::fclose(f);
  }
  return name;
}

/// Bytes of one third-level cache; 0 where the system does not list it. sysconf counts those of all groups of cores of some processors.
long third_level() {
  for (int k = 0; k < 8; ++k) {
    const auto field = [&](const char* name) -> std::string {
      std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/{}", k, name));
      std::string text;
      file >> text;
      return text;
    };
    if (field("level") != "3") continue;
    const std::string size = field("size");  // "32768K"
    long value = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
    if (error != std::errc()) return 0;
    const std::string unit(end, size.data() + size.size());
    return unit == "K" ? value << 10 : unit == "M" ? value << 20 : unit.empty() ? value : 0;
  }
  return 0;
}

}  // namespace

MachineFile detect_cpu() {
  const Machine cpu = this_cpu();
  MachineFile m;
  const std::string model = processor_name();
  m.name = model.empty() ? "this CPU" : model;
  m.about = fmt::format("vector unit {}", cpu.vector.isa);
  m.sources["system"] = "what the operating system and the processor tell";
  m.cores = told(cpu.multiprocessors, "system");
  m.vector_bytes = told(cpu.vector.bytes, "system");
  m.vector_registers = told(cpu.vector.registers, "system");
  long line = 0, first = 0, second = 0, third = 0, memory = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  first = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  second = sysconf(_SC_LEVEL2_CACHE_SIZE);
  third = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  if (const long one = third_level(); one > 0) third = one;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) memory = pages * page;
  m.line_bytes = told(line, "system");
  m.levels.push_back({"memory", "memory", told(memory, "system"), {}, {}, {}});
  // A third level is shared by cores in groups that the system names poorly: it has no `units`.
  m.levels.push_back({"L3", "cache", told(third, "system"), {}, {}, {}});
  m.levels.push_back({"L2", "shared", told(second, "system"), {}, m.cores, {}});
  m.levels.push_back({"L1", "cache", told(first, "system"), {}, m.cores, {}});
  const Figure file{double(cpu.vector.bytes) * cpu.vector.registers, "system"};
  m.levels.push_back({"registers", "registers", file, {}, m.cores, {}});
  const char* const calibrate = "measured by `tilewright hardware calibrate --output FILE`";
  for (const char* what : {"rates.fma_f32", "rates.fma_f64", "rates.special", "rates.products",
                           "rates.quotients", "rates.tangents", "rates.conversions", "rates.clock",
                           "rates.runs", "rates.tasks", "transfers.launch"})
    m.unknown[what] = calibrate;
  for (const MemoryLevel& l : m.levels) {
    if (!l.capacity) m.unknown[fmt::format("levels.{}.capacity", l.name)] = calibrate;
    if (l.role != "memory") m.unknown[fmt::format("levels.{}.bandwidth", l.name)] = calibrate;
  }
  return m;
}

}  // namespace tilewright
