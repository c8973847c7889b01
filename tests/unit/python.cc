// The Python module, where Python and NumPy are installed: what it runs, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/command.h"

namespace tilewright::testing::python_test {
namespace {

const char kSetup[] = R"(
import numpy as np, tilewright
def message(f):
    try:
        f()
    except (tilewright.TilewrightError, TypeError) as e:
        return type(e).__name__ + ": " + str(e).rstrip()
    return "no error"
kernel = tilewright.Kernel("""axis r, j
param n : i32 = 2
input x[r, j] : f32
P[r, j] = x * n
output P
""", target="interp")
x, P = np.arange(6, dtype=np.float32).reshape(2, 3), np.empty((2, 3), np.float32)
)";

class Python : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "Python cannot load a library built with sanitizers";
#endif
    if (run_program({"python3", "-c", "import numpy"}).status != 0) GTEST_SKIP() << "no Python with NumPy";
  }
  static std::string run(const std::string& lines) {
    const CommandResult r = run_program(
        {"python3", "-c", kSetup + lines}, "",
        {{"PYTHONPATH", std::string(TW_SOURCE_DIR) + "/python"},
         {"TILEWRIGHT_LIBRARY_DIR", std::filesystem::path(command_path()).parent_path().string()}});
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
  }
};

TEST_F(Python, RunsAndPrepares) {
  EXPECT_EQ(run("kernel(x=x, P=P); print(P.tolist())\n"
                "kernel(x=x.T.copy().T, P=P, params={'n': 3}); print(P.tolist())\n"
                "once = kernel.prepare(x=x, P=P)\nx[:] = 1\nkernel.run(once); print(P.tolist())\n"),
            "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]\n[[0.0, 3.0, 6.0], [9.0, 12.0, 15.0]]\n"
            "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]\n");
}

TEST_F(Python, SaysWhatIsWrong) {
  EXPECT_EQ(
      run("print(message(lambda: tilewright.Kernel(None)))"),
      "TypeError: Kernel: source is a NoneType: pass the text of a program, such as open(path).read()\n");
  EXPECT_EQ(run("print(message(lambda: kernel(x=[1.0], P=P)))"),
            "TypeError: array `x` is a list: pass a NumPy array or a PyTorch tensor\n");
  EXPECT_EQ(
      run("P.flags.writeable = False\nprint(message(lambda: kernel(x=x, P=P)))"),
      "TilewrightError: error: output `P` is read-only\n  help: pass an array that can be written, such as a "
      "copy\n");
  EXPECT_EQ(run("x.flags.writeable = False\nprint(message(lambda: kernel(x=x, P=P)))"), "no error\n");
  EXPECT_EQ(
      run("print(message(lambda: kernel(x=x.astype('>f4'), P=P)))"),
      "TilewrightError: error: array `x` has dtype >f4, whose bytes are in the other order\n  help: pass "
      "x.astype(x.dtype.newbyteorder('='))\n");
  EXPECT_EQ(run("print(message(lambda: kernel(x=x, y=x, P=P)))"),
            "TilewrightError: error: no array is called `y`\n  help: inputs are x; outputs are P\n");
  const auto said = [&](const std::string& call) {
    const std::string all = run("print(message(lambda: kernel(" + call + ")))");
    const size_t at = all.find("error: ");
    return all.substr(at, all.find('\n', at) - at);
  };
  EXPECT_EQ(said("x=x, P=x"), "error: output `P` and input `x` lie in the same memory");
  EXPECT_EQ(said("x=x, P=np.lib.stride_tricks.as_strided(P, (2, 3), (0, 4))"),
            "error: output `P` is broadcast: dimension 0 has 2 elements at one place");
  EXPECT_EQ(said("x=x, P=P, params={'n': 2.5}"), "error: param `n` is i32, which does not hold 2.5");
}

TEST_F(Python, SaysWhatIsWrongWithTexts) {
  EXPECT_EQ(run("print(message(lambda: tilewright.Kernel('axis i\\ninput \\0x[i] : f32\\n')))"),
            "TilewrightError: error: the program holds a NUL character, at line 2, column 7\n"
            "  help: remove it; if the text was read from a file, open it with the encoding that it has\n");
  EXPECT_EQ(run("print(message(lambda: tilewright.Kernel('axis i\\udc80')))"),
            "TilewrightError: error: the program holds half of a surrogate pair, at line 1, column 7\n"
            "  help: remove it; if the text was read from a file, open it with the encoding that it has\n");
  EXPECT_EQ(run("print(message(lambda: tilewright.Kernel('', target='c\\0pu')))"),
            "TilewrightError: error: target holds a NUL character, at line 1, column 2\n"
            "  help: remove it; if the text was read from a file, open it with the encoding that it has\n");
  EXPECT_EQ(run("print(message(lambda: tilewright.Kernel('axis d = 4', overrides='d=8,d=16')))"),
            "TilewrightError: error: overrides name `d` twice\n  help: give it once\n");
}

TEST_F(Python, SaysWhatIsWrongWithArrays) {
  EXPECT_EQ(run("print(message(lambda: kernel(x=np.ma.masked_greater(x, 2), P=P)))"),
            "TilewrightError: error: array `x` is a masked array, whose mask would not be heeded\n"
            "  help: pass x.filled(0), and the mask as an input of the program\n");
}

TEST_F(Python, SaysWhatIsWrongWithNumbers) {
  const std::string wide =
      "wide = tilewright.Kernel('axis j\\nparam n : i64\\ninput x[j] : f32\\n'\n"
      "    'y[j] = where(j < n, x, 0)\\noutput y', target='interp')\n"
      "v, y = x[0].copy(), np.empty(3, np.float32)\n";
  const auto said = [&](const std::string& call) {
    return run(wide + "print(message(lambda: wide(x=v, y=y, " + call + ")))");
  };
  EXPECT_EQ(said("params={'n': 2**53 - 1}"), "no error\n");
  EXPECT_EQ(
      said("params={'n': 2**53 + 1}"),
      "TilewrightError: <program>:2:1: error: param `n` is given 9007199254740992, and integers are exact "
      "below 2^53 alone\n  param n : i64\n  ^~~~~~~~~~~~~\n  help: subtract an offset, or declare the param "
      "f64 "
      "where rounding is accepted\n");
  EXPECT_EQ(
      said("params={'n': 10**400}"),
      "TilewrightError: error: param `n` is no number that f64 holds (int too large to convert to float)\n"
      "  help: pass one number\n");
  EXPECT_EQ(said("params={'n': '2'}"), "TypeError: param `n` is a str: pass a number\n");
  EXPECT_EQ(said("params={'n': 2}, sizes={'n': 3}"),
            "TilewrightError: error: sizes names `n`, which is a param\n  help: pass params={\"n\": 3}\n");
  EXPECT_EQ(said("params={'j': 2}"),
            "TilewrightError: error: params names `j`, which is an axis\n  help: pass sizes={\"j\": 2}\n");
  EXPECT_EQ(said("params={'n': 2}, sizes={'q': 1}"),
            "TilewrightError: error: sizes names `q`: the program has no axis of that name\n  help: sizes "
            "are of j\n");
  EXPECT_EQ(said("params={'nn': 2}"),
            "TilewrightError: error: params names `nn`: the program has no param of that name\n"
            "  help: did you mean `n`?\n");
  EXPECT_EQ(
      said("params=3"),
      "TypeError: Kernel: params is a int: pass a dict of names and numbers; arrays are passed by name, "
      "such as x=x\n");
  EXPECT_EQ(said("sizes={1: 2}"), "TypeError: Kernel: sizes names 1, which is a int: names are str\n");
  EXPECT_EQ(said("params={'n': 2}, sizes={'j': 2.5}"),
            "TilewrightError: error: the size 2.5 of axis `j` is not an integer from 0 to 2^53\n"
            "  help: give the number of its elements\n");
  EXPECT_EQ(said("params={'n': 2}, sizes={'j': float('nan')}"),
            "TilewrightError: error: the size nan of axis `j` is not an integer from 0 to 2^53\n"
            "  help: give the number of its elements\n");
}

TEST_F(Python, SaysWhatIsWrongWithWhatIsPrepared) {
  EXPECT_EQ(
      run("print(message(lambda: kernel.run(3)))"),
      "TypeError: Kernel.run: prepared is a int: pass what kernel.prepare(x=x, ...) returned, or call the "
      "kernel itself\n");
  EXPECT_EQ(
      run("other = tilewright.Kernel('axis r\\ninput x[r] : f32\\ny[r] = x\\noutput y', target='interp')\n"
          "print(message(lambda: other.run(kernel.prepare(x=x, P=P))))"),
      "TilewrightError: error: Kernel.run: the arguments were prepared by another kernel\n"
      "  help: pass what `prepare` of this kernel returned\n");
  EXPECT_EQ(run("print(message(lambda: kernel.run(kernel.prepare(x=x, P=P), stream='s')))"),
            "TypeError: Kernel.run: stream is a str: pass the number of a CUDA stream, such as "
            "torch.cuda.Stream().cuda_stream\n");
}

TEST_F(Python, AdvisesArgumentsOfPython) {
  EXPECT_EQ(run("wide = tilewright.Kernel('axis i\\naxis j\\nparam c : f32\\ninput x[i] : f32\\n'\n"
                "    'y[i] = sum[j](x * c)\\noutput y', target='interp')\n"
                "v, y = x[0].copy(), np.empty(3, np.float32)\n"
                "for more in ({}, {'sizes': {'j': 3}}, {'sizes': {'j': 3}, 'params': {'c': 2}}):\n"
                "    print(message(lambda: wide(x=v, y=y, **more)).split('help: ')[-1])\n"
                "print(message(lambda: wide(x=v.astype(np.float16), y=y, sizes={'j': 3}, "
                "params={'c': 2})).split('help: ')[-1])\n"
                "print(message(lambda: tilewright.Kernel('axis d\\ninput x[d] : f32\\ny[d] = x\\noutput y', "
                "overrides='d=8')))\n"),
            "give it: sizes={\"j\": N}\ngive one: params={\"c\": N}\nno error\n"
            "convert it, or compile with overrides=\"x=f16\"\n"
            "TilewrightError: <program>:1:6: error: overrides=\"d=8\": axis `d` declares no size to replace\n"
            "  axis d\n       ^\n  help: leave it out: the size comes with the arrays\n");
}

}  // namespace
}  // namespace tilewright::testing::python_test
