// Indices that lie outside of their arrays, found by kernels on the GPU.
#include <gtest/gtest.h>

#include "tests/support/examples.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright::testing::indices_test {
namespace {

/// Nothing is read outside, the launch goes on, and whoever looks after it learns the index; afterwards the kernel runs as before.
TEST(Indices, OutsideTheirArraysAreReported) {
  SKIP_WITHOUT_GPU();
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{
      "p.tw",
      "axis i, j\ninput x[i] : f32\ninput t[j] : i64 range(0, 3)\ny[i] = sum[j](x[i + t[j]])\noutput y\n"}));
  CompileOptions o;
  o.target = Target::Cuda;
  Kernel k(p, o);
  cuda::use_device(0);
  const std::vector<float> x = {1, 2, 3, 4}, sums = {3, 6, 9, 12};
  std::vector<float> y(4);
  cuda::DeviceBuffer on_x(16), on_t(24), on_y(16);
  on_x.upload(x.data(), 16);
  for (int64_t last : {0, -1, 0, 7}) {
    const std::vector<int64_t> t = {0, 0, last};
    on_t.upload(t.data(), 24);
    k.run({{"x", {DType::f32, on_x.data(), {4}, {}}}, {"t", {DType::i64, on_t.data(), {3}, {}}}}, {},
          {{"y", {DType::f32, on_y.data(), {4}, {}}}});
    cuda::synchronize();
    std::string message;
    try {
      k.report_failures();
    } catch (const UserError& e) {
      message = e.diagnostics()[0].what;
    }
    if (last == 0) {
      on_y.download(y.data(), 16);
      EXPECT_EQ(message, "");
      EXPECT_EQ(y, sums);
    } else {
      EXPECT_NE(message.find("is outside axis i of x, which has size 4"), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace tilewright::testing::indices_test
