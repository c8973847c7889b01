// tilewright explain: one page about a program.
#include "tilewright/explain/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <thread>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/runtime/cuda.h"
#include "tilewright/support/input_file.h"

namespace tilewright::cli {

namespace {

struct ExplainOptions {
  Options program;
  MachineChoice machine;
  std::string html;
  bool no_run = false;
};

/// What the comment at the head of a program says, as one text, and what its `# try:` line names.
void read_comments(const std::string& path, std::string& about, std::vector<std::string>& words) {
  InputFile file(path);
  std::istringstream in(file.text());
  bool head = true;
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.rfind("# try: ", 0) == 0) {
      std::istringstream rest(line.substr(7));
      for (std::string word; rest >> word;) words.push_back(word);
    } else if (head && line.rfind("# ", 0) == 0) {
      about += (about.empty() ? "" : " ") + line.substr(2);
    } else {
      head = false;
    }
  }
}

/// The sizes, params and inputs of a `# try:` line, where the command line names none.
bool take_try_line(Options& o, const std::vector<std::string>& words) {
  const bool sizes = o.sizes.empty(), params = o.params.empty(), inputs = o.inputs.empty();
  bool taken = false;
  for (size_t k = 0; k + 1 < words.size(); ++k) {
    if (words[k] == "--size" && sizes) o.sizes.push_back(words[k + 1]), taken = true;
    if (words[k] == "--param" && params) o.params.push_back(words[k + 1]);
    if (words[k] == "--input" && inputs) o.inputs.push_back(words[k + 1]);
  }
  return taken;
}

/// Axes that need a size and have none.
std::vector<std::string> missing_sizes(const Program& p, const std::map<std::string, int64_t>& sizes) {
  std::vector<std::string> names;
  for (const Axis& a : p.axes)
    if (!a.size && !sizes.count(a.name())) names.push_back(a.name());
  return names;
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
  auto o = std::make_shared<ExplainOptions>();
  CLI::App* verb = app.add_subcommand(
      "explain", "print one page: definition, picture, state, plan, cost, measured and predicted time");
  add_program(*verb, o->program);
  add_schedule(*verb, o->program);
  add_machine(*verb, o->machine, "this-cpu");
  add_inputs(*verb, o->program);
  verb->add_flag("--no-run", o->no_run, "leave the measured time out");
  add_integer(
      *verb, "--repeat", [o](int64_t n) { o->program.repeat = static_cast<int>(n); }, 1, 1000000, 10,
      "timed runs, of which the median counts");
  o->program.repeat = 10;
  add_threads(*verb, o->program);
  verb->add_option("--html", o->html, "write the page here as HTML, with the picture in it")
      ->type_name("FILE");
  add_json(*verb, o->program.json);
  add_examples(*verb,
               {"tilewright explain examples/napkin/attention.tw",
                "tilewright explain examples/pf_causal.tw --size b=1,h=8,i=1024,j=1024 --dtype "
                "Q=f32,K=f32,V=f32,O=f32",
                "tilewright explain examples/pf_causal.tw --machine h200 --size b=1,h=32,i=4096,j=4096",
                "tilewright explain examples/layernorm_matmul.tw --no-run --html page.html"});
  verb->callback([o, verb, &status] {
    status = [&] {
      if (!o->html.empty()) check_writable("--html", o->html);
      for (const char* option : {"--repeat", "--threads", "--param", "--input", "--seed"})
        expect_effect(*verb, option, !o->no_run, "--no-run leaves the runs out");
      Target target = Target::Cpu;
      const MachineFile machine = chosen_machine(o->machine, "this-cpu", target);
      std::string about;
      std::vector<std::string> words;
      std::map<std::string, int64_t> sizes;
      load(o->program,
           sizes);  // what is wrong with the command line is told before the file's own line is heeded
      read_comments(o->program.file, about, words);
      const bool tried = take_try_line(o->program, words);
      if (!o->html.empty()) files_read(o->program, o->machine.machine).writes("--html", o->html);
      const Program p = load(o->program, sizes);
      CompileOptions options = options_on(machine, o->machine, target, o->program, p);
      if (target == Target::Cuda && !o->no_run) options.arch.clear();  // what runs is made for the device

      explain::Measured measured;
      std::shared_ptr<Kernel> kernel;
      const std::vector<std::string> missing = missing_sizes(p, sizes);
      if (o->no_run) {
        measured.why_not = "--no-run";
      } else if (target == Target::Interp) {
        measured.why_not =
            fmt::format("the plan is one for {}; with a GPU, --target cuda runs it", machine.name);
      } else if (std::string why; target == Target::Cuda && !cuda::available(&why)) {
        measured.why_not = why;
      } else if (sizes.empty() && !missing.empty()) {
        measured.why_not = fmt::format("sizes are missing: give --size {}=N", fmt::join(missing, "=N,"));
      } else {
        const SessionOptions s = session_options(o->program, p, sizes);
        Session session = make_session(p, options, s);
        const Timing t = run_session(session, 2, o->program.repeat);
        measured.ran = true;
        measured.median = t.median, measured.min = t.min, measured.max = t.max;
        measured.runs = o->program.repeat;
        const int threads = o->program.threads > 0 ? o->program.threads
                                                   : static_cast<int>(std::thread::hardware_concurrency());
        measured.on = target == Target::Cpu
                          ? fmt::format("cpu, {} thread{}", threads, threads == 1 ? "" : "s")
                          : std::string("cuda");
      }
      const CompiledProgram c = [&] {
        Progress progress("explaining");
        return compile_program(p, options);
      }();
      explain::StepOptions with{options, machine, sizes, "", false};
      explain::Explanation e = explanation_of(c, with, measured, tried ? " (its `# try:` line)" : "");
      e.file = o->program.file;
      e.about = about;
      if (!o->html.empty()) {
        write_text(o->html, to_html(e));
        if (!o->program.json) return 0;
      }
      if (o->program.json) {
        nlohmann::ordered_json j = to_json(e);
        if (measured.ran)
          j["milliseconds"] = {{"median", measured.median}, {"min", measured.min}, {"max", measured.max}};
        if (!o->html.empty()) j["file"] = o->html;
        put_json(j);
      } else {
        put(to_text(e));
      }
      return 0;
    }();
  });
}

}  // namespace tilewright::cli
