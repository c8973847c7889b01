#include "tilewright/derive/json.h"

#include "tilewright/derive/readable.h"

namespace tilewright {

nlohmann::ordered_json to_json(const Program& p, const Derivation& d) {
  using json = nlohmann::ordered_json;
  derivation::Readable readable(p, d);
  json out;
  out["axis"] = d.cascade.axis.name();
  out["passes"] = d.passes.size();
  out["points"] = json::array();
  out["reductions"] = json::array();
  out["outputs"] = json::array();
  out["refusals"] = json::array();
  out["checks"] = json::array();
  for (size_t n = 0; n < d.passes.size(); ++n) {
    for (const Point& q : d.passes[n].state.points) {
      auto t = readable.point(q);
      out["points"].push_back({{"name", t.name},
                               {"pass", n + 1},
                               {"meaning", t.meaning},
                               {"moves", t.moves},
                               {"may_lag", q.may_lag}});
    }
    for (const Check& c : d.passes[n].state.checks)
      out["checks"].push_back({{"what", c.what}, {"by", c.by}, {"pass", n + 1}, {"passed", c.passed}});
  }
  for (size_t k = 0; k < d.cascade.reductions.size(); ++k) {
    auto t = readable.reduction(k);
    out["reductions"].push_back({{"name", t.result},
                                 {"definition", t.definition},
                                 {"pass", t.pass},
                                 {"family", t.family},
                                 {"held_at", t.held_at},
                                 {"state", t.state},
                                 {"repair", t.repair},
                                 {"merge", t.merge},
                                 {"finish", t.finish},
                                 {"deferred", t.deferred},
                                 {"proofs", t.proofs}});
  }
  for (const CascadeOutput& o : d.cascade.outputs)
    out["outputs"].push_back({{"name", p.outputs[o.output].sym.name()},
                              {"value", readable.output(o)},
                              {"pass", o.pass},
                              {"stored_along_axis", o.along_stream}});
  for (const Refusal& r : d.refusals)
    out["refusals"].push_back({{"reduction", d.cascade.reductions[r.reduction].result.name()},
                               {"subterm", readable(r.subterm)},
                               {"reason", r.reason},
                               {"line", r.span ? r.span.line() : 0},
                               {"column", r.span ? r.span.column() : 0}});
  return out;
}

}  // namespace tilewright
