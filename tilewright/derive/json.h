// The derivation as JSON: what `tilewright derive --json` prints for one streamed axis.
#pragma once
#include <nlohmann/json.hpp>

#include "tilewright/derive/state.h"

namespace tilewright {

/// {"axis", "passes", "points": [{"name", "meaning", "moves", "may_lag"}],
///  "reductions": [{"name", "definition", "pass", "family", "state", "repair", "merge", "finish", "deferred", "proofs"}],
///  "outputs": [{"name", "value", "pass", "stored_along_axis"}],
///  "refusals": [{"reduction", "subterm", "reason", "line", "column"}], "checks": [{"what", "by", "passed"}]}
nlohmann::ordered_json to_json(const Program& p, const Derivation& d);

}  // namespace tilewright
