#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cli/output.h"
#include "tilewright/support/input_file.h"

namespace tilewright::cli {

namespace {

std::vector<std::string> split(const std::string& s, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(s);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  if (s.empty() || s.back() == separator) parts.emplace_back();
  return parts;
}

[[noreturn]] void mistake(const std::string& what, const std::string& hint) {
  throw UserError(Span{}, what, hint);
}

/// An option that may be repeated, one value each time.
CLI::Option* add_list(CLI::App& verb, const std::string& option, std::vector<std::string>& values,
                      const std::string& type, const std::string& description) {
  return verb.add_option(option, values, description)->type_name(type)->allow_extra_args(false);
}

/// The schedule that --schedule names: the content of a file where there is one, else the text itself.
void read_schedule(const std::string& given, CompileOptions& c) {
  if (given.find_first_not_of(" \t\r\n;") == std::string::npos)
    mistake("--schedule is empty",
            "write clauses, such as \"stream j=128\", or leave the option out for the default plans");
  c.schedule = given;
  // A clause is a word and what it says, so a text without a space is no schedule, and neither is one that has the marks of a path but no `=`, but for `grid blocks, i/8`.
  const bool path = given.find(' ') == std::string::npos ||
                    (given.find('=') == std::string::npos && given.find("grid ") == std::string::npos &&
                     given.find_first_of("./") != std::string::npos);
  InputFile file(given);
  if (!path && (file.missing() || file.problem() == std::strerror(ENAMETOOLONG))) return;
  const std::string content = file.text();
  if (!file.problem().empty())
    mistake(
        fmt::format("--schedule {}: {}", given, file.missing() ? "there is no such file" : file.problem()),
        !file.remedy().empty()
            ? file.remedy()
            : "name a file that holds a schedule, or write clauses, such as \"stream j=128\"");
  c.schedule = content;
  c.schedule_name = given;
  if (const std::string why = why_no_text(content); !why.empty())
    mistake(fmt::format("--schedule {}: the file is not a text: {}", given, why),
            "name a file that holds a schedule");
  if (c.schedule.empty())
    mistake(fmt::format("--schedule {}: the file is empty", given),
            "write clauses into it, such as \"stream j=128\"");
}

}  // namespace

void add_json(CLI::App& verb, bool& json) {
  verb.add_flag("--json", json, "one JSON object on standard output, everything else on standard error");
}

CLI::Option* add_integer(CLI::App& verb, const std::string& option, std::function<void(int64_t)> set,
                         int64_t lo, int64_t hi, int64_t fallback, const std::string& description) {
  return verb
      .add_option_function<std::string>(
          option,
          [=](const std::string& text) {
            int64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc() || end != text.data() + text.size() || value < lo || value > hi)
              mistake(fmt::format("{} {} is not an integer from {} to {}", option, text, lo, hi),
                      fmt::format("write {} {}", option, fallback));
            set(value);
          },
          description)
      ->type_name("N")
      ->default_str(fmt::format("{}", fallback));
}

void add_examples(CLI::App& verb, const std::vector<std::string>& items) {
  verb.footer(fmt::format("Examples:\n  {}", fmt::join(items, "\n  ")));
}

void add_program(CLI::App& verb, Options& o) {
  verb.add_option("FILE", o.file, "program (.tw)")->required()->type_name("");
  add_list(verb, "--size", o.sizes, "AXIS=N", "axis sizes: i=4096,j=4096 (replaces a literal size too)");
  add_list(verb, "--dtype", o.dtypes, "NAME=DTYPE", "declared dtypes: Q=bf16,K=bf16");
  verb.add_option("--stream", o.stream, "the axis to stream over, where the program has several")
      ->type_name("AXIS");
}

void add_schedule(CLI::App& verb, Options& o) {
  verb.add_option_function<std::string>(
          "--schedule",
          [&o](const std::string& text) {
            o.schedule = text;
            o.has_schedule = true;
          },
          "a schedule, or a file that holds one (docs/schedule.md)")
      ->type_name("TEXT|FILE");
}

void add_threads(CLI::App& verb, Options& o) {
  add_integer(
      verb, "--threads", [&o](int64_t n) { o.threads = static_cast<int>(n); }, 0, 1024, 0,
      "threads on the CPU (0: all cores)");
}

void add_device(CLI::App& verb, Options& o) {
  add_integer(
      verb, "--device", [&o](int64_t n) { o.device = static_cast<int>(n); }, 0, 255, 0, "GPU number");
}

void add_map(CLI::App& verb, Options& o) {
  verb.add_option_function<std::string>(
          "--map",
          [&o](const std::string& text) {
            o.map = text;
            o.has_map = true;
          },
          "whose mapping interp-mapped runs")
      ->type_name("sm90|sm80|cpu")
      ->default_str(o.map);
}

void add_common(CLI::App& verb, Options& o) {
  add_program(verb, o);
  verb.add_option("--target", o.target, "what to compile for")
      ->type_name("cpu|cuda|interp|interp-mapped")
      ->capture_default_str();
  add_schedule(verb, o);
  add_map(verb, o);
  verb.add_option("--arch", o.arch,
                  "the GPU architecture that kernels are made for (default: that of the device, else sm_90a)")
      ->type_name("sm_90a|sm_80|...");
  add_threads(verb, o);
  add_device(verb, o);
  add_json(verb, o.json);
}

void add_inputs(CLI::App& verb, Options& o) {
  add_list(verb, "--param", o.params, "NAME=X", "params: cap=30");
  add_list(verb, "--input", o.inputs, "NAME=FILE|normal|uniform|zeros",
           "an input: a .npy file or a fill (default: seeded normal)");
  add_integer(
      verb, "--seed", [&o](int64_t n) { o.seed = static_cast<uint64_t>(n); }, 0, INT64_MAX, 0,
      "seed of random inputs");
}

void add_running(CLI::App& verb, Options& o) {
  add_inputs(verb, o);
  add_list(verb, "-o,--output", o.outputs, "NAME=FILE", "the .npy file that an output is written to");
  verb.add_flag("--raw", o.raw, "write low-precision outputs as raw bits (default: as f32)");
}

std::map<std::string, std::string> pairs(const std::vector<std::string>& items, const char* option) {
  std::map<std::string, std::string> result;
  for (const std::string& item : items)
    for (const std::string& part : split(item, ',')) {
      const size_t eq = part.find('=');
      if (eq == std::string::npos || eq == 0 || eq + 1 == part.size())
        mistake(fmt::format("{} `{}` is not NAME=VALUE", option, part),
                fmt::format("write {} name=value", option));
      if (!result.emplace(part.substr(0, eq), part.substr(eq + 1)).second)
        mistake(fmt::format("{} names `{}` twice", option, part.substr(0, eq)), "give it once");
    }
  return result;
}

std::map<std::string, int64_t> size_values(const Options& o) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, text] : pairs(o.sizes, "--size")) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range)
      mistake(fmt::format("--size {}={} is too large", name, text), "sizes are below 2^63");
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
      mistake(fmt::format("--size {}={} is not a size", name, text), "sizes are integers, 0 or more");
    sizes[name] = value;
  }
  return sizes;
}

std::map<std::string, double> param_values(const Options& o) {
  std::map<std::string, double> values;
  for (const auto& [name, text] : pairs(o.params, "--param")) {
    char* end = nullptr;
    errno = 0;
    const double value = std::strtod(text.c_str(), &end);
    if (*end != 0 || text[0] == ' ')
      mistake(fmt::format("--param {}={} is not a number", name, text), "write a decimal number");
    if (errno == ERANGE && std::abs(value) > 1)
      mistake(fmt::format("--param {}={} is too large for f64", name, text),
              "write `inf` where infinity is meant");
    values[name] = value;
  }
  return values;
}

OutputFiles files_read(const Options& o, const std::string& machine) {
  OutputFiles files;
  files.reads("the program", o.file);
  if (o.has_schedule) files.reads("the schedule", o.schedule);
  if (!machine.empty()) files.reads("the machine", machine);
  for (const auto& [name, file] : pairs(o.inputs, "--input"))
    if (file != "normal" && file != "uniform" && file != "zeros")
      files.reads(fmt::format("the input `{}`", name), file);
  return files;
}

void expect_one_of(const std::string& given, const std::vector<std::string>& known, const std::string& kind) {
  if (std::find(known.begin(), known.end(), given) != known.end()) return;
  const std::string near = nearest_name(given, known);
  mistake(fmt::format("no {} is called `{}`", kind, given),
          near.empty() ? fmt::format("choose one of {}", fmt::join(known, ", "))
                       : fmt::format("did you mean `{}`?", near));
}

Program load(const Options& o, std::map<std::string, int64_t>& sizes) {
  sizes = size_values(o);
  Overrides overrides;
  for (const auto& [name, text] : pairs(o.dtypes, "--dtype")) {
    const auto dtype = parse_dtype(text);
    if (!dtype)
      mistake(fmt::format("--dtype {}={}: no such dtype", name, text),
              "dtypes are f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i8 bool");
    overrides.dtypes[name] = *dtype;
  }
  // Which sizes are literals shows only after parsing.
  Program p = load_program(o.file, overrides);
  std::vector<std::string> names;
  for (const Axis& a : p.axes) names.push_back(a.name());
  for (auto it = sizes.begin(); it != sizes.end();) {
    const Axis* a = p.axis(it->first);
    if (a == nullptr) {
      const std::string near = nearest_name(it->first, names);
      mistake(fmt::format("--size {}={}: the program has no axis `{}`", it->first, it->second, it->first),
              near.empty() ? fmt::format("its axes are {}", fmt::join(names, ", "))
                           : fmt::format("did you mean `{}`?", near));
    }
    if (a->baked()) {
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
  std::vector<std::string> targets;
  for (Target t : {Target::Cpu, Target::Cuda, Target::Interp, Target::InterpMapped}) {
    targets.emplace_back(name(t));
    if (o.target == name(t)) c.target = t;
  }
  expect_one_of(o.target, targets, "target");
  expect_one_of(o.map, {"sm90", "sm80", "cpu"}, "mapping");
  c.mapping = o.map == "cpu" ? Target::Cpu : Target::Cuda;
  c.arch = o.arch;
  const bool by_warps = !o.arch.empty() && o.arch != sm90().arch;
  if (o.has_map && o.map != "cpu" && !o.arch.empty() && by_warps != (o.map == "sm80"))
    mistake(fmt::format("--map {} and --arch {} are of different mappings", o.map, o.arch),
            "kernels for sm_90a are mapped by sm90, those for other architectures by sm80; leave one of the "
            "two out");
  if (c.target == Target::InterpMapped && o.map != "cpu" && o.arch.empty())
    c.arch = o.map == "sm80" ? "sm_80" : "sm_90a";
  if (o.has_schedule) read_schedule(o.schedule, c);
  c.threads = o.threads;
  c.device = o.device;
  if (!o.stream.empty()) {
    std::vector<std::string> names;
    for (const Axis& x : p.axes) names.push_back(x.name());
    expect_one_of(o.stream, names, "axis");
    c.stream = p.axis(o.stream)->index;
  }
  return c;
}

void expect_effect(const CLI::App& verb, const std::string& option, bool applies, const std::string& when) {
  if (applies || verb.count(option) == 0) return;
  mistake(fmt::format("{} has no effect here", option), when);
}

void expect_effects(const CLI::App& verb, const Options& o, Target target) {
  const bool compiled = target == Target::Cpu || target == Target::Cuda;
  expect_effect(verb, "--device", target == Target::Cuda, "it chooses the GPU of --target cuda");
  expect_effect(verb, "--threads", target == Target::Cpu || target == Target::InterpMapped,
                "it is for --target cpu and --target interp-mapped");
  expect_effect(verb, "--map", target == Target::InterpMapped, "it is for --target interp-mapped");
  expect_effect(verb, "--arch", target != Target::Cpu && (target != Target::InterpMapped || o.map != "cpu"),
                "it is for plans and kernels of GPUs: --target cuda, interp, or interp-mapped");
  expect_effect(verb, "--raw", !o.outputs.empty(), "it says how --output NAME=FILE is written");
  if (verb.get_option_no_throw("--warmup") != nullptr)
    expect_effect(verb, "--warmup", compiled, "an interpreted program is run once for each of --repeat");
}

namespace {

/// What went wrong, for programs that read standard output (docs/cli.md).
void put_error(int status, const std::vector<Diagnostic>& all) {
  nlohmann::json diagnostics = nlohmann::json::array();
  for (const Diagnostic& d : all) {
    nlohmann::json one{{"what", d.what}, {"hint", d.hint}};
    if (d.span) {
      one["source"] = d.span.source->name;
      one["line"] = d.span.line();
      one["column"] = d.span.column();
    }
    diagnostics.push_back(one);
  }
  put_json({{"error", {{"status", status}, {"diagnostics", diagnostics}}}});
  finish_output();
}

}  // namespace

int guarded(const std::function<int()>& body, bool json) {
  const auto failed = [&](int status, const std::string& text, const std::vector<Diagnostic>& all) {
    tell(text);
    try {
      if (json) put_error(status, all);
    } catch (const std::exception&) {  // standard output is what failed
    } catch (const ClosedPipe&) {
    }
    return status;
  };
  try {
    const int status = body();
    finish_output();
    return status;
  } catch (const ClosedPipe&) {
    return 141;
  } catch (const UserError& e) {
    std::string text;
    for (const Diagnostic& d : e.diagnostics()) {
      text += d.render();
      if (text.empty() || text.back() != '\n') text += "\n";
    }
    return failed(2, text, e.diagnostics());
  } catch (const std::bad_alloc&) {
    return failed(2, "error: out of memory\n  help: choose smaller sizes\n",
                  {{Span{}, "out of memory", "choose smaller sizes"}});
  } catch (const std::exception& e) {
    const std::string what = fmt::format("internal error: {}", e.what());
    return failed(3,
                  fmt::format("tilewright: {}\nThis is a fault of Tilewright, not of the program.\n", what),
                  {{Span{}, what, ""}});
  }
}

}  // namespace tilewright::cli
