// One page about a program: definition, picture, state, plan, cost and time.
#pragma once
#include "tilewright/explain/steps.h"

namespace tilewright::explain {

/// What running the program took, or why it was not run.
struct Measured {
  bool ran = false;
  std::string why_not;
  double median = 0, min = 0, max = 0;  ///< milliseconds
  int runs = 0;
  std::string on;  ///< "cpu, 2 threads"
};

/// A line of the page: a name, what is said, and a number that stands right.
struct PageLine {
  std::string name, text, value;
};
struct PageSection {
  std::string title, summary;
  std::vector<PageLine> lines;
};

struct Explanation {
  std::string program, file, about;  ///< `about`: what the file says of itself
  std::vector<std::string> definition;
  std::string sizes;  ///< "q=20 x=70"
  std::vector<PageSection> sections;
  Diagram picture;                  ///< of the definition
  std::optional<double> predicted;  ///< milliseconds
};

/// Sizes are those of `o`; `whose_sizes` says behind them where they come from. Several kernels have a state and a plan each.
Explanation explanation_of(const CompiledProgram& c, const StepOptions& o, const Measured& m,
                           const std::string& whose_sizes = {});

std::string to_text(const Explanation& e);
nlohmann::ordered_json to_json(const Explanation& e);
/// Self-contained, light and dark by preference.
std::string to_html(const Explanation& e);

}  // namespace tilewright::explain
