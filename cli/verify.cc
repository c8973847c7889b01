// tilewright verify: each claim of the performance model beside a count or a measurement.
#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/driver/verify.h"
#include "tilewright/support/input_file.h"

namespace tilewright::cli {

namespace {

struct VerifyCommand {
  Options program;
  std::string machine;
};

/// The sizes and params of the program's line "# try: --size … --param …", where none are given.
void take_tried(Options& o) {
  if (!o.sizes.empty()) return;
  const std::string text = InputFile(o.file).text(), mark = "# try: ";
  size_t at = text.rfind(mark, 0) == 0 ? 0 : text.find("\n" + mark);
  if (at == std::string::npos) return;
  at = text.find(mark, at) + mark.size();
  std::istringstream words(text.substr(at, text.find('\n', at) - at));
  for (std::string word, value; words >> word >> value;) {
    if (word == "--size") o.sizes.push_back(value);
    if (word == "--param" && o.params.empty()) o.params.push_back(value);
  }
}

/// The path of this command; what `ncu` is asked to profile is a run by it.
std::string own_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, size_t(n)) : "tilewright";
}

std::vector<std::string> run_command_of(const Options& o) {
  std::vector<std::string> all{own_path(), "run", o.file,     "--target", "cuda",
                               "--repeat", "1",   "--warmup", "0"};
  const auto add = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& v : values) all.insert(all.end(), {option, v});
  };
  add("--size", o.sizes);
  add("--dtype", o.dtypes);
  add("--param", o.params);
  add("--input", o.inputs);
  if (o.has_schedule) all.insert(all.end(), {"--schedule", o.schedule});
  if (!o.stream.empty()) all.insert(all.end(), {"--stream", o.stream});
  all.insert(all.end(), {"--seed", std::to_string(o.seed), "--device", std::to_string(o.device)});
  return all;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  auto o = std::make_shared<VerifyCommand>();
  o->program.repeat = 9;
  CLI::App* verb =
      app.add_subcommand("verify", "put each claim of the performance model beside a count or a measurement");
  add_program(*verb, o->program);
  verb->add_option("--target", o->program.target, "whose plans: counted here, and timed where it runs")
      ->type_name("cpu|cuda")
      ->capture_default_str();
  add_schedule(*verb, o->program);
  add_machine_of_target(*verb, o->machine);
  add_inputs(*verb, o->program);
  add_integer(
      *verb, "--repeat", [o](int64_t n) { o->program.repeat = static_cast<int>(n); }, 0, 1000000, 9,
      "timed runs (0: time is not measured)");
  add_threads(*verb, o->program);
  add_device(*verb, o->program);
  add_json(*verb, o->program.json);
  add_examples(
      *verb, {"tilewright verify examples/pf_causal.tw",
              "tilewright verify examples/pf_causal.tw --size b=1,h=4,i=2048,j=2048 --machine this.toml",
              "tilewright verify examples/layernorm.tw --schedule 'group r=8; stream c=256' --repeat 0",
              "tilewright verify examples/pf_gqa.tw --target cuda --size b=1,k=8,g=4,i=4096,j=4096 --json"});
  verb->callback([o, verb, &status] {
    expect_one_of(o->program.target, {"cpu", "cuda"}, "target of the claims");
    expect_effect(*verb, "--device", o->program.target == "cuda", "it chooses the GPU of --target cuda");
    expect_effect(*verb, "--threads", o->program.target == "cpu", "it is for --target cpu");
    take_tried(o->program);
    std::map<std::string, int64_t> sizes;
    const Program p = load(o->program, sizes);
    const CompileOptions options = compile_options(o->program, p);
    VerifyOptions v;
    v.session = session_options(o->program, p, sizes);
    v.machine = machine_of_target(o->machine, o->program.target);
    v.repeat = o->program.repeat;
    v.run_command = run_command_of(o->program);
    const Verification result = [&] {
      Progress progress("counting and measuring", Piped::Lines);
      return verify(p, options, v);
    }();
    if (o->program.json)
      put_json(to_json(result));
    else
      put(to_text(result));
    status = result.refuted() ? 1 : 0;
  });
}

}  // namespace tilewright::cli
