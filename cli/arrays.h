// Inputs and outputs of the command.
#pragma once
#include "cli/options.h"
#include "tilewright/driver/session.h"

namespace tilewright::cli {

/// --input, --param, --seed and the run-time sizes.
SessionOptions session_options(const Options& o, const Program& p,
                               const std::map<std::string, int64_t>& sizes);
/// A session, and its run, with a progress line on a terminal where they take long.
Session make_session(const Program& p, const CompileOptions& c, const SessionOptions& s);
Timing run_session(Session& session, int warmup, int repeat);
/// Writes the outputs that --output names; returns name -> file.
std::map<std::string, std::string> write_outputs(const Options& o, const Session& s);
/// The plan of the last run behind "  plan   ", of several kernels a line for each.
std::string plan_lines(const Session& s);
/// "b=1 h=8 …" of every axis.
std::string sizes_text(const Program& p, const Sizes& sizes);

}  // namespace tilewright::cli
