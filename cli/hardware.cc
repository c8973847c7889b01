// tilewright hardware: the targets, and what this machine has for them; machines as data, and measuring this one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/driver/kernel.h"
#include "tilewright/hardware/machine.h"
#include "tilewright/hardware/machine_file.h"
#include "tilewright/runtime/calibrate.h"
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
  CompileOptions options;
  options.target = Target::Cuda;
  const Machine m = gpu_machine(arch_of(options));
  std::string why;
  nlohmann::json j{{"target", "cuda"},
                   {"capability", "8.0"},
                   {"arch", m.arch},
                   {"shared_bytes", m.shared_bytes},
                   {"registers_per_thread", m.registers_per_thread},
                   {"devices", nlohmann::json::array()}};
  bool usable = false;
  if (cuda::available(&why)) {
    for (int k = 0; k < cuda::device_count(); ++k) {
      const cuda::DeviceInfo d = cuda::device_info(k);
      usable = usable || d.major >= 8;
      j["devices"].push_back({{"number", k},
                              {"name", d.name},
                              {"capability", fmt::format("{}.{}", d.major, d.minor)},
                              {"multiprocessors", d.multiprocessors},
                              {"shared_bytes", d.shared_per_block},
                              {"memory_bytes", d.memory_bytes},
                              {"l2_bytes", d.l2_bytes}});
    }
    why = "no device has compute capability 8.0 or later";
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

nlohmann::json figure_json(const Figure& f) { return {{"value", f.value}, {"source", f.source}}; }

/// A machine as JSON: docs/cli.md. What is not known is absent.
nlohmann::json machine_json(const MachineFile& m) {
  nlohmann::json j{
      {"name", m.name}, {"kind", m.gpu ? "gpu" : "cpu"}, {"sources", m.sources}, {"unknown", m.unknown}};
  for (const MachineField& f : machine_fields())
    if (const MaybeFigure& x = m.*f.figure) {
      j[f.table][f.key] = figure_json(*x);
      j[f.table][f.key]["unit"] = f.unit;
    }
  for (const auto& [dtype, unit] : m.matrix) {
    nlohmann::json one{{"shape", unit.shape}};
    if (unit.rate) one["rate"] = figure_json(*unit.rate);
    if (unit.sustained) one["sustained"] = figure_json(*unit.sustained);
    j["matrix"][name(dtype)] = one;
  }
  j["levels"] = nlohmann::json::array();
  for (const MemoryLevel& l : m.levels) {
    nlohmann::json one{{"name", l.name}, {"role", l.role}};
    const std::pair<const char*, const MaybeFigure*> figures[] = {
        {"capacity", &l.capacity},   {"per_block", &l.per_block}, {"units", &l.units},
        {"bandwidth", &l.bandwidth}, {"writes", &l.writes},       {"copies", &l.copies},
        {"one_core", &l.one_core}};
    for (const auto& [key, figure] : figures)
      if (*figure) one[key] = figure_json(**figure);
    j["levels"].push_back(one);
  }
  j["clusters"] = nlohmann::json::array();
  for (const Cluster& c : m.clusters)
    if (c.size && c.bandwidth)
      j["clusters"].push_back({{"size", figure_json(*c.size)}, {"bandwidth", figure_json(*c.bandwidth)}});
  return j;
}

void show_targets(bool json) {
  const nlohmann::json cpu = cpu_json(), gpu = cuda_json();
  const nlohmann::json interp{{"target", "interp"}, {"available", true}},
      mapped{{"target", "interp-mapped"}, {"available", true}, {"mappings", {"sm90", "sm80", "cpu"}}};
  if (json) {
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
  put(line(gpu, fmt::format("kernels for compute capability 8.0 and later, by default for {}",
                            gpu["arch"].get<std::string>())));
  for (const nlohmann::json& d : gpu["devices"])
    put(fmt::format("  device {}: {}, capability {}, {} multiprocessors, {} MiB\n", d["number"].get<int>(),
                    d["name"].get<std::string>(), d["capability"].get<std::string>(),
                    d["multiprocessors"].get<int>(), d["memory_bytes"].get<int64_t>() >> 20));
  put(line(interp, "the tile program on real data, counting bytes"));
  put(line(mapped, "the mapped program (--map sm90|sm80|cpu), its signals checked"));
}

void list_machines(bool json) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [key, text] : machine_texts()) {
    const MachineFile m = parse_machine(text, key + ".toml");
    all.push_back({{"machine", key}, {"name", m.name}, {"kind", m.gpu ? "gpu" : "cpu"}, {"about", m.about}});
  }
  const MachineFile here = detect_cpu();
  all.push_back({{"machine", "this-cpu"}, {"name", here.name}, {"kind", "cpu"}, {"about", here.about}});
  if (json) return put_json({{"machines", all}});
  for (const nlohmann::json& m : all)
    put(fmt::format("{:<14} {:<14} {}\n", m["machine"].get<std::string>(), m["name"].get<std::string>(),
                    m["about"].get<std::string>()));
}

void show_machine(const MachineFile& m, bool json, const std::string& output) {
  if (!output.empty()) write_text(output, to_toml(m));
  if (json)
    put_json(machine_json(m));
  else if (output.empty())
    put(to_text(m));
}

MachineFile calibrated(int threads) {
  CalibrateOptions o;
  o.threads = threads;
  Progress progress("calibrating", Piped::Lines);
  o.progress = [&](const std::string& what, int done, int all) {
    progress.now(fmt::format("[{}/{}] {}", done + 1, all, what));
  };
  return calibrate_cpu(o);
}

}  // namespace

void add_hardware(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand(
      "hardware", "list the targets and what this machine has for them; show, detect and measure machines");
  struct HardwareOptions {
    std::string action = "targets", machine, output;
    int threads = 0;
    bool json = false;
  };
  auto o = std::make_shared<HardwareOptions>();
  add_json(*verb, o->json);
  verb->add_option("ACTION", o->action,
                   "targets of this machine (default); list the machines that the model knows; show one; "
                   "detect this CPU; "
                   "calibrate: measure it")
      ->type_name("targets|list|show|detect|calibrate");
  std::vector<std::string> machines{"this-cpu"};
  for (const auto& [key, text] : machine_texts()) machines.push_back(key);
  verb->add_option("MACHINE", o->machine, "show: a name that `list` prints, or a file")
      ->type_name(fmt::format("{}", fmt::join(machines, "|")));
  verb->add_option("-o,--output", o->output,
                   "detect, calibrate: write the machine to this file, for the performance model")
      ->type_name("FILE");
  add_integer(
      *verb, "--threads", [o](int64_t n) { o->threads = int(n); }, 0, 1024, 0,
      "calibrate: threads (0: all cores)");
  add_examples(*verb, {"tilewright hardware", "tilewright hardware show h100-sxm",
                       "tilewright hardware calibrate -o this.toml",
                       "TILEWRIGHT_CPU_ISA=portable tilewright hardware --json"});
  verb->callback([o, verb, &status] {
    expect_one_of(o->action, {"targets", "list", "show", "detect", "calibrate"}, "action");
    const bool measures = o->action == "detect" || o->action == "calibrate";
    expect_effect(*verb, "--output", measures, "it is for `detect` and `calibrate`");
    expect_effect(*verb, "--threads", o->action == "calibrate", "it is for `calibrate`");
    if (o->action != "show" && !o->machine.empty())
      throw UserError(Span{}, fmt::format("`{}` is not expected here", o->machine),
                      "`show` takes the name of a machine");
    if (verb->count("--output") > 0) check_writable("--output", o->output);
    status = 0;
    if (o->action == "targets") return show_targets(o->json);
    if (o->action == "list") return list_machines(o->json);
    if (o->action == "show") {
      if (o->machine.empty())
        throw UserError(Span{}, "no machine is named",
                        "`tilewright hardware list` prints the machines that there are");
      return show_machine(find_machine(o->machine), o->json, "");
    }
    show_machine(o->action == "detect" ? detect_cpu() : calibrated(o->threads), o->json, o->output);
  });
}

}  // namespace tilewright::cli
