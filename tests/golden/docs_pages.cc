// The tables of docs/derivation.md and docs/targets.md against what the compiler finds now, the commands of docs/schedule.md, and references and links of all pages
// against what there is.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/derived.h"
#include "tilewright/derive/readable.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/driver/kernel.h"

namespace tilewright::testing::docs_pages_test {
namespace {

const std::string kRoot = TW_SOURCE_DIR;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// The cells of each row of the table under `heading` that begins with the cells `columns`, without the head.
std::vector<std::vector<std::string>> table(const std::string& page, const std::string& heading,
                                            const std::string& columns) {
  std::vector<std::vector<std::string>> rows;
  bool inside = false, in_table = false;
  for (const std::string& line : lines_of(read(kRoot + "/docs/" + page))) {
    if (line.starts_with("#")) inside = line == heading, in_table = false;
    if (!inside) continue;
    if (line == columns) in_table = true;
    if (!line.starts_with("|")) in_table = false;
    if (!in_table || line == columns || line.starts_with("|--") || line.starts_with("|-")) continue;
    std::vector<std::string> cells;
    std::string cell;
    for (size_t k = 1; k < line.size(); ++k) {
      if (line[k] == '\\' && k + 1 < line.size() && line[k + 1] == '|') {
        cell += '|';
        ++k;
      } else if (line[k] == '|') {
        const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
        cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
        cell.clear();
      } else {
        cell += line[k];
      }
    }
    rows.push_back(cells);
  }
  return rows;
}

/// "`m = max x`, `l = sum exp(x - m)`": the points and components of one pass.
std::string state_of(const Program& p, const Derivation& d, const State& s) {
  const derivation::Readable readable(p, d);
  std::vector<std::string> parts;
  for (const Point& q : s.points) {
    const char* kind = q.kind == Point::Kind::Maximum   ? "max"
                       : q.kind == Point::Kind::Minimum ? "min"
                                                        : "mean";
    parts.push_back(fmt::format("`{} = {} {}`", q.var.name(), kind, readable(q.u)));
  }
  for (const Component& c : s.components) {
    if (c.combine == Reducer::Argtopk) continue;
    const std::string names =
        c.listed() ? c.var.name() + ", " + s.components[size_t(c.beside)].var.name() : c.var.name();
    const std::string meaning =
        c.listed() ? fmt::format("the {} largest {}", to_string(p.axis(c.rank).size), readable(c.lift))
                   : c.meaning;
    parts.push_back(fmt::format("`{} = {}`", names, meaning));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The cells "example | passes | state | named" that the program has today.
std::vector<std::string> row_of(const std::string& name) {
  Program p;
  Derivation d;
  if (const size_t at = name.find(", kernel "); at != std::string::npos) {
    CompileOptions o;
    o.target = Target::Interp;
    const CompiledProgram c =
        compile_program(load_program(kRoot + "/examples/" + name.substr(0, at) + ".tw"), o);
    const Compilation& kernel = c.kernels.at(size_t(std::stoi(name.substr(at + 9))) - 1);
    p = kernel.elaborated;
    d = kernel.derivation;
  } else {
    p = elaborate(load_program(kRoot + "/examples/" + name + ".tw"));
    d = derive(p, stream_candidates(p).at(0));
  }
  std::string state, named;
  for (size_t k = 0; k < d.passes.size(); ++k) {
    const State& s = d.passes[k].state;
    if (s.points.empty() && s.components.empty()) continue;
    state += fmt::format("{}{}", state.empty() ? "" : "; then ", state_of(p, d, s));
  }
  for (const Refusal& r : d.refusals)
    named += fmt::format("{}`{}`", named.empty() ? "" : ", ", derivation::Readable(p, d)(r.subterm));
  return {name, std::to_string(d.passes.size()), state, named};
}

TEST(DocsPages, TheTableOfExamplesIsWhatDeriveFinds) {
  const auto rows = table("derivation.md", "## Examples",
                          "| example | passes | state | what mixes, or why a second pass |");
  ASSERT_GE(rows.size(), 25u);
  for (const auto& cells : rows) {
    ASSERT_EQ(cells.size(), 4u) << cells[0];
    std::vector<std::string> now = row_of(cells[0]);
    if (now[3].empty()) now[3] = cells[3];  // a remark
    EXPECT_EQ(cells, now) << fmt::format("| {} |", fmt::join(now, " | "));
  }
}

/// What `derive` prints of the reduction `result`: its families, and how they are repaired.
struct Shown {
  std::string family, repair;
};
Shown shown(const std::string& text, const std::string& axis, const std::string& result) {
  const Derived x = derived(text, axis);
  EXPECT_EQ(x.d.passes.size(), 1u) << text;
  const derivation::Readable readable(x.program, x.d);
  for (size_t k = 0; k < x.d.cascade.reductions.size(); ++k) {
    if (x.d.cascade.reductions[k].result.name() != result) continue;
    const derivation::ReductionText t = readable.reduction(k);
    return {fmt::format("{}", fmt::join(t.family, ", ")), fmt::format("{}", fmt::join(t.repair, "; "))};
  }
  ADD_FAILURE() << "no " << result << " in\n" << to_text(x.program, x.d);
  return {};
}

TEST(DocsPages, TheTableOfFamiliesIsWhatDerivePrints) {
  struct Row {
    const char *text, *axis, *result, *family, *repair;
  };
  const std::string head =
      "axis r, j, f\naxis d = 8\ninput x[r, j] : f32\ninput y[r, j] : f32\ninput w[j, f] : f32\n";
  const std::map<std::string, Row> rows = {
      {"exp(u − m)·v, m the running maximum of u",
       {"o[r, f] = sum[j](exp(x - max[j](x)) * w)\noutput o\n", "j", "o", "w * exp(x - m)",
        "o' = exp(m - m') * o"}},
      {"(x − μ)², μ the running mean",
       {"v[r] = sum[j]((x - mean[j](x)) ** 2)\noutput v\n", "j", "v", "(x - rho) ** 2, x - rho, 1",
        "d2' = d2 + 2 * (rho - rho') * d1 + (rho - rho') ** 2 * n; d1' = d1 + (rho - rho') * n"}},
      {"Σ_d (x − μ)², μ the running mean over both axes",
       {"input z[r, j, d] : f32\nv[r] = sum[j, d]((z - mean[j, d](z)) ** 2)\noutput v\n", "j", "v",
        "sum[d]((z - rho) ** 2), sum[d](z - rho), sum[d](1)",
        "d2' = d2 + 2 * (rho - rho') * d1 + (rho - rho') ** 2 * n; d1' = d1 + (rho - rho') * n"}},
      {"(x − μ)/σ·γ w",
       {"o[r, f] = sum[j]((x - mean[j](x)) / sqrt(var[j](x) + 1) * w)\noutput o\n", "j", "o",
        "w * (x - rho), w", "o' = o + (rho - rho') * o0"}},
      {"(u − μ)(v − ν)",
       {"c[r] = sum[j]((x - mean[j](x)) * (y - mean[j](y)))\noutput c\n", "j", "c",
        "(x - rho) * (y - rho_2), x - rho, y - rho_2, 1",
        "c' = c + (rho_2 - rho_2') * d1 + (rho - rho') * d1_2 + (rho - rho') * (rho_2 - rho_2') * n; d1' = "
        "d1 + (rho - rho') * n; d1_2' = d1_2 + (rho_2 - rho_2') * n"}},
      {"p (T − D) k with p = e/l, D = Σ p T",
       {"p[r, j] = softmax[j](x)\nD[r] = sum[j](p * y)\no[r, f] = sum[j](p * (y - D) * w)\noutput o\n", "j",
        "o", "w * (y - rho) * exp(x - m), w * exp(x - m)",
        "o' = exp(m - m') * o + (rho - rho') * exp(m - m') * o0; o0' = exp(m - m') * o0"}},
      {"(x − lo)/(hi − lo)·w",
       {"o[r, f] = sum[j]((x - min[j](x)) / (max[j](x) - min[j](x)) * w)\noutput o\n", "j", "o",
        "w * (x - lo), w", "o' = o + (lo - lo') * o0"}},
      {"max of |u|·a(r), a ≥ 0",
       {"a[r] = sum[j](x * x)\nm[r] = max[j](abs(y) * a)\noutput m\n", "j", "m", "abs(y)", ""}},
      {"index of the maximum of u",
       {"k[r] = argmax[j](x)\noutput k\n", "j", "k", "where(x == m or not x <= inf, 1 + j, inf)",
        "k' = where(m == m' or not m <= inf, 1, inf) * k"}},
      {"the k largest of F(u, r), F strictly increasing in u",
       {"k[r, d] = topk[j -> d](x - max[j](y))\noutput k\n", "j", "k", "x", ""}},
  };
  std::set<std::string> written;
  for (const auto& cells :
       table("derivation.md", "## What it contains", "| g(c, r) | family | repair, with δ = ρ − ρ' |")) {
    written.insert(cells[0]);
    const auto row = rows.find(cells[0]);
    if (row == rows.end()) {
      ADD_FAILURE() << "no program shows the row `" << cells[0] << "`";
      continue;
    }
    const Row& r = row->second;
    const Shown now = shown(head + r.text, r.axis, r.result);
    EXPECT_EQ(now.family, r.family) << cells[0];
    EXPECT_EQ(now.repair, r.repair) << cells[0];
  }
  for (const auto& [first, row] : rows)
    EXPECT_TRUE(written.count(first)) << "the page has no row `" << first << "`";
}

/// What stands in backticks.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = text.find('`'); at != std::string::npos;) {
    const size_t end = text.find('`', at + 1);
    if (end == std::string::npos) break;
    out.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('`', end + 1);
  }
  return out;
}

/// Files and programs that the page names exist, its links lead somewhere, and tests in parentheses behind a file are in it.
void references_hold(const std::string& page) {
  const std::string text = read(kRoot + "/docs/" + page);
  size_t links = 0, files = 0;
  const std::regex link(R"(\]\(([^)#]+)[^)]*\))"), code("`[^`]*`");
  const std::string prose = std::regex_replace(text, code, "");
  for (std::sregex_iterator it(prose.begin(), prose.end(), link), end; it != end; ++it) {
    const std::string target = (*it)[1];
    if (target.find("://") != std::string::npos) continue;
    ++links;
    EXPECT_TRUE(std::filesystem::exists(kRoot + "/docs/" + target)) << page << " links to " << target;
  }
  const std::regex file(
      R"((^|[^A-Za-z0-9_./])((tests|examples|tilewright|docs|bench|scripts)/[A-Za-z0-9_./-]*[A-Za-z0-9_]))");
  for (const std::string& words : quoted(text))
    for (std::sregex_iterator it(words.begin(), words.end(), file), end; it != end; ++it) {
      const std::string path = (*it)[2];
      if (words.find(path + "*") != std::string::npos || words.find(path + "NAME") != std::string::npos ||
          path.find("NAME") != std::string::npos)
        continue;
      ++files;
      EXPECT_TRUE(std::filesystem::exists(kRoot + "/" + path)) << page << " names " << path;
    }
  const std::regex test(R"(`(tests/[A-Za-z0-9_/]+\.cc)` \(([A-Z][A-Za-z0-9]+)\))");
  for (std::sregex_iterator it(text.begin(), text.end(), test), end; it != end; ++it)
    EXPECT_NE(read(kRoot + "/" + (*it)[1].str()).find((*it)[2].str()), std::string::npos)
        << page << " names " << (*it)[2] << " of " << (*it)[1];
  EXPECT_GE(files, 3u) << page;
  (void)links;
}

TEST(DocsPages, NamedFilesAndTestsExist) {
  for (const char* page : {"derivation.md", "papers.md", "adding_a_rule.md"}) {
    SCOPED_TRACE(page);
    references_hold(page);
  }
}

/// Commands that the page of papers tells to run, and what it says that they print.
TEST(DocsPages, CommandsOfThePageOfPapersRun) {
  size_t run = 0;
  for (const std::string& line : lines_of(read(kRoot + "/docs/papers.md"))) {
    for (const std::string& words : quoted(line)) {
      if (!words.starts_with("tilewright ") || words.find("…") != std::string::npos) continue;
      std::vector<std::string> arguments;
      std::string word;
      bool inside = false;
      for (char c : words.substr(std::string("tilewright ").size()) + " ") {
        if (c == '"') {
          inside = !inside;
        } else if (c == ' ' && !inside) {
          if (!word.empty()) arguments.push_back(word);
          word.clear();
        } else {
          word += c;
        }
      }
      const CommandResult r = tilewright(arguments);
      ++run;
      EXPECT_EQ(r.status, 0) << words << "\n" << r.err;
      // `…` ("closure"): the command prints that.
      const size_t behind = line.find("`" + words + "` (\"");
      if (behind == std::string::npos) continue;
      const size_t from = behind + words.size() + 5;
      const std::string said = line.substr(from, line.find('"', from) - from);
      EXPECT_NE(r.out.find(said), std::string::npos) << words << " does not print " << said;
    }
  }
  EXPECT_GE(run, 5u);
}

struct Column {
  Target target;
  std::string arch;
};

/// The mapped program of a text, or "refused"; its source is made too.
std::string mapped(const std::string& text, const Column& column) {
  try {
    CompileOptions o;
    o.target = column.target;
    o.arch = column.arch;
    const Compilation c =
        analyse(parse_program(std::make_shared<SourceText>(SourceText{"case.tw", text})), o);
    const MappedProgram m = lower_mapped(c, lower(c, c.plans.front().plan), o.target, LayoutClass::General);
    lower_source(c, m);
    return print(c.elaborated, m);
  } catch (const UserError&) {
    return "refused";
  }
}

TEST(DocsTargets, ArraysAndRoundings) {
  auto rows =
      table("targets.md", "## Arrays and roundings",
            "| dtype | `cpu` | `cuda`, sm_80 to sm_88 | `cuda`, sm_89, sm_90, sm_100 and later | `cuda`, "
            "sm_90a |");
  EXPECT_EQ(rows.size(), 10u);
  for (auto& row : rows) {
    ASSERT_EQ(row.size(), 5u);
    for (std::string& cell : row) std::erase(cell, '`');
    const std::string& type = row[0];
    const bool boolean = type == "bool";
    std::vector<std::pair<Column, size_t>> columns{{{Target::Cpu, ""}, 1}};
    for (const std::string& arch : gpu_archs())
      columns.emplace_back(Column{Target::Cuda, arch}, arch == "sm_90a"                    ? 4
                                                       : gpu_machine(arch).capability < 89 ? 2
                                                                                           : 3);
    for (const auto& [column, k] : columns) {
      std::string does;
      const auto add = [&](const char* what, const std::string& text) {
        if (mapped(text, column) != "refused") does += (does.empty() ? "" : " ") + std::string(what);
      };
      add("load",
          fmt::format("axis i, j\ninput x[i, j] : {}\ny[i] = sum[j](where(x == x, 0.5, 0))\noutput y\n",
                      type));
      add("store", fmt::format("axis i, j\ninput x[i, j] : f32\ny[i] = sum[j](x){}\noutput y : {}\n",
                               boolean ? " > 0" : "", type));
      if (!boolean)
        add("round", fmt::format("axis i, j\ninput x[i, j] : f32\ny[i] = sum[j]({}(x))\noutput y\n", type));
      EXPECT_EQ(row[k], does.empty() ? "–" : does)
          << type << " " << name(column.target) << " " << column.arch;
    }
  }
}

TEST(DocsTargets, Products) {
  const std::vector<std::string> units = {
      "fma", "bf16_", "mma.m16n8k8.tf32x3", "mma.m16n8k16.f16", "mma.m16n8k16.bf16", "wgmma"};
  auto rows =
      table("targets.md", "## Products",
            "| dtype | `cpu` | `cuda`, sm_80, sm_90, sm_100 to sm_110 | `cuda`, sm_86 to sm_89, sm_120, "
            "sm_121 | `cuda`, sm_90a |");
  EXPECT_EQ(rows.size(), 7u);
  std::vector<std::pair<Column, size_t>> columns{{{Target::Cpu, ""}, 1}};
  for (const std::string& arch : gpu_archs())
    columns.emplace_back(Column{Target::Cuda, arch}, arch == "sm_90a"               ? 4
                                                     : gpu_machine(arch).tf32_parts ? 2
                                                                                    : 3);
  for (auto& row : rows) {
    ASSERT_EQ(row.size(), 5u);
    for (std::string& cell : row) std::erase(cell, '`');
    for (const auto& [column, k] : columns) {
      const std::string text =
          mapped(fmt::format("axis i, j\naxis k = 64\ninput x[i, k] : {0}\ninput w[k, j] : {0}\n"
                             "y[i, j] = sum[k](x * w)\noutput y\n",
                             row[0]),
                 column);
      const std::string where = row[0] + " " + column.arch;
      bool any = false;
      for (const std::string& unit : units) {
        const bool said = (" " + row[k] + " ").find(" " + unit + " ") != std::string::npos;
        const bool used = text.find(" " + unit) != std::string::npos;
        any = any || used;
        EXPECT_TRUE(said || !used) << where << ": " << unit << " is used and not named\n" << text;
        EXPECT_TRUE(used || !said || column.target == Target::Cpu) << where << ": " << unit;
      }
      EXPECT_EQ(any, row[k] != "–") << where << "\n" << text;
    }
  }
}

TEST(DocsTargets, Architectures) {
  auto rows =
      table("targets.md", "## Architectures of `cuda`",
            "| `--arch` | mapping | shared memory of a block | rounding to `f8e4m3` | products of `f32` |");
  ASSERT_EQ(rows.size(), gpu_archs().size());
  for (size_t n = 0; n < rows.size(); ++n) {
    const std::string& arch = gpu_archs()[n];
    const Machine m = gpu_machine(arch);
    const bool rounds = mapped("axis i, j\ninput x[i, j] : f32\ny[i] = sum[j](f8e4m3(x))\noutput y\n",
                               {Target::Cuda, arch}) != "refused";
    const std::vector<std::string> now = {fmt::format("`{}`", arch),
                                          arch == sm90().arch ? "by groups of warps" : "by warps",
                                          fmt::format("{} KiB", m.shared_bytes / 1024), rounds ? "yes" : "–",
                                          m.tf32_parts ? "tensor cores" : "multiply-adds"};
    EXPECT_EQ(rows[n], now);
  }
}

/// The commands of a page that stand in code with `examples/` in them.
std::vector<std::string> commands_of(const std::string& page) {
  std::vector<std::string> found;
  const std::string text = read(kRoot + "/docs/" + page);
  const std::regex command("`(tilewright [^`\n]*)`");
  for (std::sregex_iterator it(text.begin(), text.end(), command), end; it != end; ++it)
    if (it->str().find("examples/") != std::string::npos) found.push_back((*it)[1]);
  return found;
}

TEST(DocsSchedule, EveryCommandRuns) {
  const std::vector<std::string> commands = commands_of("schedule.md");
  EXPECT_GE(commands.size(), 9u);
  for (const std::string& command : commands) {
    const CommandResult r =
        run_program({"sh", "-c", command_path() + command.substr(std::string("tilewright").size())}, kRoot);
    EXPECT_EQ(r.status, 0) << command << "\n" << r.err << r.out;
  }
}

TEST(DocsLinks, LeadToFiles) {
  namespace fs = std::filesystem;
  std::vector<fs::path> pages;
  for (const auto& entry : fs::directory_iterator(kRoot))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  for (const char* folder :
       {"docs", "examples", "tilewright", "tests", "cli", "python", "bench", "hardware", "scripts", "cmake"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/" + folder))
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
  const std::regex link(
      "\\]\\(([\\w./-]+\\.[\\w./-]+)(#[^)]*)?\\)");  // code such as softmax[j](S) has no dot
  size_t links = 0;
  for (const fs::path& page : pages) {
    const std::string text = read(page.string());
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it, ++links)
      EXPECT_TRUE(fs::exists(page.parent_path() / (*it)[1].str())) << page << ": " << it->str();
  }
  EXPECT_GT(links, 100u);
}

}  // namespace
}  // namespace tilewright::testing::docs_pages_test
