// The performance model as text, JSON, LaTeX and Markdown.
#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/model/report.h"

namespace tilewright::testing::model_text_test {
namespace {

struct Case {
  std::string program, machine, schedule;
  std::map<std::string, int64_t> sizes;
};

std::vector<Report> reports(const Case& c) {
  CompileOptions o;
  o.target = Target::Interp;
  o.host_steps = false;
  o.schedule = c.schedule;
  const CompiledProgram compiled =
      compile_program(load_program(std::string(TW_SOURCE_DIR) + "/" + c.program), o);
  std::vector<Report> all;
  for (size_t k = 0; k < compiled.kernels.size(); ++k) {
    const Compilation& kernel = compiled.kernels[k];
    const TileProgram tiles = lower(kernel, kernel.plans.back().plan);
    const Model m = model_of(kernel.elaborated, tiles);
    all.push_back(report(m, find_machine(c.machine), c.sizes, compiled.several() ? compiled.name_of(k) : ""));
  }
  return all;
}

std::string text(const Case& c) {
  const std::vector<Report> all = reports(c);
  std::string s;
  for (const Report& r : all) s += to_text(r) + "\n";
  return s + assumptions_text(all);
}

const Case kProduct{"examples/napkin/product.tw", "h800", "", {{"a", 4096}, {"b", 4096}, {"c", 4096}}};
const Case kAttention{"examples/napkin/attention.tw", "h200", "", {}};
const Case kCausal{"examples/pf_causal.tw", "h100-sxm", "", {{"b", 1}, {"h", 32}, {"i", 4096}, {"j", 4096}}};

TEST(ModelText, Product) { expect_golden("model/product.txt", text(kProduct)); }
TEST(ModelText, AttentionWithoutSizes) { expect_golden("model/attention.txt", text(kAttention)); }
TEST(ModelText, Causal) { expect_golden("model/causal.txt", text(kCausal)); }
TEST(ModelText, DecodingInParts) {
  expect_golden("model/decode_split.txt", text({"examples/dc_gqa.tw",
                                                "a100",
                                                "group b=1, k=1, g=64; stream j=64; split j=1024; keep Q",
                                                {{"b", 1}, {"k", 8}, {"g", 8}, {"j", 16384}}}));
}
TEST(ModelText, ResidentRowsOnAMachineThatIsPartlyKnown) {
  expect_golden("model/softmax_resident.txt",
                text({"examples/softmax.tw", "mi300x", "resident j=8192", {{"r", 4096}, {"j", 5000}}}));
}

TEST(ModelText, Json) {
  const std::vector<Report> all = reports(kCausal);
  nlohmann::ordered_json j = to_json(all[0]);
  j["assumptions"] = assumptions_json(all);
  expect_golden("model/causal.json", j.dump(1));
}
TEST(ModelText, Latex) {
  const std::vector<Report> all = reports(kAttention);
  expect_golden("model/attention.tex", to_latex(all[0]) + assumptions_latex(all));
}
TEST(ModelText, Markdown) {
  const std::vector<Report> all = reports(kProduct);
  expect_golden("model/product.md", to_markdown(all[0]) + assumptions_markdown(all));
}

/// Every key that a line names is an assumption with an experiment, and every line with a value or formula of a machine names one.
TEST(ModelText, LinesNameWhatTheyAssume) {
  std::set<std::string> known;
  for (const Assumption& a : assumptions()) {
    known.insert(a.key);
    EXPECT_GT(std::string(a.experiment).size(), 10u) << a.key;
  }
  for (const Case& c : {kProduct, kAttention, kCausal})
    for (const Report& r : reports(c))
      for (const ReportSection& s : r.sections)
        for (const ReportLine& l : s.lines) {
          for (const std::string& key : l.assumes) EXPECT_TRUE(known.count(key)) << key;
          const bool seconds = l.unit == "s" && l.value;
          EXPECT_TRUE(!seconds || !l.assumes.empty()) << s.title << ": " << l.name;
        }
}

}  // namespace
}  // namespace tilewright::testing::model_text_test
