#include "cli/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/runtime/npy.h"

namespace tilewright::cli {

namespace {

/// Refuses a name that is not among `known`; `option` begins the message.
void expect_known(const std::string& option, const std::string& name, const std::vector<std::string>& known,
                  const char* what) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string near = nearest_name(name, known);
  throw UserError(Span{}, fmt::format("{}: no {} is called `{}`", option, what, name),
                  near.empty() ? fmt::format("{}s are {}", what, fmt::join(known, ", "))
                               : fmt::format("did you mean `{}`?", near));
}

InputSource source_of(const std::string& name, const std::string& text, DType dtype) {
  static const std::map<std::string, Fill> fills = {
      {"normal", Fill::Normal}, {"uniform", Fill::Uniform}, {"zeros", Fill::Zeros}};
  InputSource source;
  if (const auto fill = fills.find(text); fill != fills.end()) {
    source.fill = fill->second;
    return source;
  }
  if (text.find_first_of("./") == std::string::npos)
    if (const std::string near = nearest_name(text, {"normal", "uniform", "zeros"}); !near.empty())
      throw UserError(Span{},
                      fmt::format("--input {}={}: there is neither such a fill nor such a file", name, text),
                      fmt::format("did you mean `{}`?", near));
  std::error_code ignored;
  if (!std::filesystem::exists(text, ignored))
    throw UserError(Span{}, fmt::format("{}: there is no such file", text),
                    "name a .npy file, or a fill: normal, uniform or zeros");
  source.array = read_npy(text, dtype);
  return source;
}

}  // namespace

SessionOptions session_options(const Options& o, const Program& p,
                               const std::map<std::string, int64_t>& sizes) {
  SessionOptions s;
  s.sizes = sizes;
  s.params = param_values(o);
  s.seed = o.seed;
  std::vector<std::string> inputs, outputs, params;
  for (const Input& in : p.inputs) inputs.push_back(in.sym.name());
  for (const Output& out : p.outputs) outputs.push_back(out.sym.name());
  for (const Param& q : p.params) params.push_back(q.sym.name());
  for (const auto& [name, value] : s.params) {
    if (params.empty())
      throw UserError(Span{}, fmt::format("--param: no param is called `{}`", name),
                      "the program declares no params");
    expect_known("--param", name, params, "param");
  }
  // What will be written is looked at before anything runs.
  OutputFiles files = files_read(o);
  for (const auto& [name, file] : pairs(o.outputs, "--output")) {
    expect_known("--output", name, outputs, "output");
    check_writable(fmt::format("--output {}={}", name, file), file);
    files.writes("--output " + name, file);
  }
  for (const auto& [name, text] : pairs(o.inputs, "--input")) {
    expect_known("--input", name, inputs, "input");
    for (const Input& in : p.inputs)
      if (in.sym.name() == name) s.inputs[name] = source_of(name, text, in.dtype);
  }
  return s;
}

Session make_session(const Program& p, const CompileOptions& c, const SessionOptions& s) {
  Progress progress("deriving, and making the inputs");
  return Session(p, c, s);
}

Timing run_session(Session& session, int warmup, int repeat) {
  Progress progress("compiling and running");
  return session.run(warmup, repeat);
}

std::map<std::string, std::string> write_outputs(const Options& o, const Session& s) {
  std::map<std::string, std::string> files = pairs(o.outputs, "--output");
  for (const auto& [name, file] : files) write_npy(file, s.outputs().at(name), o.raw);
  return files;
}

std::string plan_lines(const Session& s) {
  std::string text;
  for (char c : s.kernel().last_plan()) text += c == '\n' ? "\n         " : std::string(1, c);
  return text;
}

std::string sizes_text(const Program& p, const Sizes& sizes) {
  std::string text;
  for (const Axis& a : p.axes)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", a.name(), sizes.at(a.index.size()));
  return text;
}

}  // namespace tilewright::cli
