// Machines as data: what is read, refused and printed.
#include "tilewright/hardware/machine_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tilewright/runtime/calibrate.h"

namespace tilewright::machine_file_test {
namespace {

const char kSmall[] =
    "name = \"small\"\nkind = \"cpu\"\n[sources]\nme = \"measured\"\n[counts]\ncores = { value = 2, source = "
    "\"me\" }\n"
    "[[levels]]\nname = \"memory\"\nrole = \"memory\"\ncapacity = { value = 1e9, source = \"me\" }\n";

std::string message(const std::string& text) {
  try {
    parse_machine(text, "m.toml");
  } catch (const UserError& e) {
    return e.diagnostics()[0].render();
  }
  return "";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(MachineFile, EveryMachineOfTheLibraryParsesAndPrints) {
  ASSERT_GE(machine_texts().size(), 10u);
  for (const auto& [key, text] : machine_texts()) {
    const MachineFile m = parse_machine(text, key);
    EXPECT_EQ(find_machine(key).name, m.name);
    EXPECT_EQ(find_machine(m.name).name, m.name);
    const std::string printed = to_toml(m);
    EXPECT_EQ(to_toml(parse_machine(printed, key)), printed) << key;
    EXPECT_TRUE(m.level("shared")) << key;
    EXPECT_TRUE(m.level("registers")) << key;
    for (const MachineField& f : machine_fields()) {
      if (!(m.*f.figure)) continue;
      EXPECT_TRUE(m.sources.count((m.*f.figure)->source)) << key << " " << f.key;
      EXPECT_NE(to_text(m).find(f.key), std::string::npos);
    }
    // What a level or rate lacks is accounted for.
    EXPECT_TRUE(m.clock || m.unknown.count("rates.clock")) << key;
    EXPECT_TRUE(m.special || m.unknown.count("rates.special")) << key;
    EXPECT_TRUE(m.launch || m.unknown.count("transfers.launch")) << key;
  }
}

TEST(MachineFile, FiguresOfTheDataSheets) {
  const MachineFile h100 = find_machine("h100-sxm"), h800 = find_machine("H800");
  EXPECT_EQ(h100.cores->value, 132);
  EXPECT_EQ(h100.matrix.at(DType::f16).rate->value, 989.4e12);
  EXPECT_EQ(h100.levels[1].bandwidth->value, 3.35e12);
  EXPECT_EQ(h100.level("shared")->per_block->value, 227 * 1024);
  // Rates that count clocks agree with the clock.
  EXPECT_NEAR(h100.special->value, 16 * 132 * h100.clock->value, 1e6);
  EXPECT_NEAR(h100.matrix.at(DType::f16).rate->value, 4096.0 * 132 * h100.clock->value, 2e11);
  ASSERT_EQ(h800.clusters.size(), 2u);
  EXPECT_EQ(h800.clusters[0].bandwidth->value, 3.27e12);
}

/// Every figure's source says where to look it up, and every source but that of the shapes is some figure's.
TEST(MachineFile, SourcesOfTheLibraryAreThoseOfFigures) {
  for (const auto& [key, text] : machine_texts()) {
    const MachineFile m = parse_machine(text, key);
    for (const auto& [name, where] : m.sources) {
      EXPECT_GT(where.size(), 12u) << key << " " << name;
      if (name != "ptx") {
        EXPECT_NE(text.find("source = \"" + name + "\""), std::string::npos) << key << " " << name;
      }
    }
  }
}

/// What counts clocks agrees with the clock, up to figures that a data sheet gives at another one (1.98 against 1.83 GHz).
TEST(MachineFile, RatesOfTheLibraryAgreeWithTheirClocks) {
  for (const auto& [key, text] : machine_texts()) {
    const MachineFile m = parse_machine(text, key);
    if (!m.clock) continue;
    const double clocks = m.cores->value * m.clock->value;
    if (m.fma_per_clock && m.fma_f32) {
      EXPECT_NEAR(m.fma_f32->value / (2 * m.fma_per_clock->value * clocks), 1, 0.09) << key;
    }
    if (m.special_per_clock && m.special) {
      EXPECT_NEAR(m.special->value / (m.special_per_clock->value * clocks), 1, 1e-6) << key;
    }
    const MemoryLevel* registers = m.level("registers");
    ASSERT_TRUE(registers) << key;
    if (registers->bandwidth) {
      EXPECT_NEAR(registers->bandwidth->value / (128 * clocks), 1, 1e-6) << key;
    }
    if (m.registers_per_core) {
      EXPECT_EQ(registers->capacity->value, 4 * m.registers_per_core->value) << key;
    }
  }
}

TEST(MachineFile, WhatIsRefused) {
  EXPECT_EQ(message(kSmall), "");
  const std::string broken = message("name = \"x\"\nkind = \n");
  EXPECT_EQ(broken.rfind("m.toml:2:", 0), 0u) << broken;
  EXPECT_NE(broken.find("this is not TOML"), std::string::npos) << broken;
  EXPECT_EQ(message(with("cores = { value = 2, source = \"me\" }", "corez = { value = 2, source = \"me\" }")),
            "m.toml:6:9: error: no field of a machine is called `corez`\n"
            "  corez = { value = 2, source = \"me\" }\n          ^\n  help: did you mean `cores`?\n");
  EXPECT_EQ(message(with("cores = { value = 2, source = \"me\" }", "")),
            "m.toml:5:1: error: the field counts.cores is missing\n  [counts]\n  ^\n  help: write `cores = { "
            "value = …, "
            "source = … }` under [counts]: the number of multiprocessors or cores\n");
  EXPECT_EQ(message(with("cores = { value = 2, source = \"me\" }", "cores = 2")),
            "m.toml:6:9: error: cores is a number without a source\n  cores = 2\n          ^\n  help: write "
            "`cores = { "
            "value = …, source = \"…\" }`\n");
  const std::pair<const char*, const char*> cases[] = {
      {"cores = { value = 2, source = \"mo\" }", "no source is called `mo`"},
      {"cores = { value = -2, source = \"me\" }", "cores is not a positive number"},
      {"cores = { value = 2 }", "cores has no source"},
      {"cores = { source = \"me\" }", "cores has no value"},
      {"cores = { value = nan, source = \"me\" }", "cores is not a positive number"},
  };
  for (const auto& [line, what] : cases) {
    const std::string m = message(with("cores = { value = 2, source = \"me\" }", line));
    EXPECT_NE(m.find(what), std::string::npos) << m;
    EXPECT_EQ(m.rfind("m.toml:6:", 0), 0u) << m;
  }
  EXPECT_NE(message(with("role = \"memory\"", "role = \"memori\"")).find("did you mean `memory`?"),
            std::string::npos);
  EXPECT_NE(message(with("role = \"memory\"", "role = \"cache\"")).find("no level has the role \"memory\""),
            std::string::npos);
  EXPECT_NE(message(with("kind = \"cpu\"", "kind = \"tpu\"")).find("no kind is called `tpu`"),
            std::string::npos);
  EXPECT_NE(message(with("kind = \"cpu\"", "kind = \"cpu\"\narch = \"sm_89\"")).find("a CPU has no arch"),
            std::string::npos);
  const std::string old = message(with("kind = \"cpu\"", "kind = \"gpu\"\narch = \"sm_75\""));
  EXPECT_EQ(old.rfind("m.toml:3:8: error: `sm_75` is no architecture", 0), 0u) << old;
}

TEST(MachineFile, NearNames) {
  try {
    find_machine("h100-sxn");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.diagnostics()[0].what, "no machine is called `h100-sxn`");
    EXPECT_EQ(e.diagnostics()[0].hint, "did you mean `h100-sxm`?");
  }
}

TEST(MachineFile, Quantities) {
  EXPECT_EQ(quantity(3.35e12, "bytes/s"), "3.35 TB/s");
  EXPECT_EQ(quantity(232448, "bytes"), "227 KiB");
  EXPECT_EQ(quantity(1.83e9, "Hz"), "1.83 GHz");
  EXPECT_EQ(quantity(2.5e-6, "s"), "2.5 µs");
}

TEST(MachineFile, CachesEndWhereTheRateFalls) {
  // 48 KiB at 400 GB/s, 1 MiB at 150, then 24.
  std::vector<std::pair<int64_t, double>> rates;
  for (int64_t size = 8192; size <= 64 << 20; size *= 2)
    for (int64_t s : {size, size * 3 / 2})
      rates.emplace_back(s, s <= 48 << 10 ? 400e9 : s <= 1 << 20 ? 150e9 : 24e9);
  EXPECT_EQ(cache_sizes(rates), (std::vector<int64_t>{48 << 10, 1 << 20}));
  EXPECT_TRUE(cache_sizes({{8192, 1e9}, {16384, 1e9}}).empty());
}

TEST(MachineFile, ThisProcessorIsDetectedAndMeasured) {
  const MachineFile here = detect_cpu();
  EXPECT_FALSE(here.gpu);
  EXPECT_GE(here.cores->value, 1);
  EXPECT_FALSE(here.fma_f32.has_value());
  EXPECT_TRUE(here.unknown.count("rates.fma_f32"));
  // One third level is never more than what all groups of cores of a socket have.
  const long of_a_socket = sysconf(_SC_LEVEL3_CACHE_SIZE);
  for (const MemoryLevel& l : here.levels) {
    if (l.name != "L3" || !l.capacity || of_a_socket <= 0) continue;
    EXPECT_LE(l.capacity->value, double(of_a_socket));
  }
  EXPECT_EQ(to_toml(parse_machine(to_toml(here), "here")), to_toml(here));
  // Small arrays and short runs: the figures are rough, but there.
  CalibrateOptions o;
  o.seconds = 0.001;
  o.largest = 4 << 20;
  int steps = 0;
  o.progress = [&](const std::string&, int done, int all) {
    EXPECT_LT(done, all);
    ++steps;
  };
  const MachineFile m = calibrate_cpu(o);
  EXPECT_GT(steps, 20);
  ASSERT_TRUE(m.fma_f32 && m.special && m.launch);
  EXPECT_GT(m.fma_f32->value, 0);
  EXPECT_GT(m.special->value, 0);
  EXPECT_GT(m.launch->value, 0);
  for (size_t k = 1; k < m.levels.size(); ++k) {
    ASSERT_TRUE(m.levels[k].bandwidth && m.levels[k].one_core) << m.levels[k].name;
    EXPECT_GT(m.levels[k].bandwidth->value, 0);
  }
  EXPECT_EQ(to_toml(parse_machine(to_toml(m), "here")), to_toml(m));
}

}  // namespace
}  // namespace tilewright::machine_file_test
