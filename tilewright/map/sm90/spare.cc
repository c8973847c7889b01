// Work per element that need not be there, found in the tile program:
//  - "not (value <= C) somewhere in a row" is "not (the largest value of the row <= C)";
//  - an operand that is zero where its value is out of range is the value itself where none is, and is made again where the vote finds one;
//  - a factor of rows joins a constant factor behind it.
#include <algorithm>

#include "tilewright/map/sm90/context.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

bool among(const std::vector<Sym>& v, Sym s) { return std::find(v.begin(), v.end(), s) != v.end(); }

Body::iterator last_writer(Body& body, Sym tile) {
  auto at =
      std::find_if(body.rbegin(), body.rend(), [&](const Stmt& x) { return among(tiles_written(x), tile); });
  return at == body.rend() ? body.end() : at.base() - 1;
}

/// The product just made adds to what the rare body adds to, from an operand that is `clean`: the value where it is in range, else zero.
bool may_come_first(const When& when, const Stmt& product, Sym operand) {
  auto* dot = std::get_if<Dot>(&product.node);
  return dot && dot->accumulate && (dot->a == operand || dot->b == operand) &&
         std::all_of(when.body.begin(), when.body.end(), [&](const Stmt& x) {
           auto* r = std::get_if<Reduce>(&x.node);
           return r && r->accumulate && r->reducer == Reducer::Sum && r->tile == dot->tile;
         });
}

void rewrite_votes(Context& c, Body& body) {
  Body out;
  for (Stmt& s : body) {
    if (auto* loop = std::get_if<Loop>(&s.node)) rewrite_votes(c, loop->body);
    auto* when = std::get_if<When>(&s.node);
    const Expr in_range = when && when->condition.is(Op::Not) ? when->condition.arg(0) : Expr();
    const bool bound = in_range && in_range.is(Op::Le) && in_range.arg(1).number() && when->axes.size() > 1 &&
                       among(when->axes, c.row);
    const std::vector<Sym> read = bound ? tiles_read(c.kernel, when->condition) : std::vector<Sym>{};
    const bool wide = read.size() == 1 && c.tile(read[0]).level == Level::Registers &&
                      c.tile(read[0]).dtype == DType::f32 && c.tile(read[0]).axes.size() == when->axes.size();
    if (!wide) {
      out.push_back(std::move(s));
      continue;
    }
    const std::vector<Sym>& axes = c.tile(read[0]).axes;
    const Expr value = tilewright::read(read[0], std::vector<Expr>(axes.begin(), axes.end()));
    Tile most;
    most.sym = Sym::fresh({.name = read[0].name() + "_most", .kind = SymbolKind::Tile});
    most.axes = {c.row};
    std::vector<Sym> columns;
    for (Sym a : when->axes)
      if (a != c.row) columns.push_back(a);
    // Behind the last writer of what is compared, so that products between do not wait for it.
    auto at = last_writer(out, read[0]);
    at = at == out.end() ? at : at + 1;
    out.insert(at, Stmt{Reduce{most.sym, Reducer::Max, columns, in_range.arg(0), {}, false}, {}});
    when->condition = logical_not(less_equal(tilewright::read(most.sym, {Expr(c.row)}), in_range.arg(1)));
    when->axes = {c.row};
    c.kernel.tiles.push_back(most);

    // The operand in front of the product that stands in front of the vote.
    const Expr clean = select(in_range, value, Expr(0));
    const auto made = std::find_if(out.begin(), out.end(), [&](const Stmt& x) {
      auto* m = std::get_if<Map>(&x.node);
      return m && m->value == clean && !m->masked;
    });
    if (made != out.end() && out.end() - made == 2) {
      Map& m = std::get<Map>(made->node);
      if (may_come_first(*when, out.back(), m.tile)) {
        when->body.insert(when->body.begin(), Stmt{m, {}});
        m.value = value;
        out.insert(out.end() - 1, std::move(s));
        continue;
      }
    }
    out.push_back(std::move(s));
  }
  body = std::move(out);
}

/// Factors of a product of products.
void factors_of(Expr e, std::vector<Expr>& out) {
  if (!e.is(Op::Mul)) return out.push_back(e);
  for (Expr a : e.args()) factors_of(a, out);
}

Expr product_of_all(const std::vector<Expr>& factors) {
  Expr p;
  for (Expr f : factors) p = p ? p * f : f;
  return p;
}

/// tile·factor for reads of the tile, the factor beside the constants that the tile is multiplied by.
Expr scaled(Expr e, Expr tile, Expr factor) {
  if (!e) return e;
  return rewrite(e, [&](Expr x) {
    if (x == tile) return tile * factor;
    if (!x.is(Op::Mul)) return x;
    std::vector<Expr> all, constants, rest;
    factors_of(x, all);
    if (std::count(all.begin(), all.end(), tile) != 1 || std::count(all.begin(), all.end(), factor) != 1)
      return x;
    for (Expr f : all)
      if (f != tile && f != factor) (f.number() ? constants : rest).push_back(f);
    if (constants.empty()) return x;
    rest.insert(rest.begin(), tile * (factor * product_of_all(constants)));
    return product_of_all(rest);
  });
}

void scale(Stmt& s, Expr tile, Expr factor) {
  if (auto* m = std::get_if<Map>(&s.node))
    m->value = scaled(m->value, tile, factor), m->masked = scaled(m->masked, tile, factor);
  if (auto* r = std::get_if<Reduce>(&s.node))
    r->value = scaled(r->value, tile, factor), r->masked = scaled(r->masked, tile, factor);
  if (auto* w = std::get_if<When>(&s.node))
    for (Stmt& x : w->body) scale(x, tile, factor);
}

/// S = S·(r·t), then one use of S·constant: r goes there.
void move_row_factors(Context& c, Body& body) {
  for (size_t k = 0; k < body.size(); ++k) {
    if (auto* loop = std::get_if<Loop>(&body[k].node)) move_row_factors(c, loop->body);
    auto* m = std::get_if<Map>(&body[k].node);
    if (!m || m->masked || !m->value.is(Op::Mul) || c.tile(m->tile).axes.size() != 2) continue;
    const std::vector<Sym>& axes = c.tile(m->tile).axes;
    const Expr tile = read(m->tile, std::vector<Expr>(axes.begin(), axes.end()));
    std::vector<Expr> all, rest;
    factors_of(m->value, all);
    Expr row;
    for (Expr f : all) {
      const bool of_rows = f.is(Op::Read) && f->sym.kind() == SymbolKind::Tile && !row &&
                           c.tile(f->sym).axes == std::vector<Sym>{c.row};
      if (of_rows)
        row = f;
      else
        rest.push_back(f);
    }
    if (!row || rest.size() < 2 || std::count(rest.begin(), rest.end(), tile) != 1) continue;
    // Later reads of it in this chunk, none of which is a product or a condition; nothing writes it or the factor.
    int uses = 0;
    bool free = true;
    for (size_t n = k + 1; n < body.size(); ++n) {
      const std::vector<Sym> written = tiles_written(body[n]);
      free = free && !among(written, m->tile) && !among(written, row->sym);
      const bool expressions =
          std::holds_alternative<Map>(body[n].node) || std::holds_alternative<Reduce>(body[n].node);
      if (!among(tiles_read(c, body[n]), m->tile)) continue;
      if (auto* w = std::get_if<When>(&body[n].node)) {
        free = free && !among(tensors_read(w->condition), m->tile) &&
               std::all_of(w->body.begin(), w->body.end(), [](const Stmt& x) {
                 return std::holds_alternative<Map>(x.node) || std::holds_alternative<Reduce>(x.node);
               });
      } else {
        free = free && expressions;
        ++uses;
      }
    }
    bool before = false;  // read by the next chunk, in front of its writer
    for (size_t n = 0; n < k && !before; ++n) {
      if (among(tiles_written(body[n]), m->tile)) break;
      before = among(tiles_read(c, body[n]), m->tile);
    }
    if (!free || before || uses != 1) continue;
    m->value = product_of_all(rest);
    for (size_t n = k + 1; n < body.size(); ++n) scale(body[n], tile, row);
  }
}

}  // namespace

void spare_element_work(Context& c) {
  if (!c.row) return;
  rewrite_votes(c, c.kernel.body);
  move_row_factors(c, c.kernel.body);
}

}  // namespace tilewright::hopper
