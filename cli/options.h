// Options that every verb shares, and what they mean for a program file.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/output.h"
#include "tilewright/driver/kernel.h"

namespace tilewright::cli {

struct Options {
  std::string file;
  std::vector<std::string> sizes, dtypes, params, inputs, outputs;
  std::string target = "cpu", schedule, map = "sm90", stream, arch;
  bool has_schedule = false, has_map = false;
  uint64_t seed = 0;
  int repeat = 1, warmup = 1, threads = 0, device = 0;
  bool json = false, raw = false;
};

/// Adds FILE and the options of every verb that reads a program: sizes, dtypes, the streamed axis.
void add_program(CLI::App& verb, Options& o);
/// Adds --json.
void add_json(CLI::App& verb, bool& json);
/// Adds --schedule.
void add_schedule(CLI::App& verb, Options& o);
/// Adds --threads, --device.
void add_threads(CLI::App& verb, Options& o);
void add_device(CLI::App& verb, Options& o);
/// Adds --target, --schedule, --map, --arch, --threads and --device.
void add_common(CLI::App& verb, Options& o);
/// Adds --map.
void add_map(CLI::App& verb, Options& o);
/// Adds --param, --input and --seed.
void add_inputs(CLI::App& verb, Options& o);
/// Adds options of verbs that run kernels: inputs, outputs, params, seed.
void add_running(CLI::App& verb, Options& o);
/// Adds an integer option within [lo, hi]; a value that is not one is a UserError naming the option.
CLI::Option* add_integer(CLI::App& verb, const std::string& option, std::function<void(int64_t)> set,
                         int64_t lo, int64_t hi, int64_t fallback, const std::string& description);
/// `items` joined by "\n  " behind "Examples:", shown at the end of the verb's help.
void add_examples(CLI::App& verb, const std::vector<std::string>& items);

/// NAME=VALUE pairs of a repeated, comma-separated option; UserError names the option.
std::map<std::string, std::string> pairs(const std::vector<std::string>& items, const char* option);
std::map<std::string, int64_t> size_values(const Options& o);

/// Parses the file with the overrides that --size and --dtype ask for. `sizes` receives the sizes that are not literals.
Program load(const Options& o, std::map<std::string, int64_t>& sizes);
/// Target, schedule (text, or a file's content), threads, device, streamed axis.
CompileOptions compile_options(const Options& o, const Program& p);
std::map<std::string, double> param_values(const Options& o);

/// The files that these options name for reading: the program, a schedule's file, inputs. `machine`: what --machine says, empty where nothing does.
OutputFiles files_read(const Options& o, const std::string& machine = "");

/// UserError "no {kind} is called `{given}`" unless `given` is one of `known`; the nearest is suggested, or all are named.
void expect_one_of(const std::string& given, const std::vector<std::string>& known, const std::string& kind);

/// UserError "{option} has no effect here" with the hint `when` where the option was given and does not apply.
void expect_effect(const CLI::App& verb, const std::string& option, bool applies, const std::string& when);
/// The same of the options of `run` and `check` that only some targets heed.
void expect_effects(const CLI::App& verb, const Options& o, Target target);

/// Runs a verb's body and turns exceptions into messages and exit statuses (2 the user's mistake, 3 ours). With `json` they are told as an
/// object on standard output too.
int guarded(const std::function<int()>& body, bool json);

}  // namespace tilewright::cli
