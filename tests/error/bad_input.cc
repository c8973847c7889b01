// What users give and machines lack, through the command: whole messages on both host targets, status 2 and no
// stack trace; and what runs on with a word of warning.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/support/command.h"

namespace tilewright::testing::bad_input_test {
namespace {

const char kProduct[] =
    "program product\naxis i, j, k\ninput A[i, k] : f32\ninput B[k, j] : f32\ny[i, j] = sum[k](A * "
    "B)\noutput y\n";
const char kGather[] =
    "program gather\naxis i, j, v\ninput x[v] : f32\ninput t[i, j] : i64\ny[i] = sum[j](x[t])\noutput y\n";
const char kRows[] = "program rows\naxis r, j\ninput x[r, j] : f32\nP[r, j] = softmax[j](x)\noutput P\n";
/// Two kernels.
const char kChain[] =
    "program chain\naxis r, a, b\ninput x[r, a] : f32\ninput A[a, b] : f32\ninput B[b, a] : f32\nh[r, b] = "
    "relu(sum[a](x * A))\n"
    "y[r, a] = sum[b](h * B)\noutput y\n";

/// A .npy file, byte by byte.
template <class T>
std::string npy(const std::string& descr, const std::string& shape, const std::vector<T>& values) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string f = std::string("\x93NUMPY\x01\0", 8);
  f += char(header.size() & 0xff);
  f += char(header.size() >> 8);
  f += header;
  f.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return f;
}
std::string floats(const std::string& shape, size_t n) {
  return npy<float>("<f4", shape, std::vector<float>(n, 1));
}

class BadInput : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new_folder();
    write(folder + "/product.tw", kProduct);
    write(folder + "/gather.tw", kGather);
    write(folder + "/rows.tw", kRows);
    write(folder + "/chain.tw", kChain);
    write(folder + "/3.npy", floats("(3,)", 3));
    write(folder + "/2x3.npy", floats("(2, 3)", 6));
    write(folder + "/4x2.npy", floats("(4, 2)", 8));
    write(folder + "/2x1.npy", floats("(2, 1)", 2));
    write(folder + "/integers.npy", npy<int64_t>("<i8", "(2, 3)", {0, 1, 2, 0, 1, 5}));
  }
  static CommandResult tw(const std::vector<std::string>& arguments,
                          std::map<std::string, std::string> environment = {}) {
    environment.emplace("TILEWRIGHT_CACHE_DIR", folder + "/cache");
    return tilewright(arguments, folder, environment);
  }
  /// The one message that `run` and `check` give on the interpreter and on the CPU.
  static std::string refused(std::vector<std::string> arguments) {
    std::string message;
    for (const char* verb : {"run", "check"})
      for (const char* target : {"interp", "cpu"}) {
        std::vector<std::string> all = {verb};
        all.insert(all.end(), arguments.begin(), arguments.end());
        all.insert(all.end(), {"--target", target});
        const CommandResult r = tw(all);
        EXPECT_EQ(r.status, 2) << r.out << r.err;
        EXPECT_EQ(r.out, "");
        if (message.empty()) message = r.err;
        EXPECT_EQ(r.err, message) << verb << " " << target;
      }
    return message;
  }
  static std::string folder;
};
std::string BadInput::folder;

TEST_F(BadInput, ArraysOfTheWrongRankDtypeAndShape) {
  EXPECT_EQ(
      refused({"product.tw", "--input", "A=3.npy", "--size", "j=2"}),
      "product.tw:3:1: error: `A` is declared as A[i, k], 2 dimensions, and the array has shape (3,)\n"
      "  input A[i, k] : f32\n  ^~~~~~~~~~~~~~~~~~~\n"
      "  help: give an array with one dimension for each declared one; a composite (k g) is one dimension\n");
  EXPECT_EQ(
      refused({"product.tw", "--input", "A=2x3.npy,B=4x2.npy"}),
      "product.tw:4:1: error: axis `k` is 3 by A[i, k] of shape (2, 3), but 4 by B[k, j] of shape (4, 2)\n"
      "  input B[k, j] : f32\n  ^~~~~~~~~~~~~~~~~~~\n  help: give arrays and sizes that agree\n");
  EXPECT_EQ(
      refused({"product.tw", "--input", "A=2x1.npy,B=4x2.npy"}),
      "product.tw:4:1: error: axis `k` is 1 by A[i, k] of shape (2, 1), but 4 by B[k, j] of shape (4, 2)\n"
      "  input B[k, j] : f32\n  ^~~~~~~~~~~~~~~~~~~\n"
      "  help: size 1 is not broadcast: leave the axis away where the array does not vary along it\n");
  EXPECT_EQ(refused({"product.tw", "--input", "A=2x3.npy", "--size", "i=5,j=2"}),
            "product.tw:3:1: error: axis `i` is 5 by --size i=5, but 2 by A[i, k] of shape (2, 3)\n"
            "  input A[i, k] : f32\n  ^~~~~~~~~~~~~~~~~~~\n  help: give arrays and sizes that agree\n");
  EXPECT_EQ(refused({"gather.tw", "--input", "t=2x3.npy,x=3.npy"}),
            "error: 2x3.npy: it holds f4 where the program declares i64\n  help: save an integer array\n");
}

TEST_F(BadInput, FilesThatAreNoArrays) {
  write(folder + "/text.npy", "hello, this is not an array");
  EXPECT_EQ(refused({"rows.tw", "--input", "x=text.npy"}),
            "error: text.npy: the file is not a .npy\n  help: write it with numpy.save\n");
  write(folder + "/short.npy", floats("(2, 3)", 5));
  EXPECT_EQ(refused({"rows.tw", "--input", "x=short.npy"}),
            "error: short.npy: 20 bytes of data where shape (2, 3) of <f4 needs 24\n"
            "  help: the file is truncated or damaged: write it again\n");
}

TEST_F(BadInput, IndicesOutOfBounds) {
  EXPECT_EQ(refused({"gather.tw", "--input", "t=integers.npy,x=3.npy"}),
            "gather.tw:5:15: error: index 5 is outside axis v of x, which has size 3\n  y[i] = sum[j](x[t])\n"
            "                ^~~~\n  help: guard the read with where(...), or correct the values it is "
            "indexed by\n");
}

TEST_F(BadInput, UnknownNamesAndMissingReductions) {
  write(folder + "/name.tw", "axis i, j\ninput scores[i, j] : f32\ny[i] = sum[j](score)\noutput y\n");
  EXPECT_EQ(refused({"name.tw", "--size", "i=2,j=2"}),
            "name.tw:3:15: error: unknown name `score`\n  y[i] = sum[j](score)\n                ^~~~~\n"
            "  help: did you mean `scores`?\n");
  write(folder + "/reduction.tw", "axis i, j\ninput x[i, j] : f32\ny[i] = 2 * x\noutput y\n");
  EXPECT_EQ(
      refused({"reduction.tw", "--size", "i=2,j=2"}),
      "reduction.tw:3:12: error: axis `j` of the right side is not on the left side of `y`\n  y[i] = 2 * x\n"
      "             ^\n  help: `x` alone reads x[i, j]; reduce over it, for example sum[j](…), or write y[i, "
      "j]\n");
}

TEST_F(BadInput, SizesThatOverflow) {
  EXPECT_EQ(refused({"product.tw", "--size", "i=4000000000,k=4000000000,j=1"}),
            "product.tw:3:1: error: the size of `A`, shape (4000000000, 4000000000), overflows: it would "
            "take more than "
            "2^62 bytes\n  input A[i, k] : f32\n  ^~~~~~~~~~~~~~~~~~~\n  help: give smaller sizes\n");
}

TEST_F(BadInput, SchedulesThatDoNotFit) {
  EXPECT_EQ(refused({"rows.tw", "--size", "r=2,j=65", "--schedule", "resident j=64"}),
            "error: no plan admits these sizes: j is 65, the plan holds at most 64\n"
            "  help: drop the schedule, raise the capacity, or stream the axis\n");
  const CommandResult gpu = tw({"emit", "rows.tw", "--target", "cuda", "--stage", "mapped", "--schedule",
                                "group r=64; resident j=4096"});
  EXPECT_EQ(gpu.status, 2);
  EXPECT_EQ(gpu.err,
            "<schedule>:1:1: error: kernel rows needs about 2216 registers a thread (128 of them states), "
            "there are 255\n"
            "  group r=64; resident j=4096\n  ^~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "  help: use more computing groups (roles), smaller pieces or smaller blocks\n");
  const CommandResult cpu =
      tw({"run", "rows.tw", "--size", "r=2,j=65", "--schedule", "group r=4096; resident j=4096"});
  EXPECT_EQ(cpu.status, 2);
  // What a task has is a property of the machine.
  const std::string has = std::to_string(
      int64_t(number_in_json(tw({"hardware", "--json"}).out, "/targets/0/local_bytes") / 1024));
  EXPECT_EQ(
      cpu.err,
      "<schedule>:1:1: error: the tiles of `rows` need 65600 KiB of task-local memory, and a task has " +
          has +
          " KiB\n  group r=4096; resident j=4096\n  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n  help: use smaller "
          "blocks or chunks, or stream the axis that is resident\n");
}

TEST_F(BadInput, NoCompiler) {
  const CommandResult r = tw({"run", "rows.tw", "--size", "r=2,j=3"}, {{"CXX", "no-such-compiler"}});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err,
            "error: no C++ compiler: `no-such-compiler` cannot be run\n  help: install one (on Debian: "
            "apt-get install "
            "g++) or name it in the environment variable CXX\n");
}

TEST_F(BadInput, ACompilerThatWritesNothing) {
  const CommandResult r = tw({"run", "rows.tw", "--size", "r=2,j=3"}, {{"CXX", "true"}});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(
      r.err,
      "error: `true` says that it compiled a kernel, and wrote none\n  help: name a C++ compiler in the "
      "environment variable CXX\n");
}

TEST_F(BadInput, ACompilerThatIsNone) {
  const CommandResult cat = tw({"run", "rows.tw", "--size", "r=2,j=3"}, {{"CXX", "cat"}});
  EXPECT_EQ(cat.status, 2);
  EXPECT_EQ(cat.err.rfind("error: `cat` does not compile C++: ", 0), 0u) << cat.err;
  EXPECT_NE(cat.err.find("\n  help: name a C++ compiler in the environment variable CXX, or unset it\n"),
            std::string::npos)
      << cat.err;
  // One that writes what is no library.
  write(folder + "/text-c++",
        "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo text > \"$2\"; shift; done\n");
  std::filesystem::permissions(folder + "/text-c++", std::filesystem::perms::owner_all);
  const CommandResult text = tw({"run", "rows.tw", "--size", "r=2,j=3"}, {{"CXX", "./text-c++"}});
  EXPECT_EQ(text.status, 2);
  EXPECT_EQ(text.err.rfind("error: what `./text-c++` compiled cannot be loaded: ", 0), 0u) << text.err;
}

/// `text` without the name of the temporary folder that a process makes, and without the key of a kernel in it.
std::string without_names(std::string text) {
  const std::string mark = "/tilewright-";
  for (size_t at; (at = text.find(mark)) != std::string::npos;) {
    const size_t begin = text.rfind(' ', at) + 1, end = at + mark.size() + 6;
    if (text.compare(end, 1, "/") == 0) text.replace(end + 1, 32, "KEY");
    text.replace(begin, end - begin, "TEMPORARY");
  }
  return text;
}

TEST_F(BadInput, NoSpaceWhileCompiling) {
  // A compiler that says what it says on a full disk.
  write(folder + "/full-c++",
        "#!/bin/sh\ncase \"$*\" in *--version|*--help=target) echo full;; *) echo 'x.s: No space left on "
        "device'; "
        "exit 1;; esac\n");
  std::filesystem::permissions(folder + "/full-c++", std::filesystem::perms::owner_all);
  const CommandResult r = tw({"run", "rows.tw", "--size", "r=2,j=3"}, {{"CXX", "./full-c++"}});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(without_names(r.err),
            "error: no space is left while `./full-c++` compiles a kernel\n"
            "  help: free some space, or set TMPDIR to a folder on another disk than TEMPORARY\n");
  // Where no file may grow, the source is not written.
  const CommandResult none = run_program({"sh", "-c",
                                          "trap '' XFSZ; ulimit -f 0; TILEWRIGHT_DISABLE_CACHE=1 exec " +
                                              command_path() + " run rows.tw --size r=2,j=3"},
                                         folder);
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(without_names(none.err),
            "error: TEMPORARY/KEY.cc cannot be written\n"
            "  help: free some space, or set TMPDIR to a folder that can be written\n");
}

/// A device that is full, in place of a disk.
TEST_F(BadInput, OutputsOnAFullDisk) {
  EXPECT_EQ(
      refused({"rows.tw", "--size", "r=2,j=3", "--output", "P=/dev/full"}),
      "error: /dev/full cannot be written\n  help: check the folder, its permissions and the free space\n");
  const std::vector<std::string> before = list(folder);
  const CommandResult r = run_program({"sh", "-c",
                                       "trap '' XFSZ; ulimit -f 0; exec " + command_path() +
                                           " run rows.tw --target interp --size r=2,j=3 --output P=p.npy"},
                                      folder);
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err,
            "error: p.npy cannot be written\n  help: check the folder, its permissions and the free space\n");
  EXPECT_EQ(list(folder), before) << "no partial file";
}

/// Folders of the kernel's that not even root can write to.
TEST_F(BadInput, CachesThatCannotBeWritten) {
  for (const auto& [cache, why] : std::map<std::string, std::string>{
           {"/proc/self", "the cache folder /proc/self cannot be written"},
           {"rows.tw/cache", "the cache folder rows.tw/cache cannot be made (Not a directory)"}}) {
    const CommandResult r =
        tw({"run", "chain.tw", "--size", "r=2,a=3,b=4", "--repeat", "3"}, {{"TILEWRIGHT_CACHE_DIR", cache}});
    EXPECT_EQ(r.status, 0);
    EXPECT_NE(r.out.find("output y f32 [2, 3]"), std::string::npos) << r.out;
    EXPECT_EQ(r.err, "tilewright: " + why + "; kernels are compiled again in each process\n");
  }
}

/// A CUDA driver that starts with `status` and counts `devices`.
std::string driver(const std::string& folder, int status, int devices) {
  std::string text =
      "extern \"C\" {\nint cuInit(unsigned) { return " + std::to_string(status) +
      "; }\nint cuDeviceGetCount(int* n) { *n = " + std::to_string(devices) +
      "; return 0; }\nint cuDeviceGetAttribute(int* v, int a, int) { *v = a == 75 ? 9 : 0; return 0; }\n"
      "int cuMemAlloc_v2(unsigned long* at, unsigned long n) {\n"
      "  static unsigned long next = 4096;\n  *at = next, next += n;\n  return 0;\n}\n";
  for (const char* name :
       {"cuDeviceGet",           "cuDeviceGetName",     "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",       "cuMemFree_v2",        "cuMemcpyHtoD_v2",     "cuMemcpyDtoH_v2",
        "cuMemsetD8_v2",         "cuMemHostAlloc",      "cuMemFreeHost",       "cuModuleLoadData",
        "cuModuleUnload",        "cuModuleGetFunction", "cuFuncSetAttribute",  "cuFuncGetAttribute",
        "cuLaunchKernel",        "cuCtxSynchronize",    "cuEventCreate",       "cuEventDestroy_v2",
        "cuEventRecord",         "cuEventSynchronize",  "cuEventElapsedTime",  "cuGetErrorString",
        "cuTensorMapEncodeTiled"})
    text += std::string("int ") + name + "() { return 0; }\n";
  write(folder + "/driver.cc", text + "}\n");
  const char* cxx = std::getenv("CXX");
  const CommandResult r = run_program({cxx != nullptr && *cxx != 0 ? cxx : "c++", "-w", "-shared", "-fPIC",
                                       "driver.cc", "-o", "libcuda.so.1"},
                                      folder);
  EXPECT_EQ(r.status, 0) << r.err;
  return folder;
}

TEST_F(BadInput, NoGpu) {
  const std::vector<std::string> run = {"run", "rows.tw", "--target", "cuda", "--size", "r=2,j=3"};
  for (const auto& [status, what] : std::map<int, std::string>{{0, "no CUDA device was found"},
                                                               {100, "no CUDA device was found"},
                                                               {3, "the CUDA driver does not start"}}) {
    const CommandResult r = tw(run, {{"LD_LIBRARY_PATH", driver(new_folder(), status, 0)}});
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err,
              "error: " + what +
                  "\n  help: run on a machine with an NVIDIA GPU and its driver, or choose --target cpu\n");
  }
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  const CommandResult r = tw(run);
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err,
            "error: the CUDA driver (libcuda.so.1) was not found\n  help: run on a machine with an NVIDIA "
            "GPU and its "
            "driver, or choose --target cpu\n");
}

TEST_F(BadInput, NoNvrtc) {
  const CommandResult r =
      tw({"run", "rows.tw", "--target", "cuda", "--size", "r=2,j=3"},
         {{"LD_LIBRARY_PATH", driver(new_folder(), 0, 1)}, {"TILEWRIGHT_NVRTC", "/none/libnvrtc.so"}});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err,
            "error: NVRTC cannot be loaded from TILEWRIGHT_NVRTC=/none/libnvrtc.so\n  help: install the CUDA "
            "toolkit 12.4 "
            "or later, or name its libnvrtc.so in TILEWRIGHT_NVRTC\n");
}

}  // namespace
}  // namespace tilewright::testing::bad_input_test
