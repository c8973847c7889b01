// How many tiles masks let a program visit: as `run` shows them to a user, and as the default plans of each target
// have them.
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/support/examples.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"

namespace tilewright::testing::tiles_visited_test {
namespace {

/// Visited tiles of all tiles, by the counts of `run --json` on the interpreter. One feature: it is masks that matter.
double share(std::vector<std::string> arguments, const std::string& folder = "") {
  arguments[0] = (folder.empty() ? "examples/" : "") + arguments[0] + ".tw";
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--target", "interp", "--size", "d=1,e=1", "--json"});
  const CommandResult r = tilewright(arguments, folder);
  EXPECT_EQ(r.status, 0) << r.err;
  const double visited = number_in_json(r.out, "/counts/counted/chunks_visited");
  EXPECT_GT(visited, 0);
  return visited / number_in_json(r.out, "/counts/counted/chunks_total");
}

TEST(TilesVisited, Causal) { EXPECT_LE(share({"pf_causal", "--size", "b=1,h=1,i=4096,j=4096"}), 0.53); }

TEST(TilesVisited, AWindow) {
  const std::string folder = new_folder();
  write(folder + "/window.tw",
        "axis i, j\naxis d = 1, e = 1\ninput Q[i, d] : f32\ninput K[j, d] : f32\ninput V[j, e] : f32\n"
        "C[i, j] = where(j <= i and i - j < 256, sum[d](Q * K), -inf)\n"
        "O[i, e] = sum[j](softmax[j](C) * V)\noutput O\n");
  EXPECT_LE(share({"window", "--size", "i=32768,j=32768"}, folder), 0.03);
}

TEST(TilesVisited, EightEqualDocuments) {
  constexpr int32_t n = 4096;
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (4096,), }",
              file("\x93NUMPY\x01\0v\0", 10);
  header.append(117 - header.size(), ' ');
  file += header + '\n';
  for (int32_t k = 0; k < n; ++k) {
    const int32_t document = k / (n / 8);
    file.append(reinterpret_cast<const char*>(&document), 4);
  }
  const std::string folder = new_folder();
  write(folder + "/doc.npy", file);
  std::string text = read(std::string(TW_SOURCE_DIR) + "/examples/documents.tw");
  for (size_t at; (at = text.find("range(0, 3)")) != std::string::npos;) text.replace(at, 11, "range(0, 8)");
  write(folder + "/documents.tw", text);
  EXPECT_LE(share({"documents", "--input", "qdoc=doc.npy,kdoc=doc.npy", "--size", "b=1,h=1"}, folder), 0.20);
}

/// By the formula of the plan that a target takes by default; the interpreter's counts equal it (model_counts.cc).
double planned(Target target, const std::string& program, const std::map<std::string, int64_t>& given) {
  const Program p = example(program, DType::f32);
  CompileOptions o;
  o.target = target;
  const Compilation c = analyse(p, o);
  Sizes sizes;
  for (const Axis& a : c.elaborated.axes)
    sizes[a.index.size()] = given.count(a.name()) ? given.at(a.name()) : evaluate_integer(a.size, sizes);
  for (const Param& q : c.elaborated.params)
    if (given.count(q.sym.name())) sizes[q.sym] = given.at(q.sym.name());
  for (const GuardedPlan& g : c.plans) {
    if (!g.when.admits(sizes)) continue;
    int64_t all = (given.at("j") + g.plan.chunk - 1) / g.plan.chunk;
    for (const Cut& cut : g.plan.group)
      if (const auto it = given.find(cut.axis.name()); it != given.end())
        all *= (it->second + cut.block - 1) / cut.block;
    return double(evaluate_integer(cost(c.elaborated, lower(c, g.plan)).chunks_visited, sizes)) / double(all);
  }
  return 1;
}

TEST(TilesVisited, ByDefaultPlans) {
  for (Target t : {Target::Cpu, Target::Cuda}) {
    SCOPED_TRACE(name(t));
    EXPECT_LE(planned(t, "pf_causal", {{"b", 1}, {"h", 1}, {"i", 4096}, {"j", 4096}}), 0.53);
    EXPECT_LE(planned(t, "pf_window", {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 32768}, {"j", 32768}, {"w", 256}}),
              0.03);
  }
}

}  // namespace
}  // namespace tilewright::testing::tiles_visited_test
