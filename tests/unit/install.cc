// An installed Tilewright: what is installed, and a project that finds and uses it (tests/install_example).
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/command.h"
#include "tilewright.h"

namespace tilewright::testing::install_test {
namespace {

TEST(Install, AProjectFindsAndUsesIt) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a C program cannot load a library built with sanitizers";
#endif
  if (run_program({"cmake", "--version"}).status != 0) GTEST_SKIP() << "cmake is not on PATH";
  const std::string folder = new_folder(), prefix = folder + "/usr", build = folder + "/build";
  const CommandResult installed =
      run_program({"cmake", "--install", std::filesystem::path(command_path()).parent_path().string(),
                   "--prefix", prefix});
  ASSERT_EQ(installed.status, 0) << installed.out << installed.err;
  EXPECT_EQ(tilewright({"--version"}).out, run_program({prefix + "/bin/tilewright", "--version"}).out);
  EXPECT_EQ(read(prefix + "/include/tilewright.h"),
            read(std::string(TW_SOURCE_DIR) + "/include/tilewright.h"));
  const CommandResult configured =
      run_program({"cmake", "-S", std::string(TW_SOURCE_DIR) + "/tests/install_example", "-B", build,
                   "-DCMAKE_PREFIX_PATH=" + prefix, "-DCMAKE_BUILD_TYPE=Release"});
  ASSERT_EQ(configured.status, 0) << configured.out << configured.err;
  const CommandResult built = run_program({"cmake", "--build", build});
  ASSERT_EQ(built.status, 0) << built.out << built.err;
  const CommandResult ran = run_program({build + "/example"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, std::string(tw_version()) + ": 14 77\n");
}

TEST(Install, AnOlderVersionIsNotTakenForANewerOne) {
  const std::string folder = new_folder();
  if (run_program({"cmake", "--version"}).status != 0) GTEST_SKIP() << "cmake is not on PATH";
  ASSERT_EQ(run_program({"cmake", "--install", std::filesystem::path(command_path()).parent_path().string(),
                         "--prefix", folder + "/usr"})
                .status,
            0);
  write(folder + "/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C)\nfind_package(tilewright 99 REQUIRED "
        "CONFIG)\n");
  const CommandResult r =
      run_program({"cmake", "-S", folder, "-B", folder + "/build", "-DCMAKE_PREFIX_PATH=" + folder + "/usr"});
  EXPECT_NE(r.status, 0);
  EXPECT_NE(r.err.find("requested version \"99\""), std::string::npos) << r.err;
}

}  // namespace
}  // namespace tilewright::testing::install_test
