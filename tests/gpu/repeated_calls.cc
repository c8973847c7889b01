// Calls through the C interface with the same arrays launch what the call before launched; any other call looks at its arrays.
#include <gtest/gtest.h>

#include "tests/support/examples.h"
#include "tilewright.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright::testing::repeated_calls_test {
namespace {

struct Call {
  tw_kernel* kernel;
  const cuda::DeviceBuffer &x, &y;

  int operator()(int64_t rows, double scale, int64_t offset = 0) const {
    const int64_t shape[] = {rows, 4}, out[] = {rows};
    const tw_array arrays[] = {{"x", "f32", static_cast<float*>(x.data()) + offset, 2, shape, nullptr},
                               {"y", "f32", y.data(), 1, out, nullptr}};
    const tw_value value{"scale", scale};
    return tw_run(kernel, arrays, 2, &value, 1, nullptr);
  }
};

TEST(RepeatedCalls, SeeNewElementsAndEveryOtherArgument) {
  SKIP_WITHOUT_GPU();
  tw_kernel* kernel = tw_compile(
      "axis i, j\nparam scale : f32\ninput x[i, j] : f32\ny[i] = sum[j](x[i, j]) * scale\noutput y\n", "cuda",
      "", "");
  ASSERT_NE(kernel, nullptr) << tw_last_error();
  cuda::use_device(0);
  cuda::DeviceBuffer on_x(64), on_y(64);
  const Call call{kernel, on_x, on_y};
  const auto sums = [&](int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows));
    cuda::synchronize();
    on_y.download(y.data(), 4 * rows);
    return y;
  };
  const auto fill = [&](float value) {
    const std::vector<float> x(16, value);
    on_x.upload(x.data(), 64);
  };
  fill(1);
  ASSERT_EQ(call(2, 1), 0) << tw_last_error();
  EXPECT_EQ(sums(2), (std::vector<float>{4, 4}));
  fill(2);
  ASSERT_EQ(call(2, 1), 0) << tw_last_error();
  EXPECT_EQ(sums(2), (std::vector<float>{8, 8}));
  ASSERT_EQ(call(2, 3), 0) << tw_last_error();
  EXPECT_EQ(sums(2), (std::vector<float>{24, 24}));
  ASSERT_EQ(call(3, 3), 0) << tw_last_error();
  EXPECT_EQ(sums(3), (std::vector<float>{24, 24, 24}));
  const std::vector<float> x = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  on_x.upload(x.data(), 64);
  ASSERT_EQ(call(2, 1, 4), 0) << tw_last_error();
  EXPECT_EQ(sums(2), (std::vector<float>{4, 8}));
  EXPECT_EQ(call(-1, 1), 2);
  ASSERT_EQ(call(2, 1, 4), 0) << tw_last_error();
  EXPECT_EQ(sums(2), (std::vector<float>{4, 8}));
  tw_free(kernel);
}

}  // namespace
}  // namespace tilewright::testing::repeated_calls_test
