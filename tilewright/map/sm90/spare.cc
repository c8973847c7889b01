// Work per element that need not be there, found in the tile program:
//  - "not (value <= C) somewhere in a row" is "not (the largest value of the row <= C)";
//  - an operand that is zero where its value is out of range is the value itself where none is, and is made again where the vote finds one;
//  - a factor of rows joins a constant factor behind it;
//  - positions along the columns times a factor are added where they are needed, one operation an element, instead of lying in a tile;
//  - a value that one statement and a slow path behind it read is computed in that statement, and made only where the slow path runs.
#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/context.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

/// What a slow path or a loop writes may be what it was.
bool always_writes(const Stmt& s) {
  return !std::holds_alternative<When>(s.node) && !std::holds_alternative<Loop>(s.node);
}

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

bool is_element_work(const Stmt& s) {
  return std::holds_alternative<Map>(s.node) || std::holds_alternative<Reduce>(s.node);
}

bool only_element_work(const Body& body) { return std::all_of(body.begin(), body.end(), is_element_work); }

/// Every value that the statement evaluates, those of bodies inside it too, becomes f of it.
void change_values(Stmt& s, const std::function<Expr(Expr)>& f) {
  const auto change = [&](Expr& e) {
    if (e) e = f(e);
  };
  if (auto* m = std::get_if<Map>(&s.node)) change(m->value), change(m->masked);
  if (auto* r = std::get_if<Reduce>(&s.node)) change(r->value), change(r->masked);
  if (Body* inside = inner_body(s))
    for (Stmt& x : *inside) change_values(x, f);
}

/// S = S·(r·t) or S·r, then one use of S·constant: r goes there.
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
    if (!row || std::count(rest.begin(), rest.end(), tile) != 1) continue;
    // Later reads of it in this chunk, none of which is a product or a condition; nothing writes it or the factor.
    int uses = 0;
    bool free = true;
    for (size_t n = k + 1; n < body.size(); ++n) {
      const std::vector<Sym> written = tiles_written(body[n]);
      free = free && !among(written, m->tile) && !among(written, row->sym);
      if (!among(tiles_read(c, body[n]), m->tile)) continue;
      if (auto* w = std::get_if<When>(&body[n].node)) {
        free = free && !among(tensors_read(w->condition), m->tile) && only_element_work(w->body);
      } else {
        free = free && is_element_work(body[n]);
        ++uses;
      }
    }
    bool before = false;  // read by the next chunk, in front of its writer
    for (size_t n = 0; n < k && !before; ++n) {
      if (among(tiles_written(body[n]), m->tile) && always_writes(body[n])) break;
      before = among(tiles_read(c, body[n]), m->tile);
    }
    if (!free || before || uses != 1) continue;
    m->value = product_of_all(rest);
    for (size_t n = k + 1; n < body.size(); ++n)
      change_values(body[n], [&](Expr e) { return scaled(e, tile, row); });
    if (rest.size() == 1) body.erase(body.begin() + long(k--));  // the tile as it is
  }
}

/// The expression with `value` in place of the tile's elements, products flat: numbers and scalars first, so that their product is formed once.
Expr with_value(Expr e, Expr element, Expr value) {
  return rewrite(e, [&](Expr x) {
    if (x == element) return value;
    if (!x.is(Op::Mul)) return x;
    std::vector<Expr> all;
    factors_of(x, all);
    const auto rank = [](Expr f) { return f.number() ? 0 : f.is(Op::Symbol) ? 1 : 2; };
    std::stable_sort(all.begin(), all.end(), [&](Expr a, Expr b) { return rank(a) < rank(b); });
    return product_of_all(all);
  });
}

bool among_any(const std::vector<Sym>& v, const std::vector<Sym>& of) {
  return std::any_of(v.begin(), v.end(), [&](Sym s) { return among(of, s); });
}

/// An index, or a sum with one, times numbers and scalars.
bool scaled_position(const Context& c, Expr e, Sym axis) {
  std::vector<Expr> factors;
  factors_of(e, factors);
  int positions = 0;
  for (Expr f : factors) {
    if (f.number() || (f.is(Op::Read) && f->sym.kind() == SymbolKind::Tile && c.tile(f->sym).axes.empty()))
      continue;
    if (is_integer(f) && depends_on(f, axis) && tensors_read(f).empty())
      ++positions;
    else if (!f.is(Op::Symbol))
      return false;
  }
  return positions == 1 && factors.size() > 1;
}

void put_positions(Context& c, Body& body) {
  for (size_t k = 0; k < body.size(); ++k) {
    if (auto* loop = std::get_if<Loop>(&body[k].node)) put_positions(c, loop->body);
    auto* m = std::get_if<Map>(&body[k].node);
    if (!m || m->masked) continue;
    const Tile& tile = c.tile(m->tile);
    if (tile.level != Level::Registers || tile.dtype != DType::f32 || tile.axes.size() != 1 ||
        tile.axes[0] == c.row || !scaled_position(c, m->value, tile.axes[0]))
      continue;
    const Sym sym = m->tile;
    const Expr element = read(sym, {Expr(tile.axes[0])}), value = m->value;
    bool free = true;
    int uses = 0;
    for (size_t n = 0; n < body.size() && free; ++n) {
      if (n == k) continue;
      const bool reads = among(tiles_read(c, body[n]), sym);
      const auto* w = std::get_if<When>(&body[n].node);
      const bool work = w ? only_element_work(w->body) && !among(tensors_read(w->condition), sym)
                          : is_element_work(body[n]);
      free = !among(tiles_written(body[n]), sym) && !among_any(tiles_written(body[n]), tensors_read(value)) &&
             (!reads || (n > k && work));
      uses += reads;
    }
    if (!free || uses == 0) continue;
    for (size_t n = k + 1; n < body.size(); ++n)
      change_values(body[n], [&](Expr e) { return with_value(e, element, value); });
    body.erase(body.begin() + long(k--));
    std::erase_if(c.kernel.tiles, [&](const Tile& t) { return t.sym == sym; });
  }
}

/// T = f, u(T), slow path { … T … }  ->  u(f), slow path { T = f; … T … }. Masked chunks stay as they are.
void defer_values(Context& c, Body& body) {
  for (size_t k = 0; k < body.size(); ++k) {
    if (auto* loop = std::get_if<Loop>(&body[k].node)) defer_values(c, loop->body);
    auto* m = std::get_if<Map>(&body[k].node);
    if (!m) continue;
    const Tile& tile = c.tile(m->tile);
    const Expr element = read(m->tile, std::vector<Expr>(tile.axes.begin(), tile.axes.end())),
               value = m->value;
    if (tile.level != Level::Registers || tile.dtype != DType::f32 || tile.axes.size() != 2 ||
        value == element)
      continue;
    const std::vector<Sym> needed = tensors_read(value);
    size_t user = 0, slow = 0;
    // What columns alone have may come from shared memory, which is read better while products run.
    bool free = std::none_of(needed.begin(), needed.end(), [&](Sym s) {
      return s.kind() == SymbolKind::Tile && !c.tile(s).axes.empty() && !among(c.tile(s).axes, c.row);
    });
    bool rewritten = false;
    for (size_t n = k + 1; n < body.size() && free && !rewritten; ++n) {
      const std::vector<Sym> written = tiles_written(body[n]);
      auto* when = std::get_if<When>(&body[n].node);
      if (among(tiles_read(c, body[n]), m->tile)) {
        if (when) {
          free = user && !slow && when->slow_path && only_element_work(when->body) &&
                 !among(tensors_read(when->condition), m->tile);
          slow = n;
        } else {
          free = !user && !slow &&
                 (std::holds_alternative<Map>(body[n].node) || std::holds_alternative<Reduce>(body[n].node));
          user = n;
        }
        free = free && !among(written, m->tile);
      } else if (among(written, m->tile)) {
        rewritten = always_writes(body[n]);
        free = free && rewritten;
      }
      if (!rewritten) free = free && !among_any(written, needed);
    }
    bool before = false;  // read by the next chunk, in front of its writer
    for (size_t n = 0; n < k && !before; ++n) {
      if (among(tiles_written(body[n]), m->tile) && always_writes(body[n])) break;
      before = among(tiles_read(c, body[n]), m->tile);
    }
    if (!free || !user || before) continue;
    m->masked = value_in(*m, true);
    m->value = element;
    const auto apply = [&](auto& u) {
      u.masked = value_in(u, true);
      u.value = with_value(u.value, element, value);
    };
    if (auto* map = std::get_if<Map>(&body[user].node)) apply(*map);
    if (auto* reduce = std::get_if<Reduce>(&body[user].node)) apply(*reduce);
    if (slow) {
      Body& rare = std::get<When>(body[slow].node).body;
      rare.insert(rare.begin(), Stmt{Map{m->tile, value, element}, {}});
    }
  }
}

}  // namespace

void spare_element_work(Context& c) {
  if (!c.row) return;
  rewrite_votes(c, c.kernel.body);
  move_row_factors(c, c.kernel.body);
  put_positions(c, c.kernel.body);
  defer_values(c, c.kernel.body);
}

}  // namespace tilewright::hopper
