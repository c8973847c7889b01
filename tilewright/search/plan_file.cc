#include "tilewright/search/plan_file.h"

#include <fmt/format.h>

#include "tilewright/support/error.h"

namespace tilewright {

namespace {

constexpr const char* version_key = "tilewright_plan";

class PlanReader {
 public:
  PlanReader(const std::string& text, const std::string& name)
      : source_(std::make_shared<SourceText>(SourceText{name, text})) {
    try {
      json_ = nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& e) {
      const size_t at = std::min(e.byte > 0 ? e.byte - 1 : 0, text.size());
      throw UserError(
          Span{source_, at, std::min(at + 1, text.size())}, "the plan is not JSON",
          "give a file that `tilewright tune --output FILE` wrote, or a schedule (docs/schedule.md)");
    }
    if (!json_.is_object())
      throw UserError(
          whole(), "the plan is a list in JSON, not an object",
          "give a file that `tilewright tune --output FILE` wrote, or a schedule (docs/schedule.md)");
  }

  bool has(const char* key) const { return json_.contains(key); }
  /// A field, which must be there.
  const nlohmann::json& at(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end())
      throw UserError(whole(), fmt::format("the plan has no field `{}`", key),
                      "give a file that `tilewright tune --output FILE` wrote");
    return *it;
  }
  std::string text(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_string())
      throw UserError(place(key), fmt::format("`{}` is not a text", key), "write it in quotes");
    return value.get<std::string>();
  }
  Span whole() const { return Span{source_, 0, std::min<size_t>(1, source_->text.size())}; }
  /// Where a key stands.
  Span place(const std::string& key) const {
    const std::string quoted = "\"" + key + "\"";
    const size_t at = source_->text.find(quoted);
    return at == std::string::npos ? whole() : Span{source_, at, at + quoted.size()};
  }

 private:
  SourceRef source_;
  nlohmann::json json_;
};

}  // namespace

bool is_plan_file(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (text[first] == '{' || text[first] == '[');
}

std::string schedule_of(const std::string& text, const std::string& name, const std::string& program,
                        const std::string& target) {
  const PlanReader reader(text, name);
  const nlohmann::json& version = reader.at(version_key);
  if (version != plan_file_version)
    throw UserError(reader.place(version_key),
                    fmt::format("the plan is of version {}, and this command reads version {}",
                                version.dump(), plan_file_version),
                    "tune again with this version");
  const std::string of = reader.text("program");
  if (of != program)
    throw UserError(reader.place("program"),
                    fmt::format("the plan is for the program `{}`, and this one is `{}`", of, program),
                    "give the plan of this program, or tune it");
  if (!target.empty() && reader.has("target") && reader.text("target") != target)
    throw UserError(
        reader.place("target"),
        fmt::format("the plan is for the target `{}`, and this is for `{}`", reader.text("target"), target),
        fmt::format("tune for {}, or give a machine or target that the plan is for", target));
  return reader.text("schedule");
}

nlohmann::ordered_json plan_file(const std::string& program, const std::string& target,
                                 const std::string& schedule) {
  return {{version_key, plan_file_version}, {"program", program}, {"target", target}, {"schedule", schedule}};
}

}  // namespace tilewright
