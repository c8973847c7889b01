// The verbs of the command: what they print as JSON, help, completion, the cache, and interruption.
#include <gtest/gtest.h>

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace tilewright::testing::command_test {
namespace {

using nlohmann::json;

const char kProgram[] =
    "program s\naxis r, j\ninput x[r, j] : f32\nP[r, j] = softmax[j](x)\noutput P : f32\n";
/// Small arrays, and minutes of interpretation at the sizes below.
const char kSlow[] =
    "program slow\naxis r, j\naxis k = 64\ninput a[r, k] : f32\ninput b[j, k] : f32\ny[r] = "
    "sum[j](exp(sum[k](a * b) / 64))\noutput y : f32\n";
const char kSlowSize[] = "r=40000,j=40000";
const std::vector<std::string> kVerbs = {"run",   "check",  "derive",   "draw",  "emit",      "build",
                                         "model", "verify", "hardware", "cache", "completion"};

class Command : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new_folder();
    cache = folder + "/cache";
    write(folder + "/s.tw", kProgram);
    write(folder + "/slow.tw", kSlow);
  }
  static CommandResult tw(const std::vector<std::string>& arguments) {
    return tilewright(arguments, folder,
                      {{"TILEWRIGHT_CACHE_DIR", cache}, {"TILEWRIGHT_DISABLE_CACHE", "0"}});
  }
  /// The object that a verb prints; its status must be `status`.
  static json object(const std::vector<std::string>& arguments, int status = 0) {
    const CommandResult r = tw(arguments);
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_EQ(r.err, "");
    return json::parse(r.out, nullptr, false);
  }
  static std::string folder, cache;
};
std::string Command::folder, Command::cache;

/// Names of an object's members, sorted, with "?" where it is none.
std::string members(const json& j) {
  if (!j.is_object()) return "?";
  std::string names;
  for (const auto& [name, value] : j.items()) names += (names.empty() ? "" : " ") + name;
  return names;
}

TEST_F(Command, RunAsJson) {
  const json j =
      object({"run", "s.tw", "--target", "interp", "--size", "r=2,j=3", "--output", "P=p.npy", "--json"});
  EXPECT_EQ(members(j), "counts milliseconds outputs plan program sizes target");
  EXPECT_EQ(j["program"], "s");
  EXPECT_EQ(j["target"], "interp");
  EXPECT_EQ(j["sizes"], json({{"r", 2}, {"j", 3}}));
  EXPECT_EQ(members(j["milliseconds"]), "max median min");
  EXPECT_EQ(j["outputs"],
            json::array({{{"name", "P"}, {"shape", {2, 3}}, {"dtype", "f32"}, {"file", "p.npy"}}}));
  EXPECT_EQ(members(j["counts"]), "counted formulas");
  EXPECT_EQ(members(j["counts"]["counted"]),
            "chunks_total chunks_visited memory peak_registers peak_shared shared slow_memory slow_shared");
  EXPECT_EQ(j["counts"]["counted"]["memory"], json({{"loaded", 24}, {"stored", 24}}));
  EXPECT_EQ(
      members(j["counts"]["formulas"]),
      "chunks_visited memory_loaded memory_stored peak_registers peak_shared shared_loaded shared_stored");
  EXPECT_EQ(members(j["counts"]["formulas"]["memory_loaded"]), "formula value");
  EXPECT_EQ(j["counts"]["formulas"]["memory_loaded"]["value"], 24);
  EXPECT_EQ(read(folder + "/p.npy").substr(1, 5), "NUMPY");
  const json compiled = object({"run", "s.tw", "--size", "r=2,j=3", "--json"});
  EXPECT_EQ(members(compiled), "milliseconds outputs plan program sizes target");
  EXPECT_EQ(members(compiled["outputs"][0]), "dtype name shape");
}

TEST_F(Command, CheckAsJson) {
  const json j = object({"check", "s.tw", "--target", "interp", "--size", "r=2,j=3", "--json"});
  EXPECT_EQ(members(j), "outputs passed plan program sampled sizes target");
  EXPECT_EQ(j["passed"], true);
  EXPECT_EQ(j["sampled"], false);
  EXPECT_EQ(members(j["outputs"][0]),
            "elements error expected got index loose name not_finite passed sampled tolerance usual");
  EXPECT_EQ(j["outputs"][0]["elements"], 6);
  EXPECT_EQ(j["outputs"][0]["index"].size(), 2u);
}

TEST_F(Command, SeededInputsLieInTheirRanges) {
  write(folder + "/range.tw",
        "axis j\nparam c : f32 = 5\nparam n : i32 = 3\ninput x[j] : f32 range(3, c)\ninput k[j] : i32 "
        "range(-1, 2 * n)\n"
        "outside[] = max[j](where(x < 3 or x >= c or k < -1 or k >= 2 * n, 1.0, 0.0))\noutput outside\n");
  for (const char* target : {"cpu", "interp"}) {
    const json j =
        object({"check", "range.tw", "--target", target, "--size", "j=1000", "--param", "c=3.5", "--json"});
    EXPECT_EQ(j["outputs"][0]["expected"], "0");
    EXPECT_EQ(j["outputs"][0]["got"], "0");
  }
}

TEST_F(Command, DeriveAsJson) {
  const json j = object({"derive", "s.tw", "--json"});
  EXPECT_EQ(members(j), "axis checks outputs passes points reductions refusals");
  EXPECT_EQ(j["axis"], "j");
  EXPECT_EQ(j["passes"], 2);
  ASSERT_EQ(j["reductions"].size(), 2u);
  EXPECT_EQ(members(j["reductions"][1]),
            "deferred definition family finish held_at merge name pass proofs repair state");
  EXPECT_EQ(members(j["points"][0]), "may_lag meaning moves name pass");
  EXPECT_EQ(members(j["outputs"][0]), "name pass stored_along_axis value");
  EXPECT_EQ(members(j["checks"][0]), "by pass passed what");
  EXPECT_EQ(j["refusals"], json::array());
  write(folder + "/refused.tw",
        "axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\ny[r] = sum[j](relu(x - m / 2))\noutput y\n");
  const json refused = object({"derive", "refused.tw", "--json"});
  ASSERT_EQ(refused["refusals"].size(), 1u);
  EXPECT_EQ(members(refused["refusals"][0]), "column line reason reduction subterm");
  EXPECT_EQ(refused["refusals"][0]["line"], 4);
}

/// What is wrong is an object too; people still read it on standard error.
TEST_F(Command, ErrorsAsJson) {
  const auto failed = [&](const std::vector<std::string>& arguments) {
    const CommandResult r = tw(arguments);
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find("error: "), std::string::npos);
    return json::parse(r.out, nullptr, false);
  };
  write(folder + "/wrong.tw", "axis r, j\ninput x[r, j] : f32\nP[r] = sum[j](y)\noutput P\n");
  const json wrong = failed({"check", "wrong.tw", "--json"});
  ASSERT_EQ(members(wrong), "error");
  EXPECT_EQ(members(wrong["error"]), "diagnostics status");
  EXPECT_EQ(wrong["error"]["status"], 2);
  ASSERT_GE(wrong["error"]["diagnostics"].size(), 1u);
  const json first = wrong["error"]["diagnostics"][0];
  EXPECT_EQ(members(first), "column hint line source what");
  EXPECT_EQ(first["source"], "wrong.tw");
  EXPECT_EQ(first["line"], 3);
  EXPECT_EQ(first["column"], 15);
  // Neither the command line nor a file is understood.
  const json option = failed({"run", "s.tw", "--json", "--sead", "3"});
  EXPECT_EQ(option["error"]["diagnostics"],
            json::array({{{"what", "no option is called `--sead`"}, {"hint", "did you mean `--seed`?"}}}));
  EXPECT_EQ(members(failed({"derive", "none.tw", "--json"})["error"]["diagnostics"][0]), "hint what");
}

TEST_F(Command, EmitAsJson) {
  const json j = object({"emit", "s.tw", "--stage", "tile", "--json"});
  EXPECT_EQ(members(j), "milliseconds stage text");
  EXPECT_EQ(members(j["milliseconds"]), "derive elaborate plan prove tiles");
  EXPECT_EQ(j["stage"], "tile");
  EXPECT_EQ(j["text"], tw({"emit", "s.tw", "--stage", "tile"}).out);
  EXPECT_EQ(members(object({"emit", "s.tw", "--stage", "program", "--json"})), "stage text");
  EXPECT_EQ(tw({"emit", "s.tw", "--stage", "tile", "-o", "s.txt"}).out, "");
  EXPECT_EQ(read(folder + "/s.txt"), j["text"].get<std::string>());
  EXPECT_EQ(members(object({"emit", "s.tw", "--stage", "tile", "--json", "-o", "s.txt"})),
            "file milliseconds stage");
}

TEST_F(Command, SeveralKernelsAsJson) {
  write(folder + "/chain.tw",
        "axis r, a, b\ninput x[r, a] : f32\ninput A[a, b] : f32\ninput B[b, a] : f32\n"
        "h[r, b] = relu(sum[a](x * A))\nk[r, a] = sum[b](h * B)\nl[r, b] = tanh(sum[a](k * A))\n"
        "y[r, a] = sum[b](l * B)\noutput y\n");
  const json run = object({"run", "chain.tw", "--target", "interp", "--size", "r=2,a=20,b=30", "--json"});
  EXPECT_EQ(members(run), "counts milliseconds outputs plan program sizes target workspace");
  EXPECT_EQ(run["workspace"], json({{"bytes", 448}, {"without_reuse", 704}}));
  for (const char* bytes : {"loaded", "stored"})
    EXPECT_EQ(run["counts"]["counted"]["memory"][bytes],
              run["counts"]["formulas"][std::string("memory_") + bytes]["value"]);
  const json derived = object({"derive", "chain.tw", "--json"});
  ASSERT_EQ(derived["kernels"].size(), 4u);
  EXPECT_EQ(members(derived["kernels"][1]), "axis checks kernel outputs passes points reductions refusals");
  EXPECT_EQ(derived["kernels"][1]["kernel"], "k");
  for (const std::string stage : {"kernels", "plan", "tile", "mapped", "source"}) {
    const json j = object({"emit", "chain.tw", "--stage", stage, "--json"});
    EXPECT_EQ(members(j), "choices kernels milliseconds stage text workspace");
    EXPECT_EQ(members(j["choices"][0]), "kind refused taken what");
    EXPECT_EQ(members(j["choices"][0]["taken"]), "bytes kernels operations products total");
    EXPECT_EQ(members(j["kernels"][0]), stage == "plan" ? "kernel plans" : "kernel text");
    const std::string heading = stage == "source" ? "// kernel 2 of 4: k\n"
                                : stage == "plan" ? "\nkernel k:"
                                                  : "# kernel 2 of 4: k\n";
    EXPECT_NE(j["text"].get<std::string>().find(heading), std::string::npos) << stage;
    EXPECT_EQ(j["workspace"]["regions"], 2);
    EXPECT_EQ(members(j["workspace"]["arrays"][0]), "axes bytes dtype from name output region until");
  }
}

TEST_F(Command, HardwareAsJson) {
  const json j = object({"hardware", "--json"});
  ASSERT_EQ(members(j), "targets");
  std::vector<std::string> names;
  for (const json& t : j["targets"]) {
    names.push_back(t["target"]);
    EXPECT_EQ(t["available"].get<bool>(), !t.contains("reason")) << t;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"cpu", "cuda", "interp", "interp-mapped"}));
  const json& cpu = j["targets"][0];
  EXPECT_EQ(members(cpu),
            "available compiler flags isa local_bytes machine target threads vector_bytes vector_registers");
  EXPECT_EQ(members(cpu["compiler"]), "command version");
  EXPECT_GT(cpu["threads"].get<int>(), 0);
  const CommandResult none = tilewright({"hardware", "--json"}, folder, {{"CXX", "no-such-compiler"}});
  EXPECT_EQ(none.status, 0);
  const json without = json::parse(none.out)["targets"][0];
  EXPECT_EQ(without["available"], false);
  EXPECT_EQ(without["reason"], "no C++ compiler: `no-such-compiler` cannot be run");
  const CommandResult text = tw({"hardware"});
  for (const char* target : {"cpu  ", "cuda  ", "interp  ", "interp-mapped  "})
    EXPECT_NE(text.out.find(target), std::string::npos) << text.out;
}

TEST_F(Command, ModelAsJson) {
  const json j = object({"model", "s.tw", "--machine", "h100-sxm", "--size", "r=100,j=1000", "--json"});
  EXPECT_EQ(members(j), "assumptions kernels machine program seconds");
  EXPECT_EQ(j["machine"], "H100 SXM");
  ASSERT_EQ(j["kernels"].size(), 1u);
  const json& k = j["kernels"][0];
  EXPECT_EQ(members(k), "plan prediction sections sizes");
  EXPECT_EQ(members(k["prediction"]), "bound_by fits operations overlapped resources seconds serial");
  EXPECT_EQ(k["sizes"]["j"], 1000);
  EXPECT_EQ(members(j["assumptions"][0]), "experiment key text");
  for (const json& s : k["sections"])
    for (const json& l : s["lines"]) {
      EXPECT_TRUE(l.contains("name") && l.contains("assumes")) << l;
      EXPECT_TRUE(l.contains("formula") || l.contains("value") || l.contains("note")) << l;
    }
  // Sizes may stay symbols, and a machine may be a file.
  const json symbolic = object({"model", "s.tw", "--json"});
  EXPECT_EQ(members(symbolic), "assumptions kernels machine program");
  EXPECT_EQ(tw({"hardware", "detect", "--output", "model.toml"}).status, 0);
  const json cpu = object({"model", "s.tw", "--machine", "model.toml", "--size", "r=100,j=1000", "--json"});
  EXPECT_EQ(cpu["kernels"][0]["sizes"]["r"], 100);
  EXPECT_EQ(object({"model", "s.tw", "--target", "cpu", "--json"})["machine"], cpu["machine"]);
  for (const char* form : {"--latex", "--markdown"}) {
    const CommandResult r = tw({"model", "s.tw", form});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_NE(r.out.find("s on H200"), std::string::npos) << r.out;
  }
}

/// Plans are those of the architecture of the machine that is named.
TEST_F(Command, ModelsPlansOfTheMachinesArchitecture) {
  write(folder + "/product.tw",
        "program product\naxis i, j, k\ninput A[i, k] : f16\ninput B[k, j] : f16\nC[i, j] = sum[k](A * "
        "B)\noutput C : f16\n");
  const auto plan = [&](const char* verb, const std::string& machine) {
    const json j =
        object({verb, "product.tw", "--machine", machine, "--size", "i=4096,k=4096,j=4096", "--json"});
    return j["kernels"][0]["plan"].dump();
  };
  const auto emitted = [&](const char* arch) {
    return tw({"emit", "product.tw", "--stage", "plan", "--target", "interp", "--arch", arch}).out;
  };
  for (const auto& [machine, arch] :
       {std::pair("a100", "sm_80"), {"rtx-4090", "sm_89"}, {"h200", "sm_90a"}}) {
    const std::string of_machine = json::parse(plan("model", machine)).get<std::string>();
    EXPECT_NE(emitted(arch).find(of_machine), std::string::npos)
        << of_machine << " is not of " << emitted(arch);
  }
  EXPECT_NE(plan("model", "a100"), plan("model", "h200"));
  const auto default_of = [&](const std::string& machine) {
    const json j = object({"search", "product.tw", "--target", "interp", "--machine", machine, "--size",
                           "i=4096,k=4096,j=4096", "--best", "100000", "--json"});
    for (const json& x : j["kernels"][0]["plans"])
      if (x["default"] == true) return x["schedule"].get<std::string>();
    return std::string();
  };
  EXPECT_EQ("\"" + default_of("a100") + "\"", plan("model", "a100"));
}

TEST_F(Command, MachinesAsJson) {
  const json list = object({"hardware", "list", "--json"});
  ASSERT_EQ(members(list), "machines");
  std::set<std::string> names;
  for (const json& m : list["machines"]) {
    EXPECT_EQ(members(m), "about kind machine name");
    names.insert(m["machine"]);
  }
  EXPECT_TRUE(names.count("h100-sxm") && names.count("this-cpu"));
  const json m = object({"hardware", "show", "h800", "--json"});
  EXPECT_EQ(members(m), "clusters counts kind levels matrix name rates sources transfers unknown");
  EXPECT_EQ(m["counts"]["cores"]["value"], 114);
  EXPECT_EQ(m["levels"][1]["bandwidth"]["value"], 2.04e12);
  EXPECT_EQ(members(m["rates"]["clock"]), "source unit value");
  EXPECT_EQ(m["clusters"][1]["size"]["value"], 4);
  // What is detected is a machine file, and a machine file is shown.
  const CommandResult detected = tw({"hardware", "detect", "--output", "here.toml"});
  EXPECT_EQ(detected.status, 0) << detected.err;
  EXPECT_EQ(detected.out, "");
  const json here = object({"hardware", "show", "here.toml", "--json"});
  EXPECT_EQ(here, object({"hardware", "show", "this-cpu", "--json"}));
  EXPECT_EQ(here["kind"], "cpu");
}

TEST_F(Command, TheCacheIsShownAndCleared) {
  const std::string here = folder + "/own-cache";
  const auto shown = [&](const std::vector<std::string>& arguments) {
    const CommandResult r = tilewright(arguments, folder, {{"TILEWRIGHT_CACHE_DIR", here}});
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
  };
  EXPECT_EQ(shown({"cache"}), "folder   " + here + "\nkernels  0\nbytes    0\n");
  EXPECT_FALSE(std::filesystem::exists(here));  // looking makes nothing
  shown({"run", "s.tw", "--size", "r=2,j=3"});
  write(here + "/notes.txt", "mine");
  const json j = json::parse(shown({"cache", "--json"}));
  EXPECT_EQ(members(j), "bytes cleared folder kernels off");
  EXPECT_EQ(j["kernels"], 1);
  EXPECT_GT(j["bytes"].get<int64_t>(), 1000);
  EXPECT_EQ(shown({"cache", "clear"}), "folder   " + here + "\nkernels  1 removed\nbytes    " +
                                           std::to_string(j["bytes"].get<int64_t>()) + "\n");
  EXPECT_EQ(list(here), std::vector<std::string>{"notes.txt"});  // what is not ours stays
  const CommandResult off =
      tilewright({"cache"}, folder, {{"TILEWRIGHT_CACHE_DIR", here}, {"TILEWRIGHT_DISABLE_CACHE", "1"}});
  EXPECT_EQ(off.out, "folder   " + here + "  (off: TILEWRIGHT_DISABLE_CACHE=1)\nkernels  0\nbytes    0\n");
}

TEST_F(Command, EveryVerbHasHelpWithExamples) {
  const CommandResult all = tw({"--help"});
  EXPECT_EQ(all.status, 0);
  for (const std::string& verb : kVerbs) {
    EXPECT_NE(all.out.find("\n  " + verb + " "), std::string::npos) << verb;
    const CommandResult r = tw({verb, "--help"});
    EXPECT_EQ(r.status, 0);
    EXPECT_EQ(r.err, "");
    const size_t at = r.out.find("Examples:\n");
    ASSERT_NE(at, std::string::npos) << r.out;
    EXPECT_NE(r.out.find("tilewright " + verb, at), std::string::npos) << r.out;
  }
  EXPECT_EQ(tw({"--version"}).out, std::string(TILEWRIGHT_VERSION) + "\n");
}

/// What bash offers for words, the last of which is being typed.
std::string offered(const std::string& folder, const std::string& words, int index) {
  const std::string script = "source <(" + command_path() + " completion bash); COMP_WORDS=(" + words +
                             "); COMP_CWORD=" + std::to_string(index) +
                             "; _tilewright; echo \"${COMPREPLY[*]}\"";
  const CommandResult r = run_program({"bash", "-c", script}, folder);
  EXPECT_EQ(r.err, "");
  return r.out;
}

TEST_F(Command, BashCompletesVerbsOptionsAndValues) {
  const std::string sub = new_folder();
  write(sub + "/a.tw", "");
  write(sub + "/b.txt", "");
  EXPECT_EQ(offered(sub, "tilewright c", 1), "check cache completion\n");
  EXPECT_EQ(offered(sub, "tilewright run --s", 2), "--size --stream --schedule --seed\n");
  EXPECT_EQ(offered(sub, "tilewright run --target ''", 3), "cpu cuda interp interp-mapped\n");
  EXPECT_EQ(offered(sub, "tilewright emit --stage p", 3), "program plan\n");
  EXPECT_EQ(offered(sub, "tilewright run ''", 2).find("b.txt"), std::string::npos);
  EXPECT_NE(offered(sub, "tilewright run ''", 2).find("a.tw"), std::string::npos);
  for (const char* file : {"a.tw", "b.txt"})
    EXPECT_NE(offered(sub, "tilewright run --schedule ''", 3).find(file), std::string::npos);
  for (const char* option : {"--output", "-o"})
    EXPECT_NE(offered(sub, std::string("tilewright emit ") + option + " ''", 3).find("b.txt"),
              std::string::npos);
  EXPECT_EQ(offered(sub, "tilewright cache ''", 2), "show clear --help --json\n");
}

TEST_F(Command, EveryShellKnowsEveryOption) {
  const std::string bash = tw({"completion", "bash"}).out, zsh = tw({"completion", "zsh"}).out,
                    fish = tw({"completion", "fish"}).out;
  for (const std::string& verb : kVerbs) {
    const std::string help = tw({verb, "--help"}).out;
    for (size_t at = help.find("--"); at != std::string::npos && at < help.find("Examples:");
         at = help.find("--", at + 2)) {
      const size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
      const std::string option = help.substr(at + 2, end - at - 2);
      if (option.empty()) continue;
      EXPECT_NE(bash.find("--" + option), std::string::npos) << verb << " --" << option;
      EXPECT_NE(zsh.find("'--" + option + "["), std::string::npos) << verb << " --" << option;
      EXPECT_NE(fish.find("'__fish_seen_subcommand_from " + verb + "' -l " + option + " "), std::string::npos)
          << verb << " --" << option;
    }
  }
  for (const char* shell : {"zsh", "fish"}) {
    if (run_program({"sh", "-c", std::string("command -v ") + shell}).status != 0) continue;
    EXPECT_EQ(run_program({shell, "-n", "-c", tw({"completion", shell}).out}).status, 0) << shell;
  }
}

TEST_F(Command, CtrlCLeavesNothingBehind) {
  const std::string place = new_folder(), temporary = new_folder();
  write(place + "/s.tw", kProgram);
  write(place + "/slow.tw", kSlow);
  for (int signal : {SIGINT, SIGTERM}) {
    const CommandResult r = tilewright(
        {"run", "slow.tw", "--target", "interp", "--size", kSlowSize, "--output", "y=y.npy"}, place,
        {{"TMPDIR", temporary}, {"TILEWRIGHT_CACHE_DIR", temporary + "/cache"}}, signal, 300);
    EXPECT_EQ(r.status, 128 + signal) << r.err;
    EXPECT_EQ(r.out + r.err, "");
  }
  // While the compiler runs on a source in the temporary folder.
  write(place + "/slow",
        "#!/bin/sh\ncase \"$*\" in *--version) echo slow;; *--help=target) ;; *) sleep 2;; esac\n");
  std::filesystem::permissions(place + "/slow", std::filesystem::perms::owner_all);
  const CommandResult r = tilewright(
      {"run", "s.tw", "--size", "r=2,j=3"}, place,
      {{"TMPDIR", temporary}, {"TILEWRIGHT_CACHE_DIR", temporary + "/cache"}, {"CXX", place + "/slow"}},
      SIGINT, 400);
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_EQ(list(place), (std::vector<std::string>{"s.tw", "slow", "slow.tw"}));
  // While a prover works: it ends too.
  write(place + "/prover", "#!/bin/sh\necho $$ > " + place + "/pid\nsleep 20\n");
  std::filesystem::permissions(place + "/prover", std::filesystem::perms::owner_all);
  EXPECT_EQ(tilewright({"derive", "s.tw", "--prove"}, place,
                       {{"TMPDIR", temporary}, {"TILEWRIGHT_Z3", place + "/prover"}}, SIGTERM, 400)
                .status,
            128 + SIGTERM);
  std::string prover = read(place + "/pid");
  ASSERT_FALSE(prover.empty());
  prover.pop_back();
  const std::string words = "/proc/" + prover + "/cmdline";  // empty once it has ended
  for (int k = 0; k < 100 && !read(words).empty(); ++k) usleep(10000);
  EXPECT_EQ(read(words), "");
  const std::vector<std::string> left = list(temporary);
  EXPECT_TRUE(left.empty() || left == std::vector<std::string>{"cache"}) << left[0];
}

TEST_F(Command, AClosedPipeEndsItQuietly) {
  const CommandResult r = run_program(
      {"sh", "-c", "{ " + command_path() + " emit s.tw --stage source; echo $? >&2; } | true"}, folder);
  EXPECT_TRUE(r.err == "141\n" || r.err == "0\n")
      << r.err;  // 0 where all fitted into the pipe before its reader left
}

TEST_F(Command, ProgressShowsOnATerminalAlone) {
  const auto on_terminal = [&](const std::string& program, const std::string& size) {
    int terminal = -1;
    const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid < 0) return std::optional<std::string>();  // a machine without pseudo-terminals
    if (pid == 0) {
      if (chdir(folder.c_str()) != 0) _exit(126);
      const std::string path = command_path();
      execl(path.c_str(), path.c_str(), "run", program.c_str(), "--target", "interp", "--size", size.c_str(),
            nullptr);
      _exit(127);
    }
    std::string seen;
    char buffer[4096];
    for (ssize_t n; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) {
      seen.append(buffer, static_cast<size_t>(n));
      if (seen.find("compiling and running … ") != std::string::npos) kill(pid, SIGINT);
    }
    close(terminal);
    waitpid(pid, nullptr, 0);
    return std::optional(seen);
  };
  const auto slow = on_terminal("slow.tw", kSlowSize), quick = on_terminal("s.tw", "r=1,j=3");
  if (!slow || !quick) GTEST_SKIP() << "no pseudo-terminal";
  EXPECT_NE(slow->find("\rcompiling and running … "), std::string::npos);
  EXPECT_EQ(quick->find("…"), std::string::npos);
}

TEST_F(Command, WhatIsNotThereIsSaid) {
  const std::string place = new_folder();
  write(place + "/sum.tw", "axis r, j\ninput x[r, j] : f32\nz[r] = mean[j](x)\ny[r] = sum[j](x)\noutput y\n");
  const CommandResult page = tilewright({"explain", "sum.tw"}, place);
  EXPECT_NE(page.out.find("\n  # no output depends on z\n"), std::string::npos) << page.out;
  EXPECT_NE(page.out.find("sizes are missing: give --size r=N,j=N"), std::string::npos) << page.out;
  // A check in which nothing is finite compares kinds alone.
  write(place + "/nan.tw", "axis r, j\ninput x[r, j] : f32\ny[r] = sum[j](x / 0)\noutput y\n");
  const std::vector<std::string> check = {"check",    "nan.tw", "--size",  "r=5,j=3",
                                          "--target", "interp", "--input", "x=zeros"};
  const CommandResult nan = tilewright(check, place);
  EXPECT_EQ(nan.status, 0) << nan.err;
  EXPECT_NE(nan.out.find("5 elements, 5 of 5 not finite\n"), std::string::npos) << nan.out;
  std::vector<std::string> as_json = check;
  as_json.push_back("--json");
  EXPECT_EQ(number_in_json(tilewright(as_json, place).out, "/outputs/0/not_finite"), 5);
  if (run_program({"z3", "--version"}).status != 0) GTEST_SKIP() << "z3 is not installed";
  write(place + "/plain.tw", "axis r, j\ninput x[r, j] : f32\ny[r] = sum[j](x)\noutput y\n");
  const CommandResult proved = tilewright({"derive", "plain.tw", "--prove"}, place);
  EXPECT_EQ(proved.status, 0) << proved.err;
  EXPECT_NE(proved.out.find("z3: nothing to ask (plain sums and extrema need no repair)\n"),
            std::string::npos)
      << proved.out;
}

}  // namespace
}  // namespace tilewright::testing::command_test
