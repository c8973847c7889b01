// A schedule in JSON, as `tilewright tune` writes it and --schedule reads it:
//
//   {"tilewright_plan": 1, "program": "pf_causal", "target": "cpu", "schedule": "group b=1, …", …}
//
// Other fields say where it comes from (docs/search.md) and are not read.
#pragma once
#include <nlohmann/json.hpp>

#include <string>

namespace tilewright {

constexpr int plan_file_version = 1;

/// Does a schedule's text hold JSON? No schedule begins with a brace or a bracket.
bool is_plan_file(const std::string& text);

/// The schedule in it. `name` is what messages call the text, `program` the name of the program that the plan is for. UserError with the place: what is not JSON,
/// a field that is missing or of another type, another version, a plan of another program, or of another target than `target` (empty: any will do).
std::string schedule_of(const std::string& text, const std::string& name, const std::string& program,
                        const std::string& target = {});

/// The fields that every file has; others may be added.
nlohmann::ordered_json plan_file(const std::string& program, const std::string& target,
                                 const std::string& schedule);

}  // namespace tilewright
