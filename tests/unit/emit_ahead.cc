// What emitted copies bring near of the next chunk, and what they leave to the product.
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace tilewright::testing::emit_ahead_test {
namespace {

const char kProgram[] =
    "program product\naxis i, j\naxis k = 1024\ninput A[i, k] : f16\ninput B[k, j] : f16\n"
    "C[i, j] = sum[k](A * B)\noutput C : f16\n";

std::string emitted(const std::string& columns) {
  const std::string folder = new_folder();
  write(folder + "/product.tw", kProgram);
  const CommandResult r = tilewright({"emit", "product.tw", "--stage", "source", "--target", "cpu",
                                      "--schedule", "group i=16, j=" + columns + "; stream k=32"},
                                     folder);
  EXPECT_EQ(r.status, 0) << r.err;
  return r.out;
}

TEST(EmitAhead, ALongRowIsBroughtNearByTheProduct) {
  // 4 KiB are three rows of 1152 bytes; of the 32 rows of a chunk 29 are left.
  const std::string text = emitted("576");
  EXPECT_NE(text.find(", 3 * B_k);"), std::string::npos) << text;
  EXPECT_NE(text.find("B_rows = 29,"), std::string::npos);
}

TEST(EmitAhead, ShortRowsByTheCopy) {
  // Sixteen rows at most.
  const std::string text = emitted("96");
  EXPECT_NE(text.find(", 16 * B_k);"), std::string::npos) << text;
  EXPECT_NE(text.find("B_rows = 16,"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::testing::emit_ahead_test
