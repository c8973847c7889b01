// tilewright hardware: the targets, and what this machine has for them.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "tilewright/hardware/machine.h"
#include "tilewright/runtime/compile.h"
#include "tilewright/runtime/cuda.h"
#include "tilewright/runtime/pool.h"

namespace tilewright::cli {

namespace {

nlohmann::json cpu_json() {
  const Machine m = this_cpu();
  nlohmann::json j{{"target", "cpu"},
                   {"machine", m.name},
                   {"isa", m.vector.isa},
                   {"vector_bytes", m.vector.bytes},
                   {"vector_registers", m.vector.registers},
                   {"flags", m.vector.flags},
                   {"threads", default_threads()},
                   {"local_bytes", m.shared_bytes}};
  try {
    const CpuCompiler c = cpu_compiler();
    j["available"] = true;
    j["compiler"] = {{"command", c.command}, {"version", c.version}};
  } catch (const UserError& e) {
    j["available"] = false;
    j["reason"] = e.diagnostics()[0].what;
  }
  return j;
}

nlohmann::json cuda_json() {
  const Machine m = sm90();
  std::string why;
  nlohmann::json j{{"target", "cuda"},
                   {"capability", "9.0"},
                   {"shared_bytes", m.shared_bytes},
                   {"registers_per_thread", m.registers_per_thread},
                   {"devices", nlohmann::json::array()}};
  bool usable = false;
  if (cuda::available(&why)) {
    for (int k = 0; k < cuda::device_count(); ++k) {
      const cuda::DeviceInfo d = cuda::device_info(k);
      usable = usable || d.major == 9;
      j["devices"].push_back({{"number", k},
                              {"name", d.name},
                              {"capability", fmt::format("{}.{}", d.major, d.minor)},
                              {"multiprocessors", d.multiprocessors},
                              {"shared_bytes", d.shared_per_block},
                              {"memory_bytes", d.memory_bytes},
                              {"l2_bytes", d.l2_bytes}});
    }
    why = "no device has compute capability 9.0";
  }
  j["available"] = usable;
  if (!usable) j["reason"] = why;
  return j;
}

std::string line(const nlohmann::json& target, const std::string& what) {
  const bool available = target["available"];
  return fmt::format("{:<14} {:<14} {}\n", target["target"].get<std::string>(),
                     available ? "available" : "not available",
                     available ? what : target["reason"].get<std::string>());
}

}  // namespace

void add_hardware(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("hardware", "list the targets and what this machine has for them");
  auto json = std::make_shared<bool>(false);
  add_json(*verb, *json);
  add_examples(*verb, {"tilewright hardware", "tilewright hardware --json",
                       "TILEWRIGHT_CPU_ISA=portable tilewright hardware"});
  verb->callback([=, &status] {
    const nlohmann::json cpu = cpu_json(), gpu = cuda_json();
    const nlohmann::json interp{{"target", "interp"}, {"available", true}},
        mapped{{"target", "interp-mapped"}, {"available", true}, {"mappings", {"sm90", "cpu"}}};
    status = 0;
    if (*json) {
      put_json({{"targets", {cpu, gpu, interp, mapped}}});
      return;
    }
    std::string compiler;
    if (cpu["available"])
      compiler = fmt::format("; {}: {}", cpu["compiler"]["command"].get<std::string>(),
                             cpu["compiler"]["version"].get<std::string>());
    put(line(cpu, fmt::format("{}, vectors of {} bytes, {} registers, {} threads{}",
                              cpu["isa"].get<std::string>(), cpu["vector_bytes"].get<int>(),
                              cpu["vector_registers"].get<int>(), cpu["threads"].get<int>(), compiler)));
    put(line(gpu, fmt::format("kernels for compute capability 9.0")));
    for (const nlohmann::json& d : gpu["devices"])
      put(fmt::format("  device {}: {}, capability {}, {} multiprocessors, {} MiB\n", d["number"].get<int>(),
                      d["name"].get<std::string>(), d["capability"].get<std::string>(),
                      d["multiprocessors"].get<int>(), d["memory_bytes"].get<int64_t>() >> 20));
    put(line(interp, "the tile program on real data, counting bytes"));
    put(line(mapped, "the mapped program (--map sm90|cpu), its signals checked"));
  });
}

}  // namespace tilewright::cli
