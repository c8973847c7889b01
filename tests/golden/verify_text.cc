// Claims of the performance model and what was found, as text and JSON.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/golden.h"
#include "tilewright/driver/verify.h"

namespace tilewright::testing::verify_text_test {
namespace {

/// Of the plans of a GPU, which no processor changes; without times or a profiler.
TEST(VerifyText, CausalAttention) {
  setenv("TILEWRIGHT_NCU", "/no/such/profiler", 1);
  CompileOptions o;
  o.target = Target::Cuda;
  VerifyOptions v;
  v.machine = find_machine("h100-sxm");
  v.repeat = 0;
  v.session.sizes = {{"b", 1}, {"h", 2}, {"i", 70}, {"j", 300}};
  const Verification found =
      verify(load_program(std::string(TW_SOURCE_DIR) + "/examples/pf_causal.tw"), o, v);
  unsetenv("TILEWRIGHT_NCU");
  expect_golden("model/verify_causal.txt", to_text(found));
  expect_golden("model/verify_causal.json", to_json(found).dump(1));
}

}  // namespace
}  // namespace tilewright::testing::verify_text_test
