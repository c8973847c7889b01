// The tables that `tilewright search` prints.
#include <gtest/gtest.h>

#include <regex>

#include "tests/support/command.h"
#include "tests/support/golden.h"
#include "tilewright/hardware/machine.h"

namespace tilewright::search_text_test {
namespace {

std::string table(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "search");
  // Defaults depend on the vectors of the processor.
  const testing::CommandResult r = testing::tilewright(arguments, "", {{"TILEWRIGHT_CPU_ISA", "avx2"}});
  EXPECT_EQ(r.status, 0) << r.err;
  return std::regex_replace(r.out, std::regex("; [0-9]+ ms\n"), "; … ms\n");
}

TEST(SearchText, OfACpu) {
  if (this_cpu().vector.isa == "portable") GTEST_SKIP() << "needs AVX2";
  testing::expect_golden("search/pf_causal_cpu.txt",
                         table({"examples/pf_causal.tw", "--machine", "typical-avx2", "--size",
                                "b=1,h=4,i=1024,j=1024", "--best", "4"}));
  testing::expect_golden("search/rmsnorm_matmul_cpu.txt",
                         table({"examples/rmsnorm_matmul.tw", "--machine", "typical-avx2", "--size",
                                "r=8,n=6144", "--best", "3"}));
}

TEST(SearchText, OfOtherKernels) {
  if (this_cpu().vector.isa == "portable") GTEST_SKIP() << "needs AVX2";
  testing::expect_golden("search/rmsnorm_matmul_fusion.txt",
                         table({"examples/rmsnorm_matmul.tw", "--machine", "typical-avx2", "--size",
                                "r=8,n=6144", "--best", "1", "--fusion"}));
  testing::expect_golden("search/pf_causal_fusion.txt",
                         table({"examples/pf_causal.tw", "--machine", "typical-avx2", "--size",
                                "b=1,h=4,i=1024,j=1024", "--best", "1", "--fusion"}));
}

TEST(SearchText, SaysWhichSizesItAssumed) {
  const std::string text =
      table({"examples/rmsnorm_matmul.tw", "--machine", "typical-avx2", "--size", "n=512", "--best", "1"});
  EXPECT_NE(text.find("  at r=1024 n=512; r assumed, where --size gives none\n"), std::string::npos) << text;
}

TEST(SearchText, OfAGpu) {
  testing::expect_golden("search/pf_causal_h200.txt",
                         table({"examples/pf_causal.tw", "--target", "interp", "--size",
                                "b=1,h=32,i=8192,j=8192", "--best", "4"}));
}

}  // namespace
}  // namespace tilewright::search_text_test
