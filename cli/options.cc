#include "cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tilewright::cli {

namespace {

std::vector<std::string> split(const std::string& s, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(s);
  for (std::string part; std::getline(in, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

[[noreturn]] void mistake(const std::string& what, const std::string& hint) { throw UserError(Span{}, what, hint); }

}  // namespace

void add_common(CLI::App& verb, Options& o) {
  verb.add_option("FILE", o.file, "program (.tw)")->required();
  verb.add_option("--size", o.sizes, "axis sizes: i=4096,j=4096 (replaces a literal size too)");
  verb.add_option("--dtype", o.dtypes, "declared dtypes: Q=bf16,K=bf16");
  verb.add_option("--target", o.target, "cpu, cuda, interp or interp-mapped")->capture_default_str();
  verb.add_option("--schedule", o.schedule, "a schedule, or a file that holds one (docs/schedule.md)");
  verb.add_option("--stream", o.stream, "the axis to stream over, where the program has several");
  verb.add_option("--map", o.map, "whose mapping interp-mapped runs: sm90 or cpu")->capture_default_str();
  verb.add_option("--threads", o.threads, "threads on the CPU (0: all cores)")->capture_default_str();
  verb.add_option("--device", o.device, "GPU number")->capture_default_str();
  verb.add_flag("--json", o.json, "one JSON object on standard output, everything else on standard error");
}

void add_running(CLI::App& verb, Options& o) {
  verb.add_option("--param", o.params, "params: cap=30");
  verb.add_option("--input", o.inputs, "NAME=FILE.npy, NAME=normal, NAME=uniform or NAME=zeros (default: seeded normal)");
  verb.add_option("--output", o.outputs, "NAME=FILE.npy: where to write an output");
  verb.add_option("--seed", o.seed, "seed of random inputs")->capture_default_str();
  verb.add_flag("--raw", o.raw, "write low-precision outputs as raw bits (default: as f32)");
}

std::map<std::string, std::string> pairs(const std::vector<std::string>& items, const char* option) {
  std::map<std::string, std::string> result;
  for (const std::string& item : items)
    for (const std::string& part : split(item, ',')) {
      const size_t eq = part.find('=');
      if (eq == std::string::npos || eq == 0 || eq + 1 == part.size()) mistake(fmt::format("{} `{}` is not NAME=VALUE", option, part), fmt::format("write {} name=value", option));
      if (!result.emplace(part.substr(0, eq), part.substr(eq + 1)).second) mistake(fmt::format("{} names `{}` twice", option, part.substr(0, eq)), "give it once");
    }
  return result;
}

std::map<std::string, int64_t> size_values(const Options& o) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, text] : pairs(o.sizes, "--size")) {
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (errno != 0 || *end != 0 || value < 0) mistake(fmt::format("--size {}={} is not a size", name, text), "sizes are integers, 0 or more");
    sizes[name] = value;
  }
  return sizes;
}

std::map<std::string, double> param_values(const Options& o) {
  std::map<std::string, double> values;
  for (const auto& [name, text] : pairs(o.params, "--param")) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (*end != 0) mistake(fmt::format("--param {}={} is not a number", name, text), "write a decimal number");
    values[name] = value;
  }
  return values;
}

Program load(const Options& o, std::map<std::string, int64_t>& sizes) {
  sizes = size_values(o);
  Overrides overrides;
  for (const auto& [name, text] : pairs(o.dtypes, "--dtype")) {
    const auto dtype = parse_dtype(text);
    if (!dtype) mistake(fmt::format("--dtype {}={}: no such dtype", name, text), "dtypes are f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i8 bool");
    overrides.dtypes[name] = *dtype;
  }
  // Which sizes are literals shows only after parsing.
  Program p = load_program(o.file, overrides);
  for (auto it = sizes.begin(); it != sizes.end();) {
    const Axis* a = p.axis(it->first);
    if (a != nullptr && a->baked()) {
      overrides.literal_sizes[it->first] = it->second;
      it = sizes.erase(it);
    } else {
      ++it;
    }
  }
  if (!overrides.literal_sizes.empty()) p = load_program(o.file, overrides);
  return p;
}

CompileOptions compile_options(const Options& o, const Program& p) {
  CompileOptions c;
  bool found = false;
  for (Target t : {Target::Interp, Target::InterpMapped, Target::Cpu, Target::Cuda})
    if (o.target == name(t)) {
      c.target = t;
      found = true;
    }
  if (!found) {
    const std::string near = nearest_name(o.target, {"cpu", "cuda", "interp", "interp-mapped"});
    mistake(fmt::format("no target is called `{}`", o.target), near.empty() ? "targets are cpu, cuda, interp, interp-mapped" : fmt::format("did you mean `{}`?", near));
  }
  if (o.map != "sm90" && o.map != "cpu") mistake(fmt::format("no mapping is called `{}`", o.map), "mappings are sm90 and cpu");
  c.mapping = o.map == "cpu" ? Target::Cpu : Target::Cuda;
  c.schedule = o.schedule;
  if (!o.schedule.empty() && access(o.schedule.c_str(), R_OK) == 0) {
    std::ifstream in(o.schedule);
    std::ostringstream text;
    text << in.rdbuf();
    c.schedule = text.str();
  }
  if (o.threads < 0) mistake(fmt::format("--threads {}", o.threads), "use 0 (all cores) or more");
  c.threads = o.threads;
  c.device = o.device;
  if (!o.stream.empty()) {
    const Axis* a = p.axis(o.stream);
    if (a == nullptr) {
      std::vector<std::string> names;
      for (const Axis& x : p.axes) names.push_back(x.name());
      const std::string near = nearest_name(o.stream, names);
      mistake(fmt::format("--stream: no axis is called `{}`", o.stream), near.empty() ? "use an axis of the program" : fmt::format("did you mean `{}`?", near));
    }
    c.stream = a->index;
  }
  return c;
}

int guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const UserError& e) {
    for (const Diagnostic& d : e.diagnostics()) {
      const std::string text = d.render();
      fmt::print(stderr, "{}{}", text, text.empty() || text.back() != '\n' ? "\n" : "");
    }
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\nhelp: choose smaller sizes\n");
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "tilewright: internal error: {}\nThis is a fault of Tilewright, not of the program.\n", e.what());
    return 3;
  }
}

}  // namespace tilewright::cli
