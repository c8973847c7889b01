#include "tilewright/driver/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tilewright/runtime/process.h"

namespace tilewright {
namespace {

/// The fields of a line: separated by commas, in quotes or not.
std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      all.emplace_back();
    else if (c != '\r')
      all.back() += c;
  }
  return all;
}

double factor(const std::string& unit) {
  const std::pair<const char*, double> prefixes[] = {{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  for (const auto& [prefix, scale] : prefixes)
    if (unit.rfind(prefix, 0) == 0) return scale;
  return 1;
}

}  // namespace

std::map<std::string, double> read_profile(const std::string& csv) {
  std::map<std::string, double> sums;
  std::istringstream lines(csv);
  size_t name = 0, unit = 0, value = 0;
  bool begun = false;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> f = fields(line);
    if (!begun) {
      int found = 0;
      for (size_t k = 0; k < f.size(); ++k) {
        if (f[k] == "Metric Name") name = k, ++found;
        if (f[k] == "Metric Unit") unit = k, ++found;
        if (f[k] == "Metric Value") value = k, ++found;
      }
      begun = found == 3;
      continue;
    }
    if (f.size() <= std::max({name, unit, value})) continue;
    std::string digits;
    for (char c : f[value])
      if (c != ',') digits += c;
    char* end = nullptr;
    const double number = std::strtod(digits.c_str(), &end);
    if (!digits.empty() && *end == 0) sums[f[name]] += number * factor(f[unit]);
  }
  return sums;
}

Profile profile(const std::vector<std::string>& command, const std::vector<std::string>& metrics) {
  const char* named = std::getenv("TILEWRIGHT_NCU");
  const std::string ncu = named != nullptr && *named != 0 ? named : "ncu";
  std::vector<std::string> all{ncu, "--csv", "--metrics", fmt::format("{}", fmt::join(metrics, ","))};
  all.insert(all.end(), command.begin(), command.end());
  std::string log;
  const int status = run_command(all, log);
  Profile p;
  if (status == -1 || status == 127) {
    p.missing =
        named != nullptr && *named != 0 ? fmt::format("no ncu: `{}` cannot be started", ncu) : "no ncu";
    return p;
  }
  p.metrics = read_profile(log);
  if (p.metrics.empty()) {
    // The last line says what went wrong.
    while (!log.empty() && log.back() == '\n') log.pop_back();
    const size_t begin = log.rfind('\n');
    std::string last = log.substr(begin == std::string::npos ? 0 : begin + 1).substr(0, 200);
    p.missing =
        fmt::format("ncu reported nothing (status {}): {}", status, last.empty() ? "no output" : last);
  }
  return p;
}

}  // namespace tilewright
