// Options that every verb shares, and what they mean for a program file.
#pragma once
#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "tilewright/driver/kernel.h"

namespace tilewright::cli {

struct Options {
  std::string file;
  std::vector<std::string> sizes, dtypes, params, inputs, outputs;
  std::string target = "cpu", schedule, map = "sm90", stream;
  uint64_t seed = 0;
  int repeat = 0, warmup = 1, threads = 0, device = 0;
  bool json = false, raw = false;
};

/// Adds FILE and the shared options to a verb.
void add_common(CLI::App& verb, Options& o);
/// Adds options of verbs that run kernels: inputs, outputs, seed, repeat, …
void add_running(CLI::App& verb, Options& o);

/// NAME=VALUE pairs of a repeated, comma-separated option; UserError names the option.
std::map<std::string, std::string> pairs(const std::vector<std::string>& items, const char* option);
std::map<std::string, int64_t> size_values(const Options& o);

/// Parses the file with the overrides that --size and --dtype ask for. `sizes` receives the sizes that are not literals.
Program load(const Options& o, std::map<std::string, int64_t>& sizes);
/// Target, schedule (text, or a file's content), threads, device, streamed axis.
CompileOptions compile_options(const Options& o, const Program& p);
std::map<std::string, double> param_values(const Options& o);

/// Runs a verb's body and turns exceptions into messages and exit statuses (2 the user's mistake, 3 ours).
int guarded(const std::function<int()>& body);

}  // namespace tilewright::cli
