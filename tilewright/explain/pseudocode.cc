#include "tilewright/explain/pseudocode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tilewright/diagram/kernel_text.h"
#include "tilewright/explain/text.h"
#include "tilewright/tile/statements.h"

namespace tilewright::explain {

std::string label_of(const KernelAxis& a, const TileSymbols& symbols, const CodeStyle& style) {
  if (a.kind == KernelAxis::Kind::Whole) return a.index.name();
  const auto it = symbols.block.find(a.index);
  if (style.numbers)
    return a.piece > 0 && a.piece < a.block ? fmt::format("{}/{}", a.block, a.piece)
                                            : fmt::format("{}", a.block);
  if (it == symbols.block.end()) return fmt::format("{}", a.block);
  const auto unit = style.multiples.find(it->second);
  return it->second.name() +
         (unit == style.multiples.end() || unit->second == 1 ? "" : superscript(unit->second));
}

std::string tile_text(const TileKernel& k, const Tile& t, const TileSymbols& symbols,
                      const CodeStyle& style) {
  if (t.axes.empty()) return t.sym.name();
  std::vector<std::string> labels;
  for (Sym a : t.axes) {
    const KernelAxis& axis = k.axis(a);
    const bool number = style.numbers && axis.kind != KernelAxis::Kind::Whole;
    labels.push_back(number ? fmt::format("{}", axis.block) : label_of(axis, symbols, style));
  }
  return fmt::format("{}[{}]", t.sym.name(), fmt::join(labels, ", "));
}

namespace {

class Coder {
 public:
  Coder(const TileProgram& t, const TileKernel& k, const TileSymbols& symbols, const CodeStyle& style)
      : t_(t), k_(k), symbols_(symbols), style_(style), text_(k) {}

  std::vector<CodeLine> run() {
    std::vector<std::string> single, blocks;
    for (const KernelAxis& a : k_.grid) {
      if (a.kind == KernelAxis::Kind::Part)
        blocks.push_back(fmt::format("part of {}", t_.plan.stream.name()));
      else if (a.block == 1)
        single.push_back(a.index.name());
      else
        blocks.push_back(fmt::format("{} by {}", a.index.name(), label_of(a, symbols_, style_)));
    }
    single.insert(single.end(), blocks.begin(), blocks.end());
    int depth = 0;
    if (!single.empty()) add(depth++, fmt::format("for {}", fmt::join(single, ", ")), "blocks, in any order");
    for (const ChunkTable& table : k_.chunk_tables)
      add(depth,
          fmt::format("chunks of {} to visit: found {} before the kernel runs", table.stream.index.name(),
                      t_.plan.bounds == BoundsBy::Device ? "by a kernel in front" : "on the host"));
    top(depth);
    return std::move(lines_);
  }

 private:
  void add(int depth, std::string text, std::string comment = {}, const Stmt* s = nullptr) {
    lines_.push_back({depth, std::move(text), std::move(comment), "", s});
  }

  /// The statements of the kernel in three parts where a stream stands between them.
  void top(int depth) {
    const auto is_loop = [](const Stmt& s) { return std::holds_alternative<Loop>(s.node); };
    const bool streams = std::any_of(k_.body.begin(), k_.body.end(), is_loop);
    if (style_.detail == CodeStyle::Detail::Folded && streams) return folded(depth);
    bool seen = false, headed = false;
    for (size_t n = 0; n < k_.body.size(); ++n) {
      const Stmt& s = k_.body[n];
      if (streams && n == 0 && !is_loop(s)) add(depth, "# init");
      if (seen && !headed && !is_loop(s)) add(depth, "# finish"), headed = true;
      if (is_loop(s)) seen = true, headed = false;
      statement(s, depth);
    }
  }

  /// What the stream takes and gives, in one line for each.
  void folded(int depth) {
    std::vector<std::string> state;
    for (const Stmt& s : k_.body) {
      if (std::holds_alternative<Load>(s.node) || std::holds_alternative<Store>(s.node)) {
        statement(s, depth);
      } else if (const Loop* loop = std::get_if<Loop>(&s.node)) {
        std::vector<std::string> taken;
        state.clear();
        for (const Tile& tile : k_.tiles)
          if (tile.use == Tile::Use::State) state.push_back(tile_text(k_, tile, symbols_, style_));
        for_each_stmt(loop->body, [&](const Stmt& inner) {
          if (auto* load = std::get_if<Load>(&inner.node)) taken.push_back(load->tensor.name());
        });
        const KernelAxis& a = k_.axis(loop->axis);
        add(depth, state.empty() ? head(a) + fmt::format(": {}", fmt::join(taken, ", "))
                                 : fmt::format("{} = stream({}) {}", fmt::join(state, ", "),
                                               fmt::join(taken, ", "), head(a)));
      } else if (lines_.empty() || lines_.back().text != finish()) {
        if (!written_state(s)) add(depth, finish());
      }
    }
  }
  std::string finish() const { return "finish"; }
  bool written_state(const Stmt& s) const {
    const Map* x = std::get_if<Map>(&s.node);
    return x && k_.tile(x->tile).use == Tile::Use::State && tiles_read(k_, x->value).empty();
  }

  std::string head(const KernelAxis& a) const {
    if (a.kind == KernelAxis::Kind::Resident)
      return fmt::format("for all of {} (at most {})", a.index.name(), label_of(a, symbols_, style_));
    return fmt::format("for {} by {}", a.index.name(), label_of(a, symbols_, style_));
  }

  std::string text(Expr e) const { return text_.of(e); }

  // ---- statements

  /// The tile that a statement writes: with its labels where it is new.
  std::string target(Sym sym) {
    const Tile& t = k_.tile(sym);
    if (!declared_.insert(sym).second) return sym.name();
    std::string s = tile_text(k_, t, symbols_, style_);
    if (!style_.levels) return s;
    s += fmt::format(" : {} {}", name(t.dtype), name(t.level));
    if (t.kept) s += " kept";
    if (t.slots > 1) s += fmt::format(" ring {}", t.slots);
    return s;
  }
  void assign(int depth, const Stmt& s, Sym tile, const std::string& sign, const std::string& value,
              const std::string& more = {}) {
    const std::string left = target(tile);
    std::string comment = s.comment;
    if (!more.empty()) comment += (comment.empty() ? "" : "; ") + more;
    add(depth, fmt::format("{} {} {}", padded(left, style_.levels ? 34 : 18), sign, value), comment, &s);
  }
  /// The masked form where both are wanted: it is right in every chunk.
  Expr shown(Expr value, Expr masked) const { return masked && masked_ != Plain ? masked : value; }

  void body(const Body& all, int depth) {
    for (const Stmt& s : all) statement(s, depth);
  }
  void statement(const Stmt& s, int depth) {
    std::visit([&](const auto& x) { print(s, x, depth); }, s.node);
  }

  /// Statements that masked chunks run otherwise.
  void differing(const Body& all, int depth) {
    for (const Stmt& s : all) {
      if (const When* when = std::get_if<When>(&s.node)) {
        differing(when->body, depth);
        continue;
      }
      const Map* map = std::get_if<Map>(&s.node);
      const Reduce* reduce = std::get_if<Reduce>(&s.node);
      const Dot* dot = std::get_if<Dot>(&s.node);
      const Rank* rank = std::get_if<Rank>(&s.node);
      if ((map && map->masked && map->masked != map->value) ||
          (reduce && reduce->masked && reduce->masked != reduce->value) || (dot && dot->present) ||
          (rank && rank->present))
        statement(s, depth);
    }
  }

  void print(const Stmt& s, const Load& x, int depth) {
    std::vector<std::string> index;
    for (Expr i : x.index) index.push_back(text(i));
    assign(depth, s, x.tile, "=",
           fmt::format("load {}[{}]{}", x.tensor.name(), fmt::join(index, ", "),
                       x.present ? " where " + text(x.present) : ""));
  }
  void print(const Stmt& s, const Store& x, int depth) {
    std::vector<std::string> index;
    for (Expr i : x.index) index.push_back(text(i));
    add(depth, fmt::format("store {}[{}] = {}", x.tensor.name(), fmt::join(index, ", "), x.tile.name()),
        s.comment, &s);
  }
  void print(const Stmt& s, const Map& x, int depth) {
    const Expr value = shown(x.value, x.masked);
    if (value.is(Op::Read) && value->sym == x.tile && masked_ == Plain)
      return;  // a mask that has no effect here
    std::string v = text(value);
    if (value.is(Op::Read) && has_tile(k_, value->sym) && k_.tile(value->sym).dtype != k_.tile(x.tile).dtype)
      v = fmt::format("{}({})", name(k_.tile(x.tile).dtype), v);
    assign(depth, s, x.tile, "=", v);
  }
  void print(const Stmt& s, const Dot& x, int depth) {
    const bool matrix = std::find(style_.on_matrix_unit.begin(), style_.on_matrix_unit.end(), x.tile) !=
                        style_.on_matrix_unit.end();
    std::string value = fmt::format("sum[{}]({} * {})", axis_names(x.axes), x.a.name(), x.b.name());
    if (x.present && masked_ != Plain) value += " where " + text(x.present);
    assign(depth, s, x.tile, x.accumulate ? "+=" : "=", value, style_.levels && matrix ? "matrix unit" : "");
  }
  void print(const Stmt& s, const Reduce& x, int depth) {
    const std::string value =
        fmt::format("{}[{}]({})", name(x.reducer), axis_names(x.axes), text(shown(x.value, x.masked)));
    if (!x.accumulate || x.reducer == Reducer::Sum)
      assign(depth, s, x.tile, x.accumulate ? "+=" : "=", value);
    else
      assign(depth, s, x.tile, "=", fmt::format("{}({}, {})", name(x.reducer), x.tile.name(), value));
  }
  void print(const Stmt& s, const Rank& x, int depth) {
    const std::string lists = target(x.keys) + ", " + target(x.indices);
    add(depth,
        fmt::format("{} = first {} of {} by ({}, {}){}", lists, x.rank.name(), x.axis.name(), text(x.value),
                    text(x.at), x.present && masked_ != Plain ? " where " + text(x.present) : ""),
        s.comment, &s);
  }
  void print(const Stmt& s, const When& x, int depth) {
    add(depth,
        x.axes.empty() ? fmt::format("when {}", text(x.condition))
                       : fmt::format("when any[{}]({})", axis_names(x.axes), text(x.condition)),
        x.slow_path ? "seldom" : s.comment, &s);
    body(x.body, depth + 1);
  }
  void print(const Stmt& s, const Loop& x, int depth) {
    const KernelAxis& a = k_.axis(x.axis);
    const bool apart = style_.detail == CodeStyle::Detail::SubLoops && a.kind == KernelAxis::Kind::Stream;
    if (!apart) {
      const bool masks =
          std::any_of(x.segments.begin(), x.segments.end(), [](const Segment& g) { return g.masked; });
      masked_ = masks ? Masked : Plain;
      add(depth, head(a), s.comment, &s);
      body(x.body, depth + 1);
      masked_ = Masked;
      return;
    }
    std::vector<Segment> segments = x.segments;
    if (!style_.numbers && !x.presents.empty())
      segments = segments_of(analyse_masks(x.presents, k_, a, [&](const KernelAxis& b) {
        const auto it = symbols_.block.find(b.index);
        return it == symbols_.block.end() ? Expr(b.block) : Expr(it->second);
      }));
    for (const Segment& g : segments) {
      std::vector<std::pair<std::string, std::string>> bounds{{"from", text(g.lo)}, {"to", text(g.hi)}};
      const bool brief = bounds[0].second.size() + bounds[1].second.size() <= 44;
      add(depth,
          fmt::format("{}{}", head(a),
                      brief ? fmt::format(", chunks {} to {}", bounds[0].second, bounds[1].second) : ""),
          g.masked ? "elements are tested" : "no element is tested", &s);
      if (!brief)
        for (const auto& [which, bound] : bounds) add(depth + 1, fmt::format("# {} chunk {}", which, bound));
      masked_ = g.masked ? Masked : Plain;
      const bool again = g.masked && std::any_of(segments.begin(), segments.end(),
                                                 [](const Segment& other) { return !other.masked; });
      if (!again) {
        body(x.body, depth + 1);
        continue;
      }
      add(depth + 1, "# as without a test, but");
      const size_t before = lines_.size();
      differing(x.body, depth + 1);
      if (lines_.size() == before)
        lines_.back().text =
            fmt::format("# as without a test, with no element behind the end of {}", a.index.name());
    }
    masked_ = Masked;
  }

  const TileProgram& t_;
  const TileKernel& k_;
  const TileSymbols& symbols_;
  const CodeStyle& style_;
  const KernelText text_;
  enum { Plain, Masked } masked_ = Masked;
  std::set<Sym> declared_;
  std::vector<CodeLine> lines_;
};

}  // namespace

std::vector<CodeLine> pseudocode(const TileProgram& t, size_t kernel, const TileSymbols& symbols,
                                 const CodeStyle& style) {
  return Coder(t, t.kernels.at(kernel), symbols, style).run();
}

}  // namespace tilewright::explain
