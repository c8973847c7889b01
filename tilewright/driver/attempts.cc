#include "tilewright/driver/attempts.h"

#include <cstdlib>

#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/toolchain.h"

namespace tilewright {

namespace {

std::string key_of(const Program& part) { return content_key({print(part)}); }
std::string kept_key(const Program& part) { return "kept " + key_of(part); }
const char* const start_key = "start";

}  // namespace

Attempts::Attempts(const Program& elaborated, const CompileOptions& o) {
  if (!cache_folder()) return;
  static const std::optional<std::string> self = own_fingerprint();
  if (!self) return;
  const char* isa = std::getenv("TILEWRIGHT_CPU_ISA");
  key_ = content_key({*self, isa ? isa : "", print(elaborated), std::to_string(int(o.target)),
                      std::to_string(int(o.mapping)), o.stream ? o.stream.name() : "", o.schedule,
                      o.host_steps ? "host" : "", o.simpler ? "simpler" : "", arch_of(o)});
  const auto kept = cache_get(key_, attempts_extension);
  if (!kept) return;
  const auto read = nlohmann::json::parse(kept->begin(), kept->end(), nullptr, false);
  if (read.is_object())
    for (const auto& [part, answer] : read.items()) known_[part] = answer;
}

std::optional<Attempt> Attempts::find(const Program& part) const {
  if (known_.empty()) return std::nullopt;
  const auto it = known_.find(key_of(part));
  if (it == known_.end()) return std::nullopt;
  const nlohmann::json& kept = it->second;
  Attempt a;
  if (kept.is_string()) {
    a.refusal = UserError(Span{}, kept.get<std::string>());
    return a;
  }
  const Axis* axis = kept.is_object() ? part.axis(kept.value("stream", "")) : nullptr;
  if (axis == nullptr) return std::nullopt;
  a.stream = axis->index;
  a.passes = kept.value("passes", 0);
  a.price.bytes = kept.value("bytes", 0.0);
  a.price.products = kept.value("products", 0.0);
  a.price.operations = kept.value("operations", 0.0);
  a.price.total = kept.value("total", 0.0);
  a.price.kernels = kept.value("kernels", 0);
  for (const std::string& name : kept.value("cut", std::vector<std::string>{}))
    if (const Axis* cut = part.axis(name)) a.cut.push_back(cut->index);
  return a;
}

void Attempts::add(const Program& part, const Attempt& a) {
  if (key_.empty()) return;
  changed_ = true;
  nlohmann::json& kept = known_[key_of(part)];
  if (a.refusal) {
    kept = a.refusal->diagnostics().empty() ? a.refusal->what() : a.refusal->diagnostics()[0].what;
  } else {
    std::vector<std::string> cut;
    for (Sym s : a.cut) cut.push_back(s.name());
    kept = {{"cut", cut},
            {"stream", a.stream.name()},
            {"passes", a.passes},
            {"bytes", a.price.bytes},
            {"products", a.price.products},
            {"operations", a.price.operations},
            {"total", a.price.total},
            {"kernels", a.price.kernels}};
  }
}

std::optional<Attempts::Kept> Attempts::kept(const Program& part) const {
  if (known_.empty()) return std::nullopt;
  const auto it = known_.find(kept_key(part));
  if (it == known_.end() || !it->second.is_object()) return std::nullopt;
  return Kept{it->second.value("stream", ""), it->second.value("plans", "")};
}

void Attempts::add(const Program& part, const Kept& k) {
  if (key_.empty()) return;
  changed_ = true;
  known_[kept_key(part)] = {{"stream", k.stream}, {"plans", k.plans}};
}

std::optional<Start> Attempts::start() const {
  const auto it = known_.find(start_key);
  if (it == known_.end() || !it->second.is_boolean()) return std::nullopt;
  return it->second.get<bool>() ? Start::OneKernel : Start::Rules;
}

void Attempts::add(Start start) {
  if (key_.empty()) return;
  changed_ = true;
  known_[start_key] = start == Start::OneKernel;
}

void Attempts::keep() const {
  if (!changed_) return;
  const std::string text = nlohmann::json(known_).dump();
  cache_put(key_, attempts_extension, {text.begin(), text.end()});
}

}  // namespace tilewright
