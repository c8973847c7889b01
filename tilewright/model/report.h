// The performance model of one kernel as lines for people and programs: formulas, values where sizes are known, and the assumptions that each rests on.
#pragma once
#include <nlohmann/json.hpp>

#include "tilewright/model/predict.h"

namespace tilewright {

/// What a line takes for granted, and what could refute it.
struct Assumption {
  const char *key, *text, *experiment;
};
const std::vector<Assumption>& assumptions();

struct ReportLine {
  std::string name;
  Expr formula;                      ///< null: none. Sizes print as their axes' names
  std::optional<double> value;       ///< where every size in it is known
  std::string unit;                  ///< of the value: "bytes", "s", "op/s", "clocks", "%" …
  std::string note;                  ///< what there is to say beside or instead of them
  std::vector<std::string> assumes;  ///< keys
};
struct ReportSection {
  std::string title;
  std::vector<ReportLine> lines;
};
struct Report {
  std::string program, kernel, plan, machine;  ///< `kernel` is empty for a program of one kernel
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<ReportSection> sections;
  std::optional<Prediction> prediction;  ///< where all sizes are known
};

/// `sizes` by axis name, those that are known; literal sizes need not be given.
Report report(const Model& m, const MachineFile& machine, const std::map<std::string, int64_t>& sizes,
              const std::string& kernel = {});

std::string to_text(const Report& r);
std::string to_markdown(const Report& r);
std::string to_latex(
    const Report& r);  ///< sections and tables of amsmath formulas, to be included in a document
nlohmann::ordered_json to_json(const Report& r);
/// The assumptions that the reports' lines rest on, each with its experiment: the end of a text, Markdown or LaTeX form.
std::string assumptions_text(const std::vector<Report>& reports);
std::string assumptions_markdown(const std::vector<Report>& reports);
std::string assumptions_latex(const std::vector<Report>& reports);
nlohmann::ordered_json assumptions_json(const std::vector<Report>& reports);

}  // namespace tilewright
