#include "cli/arrays.h"

#include <fmt/format.h>

#include "tilewright/runtime/npy.h"

namespace tilewright::cli {

SessionOptions session_options(const Options& o, const Program& p, const std::map<std::string, int64_t>& sizes) {
  SessionOptions s;
  s.sizes = sizes;
  s.params = param_values(o);
  s.seed = o.seed;
  for (const auto& [name, text] : pairs(o.inputs, "--input")) {
    InputSource source;
    const Input* input = nullptr;
    std::vector<std::string> names;
    for (const Input& in : p.inputs) {
      names.push_back(in.sym.name());
      if (in.sym.name() == name) input = &in;
    }
    if (input == nullptr) {
      const std::string near = nearest_name(name, names);
      throw UserError(Span{}, fmt::format("--input: no input is called `{}`", name), near.empty() ? fmt::format("inputs are {}", fmt::join(names, ", ")) : fmt::format("did you mean `{}`?", near));
    }
    if (text == "normal") {
      source.fill = Fill::Normal;
    } else if (text == "uniform") {
      source.fill = Fill::Uniform;
    } else if (text == "zeros") {
      source.fill = Fill::Zeros;
    } else {
      source.array = read_npy(text, input->dtype);
    }
    s.inputs[name] = source;
  }
  // An output that does not exist is reported before anything runs.
  for (const auto& [name, file] : pairs(o.outputs, "--output")) {
    std::vector<std::string> names;
    for (const Output& out : p.outputs) names.push_back(out.sym.name());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string near = nearest_name(name, names);
      throw UserError(Span{}, fmt::format("--output: no output is called `{}`", name), near.empty() ? fmt::format("outputs are {}", fmt::join(names, ", ")) : fmt::format("did you mean `{}`?", near));
    }
  }
  return s;
}

std::map<std::string, std::string> write_outputs(const Options& o, const Session& s) {
  std::map<std::string, std::string> files = pairs(o.outputs, "--output");
  for (const auto& [name, file] : files) write_npy(file, s.outputs().at(name), o.raw);
  return files;
}

std::string sizes_text(const Program& p, const Sizes& sizes) {
  std::string text;
  for (const Axis& a : p.axes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", a.name(), sizes.at(a.index.size()));
  return text;
}

}  // namespace tilewright::cli
