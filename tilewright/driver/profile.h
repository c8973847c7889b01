// Bytes that a GPU moves, as NVIDIA's profiler counts them.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace tilewright {

/// What `ncu` reported, summed over the kernels that ran.
struct Profile {
  std::map<std::string, double> metrics;  ///< by name; bytes
  std::string missing;                    ///< why there are none: "no ncu", or what it said
};

/// Runs a command under `ncu` ($TILEWRIGHT_NCU, else `ncu` on the path) with these metrics. Never throws for what is missing.
Profile profile(const std::vector<std::string>& command, const std::vector<std::string>& metrics);

/// The sums of what `ncu --csv` printed: rows with a metric's name, unit and value; prefixes of units (Kbyte, Mbyte, Gbyte: powers of 1000) multiplied out.
std::map<std::string, double> read_profile(const std::string& csv);

}  // namespace tilewright
