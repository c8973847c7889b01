// Claims of the performance model against counts, times and a profiler.
#include "tilewright/driver/verify.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/command.h"
#include "tilewright/driver/profile.h"

namespace tilewright::testing::verify_test {
namespace {

Program program(const std::string& name) {
  return load_program(std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw");
}

VerifyOptions options(const std::map<std::string, int64_t>& sizes, const std::string& machine = "this-cpu") {
  VerifyOptions v;
  v.session.sizes = sizes;
  v.machine = find_machine(machine);
  v.repeat = 0;
  return v;
}

const Claim* find(const Verification& v, const std::string& name) {
  for (const Claim& c : v.claims)
    if (c.name.rfind(name, 0) == 0) return &c;
  return nullptr;
}

void expect_counts_hold(const Verification& v) {
  int counted = 0;
  for (const Claim& c : v.claims) {
    EXPECT_NE(c.verdict, Claim::Verdict::Refuted) << c.name << "\n" << to_text(v);
    if (c.by != "counted") continue;
    ++counted;
    EXPECT_EQ(c.verdict, Claim::Verdict::Holds) << c.name << "\n" << to_text(v);
  }
  EXPECT_GE(counted, 6);
}

TEST(Verify, CountsOfBothTargets) {
  for (Target target : {Target::Cpu, Target::Cuda}) {
    CompileOptions o;
    o.target = target;
    const Verification v = verify(
        program("pf_causal"), o,
        options({{"b", 1}, {"h", 2}, {"i", 70}, {"j", 130}}, target == Target::Cpu ? "this-cpu" : "h200"));
    expect_counts_hold(v);
    EXPECT_EQ(v.counted_sizes, v.sizes);
    ASSERT_TRUE(find(v, "H memory, K loaded"));
    EXPECT_GT(*find(v, "H memory, K loaded")->found, 0);
    EXPECT_FALSE(find(v, "H memory, K loaded")->formula.empty());
    ASSERT_TRUE(find(v, "time"));
    EXPECT_EQ(find(v, "time")->verdict, Claim::Verdict::NotMeasured);
    EXPECT_EQ(find(v, "time")->note, "--repeat 0");
    EXPECT_FALSE(v.refuted());
  }
}

TEST(Verify, SizesThatTheInterpreterCannotTakeAreCutDown) {
  CompileOptions o;
  VerifyOptions v = options({{"b", 1}, {"h", 2}, {"i", 1000}, {"j", 1000}});
  v.most_operations = 1e6;
  const Verification r = verify(program("pf_causal"), o, v);
  expect_counts_hold(r);
  EXPECT_NE(r.counted_sizes, r.sizes);
  EXPECT_NE(to_text(r).find("the interpreter being slow"), std::string::npos);
}

TEST(Verify, SeveralKernelsAndMasksThatReadArrays) {
  CompileOptions o;
  const Verification several =
      verify(program("qkv_attention"), o, options({{"b", 1}, {"k", 2}, {"g", 2}, {"i", 20}, {"c", 24}}));
  expect_counts_hold(several);
  const Verification documents =
      verify(program("documents"), o, options({{"b", 1}, {"h", 2}, {"i", 20}, {"j", 70}}));
  expect_counts_hold(documents);
  ASSERT_TRUE(find(documents, "H memory, K loaded"));
  EXPECT_EQ(find(documents, "H memory, K loaded")->kind, Claim::Kind::AtMost);
}

TEST(Verify, NeighboursOfTheBestTilesMoveNoLess) {
  CompileOptions o;
  o.target = Target::Cuda;
  for (const char* name : {"pf_global", "pf_causal"}) {
    const Verification v =
        verify(program(name), o, options({{"b", 1}, {"h", 2}, {"i", 1000}, {"j", 1000}}, "h100-sxm"));
    const Claim* best = find(v, "best tiles");
    ASSERT_TRUE(best);
    EXPECT_EQ(best->verdict, Claim::Verdict::Holds) << to_text(v);
    EXPECT_NE(best->by, "least of 0 neighbours that fit");
  }
}

TEST(Verify, ATimeThatIsFarFromWhatIsPredictedIsRefuted) {
  CompileOptions o;
  VerifyOptions v = options({{"b", 1}, {"h", 1}, {"i", 200}, {"j", 200}});
  v.repeat = 1;
  v.shortest = 0;
  // A machine that computes and moves without end.
  for (MaybeFigure MachineFile::*rate :
       {&MachineFile::fma_f32, &MachineFile::special, &MachineFile::quotients, &MachineFile::tangents,
        &MachineFile::conversions})
    v.machine.*rate = Figure{1e30, "measured"};
  for (MemoryLevel& l : v.machine.levels)
    if (l.role != "memory") l.bandwidth = Figure{1e30, "measured"};
  v.machine.launch = Figure{1e-30, "measured"};
  const Verification r = verify(program("pf_global"), o, v);
  ASSERT_TRUE(find(r, "time"));
  EXPECT_EQ(find(r, "time")->verdict, Claim::Verdict::Refuted) << to_text(r);
  EXPECT_TRUE(r.refuted());
  // One that does nothing in a second is as far off the other way.
  for (MaybeFigure MachineFile::*rate : {&MachineFile::fma_f32, &MachineFile::special})
    v.machine.*rate = Figure{1, "measured"};
  EXPECT_EQ(find(verify(program("pf_global"), o, v), "time")->verdict, Claim::Verdict::Refuted);
}

TEST(Verify, WhatAProfilerPrinted) {
  const auto sums = read_profile(
      "==PROF== Connected\n"
      "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
      "\"0\",\"f(int, int)\",\"dram__bytes_read.sum\",\"Mbyte\",\"1,234.5\"\n"
      "\"1\",\"g\",\"dram__bytes_read.sum\",\"Kbyte\",\"2\"\n"
      "\"1\",\"g\",\"lts__t_sectors_srcunit_tex.sum\",\"sector\",\"96\"\n");
  EXPECT_DOUBLE_EQ(sums.at("dram__bytes_read.sum"), 1234.5e6 + 2e3);
  EXPECT_DOUBLE_EQ(sums.at("lts__t_sectors_srcunit_tex.sum"), 96);
  EXPECT_TRUE(read_profile("error: no device\n").empty());
}

TEST(Verify, BytesByTheProfiler) {
  const std::string folder = new_folder(), ncu = folder + "/ncu";
  write(ncu,
        "#!/bin/sh\necho '\"Metric Name\",\"Metric Unit\",\"Metric Value\"'\n"
        "echo '\"dram__bytes_read.sum\",\"byte\",\"1\"'\n");
  std::filesystem::permissions(ncu, std::filesystem::perms::owner_all);
  setenv("TILEWRIGHT_NCU", ncu.c_str(), 1);
  CompileOptions o;
  o.target = Target::Cuda;
  const VerifyOptions v = options({{"b", 1}, {"h", 1}, {"i", 128}, {"j", 128}}, "h200");
  const Verification r = verify(program("pf_global"), o, v);
  const Claim* memory = nullptr;
  int unreported = 0;
  for (const Claim& c : r.claims) {
    if (c.by != "ncu") continue;
    if (c.name.find(", read") != std::string::npos) memory = &c;
    unreported += c.note.find("ncu did not report") != std::string::npos ? 1 : 0;
  }
  ASSERT_TRUE(memory) << to_text(r);
  EXPECT_EQ(memory->verdict, Claim::Verdict::Refuted) << "one byte is less than Q, K and V have";
  EXPECT_GE(unreported, 1);
  setenv("TILEWRIGHT_NCU", (folder + "/none").c_str(), 1);
  EXPECT_NE(to_text(verify(program("pf_global"), o, v)).find("not measured: no ncu"), std::string::npos);
  unsetenv("TILEWRIGHT_NCU");
}

}  // namespace
}  // namespace tilewright::testing::verify_test
