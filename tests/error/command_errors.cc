// The command given what it cannot take: whole messages and exit statuses.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fmt/format.h>

#include <filesystem>

#include "tests/support/command.h"

namespace tilewright::testing::command_errors_test {
namespace {

const char kProgram[] =
    "program s\naxis r, j\naxis c = 8\nparam cap : f32 = 5 range(0, 100)\ninput x[r, j] : f16\ninput y[c] : "
    "f32\n"
    "P[r, j] = softmax[j](x * cap)\noutput P : f16\n";

class CommandErrors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new_folder();
    write(folder + "/s.tw", kProgram);
  }
  /// Runs in the folder; expects status 2 and nothing on standard output; returns the message.
  static std::string refused(const std::vector<std::string>& arguments) {
    const CommandResult r = tilewright(arguments, folder);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.out, "");
    return r.err;
  }
  /// `run s.tw --target interp --size r=2,j=3` with more arguments.
  static std::string run_refused(std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "s.tw", "--target", "interp", "--size", "r=2,j=3"});
    return refused(more);
  }
  static std::string folder;
};
std::string CommandErrors::folder;

TEST_F(CommandErrors, Verbs) {
  const std::string verbs =
      "run, check, derive, draw, emit, build, model, verify, search, tune, explain, hardware, cache, "
      "completion\n";
  EXPECT_EQ(refused({}), "error: no verb is given\n  help: verbs are " + verbs);
  EXPECT_EQ(refused({"rum", "s.tw"}), "error: no verb is called `rum`\n  help: did you mean `run`?\n");
  EXPECT_EQ(refused({"optimise", "s.tw"}), "error: no verb is called `optimise`\n  help: verbs are " + verbs);
  EXPECT_EQ(refused({"run"}), "error: FILE is missing\n  help: see tilewright run --help\n");
}

TEST_F(CommandErrors, UnknownOptions) {
  EXPECT_EQ(run_refused({"--sead", "3"}),
            "error: no option is called `--sead`\n  help: did you mean `--seed`?\n");
  EXPECT_EQ(run_refused({"--optimise"}),
            "error: no option is called `--optimise`\n  help: see tilewright run --help\n");
  EXPECT_EQ(run_refused({"other.tw"}),
            "error: `other.tw` is not expected here\n  help: see tilewright run --help\n");
  EXPECT_EQ(run_refused({"--seed"}), "error: --seed needs a value\n  help: see tilewright run --help\n");
  EXPECT_EQ(run_refused({"--seed", "1", "--seed", "2"}),
            "error: --seed is given twice\n  help: give it once\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--repeat", "3"}),
            "error: no option is called `--repeat`\n  help: see tilewright derive --help\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--target", "cpu"}),
            "error: --target has no effect here\n  help: it is for --steps\n");
}

TEST_F(CommandErrors, EmptyValues) {
  const std::string help = "  help: give it a value, or leave it out\n";
  EXPECT_EQ(refused({"draw", "s.tw", "--output", ""}), "error: --output is empty\n" + help);
  EXPECT_EQ(refused({"draw", "s.tw", "--output="}), "error: --output is empty\n" + help);
  EXPECT_EQ(refused({"emit", "s.tw", "-o", ""}), "error: -o is empty\n" + help);
  EXPECT_EQ(refused({"explain", "s.tw", "--no-run", "--html", ""}), "error: --html is empty\n" + help);
  EXPECT_EQ(refused({"hardware", "detect", "--output", ""}), "error: --output is empty\n" + help);
  EXPECT_EQ(refused({"model", "s.tw", "--machine", ""}), "error: --machine is empty\n" + help);
  EXPECT_EQ(refused({"derive", ""}), "error: an argument is empty\n  help: leave it out\n");
}

TEST_F(CommandErrors, Machines) {
  EXPECT_EQ(refused({"hardware", "sho"}), "error: no action is called `sho`\n  help: did you mean `show`?\n");
  EXPECT_EQ(
      refused({"hardware", "show"}),
      "error: no machine is named\n  help: `tilewright hardware list` prints the machines that there are\n");
  EXPECT_EQ(refused({"hardware", "show", "a10"}),
            "error: no machine is called `a10`\n  help: did you mean `a100`?\n");
  EXPECT_EQ(refused({"hardware", "show", "h100"}),
            "error: no machine is called `h100`\n  help: did you mean `h100-pcie` or `h100-sxm`?\n");
  EXPECT_EQ(refused({"hardware", "show", "none.toml"}),
            "error: there is no machine file none.toml\n  help: `tilewright hardware list` names the "
            "machines that need "
            "no file\n");
  EXPECT_EQ(refused({"hardware", "list", "a100"}),
            "error: `a100` is not expected here\n  help: `show` takes the name of a machine\n");
  EXPECT_EQ(refused({"hardware", "list", "--output", "x.toml"}),
            "error: --output has no effect here\n  help: it is for `detect` and `calibrate`\n");
  EXPECT_EQ(refused({"hardware", "detect", "--threads", "2"}),
            "error: --threads has no effect here\n  help: it is for `calibrate`\n");
  EXPECT_EQ(refused({"hardware", "detect", "--output", "no/x.toml"}).rfind("error: --output", 0), 0u);
  write(folder + "/bad.toml", "name = \"x\"\nkind = \"gpu\"\n[counts]\ncores = 3\n");
  EXPECT_EQ(refused({"hardware", "show", "bad.toml"}),
            "bad.toml:4:9: error: cores is a number without a source\n  cores = 3\n          ^\n  help: "
            "write `cores = { "
            "value = …, source = \"…\" }`\n");
  std::filesystem::remove(folder + "/bad.toml");
}

TEST_F(CommandErrors, Claims) {
  EXPECT_EQ(refused({"verify", "s.tw", "--target", "interp"}),
            "error: no target of the claims is called `interp`\n  help: choose one of cpu, cuda\n");
  EXPECT_EQ(
      refused({"verify", "s.tw", "--size", "r=2,j=3", "--machine", "a100"}),
      "error: --target cpu does not run on A100\n  help: write --target cuda, or leave --machine out\n");
  EXPECT_EQ(refused({"verify", "s.tw", "--size", "r=2,j=3", "--device", "1"}),
            "error: --device has no effect here\n  help: it chooses the GPU of --target cuda\n");
  EXPECT_EQ(refused({"verify", "s.tw", "--size", "r=2,j=3", "--target", "cuda", "--threads", "1"}),
            "error: --threads has no effect here\n  help: it is for --target cpu\n");
  // Without sizes those of the line `# try:`, which this program lacks.
  EXPECT_EQ(refused({"verify", "s.tw"}).find("internal"), std::string::npos);
}

TEST_F(CommandErrors, Models) {
  EXPECT_EQ(refused({"model", "s.tw", "--machine", "h20"}),
            "error: no machine is called `h20`\n  help: did you mean `h200`?\n");
  EXPECT_EQ(refused({"model", "s.tw", "--machine", "cray"})
                .rfind("error: no machine is called `cray`\n  help: known are", 0),
            0u);
  write(folder + "/broken.toml", "name = \"x\"\nkind = \n");
  EXPECT_EQ(refused({"model", "s.tw", "--machine", "broken.toml"}).rfind("broken.toml:2:", 0), 0u);
  write(folder + "/broken.toml", "name = \"x\"\nkind = \"gpu\"\n[sources]\na = \"b\"\n");
  EXPECT_EQ(refused({"model", "s.tw", "--machine", "broken.toml"}),
            "broken.toml:1:1: error: the field counts.cores is missing\n  name = \"x\"\n  ^\n  help: write "
            "`cores = { value = "
            "…, source = … }` under [counts]: the number of multiprocessors or cores\n");
  std::filesystem::remove(folder + "/broken.toml");
  EXPECT_EQ(
      refused({"model", "s.tw", "--target", "cpu", "--machine", "a100"}),
      "error: --target cpu does not run on A100\n  help: leave --target out: plans are those of a GPU\n");
  EXPECT_EQ(refused({"model", "s.tw", "--target", "cuda", "--machine", "this-cpu"})
                .rfind("error: --target cuda does not run on", 0),
            0u);
  EXPECT_EQ(
      refused({"model", "s.tw", "--target", "gpu"}).rfind("error: no target of the model is called `gpu`", 0),
      0u);
  EXPECT_EQ(refused({"model", "s.tw", "--size", "q=3"}).rfind("error: ", 0), 0u);
  EXPECT_EQ(refused({"model", "s.tw", "--size", "r=-3"}).rfind("error: ", 0), 0u);
  EXPECT_EQ(
      refused({"model", "s.tw", "--size", "r=4611686018427387904,j=4611686018427387904"}).rfind("error: ", 0),
      0u);
  EXPECT_EQ(refused({"model", "s.tw", "--schedule", "stream k=4"}).rfind("<schedule>:1:8: error: ", 0), 0u);
  const CommandResult both = tilewright({"model", "s.tw", "--json", "--latex"}, folder);
  EXPECT_EQ(both.status, 2);
}

TEST_F(CommandErrors, ProofsWithoutAProver) {
  const CommandResult r =
      tilewright({"derive", "s.tw", "--prove"}, folder, {{"TILEWRIGHT_Z3", "no-such-prover"}});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(
      r.err,
      "error: z3 cannot be started: `no-such-prover`\n  help: install it (on Debian: apt-get install z3) or "
      "name it in the environment variable TILEWRIGHT_Z3\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--smt", "s.tw/proofs"}),
            "error: cannot write s.tw/proofs/s-1.smt2\n  help: give --smt a folder that can be written to\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--smt", ""}),
            "error: --smt: name a folder\n  help: see tilewright derive --help\n");
  const CommandResult option = tilewright({"derive", "s.tw", "--smt", "--json"}, folder);
  EXPECT_EQ(option.status, 2);
  EXPECT_NE(option.out.find("--smt: name a folder"), std::string::npos) << option.out;
  EXPECT_EQ(list(folder), std::vector<std::string>{"s.tw"});
  write(folder + "/astray", "#!/bin/sh\necho a b\necho c\n");
  std::filesystem::permissions(folder + "/astray", std::filesystem::perms::owner_all);
  const CommandResult astray =
      tilewright({"derive", "s.tw", "--prove"}, folder, {{"TILEWRIGHT_Z3", "./astray"}});
  EXPECT_EQ(astray.status, 2);
  EXPECT_NE(astray.err.find("error: `./astray` answered 0 of "), std::string::npos) << astray.err;
  EXPECT_NE(
      astray.err.find("checks, and said: a b\n  help: name a z3 in the environment variable TILEWRIGHT_Z3\n"),
      std::string::npos)
      << astray.err;
  const CommandResult homeless = tilewright({"derive", "s.tw", "--prove"}, folder, {{"TMPDIR", "none"}});
  EXPECT_EQ(homeless.status, 2);
  EXPECT_EQ(
      homeless.err,
      "error: no temporary folder can be made under none\n  help: free some space, or set TMPDIR to a folder "
      "that can be written\n");
  // A prover that proves nothing: what it says stands in the text, and the status is 1.
  write(folder + "/doubter",
        "#!/bin/sh\ngrep '^(echo' \"$3\" | sed 's/(echo \"\\(.*\\)\")/\\1\\nunknown/'\n");
  std::filesystem::permissions(folder + "/doubter", std::filesystem::perms::owner_all);
  const CommandResult doubted =
      tilewright({"derive", "s.tw", "--prove"}, folder, {{"TILEWRIGHT_Z3", folder + "/doubter"}});
  EXPECT_EQ(doubted.status, 1) << doubted.err;
  EXPECT_NE(doubted.out.find("z3 NOT PROVED: unknown"), std::string::npos) << doubted.out;
}

TEST_F(CommandErrors, WhatBuildNeeds) {
  EXPECT_EQ(refused({"build", "s.tw", "--header", "s.h"}),
            "error: -o is missing\n  help: see tilewright build --help\n");
  EXPECT_EQ(refused({"build", "s.tw", "-o", "s.so"}),
            "error: --header is missing\n  help: see tilewright build --help\n");
}

TEST_F(CommandErrors, AVectorUnitThatDoesNotExist) {
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"run", "s.tw", "--size", "r=2,j=3"}, {"hardware"}}) {
    const CommandResult r = tilewright(verb, folder, {{"TILEWRIGHT_CPU_ISA", "sse9"}});
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(
        r.err,
        "error: TILEWRIGHT_CPU_ISA=sse9 names no vector unit\n  help: set it to avx512, avx2 or "
        "portable, followed by +bf16_dot or +bf16_tiles where products of bf16 are to use them, or unset "
        "it for the widest of this processor\n");
  }
}

TEST_F(CommandErrors, Sizes) {
  EXPECT_EQ(refused({"run", "s.tw", "--size", "r=-1,j=3"}),
            "error: --size r=-1 is not a size\n  help: sizes are integers, 0 or more\n");
  EXPECT_EQ(refused({"run", "s.tw", "--size", "r=2.5,j=3"}),
            "error: --size r=2.5 is not a size\n  help: sizes are integers, 0 or more\n");
  EXPECT_EQ(refused({"run", "s.tw", "--size", "r=99999999999999999999,j=3"}),
            "error: --size r=99999999999999999999 is too large\n  help: sizes are below 2^63\n");
  EXPECT_EQ(refused({"run", "s.tw", "--size", "r=2,r=3"}),
            "error: --size names `r` twice\n  help: give it once\n");
  for (const char* empty : {"", "r=2,,j=3", "r=2,j=3,"})
    EXPECT_EQ(refused({"run", "s.tw", "--size", empty}),
              "error: --size `` is not NAME=VALUE\n  help: write --size name=value\n");
  EXPECT_EQ(refused({"run", "s.tw", "--size", "r"}),
            "error: --size `r` is not NAME=VALUE\n  help: write --size name=value\n");
  EXPECT_EQ(refused({"run", "s.tw", "--size", "r=2"}),
            "s.tw:2:9: error: nothing fixes the size of axis `j`\n  axis r, j\n          ^\n  help: give it: "
            "--size j=N\n");
  EXPECT_EQ(refused({"run", "s.tw", "--size", "r=9223372036854775807,j=3"}),
            "s.tw:5:1: error: the size of `x`, shape (9223372036854775807, 3), overflows: it would take more "
            "than 2^62 bytes\n"
            "  input x[r, j] : f16\n  ^~~~~~~~~~~~~~~~~~~\n  help: give smaller sizes\n");
  const std::string large = refused({"run", "s.tw", "--size", "r=1000000,j=100000000"});
  EXPECT_EQ(large.substr(0, large.find(" GiB")), "error: the inputs and outputs take 372529.0") << large;
  EXPECT_EQ(large.substr(large.rfind(" GiB")), " GiB\n  help: give smaller sizes\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--size", "c=9223372036854775807"}),
            "s.tw:3:6: error: the size of axis `c` is 9223372036854775807\n  axis c = 8\n       ^\n  help: a "
            "size is "
            "at most 2^62\n");
  // Also where no array is made.
  for (const char* verb : {"run", "derive", "emit"})
    EXPECT_EQ(refused({verb, "s.tw", "--size", "q=3"}),
              "error: --size q=3: the program has no axis `q`\n  help: its axes are r, j, c\n");
  EXPECT_EQ(refused({"build", "s.tw", "-o", "s.so", "--header", "s.h", "--size", "r=3"}),
            "error: --size r=3: a library takes this length when it runs\n  help: declare `axis r = 3` to "
            "fix it, or leave --size r out\n");
}

TEST_F(CommandErrors, Values) {
  EXPECT_EQ(run_refused({"--dtype", "x=f17"}),
            "error: --dtype x=f17: no such dtype\n  help: dtypes are f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 "
            "i8 bool\n");
  EXPECT_EQ(run_refused({"--dtype", "Z=f16"}),
            "error: --dtype Z=f16: there is no input, definition or output `Z`\n  help: it can replace the "
            "dtype of "
            "x, y, P\n");
  EXPECT_EQ(run_refused({"--param", "cap=abc"}),
            "error: --param cap=abc is not a number\n  help: write a decimal number\n");
  EXPECT_EQ(run_refused({"--param", "cap=1e999"}),
            "error: --param cap=1e999 is too large for f64\n  help: write `inf` where infinity is meant\n");
  EXPECT_EQ(run_refused({"--param", "cup=2"}),
            "error: --param: no param is called `cup`\n  help: did you mean `cap`?\n");
  EXPECT_EQ(run_refused({"--param", "cap=200"}),
            "s.tw:4:1: error: param cap is 200, outside its declared range [0, 100)\n  param cap : f32 = 5 "
            "range(0, 100)\n  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "  help: give a value inside the range\n");
  EXPECT_EQ(run_refused({"--seed", "-1"}),
            "error: --seed -1 is not an integer from 0 to 9223372036854775807\n  help: write --seed 0\n");
  EXPECT_EQ(run_refused({"--seed", "1x"}),
            "error: --seed 1x is not an integer from 0 to 9223372036854775807\n  help: write --seed 0\n");
  EXPECT_EQ(run_refused({"--threads", "100000"}),
            "error: --threads 100000 is not an integer from 0 to 1024\n  help: write --threads 0\n");
  EXPECT_EQ(run_refused({"--repeat", "0"}),
            "error: --repeat 0 is not an integer from 1 to 1000000\n  help: write --repeat 1\n");
  EXPECT_EQ(run_refused({"--device", "-1"}),
            "error: --device -1 is not an integer from 0 to 255\n  help: write --device 0\n");
  EXPECT_EQ(run_refused({"--stream", "q"}), "error: no axis is called `q`\n  help: choose one of r, j, c\n");
  EXPECT_EQ(run_refused({"--map", "sm91"}),
            "error: no mapping is called `sm91`\n  help: did you mean `sm90`?\n");
  EXPECT_EQ(refused({"run", "s.tw", "--target", "gpu"}),
            "error: no target is called `gpu`\n  help: did you mean `cpu`?\n");
  EXPECT_EQ(refused({"run", "s.tw", "--target", "opencl"}),
            "error: no target is called `opencl`\n  help: choose one of cpu, cuda, interp, interp-mapped\n");
  EXPECT_EQ(refused({"emit", "s.tw", "--stage", "asm"}),
            "error: no stage is called `asm`\n  help: choose one of program, kernels, plan, tile, mapped, "
            "source\n");
  EXPECT_EQ(refused({"emit", "s.tw", "--layout", "packed"}),
            "error: no layout class is called `packed`\n  help: choose one of aligned, general\n");
  EXPECT_EQ(refused({"cache", "empty"}),
            "error: no action is called `empty`\n  help: choose one of show, clear\n");
  EXPECT_EQ(refused({"completion", "csh"}), "error: no shell is called `csh`\n  help: did you mean `zsh`?\n");
  EXPECT_EQ(refused({"build", "s.tw", "-o", "s.so", "--header", "s.h", "--name", "3d"}),
            "error: `3d` cannot name a function of C\n  help: give another name with --name\n");
}

TEST_F(CommandErrors, Schedules) {
  const std::string help =
      "  help: name a file that holds a schedule, or write clauses, such as \"stream j=128\"\n";
  EXPECT_EQ(run_refused({"--schedule", "."}), "error: --schedule .: it is a folder\n" + help);
  EXPECT_EQ(run_refused({"--schedule", "nofile.sched"}),
            "error: --schedule nofile.sched: there is no such file\n" + help);
  EXPECT_EQ(run_refused({"--schedule", "no/such file"}),
            "error: --schedule no/such file: there is no such file\n" + help);
  // A slash in a clause is no path.
  EXPECT_NE(run_refused({"--schedule", "grid blocks, zz/2"}).find("no axis is called `zz`"),
            std::string::npos);
  EXPECT_EQ(run_refused({"--schedule", " "}),
            "error: --schedule is empty\n  help: write clauses, such as \"stream j=128\", or leave the "
            "option out for the default plans\n");
  write(folder + "/empty.sched", "");
  EXPECT_EQ(run_refused({"--schedule", "empty.sched"}),
            "error: --schedule empty.sched: the file is empty\n  help: write clauses into it, such as "
            "\"stream j=128\"\n");
  write(folder + "/comment.sched", "# nothing\n");
  EXPECT_EQ(run_refused({"--schedule", "comment.sched"}),
            "comment.sched:1:1: error: the schedule holds no clause\n  # nothing\n  ^\n  help: write one, "
            "such as `stream j=128`, or give no schedule for the default plans\n");
  write(folder + "/binary.sched", std::string("stream j=4\0", 11));
  EXPECT_EQ(run_refused({"--schedule", "binary.sched"}),
            "error: --schedule binary.sched: the file is not a text: byte 10 is NUL\n  help: name a file "
            "that holds a "
            "schedule\n");
  write(folder + "/bad.sched", "# chunks\r\nstream j=4\r\nstrem j=3\r\n");
  EXPECT_EQ(run_refused({"--schedule", "bad.sched"}),
            "bad.sched:3:1: error: no clause begins with `strem`\n  strem j=3\n  ^~~~~\n  help: did you mean "
            "`stream`?\n");
  write(folder + "/good.sched", "# chunks\r\nstream j=2");
  const CommandResult r = tilewright(
      {"run", "s.tw", "--target", "interp", "--size", "r=2,j=3", "--schedule", "good.sched", "--json"},
      folder);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("stream j=2"), std::string::npos) << r.out;
}

TEST_F(CommandErrors, CharactersAndNumbersOfSchedules) {
  EXPECT_EQ(
      run_refused({"--schedule", "stream j:4"}),
      "<schedule>:1:9: error: unexpected character `:` in a schedule\n  stream j:4\n          ^\n  help: `:` "
      "stands behind `kernel NAME`, `when j <= 1024` and `otherwise`; a size is given by `=`\n");
  EXPECT_EQ(
      run_refused({"--schedule", "stream j<=4"}),
      "<schedule>:1:9: error: unexpected character `<` in a schedule\n  stream j<=4\n          ^\n  help: a "
      "plan for some sizes begins with `when j <= 1024:`\n");
  EXPECT_EQ(run_refused({"--schedule", "stream j=-4"}),
            "<schedule>:1:10: error: unexpected character `-` in a schedule\n  stream j=-4\n           ^\n  "
            "help: a "
            "schedule holds words, numbers and `; = , / + : <=`\n");
  EXPECT_EQ(
      run_refused({"--schedule", "stream j=99999999999999999999"}),
      "<schedule>:1:10: error: a number of a schedule is at most 2^40\n  stream j=99999999999999999999\n"
      "           ^~~~~~~~~~~~~~~~~~~~\n  help: write a smaller one; blocks and chunks hold at most 16777216 "
      "elements\n");
  EXPECT_EQ(run_refused({"--schedule", "group r=2147483648"}),
            "<schedule>:1:9: error: 2147483648 elements are more than any memory on a chip holds\n"
            "  group r=2147483648\n          ^~~~~~~~~~\n  help: write `group i=128/64, h=1`; the number is "
            "at most "
            "16777216\n");
  EXPECT_EQ(
      run_refused({"--schedule", "stream j=2147483648"}),
      "<schedule>:1:10: error: 2147483648 elements are more than any memory on a chip holds\n"
      "  stream j=2147483648\n           ^~~~~~~~~~\n  help: write `stream j=128`; the number is at most "
      "16777216\n");
}

TEST_F(CommandErrors, WhatAStageBehindThePlanRefusesStandsAtItsClauses) {
  write(
      folder + "/p.tw",
      "axis i, k\naxis j = 8\ninput A[i, k] : f16\ninput B[k, j] : f16\ny[i, j] = sum[k](A[i, k] * B[k, j])\n"
      "output y\n");
  EXPECT_EQ(
      refused({"emit", "p.tw", "--target", "cuda", "--stage", "mapped", "--schedule", " group i=1048576;"}),
      "<schedule>:1:2: error: kernel program needs about 32808 registers a thread (32768 of them states), "
      "there "
      "are 255\n   group i=1048576;\n   ^~~~~~~~~~~~~~~\n  help: use more computing groups (roles), smaller "
      "pieces or smaller blocks\n");
  EXPECT_EQ(refused({"emit", "p.tw", "--target", "cpu", "--stage", "mapped", "--schedule", "group i=1048576"})
                .rfind("<schedule>:1:1: error: the tiles of `program` need ", 0),
            0u);
}

TEST_F(CommandErrors, Inputs) {
  EXPECT_EQ(run_refused({"--input", "z=a.npy"}),
            "error: --input: no input is called `z`\n  help: inputs are x, y\n");
  EXPECT_EQ(
      run_refused({"--input", "x=a.npy"}),
      "error: a.npy: there is no such file\n  help: name a .npy file, or a fill: normal, uniform or zeros\n");
  EXPECT_EQ(run_refused({"--input", "x=gaussian"}),
            "error: gaussian: there is no such file\n  help: name a .npy file, or a fill: normal, uniform or "
            "zeros\n");
  EXPECT_EQ(run_refused({"--input", "x=."}), "error: .: it is a folder\n  help: name a .npy file\n");
  EXPECT_EQ(run_refused({"--input", "x=normall"}),
            "error: --input x=normall: there is neither such a fill nor such a file\n  help: did you mean "
            "`normal`?\n");
  write(folder + "/text.npy", "hello, this is not an array");
  EXPECT_EQ(run_refused({"--input", "x=text.npy"}),
            "error: text.npy: the file is not a .npy\n  help: write it with numpy.save\n");
}

/// What has no end or is longer than any text is refused before it is read.
TEST_F(CommandErrors, FilesThatDoNotEnd) {
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  write(folder + "/long.tw", "");
  std::filesystem::resize_file(folder + "/long.tw", (uint64_t{3} << 30));
  for (const auto& [file, what] :
       {std::pair<std::string, std::string>{"/dev/zero", "it is a device"}, {"pipe", "it is a pipe"}}) {
    const std::string help = "\n  help: save what it gives to a file, and name that\n";
    EXPECT_EQ(refused({"check", file}), "error: cannot read " + file + ": " + what + help);
    EXPECT_EQ(run_refused({"--input", "x=" + file}), "error: " + file + ": " + what + help);
    EXPECT_EQ(run_refused({"--schedule", file}), "error: --schedule " + file + ": " + what + help);
  }
  const std::string length = "it is 3221225472 bytes long, and a text has at most 16 MiB\n";
  EXPECT_EQ(refused({"check", "long.tw"}),
            "error: cannot read long.tw: " + length + "  help: give the path of a .tw file\n");
  EXPECT_EQ(run_refused({"--schedule", "long.tw"}),
            "error: --schedule long.tw: " + length +
                "  help: name a file that holds a schedule, or write clauses, such as \"stream j=128\"\n");
}

TEST_F(CommandErrors, OptionsWithoutEffect) {
  const std::string idle = " has no effect here\n  help: ";
  EXPECT_EQ(run_refused({"--device", "1"}),
            "error: --device" + idle + "it chooses the GPU of --target cuda\n");
  EXPECT_EQ(run_refused({"--threads", "1"}),
            "error: --threads" + idle + "it is for --target cpu and --target interp-mapped\n");
  const std::string mappings =
      "\n  help: kernels for sm_90a are mapped by sm90, those for other architectures by sm80; leave one of "
      "the two "
      "out\n";
  EXPECT_EQ(refused({"check", "s.tw", "--target", "interp-mapped", "--map", "sm80", "--arch", "sm_90a"}),
            "error: --map sm80 and --arch sm_90a are of different mappings" + mappings);
  EXPECT_EQ(refused({"emit", "s.tw", "--target", "interp-mapped", "--map", "sm90", "--arch", "sm_86",
                     "--stage", "plan"}),
            "error: --map sm90 and --arch sm_86 are of different mappings" + mappings);
  EXPECT_EQ(run_refused({"--map", "cpu"}), "error: --map" + idle + "it is for --target interp-mapped\n");
  EXPECT_EQ(run_refused({"--raw"}), "error: --raw" + idle + "it says how --output NAME=FILE is written\n");
  EXPECT_EQ(run_refused({"--warmup", "2"}),
            "error: --warmup" + idle + "an interpreted program is run once for each of --repeat\n");
  const auto emit_refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"emit", "s.tw"});
    return refused(more);
  };
  EXPECT_EQ(emit_refused({"--threads", "1"}),
            "error: --threads" + idle + "nothing runs: it is for `run` and `check`\n");
  EXPECT_EQ(emit_refused({"--canonical"}), "error: --canonical" + idle + "it is for --stage tile\n");
  EXPECT_EQ(emit_refused({"--stage", "plan", "--layout", "general"}),
            "error: --layout" + idle + "it is for --stage mapped and --stage source\n");
  EXPECT_EQ(emit_refused({"--stage", "program", "--schedule", "stream j=4"}),
            "error: --schedule" + idle + "a program is printed before anything is chosen for it\n");
  EXPECT_EQ(
      emit_refused({"--target", "interp"}),
      "error: --target interp has no source\n  help: it runs the program as it is; write --target cpu or "
      "--target cuda\n");
  EXPECT_EQ(
      emit_refused({"--target", "interp", "--stage", "mapped"}),
      "error: --target interp has no mapped program\n  help: it runs the tile program; write --target cpu, "
      "cuda or interp-mapped\n");
}

TEST_F(CommandErrors, OutputsAreLookedAtBeforeAnythingRuns) {
  // The size would take hours to interpret: the message comes at once.
  const std::vector<std::string> run = {"run",     "s.tw", "--target", "interp", "--size", "r=20000,j=20000",
                                        "--output"};
  const auto refused_output = [&](const std::string& output) {
    std::vector<std::string> all = run;
    all.push_back(output);
    return refused(all);
  };
  EXPECT_EQ(refused_output("Q=a.npy"), "error: --output: no output is called `Q`\n  help: outputs are P\n");
  EXPECT_EQ(refused_output("P=."), "error: --output P=.: . is a folder\n  help: name a file in it\n");
  EXPECT_EQ(refused_output("P=none/a.npy"),
            "error: --output P=none/a.npy: there is no folder none\n  help: make it, or name another file\n");
  EXPECT_EQ(refused_output("P=s.tw/a.npy"),
            "error: --output P=s.tw/a.npy: s.tw is not a folder\n  help: name another file\n");
  EXPECT_EQ(refused({"build", "s.tw", "-o", "none/s.so", "--header", "s.h"}),
            "error: -o none/s.so: there is no folder none\n  help: make it, or name another file\n");
  EXPECT_EQ(refused({"build", "s.tw", "-o", "s.h", "--header", "s.h"}),
            "error: -o and --header go to the same file s.h\n  help: name a file for each\n");
}

/// By whatever path: a command never replaces what it reads.
TEST_F(CommandErrors, OutputsDoNotOverwriteWhatIsRead) {
  const std::string another = "\n  help: name another file\n";
  std::filesystem::create_symlink("s.tw", folder + "/link.tw");
  write(folder + "/plan.txt", "stream j=64");
  write(folder + "/x.npy", "not looked at");
  const std::string program = " would overwrite the program, s.tw" + another;
  EXPECT_EQ(refused({"draw", "s.tw", "--output", "s.tw"}), "error: --output" + program);
  EXPECT_EQ(refused({"draw", "s.tw", "--output", "./link.tw"}), "error: --output" + program);
  EXPECT_EQ(refused({"draw", "s.tw", "--output", folder + "/s.tw"}), "error: --output" + program);
  EXPECT_EQ(refused({"draw", "s.tw", "--plan", "--schedule", "plan.txt", "--output", "plan.txt"}),
            "error: --output would overwrite the schedule, plan.txt" + another);
  EXPECT_EQ(refused({"emit", "s.tw", "-o", "s.tw"}), "error: --output" + program);
  EXPECT_EQ(refused({"emit", "s.tw", "-o", "none/s.cc"}),
            "error: --output: there is no folder none\n  help: make it, or name another file\n");
  EXPECT_EQ(refused({"tune", "s.tw", "-o", "s.tw"}), "error: --output" + program);
  EXPECT_EQ(refused({"build", "s.tw", "-o", "s.tw", "--header", "s.h"}), "error: -o" + program);
  EXPECT_EQ(refused({"build", "s.tw", "-o", "s.so", "--header", "s.tw"}), "error: --header" + program);
  EXPECT_EQ(refused({"build", "s.tw", "-o", "s.so", "--header", "./s.so"}),
            "error: -o and --header go to the same file ./s.so\n  help: name a file for each\n");
  EXPECT_EQ(refused({"explain", "s.tw", "--no-run", "--html", "s.tw"}), "error: --html" + program);
  EXPECT_EQ(refused({"derive", "s.tw", "--steps", "--html", "s.tw"}), "error: --html" + program);
  EXPECT_EQ(run_refused({"--output", "P=s.tw"}), "error: --output P" + program);
  EXPECT_EQ(run_refused({"--input", "x=x.npy", "--output", "P=./x.npy"}),
            "error: --output P would overwrite the input `x`, x.npy" + another);
  EXPECT_EQ(read(folder + "/s.tw"), kProgram);
}

TEST_F(CommandErrors, IntegerParams) {
  write(folder + "/n.tw",
        "axis r, j\nparam n : i32\nparam t : bool = 1\ninput x[r, j] : f32\n"
        "y[r] = sum[j](where(j < n and t, x, 0))\noutput y\n");
  const auto given = [&](const std::string& value, const std::string& target) {
    return refused({"run", "n.tw", "--size", "r=2,j=3", "--target", target, "--param", value});
  };
  for (const std::string target : {"cpu", "interp"}) {
    EXPECT_EQ(given("n=2.5", target),
              "n.tw:2:1: error: param `n` is i32, which does not hold 2.5\n  param n : i32\n  "
              "^~~~~~~~~~~~~\n  help: give an integer, or declare the param f32\n");
    EXPECT_NE(given("n=3e9", target).find("is i32, which does not hold 3000000000"), std::string::npos);
    EXPECT_NE(given("n=1,t=2", target).find("help: give 0 or 1"), std::string::npos);
    EXPECT_EQ(
        given("n=9007199254740993", target),
        "n.tw:2:1: error: param `n` is given 9007199254740992, and integers are exact below 2^53 alone\n"
        "  param n : i32\n  ^~~~~~~~~~~~~\n  help: subtract an offset, or declare the param f64 where "
        "rounding is accepted\n");
  }
  write(folder + "/d.tw",
        "axis j\nparam n : i64 = 2**60\nparam m : i8 = size(j)\ninput x[j] : f32\n"
        "y[j] = where(j < n + m, x, 0)\noutput y\n");
  EXPECT_NE(refused({"run", "d.tw", "--size", "j=2"})
                .find("d.tw:2:1: error: param `n` is given 1152921504606846976"),
            std::string::npos);
  EXPECT_NE(refused({"run", "d.tw", "--size", "j=200", "--param", "n=1"})
                .find("d.tw:3:1: error: param `m` is i8, which does not hold 200"),
            std::string::npos);
}

/// An axis whose size follows from literals has no size of its own to replace.
TEST_F(CommandErrors, SizesThatFollowFromLiterals) {
  write(folder + "/d.tw",
        "axis i\naxis d = 8\naxis e = 2 * size(d)\ninput x[i, d] : f32\ninput w[d, e] : f32\n"
        "y[i, e] = sum[d](x * w)\noutput y\n");
  const std::string where = "\n  axis e = 2 * size(d)\n       ^\n  help: ";
  for (const char* verb : {"run", "emit", "derive"})
    EXPECT_EQ(refused({verb, "d.tw", "--size", "e=20"}),
              "d.tw:3:6: error: --size e=20: axis `e` is 16 by its declaration e = 2 * size(d) with d = 8" +
                  where + "replace the sizes that it follows from, or leave --size e=20 out\n");
  EXPECT_EQ(refused({"run", "d.tw", "--size", "d=4,e=20,i=2"}),
            "d.tw:3:6: error: --size e=20: axis `e` is 8 by its declaration e = 2 * size(d) with d = 4" +
                where + "replace the sizes that it follows from, or leave --size e=20 out\n");
  const CommandResult agrees =
      tilewright({"run", "d.tw", "--target", "interp", "--size", "d=10,e=20,i=2"}, folder);
  EXPECT_EQ(agrees.status, 0) << agrees.err;
}

/// Ranges between two neighbouring values of a dtype.
TEST_F(CommandErrors, RangesThatHoldNoValue) {
  write(folder + "/n.tw", "axis j\ninput x[j] : f16 range(1.0001, 1.0002)\ny[j] = x\noutput y\n");
  EXPECT_EQ(
      refused({"derive", "n.tw"}),
      "n.tw:2:24: error: the range of `x` holds no value of f16: the first from 1.0001 on is "
      "1.0009765625\n  input x[j] : f16 range(1.0001, 1.0002)\n                         ^~~~~~~~~~~~~~\n"
      "  help: widen it, or declare a dtype that has values there\n");
  EXPECT_EQ(tilewright({"run", "n.tw", "--size", "j=2", "--dtype", "x=f32"}, folder).status, 0);
  write(folder + "/i.tw", "axis j\ninput k[j] : i8 range(200, 300)\ny[j] = k\noutput y\n");
  EXPECT_EQ(refused({"derive", "i.tw"}),
            "i.tw:2:23: error: the range of `k` holds no value of i8: all are smaller\n"
            "  input k[j] : i8 range(200, 300)\n                        ^~~~~~~~\n"
            "  help: widen it, or declare a dtype that has values there\n");
  write(folder + "/p.tw",
        "axis j\nparam lo : f32 = 0\ninput x[j] : f16 range(lo, lo + 0.0001)\ny[j] = x\noutput y\n");
  EXPECT_EQ(
      refused({"run", "p.tw", "--size", "j=2", "--param", "lo=1.0001"}),
      "p.tw:3:1: error: the range of `x` is [1.000100016593933, 1.000200016593933), which holds no value "
      "of f16\n  input x[j] : f16 range(lo, lo + 0.0001)\n  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
      "  help: give params and sizes with which it holds one, or --input x=FILE.npy\n");
  EXPECT_EQ(tilewright({"run", "p.tw", "--size", "j=2", "--param", "lo=2"}, folder).status, 0);
  EXPECT_EQ(tilewright({"run", "p.tw", "--size", "j=0", "--param", "lo=1.0001"}, folder).status, 0);
}

TEST_F(CommandErrors, Architectures) {
  for (const char* arch : {"sm_999", "sm_70", "sm_90b", "90"})
    EXPECT_EQ(refused({"emit", "s.tw", "--target", "cuda", "--stage", "plan", "--arch", arch}),
              fmt::format("error: `{}` is no architecture that kernels are made for\n  help: choose one of "
                          "sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_103, sm_110, sm_120, "
                          "sm_121\n",
                          arch));
  EXPECT_EQ(refused({"check", "s.tw", "--target", "interp-mapped", "--map", "sm70"}),
            "error: no mapping is called `sm70`\n  help: did you mean `sm90`?\n");
  EXPECT_EQ(refused({"check", "s.tw", "--target", "interp-mapped", "--map", "hopper"}),
            "error: no mapping is called `hopper`\n  help: choose one of sm90, sm80, cpu\n");
}

/// Plans that no sizes choose, and headings without a clause.
TEST_F(CommandErrors, PlansThatAreNeverChosen) {
  EXPECT_EQ(
      run_refused(
          {"--schedule", "when j <= 4: stream j=4; when j <= 4, r <= 2: stream j=8; otherwise: stream j=2"}),
      "<schedule>:1:31: error: this plan is never chosen: a plan before it takes all of its sizes\n"
      "  when j <= 4: stream j=4; when j <= 4, r <= 2: stream j=8; otherwise: stream j=2\n"
      "                                ^\n"
      "  help: plans are tried in the order in which they are written: put the one for fewer sizes first\n");
  const CommandResult fewer = tilewright({"run", "s.tw", "--size", "r=2,j=3", "--schedule",
                                          "when j <= 4, r <= 2: stream j=4; when j <= 4: stream j=8"},
                                         folder);
  EXPECT_EQ(fewer.status, 0) << fewer.err;
  EXPECT_EQ(
      run_refused({"--schedule", "kernel P: # nothing yet"}),
      "<schedule>:1:1: error: no clause stands under this heading\n  kernel P: # nothing yet\n  ^~~~~~~~~\n"
      "  help: write one behind it, such as `stream j=128`, or leave the heading out\n");
}

/// What a program or an argument holds does not steer the terminal.
TEST_F(CommandErrors, ControlCharactersAreShown) {
  write(folder + "/esc.tw", "axis i\x1b[31m\noutput i\n");
  EXPECT_EQ(refused({"derive", "esc.tw"}).substr(0, 68),
            "esc.tw:1:7: error: character 27 is not part of the language\n  axis i");
  EXPECT_NE(refused({"derive", "esc.tw"}).find("\n  axis i\u241b[31m\n        ^\n"), std::string::npos);
  EXPECT_EQ(
      refused({"derive", "\x1b[2J.tw"}),
      "error: cannot read \u241b[2J.tw: No such file or directory\n  help: give the path of a .tw file\n");
  write(folder + "/cr.tw", "axis i\routput i\n");
  EXPECT_EQ(refused({"derive", "cr.tw"}).substr(0, 169),
            "cr.tw:1:7: error: character 13 is not part of the language\n  axis i\u240doutput i\n        ^\n"
            "  help: a line ends with a newline, or with a carriage return and a newline\n");
}

/// Clauses that a target has no use for, each with its place in the schedule.
TEST_F(CommandErrors, ClausesThatATargetHasNot) {
  write(
      folder + "/a.tw",
      "axis h, i, j\naxis d = 16\ninput Q[h, i, d] : f16\ninput K[h, j, d] : f16\ninput n[h] : i32 range(0, "
      "9)\nP[h, i] = logsumexp[j](where(j < n[h], sum[d](Q * K), -inf))\noutput P\n");
  const auto plan = [&](const std::vector<std::string>& target, const std::string& schedule) {
    std::vector<std::string> all{"emit", "a.tw", "--stage", "plan", "--schedule", schedule, "--target"};
    all.insert(all.end(), target.begin(), target.end());
    return refused(all);
  };
  EXPECT_EQ(
      plan({"cpu"}, "stream j=64; bounds device"),
      "<schedule>:1:14: error: bounds device: the kernels run on the host\n  stream j=64; bounds device\n"
      "               ^~~~~~~~~~~~~\n  help: write `bounds host` or `bounds tested`\n");
  EXPECT_EQ(plan({"cuda"}, "bounds host"),
            "<schedule>:1:1: error: bounds host: the arrays that the mask reads lie on the device\n"
            "  bounds host\n  ^~~~~~~~~~~\n  help: write `bounds device` or `bounds tested`\n");
  EXPECT_EQ(
      plan({"cpu"}, "group h=1, i=64; grid blocks, h/32 MB"),
      "<schedule>:1:18: error: sections of `h`: a CPU has no grid: its threads take the next block as they "
      "come\n  group h=1, i=64; grid blocks, h/32 MB\n                   ^~~~~~~~~~~~~~~~~~~~\n"
      "  help: leave `grid` out\n");
  EXPECT_EQ(
      plan({"cpu"}, "roles 1+1; grid persistent"),
      "<schedule>:1:12: error: grid persistent: a CPU has no grid: its threads take the next block as they "
      "come\n  roles 1+1; grid persistent\n             ^~~~~~~~~~~~~~~\n  help: leave `grid` out\n");
  EXPECT_EQ(
      plan({"cuda", "--arch", "sm_80"}, "stream j=64; roles 1+2"),
      "<schedule>:1:14: error: roles 1+2: kernels for sm_80 have no loading group: the groups that compute "
      "copy too\n  stream j=64; roles 1+2\n               ^~~~~~~~~\n  help: write `roles 0+2`\n");
}

TEST_F(CommandErrors, RangesThatParamsEmpty) {
  write(folder + "/e.tw", "axis j\nparam n : i32 = 2\ninput k[j] : i32 range(0, n)\ny[j] = k\noutput y\n");
  EXPECT_EQ(refused({"run", "e.tw", "--size", "j=2", "--param", "n=0"}),
            "e.tw:3:1: error: the range of `k` is [0, 0), which holds no value of i32\n"
            "  input k[j] : i32 range(0, n)\n  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "  help: give params and sizes with which it holds one, or --input k=FILE.npy\n");
  write(folder + "/z.tw",
        "axis j\nparam n : i32 = 2\ninput k[j] : i32 range(0, 9 // n)\ny[j] = k\noutput y\n");
  EXPECT_EQ(refused({"run", "z.tw", "--size", "j=2", "--param", "n=0"}),
            "z.tw:3:27: error: division by zero in `9 // n`\n  input k[j] : i32 range(0, 9 // n)\n"
            "                            ^~~~~~\n  help: guard it: where(divisor != 0, ..., 0)\n");
}

TEST_F(CommandErrors, EmptySchedulesAndShortNames) {
  EXPECT_EQ(
      run_refused({"--schedule", ";; ;"}),
      "error: --schedule is empty\n  help: write clauses, such as \"stream j=128\", or leave the option "
      "out for the default plans\n");
  EXPECT_EQ(refused({"draw", "s.tw", "-w", "900"}),
            "error: no option is called `-w`\n  help: did you mean `--width`?\n");
}

/// Roundings to eight bits that a GPU has no instruction for, or that are not emitted.
TEST_F(CommandErrors, EightBitsThatAGpuDoesNotRoundTo) {
  write(folder + "/f8.tw",
        "axis i, j\ninput x[i, j] : f16\ninput w[j] : f16\ny[i] = sum[j](f8e5m2(x) * w)\noutput y\n");
  EXPECT_EQ(refused({"emit", "f8.tw", "--target", "cuda", "--stage", "source"}),
            "f8.tw:4:1: error: `y` rounds to f8e5m2, which kernels for GPUs do not\n  y[i] = "
            "sum[j](f8e5m2(x) * w)\n"
            "  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~\n  help: round to f8e4m3 or f16, or use --target cpu\n");
  write(folder + "/f8o.tw", "axis i, j\ninput x[i, j] : f16\ny[i] = sum[j](x)\noutput y : f8e5m2\n");
  EXPECT_NE(refused({"emit", "f8o.tw", "--target", "cuda", "--stage", "source"}).find("`y` rounds to f8e5m2"),
            std::string::npos);
  write(folder + "/f8s.tw", "axis i, j\ninput x[i, j] : f16\ny[i] = sum[j](f8e4m3(x))\noutput y\n");
  EXPECT_EQ(refused({"emit", "f8s.tw", "--target", "cuda", "--stage", "source", "--arch", "sm_80"}),
            "f8s.tw:3:1: error: `y` rounds to f8e4m3, which devices of compute capability 8.9 and later do; "
            "kernels are made for sm_80\n"
            "  y[i] = sum[j](f8e4m3(x))\n  ^~~~~~~~~~~~~~~~~~~~~~~~\n  help: round to f16, or run on a later "
            "device\n");
}

TEST_F(CommandErrors, TilesThatThisMachineCannotHold) {
  const std::string e = run_refused({"--schedule", "group r=16000000; stream j=100000"});
  EXPECT_EQ(e.rfind("error: the tiles of this schedule take ", 0), 0u) << e;
  EXPECT_NE(e.find("\n  help: write smaller blocks and chunks\n"), std::string::npos) << e;
}

TEST_F(CommandErrors, StandardOutputThatCannotBeWritten) {
  // A file may not grow here, and the signal for that is ignored.
  const CommandResult full = run_program(
      {"sh", "-c", "trap '' XFSZ; ulimit -f 0; exec " + command_path() + " emit s.tw --stage plan > out.txt"},
      folder);
  EXPECT_EQ(full.status, 2);
  EXPECT_EQ(full.err,
            "error: standard output cannot be written: File too large\n  help: free some space, or send it "
            "elsewhere\n");
}

TEST_F(CommandErrors, Programs) {
  EXPECT_EQ(refused({"derive", "none.tw"}),
            "error: cannot read none.tw: No such file or directory\n  help: give the path of a .tw file\n");
  EXPECT_EQ(refused({"derive", "."}),
            "error: cannot read .: it is a folder\n  help: give the path of a .tw file\n");
  write(folder + "/empty.tw", "");
  EXPECT_EQ(refused({"derive", "empty.tw"}),
            "empty.tw:1:1: error: the program has no output\n  \n  ^\n  help: define something, NAME[axes] = "
            "expression, and end with: output NAME\n");
  write(folder + "/binary.tw", "\x80\xff\x01");
  EXPECT_EQ(refused({"derive", "binary.tw"}),
            "error: binary.tw is not a text: byte 0 is not UTF-8\n  help: give the path of a .tw file\n");
  write(folder + "/nul.tw", std::string("axis j\n\0axis k\n", 15));
  EXPECT_EQ(refused({"derive", "nul.tw"}),
            "error: nul.tw is not a text: byte 7 is NUL\n  help: give the path of a .tw file\n");
  std::string text = kProgram, crlf;
  text.pop_back();
  for (char c : text) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  write(folder + "/lines.tw", text);
  write(folder + "/crlf.tw", crlf);
  const CommandResult lines = tilewright({"emit", "lines.tw", "--stage", "program"}, folder),
                      windows = tilewright({"emit", "crlf.tw", "--stage", "program"}, folder);
  EXPECT_EQ(lines.status, 0) << lines.err;
  EXPECT_EQ(windows.out, lines.out);
  EXPECT_EQ(windows.status, 0) << windows.err;
}

TEST_F(CommandErrors, ALineOfAMegabyteIsCut) {
  std::string text = "axis r, j\ninput x[r, j] : f32\nP[r] = sum[j](";
  for (int k = 0; k < 250000; ++k) text += "x + ";
  write(folder + "/long.tw", text + "x)\noutput P\n");
  std::string shown;
  for (int k = 0; k < 40; ++k) shown += "+ x ";
  EXPECT_EQ(refused({"derive", "long.tw"}),
            "long.tw:3:4013: error: more than 1000 operations depend on each other in one expression\n"
            "  …" +
                shown + "…\n" + std::string(63, ' ') +
                "^\n"
                "  help: split it into several definitions\n");
  write(folder + "/word.tw",
        "axis r, j\ninput x[r, j] : f32\nP[r] = sum[j](x " + std::string(1000000, 'a') + ")\noutput P\n");
  EXPECT_LT(refused({"derive", "word.tw"}).size(), 3000u);
}

}  // namespace
}  // namespace tilewright::testing::command_errors_test
