// Compilation through the cache: hits, damaged entries, read-only folders, compilers that are missing or fail.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/compile.h"
#include "tilewright/runtime/toolchain.h"
#include "tilewright/support/error.h"

namespace tilewright::runtime_compile_test {
namespace {

namespace fs = std::filesystem;

class Compile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        temporary_folder() + "/cache-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    setenv("TILEWRIGHT_CACHE_DIR", folder_.c_str(), 1);
    unsetenv("TILEWRIGHT_DISABLE_CACHE");
  }
  void TearDown() override { unsetenv("CXX"); }

  static std::string source(int k) {
    return "extern \"C\" void f(const long long* words, long long begin, long long end) { *(long "
           "long*)words[0] += (end - begin) * " +
           std::to_string(k) + "; }\n";
  }
  static int64_t call(const CpuModule& m) {
    int64_t sum = 1;
    const int64_t words[1] = {reinterpret_cast<int64_t>(&sum)};
    m.entry("f")(words, 2, 5);
    return sum;
  }
  std::string folder_;
};

TEST_F(Compile, SecondLoadHitsTheCache) {
  const CompileStats before = compile_stats();
  EXPECT_EQ(call(*CpuModule::load(source(10), "")), 31);
  EXPECT_EQ(call(*CpuModule::load(source(10), "")), 31);
  const CompileStats after = compile_stats();
  EXPECT_EQ(after.compiled - before.compiled, 1);
  EXPECT_EQ(after.hits - before.hits, 1);
}

TEST_F(Compile, DamagedEntryIsRebuilt) {
  EXPECT_EQ(call(*CpuModule::load(source(11), "")), 34);
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().extension() == ".so") {
      fs::remove(entry.path());  // the loaded object stays mapped; a new file takes its name
      std::ofstream(entry.path()) << "not a library";
    }
  const int64_t before = compile_stats().compiled;
  EXPECT_EQ(call(*CpuModule::load(source(11), "")), 34);
  EXPECT_EQ(compile_stats().compiled - before, 1);
}

TEST_F(Compile, RunsOnWithoutACache) {
  setenv("TILEWRIGHT_CACHE_DIR", "/proc/no-such-folder", 1);
  EXPECT_EQ(call(*CpuModule::load(source(12), "")), 37);
  setenv("TILEWRIGHT_DISABLE_CACHE", "1", 1);
  EXPECT_FALSE(cache_folder().has_value());
  unsetenv("TILEWRIGHT_DISABLE_CACHE");
}

TEST_F(Compile, MissingCompilerIsTheUsersMistake) {
  setenv("CXX", "no-such-compiler", 1);
  try {
    CpuModule::load(source(13), "");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.diagnostics()[0].what, "no C++ compiler: `no-such-compiler` cannot be run");
    EXPECT_NE(e.diagnostics()[0].hint.find("apt-get install g++"), std::string::npos);
  }
}

TEST_F(Compile, RefusedSourceIsOurFault) {
  EXPECT_THROW(CpuModule::load("this is not C++", ""), InternalError);
}

TEST_F(Compile, ACompilerIsKnownByItsProgram) {
  const std::string folder = temporary_folder() + "/toolchain";
  fs::create_directories(folder);
  fs::copy_file("/proc/self/exe", folder + "/g++-99", fs::copy_options::overwrite_existing);
  fs::create_symlink("g++-99", folder + "/c++");
  const auto first = toolchain_fingerprint(folder + "/c++");
  if (!first) GTEST_SKIP() << "the processor is not described here";
  EXPECT_EQ(toolchain_fingerprint(folder + "/c++"), first);
  EXPECT_NE(toolchain_fingerprint(folder + "/g++-99"), first) << "another command";
  fs::last_write_time(folder + "/g++-99", fs::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_NE(toolchain_fingerprint(folder + "/c++"), first) << "replaced";
  // Programs that may start another compiler.
  fs::create_symlink("/proc/self/exe", folder + "/g++");  // resolves to the test's own name
  EXPECT_FALSE(toolchain_fingerprint(folder + "/g++"));
  EXPECT_FALSE(toolchain_fingerprint("c++ -m64"));
  EXPECT_FALSE(toolchain_fingerprint("no-such-compiler"));
  std::ofstream(folder + "/gcc") << "#!/bin/sh\n";
  fs::permissions(folder + "/gcc", fs::perms::owner_all);
  EXPECT_FALSE(toolchain_fingerprint(folder + "/gcc"));
}

TEST_F(Compile, SeveralSourcesAreCompiledSideBySide) {
  std::vector<CpuSource> sources;
  for (int k : {20, 21, 20, 22}) sources.push_back({source(k), ""});
  const CompileStats before = compile_stats();
  const auto modules = CpuModule::load_all(sources);
  EXPECT_EQ(compile_stats().compiled - before.compiled, 3);
  EXPECT_EQ(call(*modules[1]), 64);
  EXPECT_EQ(call(*modules[3]), 67);
  EXPECT_EQ(modules[0], modules[2]);
  sources[1].text = "this is not C++";
  EXPECT_THROW(CpuModule::load_all(sources), InternalError);
  EXPECT_TRUE(CpuModule::load_all({}).empty());
}

TEST_F(Compile, KeysDependOnEveryPart) {
  EXPECT_NE(content_key({"a", "bc"}), content_key({"ab", "c"}));
  EXPECT_EQ(content_key({"a", "bc"}), content_key({"a", "bc"}));
  EXPECT_EQ(content_key({"a"}).size(), 32u);
}

TEST_F(Compile, StoredBytesComeBack) {
  const std::vector<char> data = {'x', 0, 'y'};
  ASSERT_TRUE(cache_put("k", ".bin", data).has_value());
  EXPECT_EQ(cache_get("k", ".bin"), data);
  EXPECT_FALSE(cache_get("other", ".bin").has_value());
}

TEST(CompileCuda, ProductsThatWaitForOneAnotherAreNoted) {
  EXPECT_TRUE(products_serialized(
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
      "to "
      "insufficient register resources for the wgmma pipeline in the function 'program'\n"));
  EXPECT_FALSE(products_serialized("ptxas info    : Used 168 registers, used 1 barriers\n"));
}

}  // namespace
}  // namespace tilewright::runtime_compile_test
