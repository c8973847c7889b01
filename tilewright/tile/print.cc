// Pseudocode of tile programs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

/// Names of symbols as printed: their own, or by kind and order of occurrence.
class Names {
 public:
  explicit Names(bool canonical) : canonical_(canonical) {}

  /// A symbol that prints as `s` is to be called.
  Sym shown(Sym s) {
    if (auto it = shown_.find(s); it != shown_.end()) return it->second;
    Sym size;
    if (s.kind() == SymbolKind::Index && s.size()) size = shown(s.size());
    std::string text = s.name();
    if (canonical_) {
      text = s.kind() == SymbolKind::Index && size ? size.name() : fresh(s.kind());
    }
    SymbolInfo info = s.info();
    info.name = text;
    info.size = size ? &size.info() : nullptr;
    return shown_[s] = Sym::fresh(info);
  }
  std::string operator()(Sym s) { return shown(s).name(); }
  bool known(Sym s) const { return shown_.count(s) != 0; }
  bool canonical() const { return canonical_; }

 private:
  std::string fresh(SymbolKind kind) {
    const char* prefix = "v";
    switch (kind) {
      case SymbolKind::Index:
      case SymbolKind::Size: prefix = "a"; break;
      case SymbolKind::Param: prefix = "p"; break;
      case SymbolKind::Tensor: prefix = "x"; break;
      case SymbolKind::Tile: prefix = "t"; break;
      case SymbolKind::Variable: break;
    }
    return fmt::format("{}{}", prefix, ++last_[prefix]);
  }

  bool canonical_;
  std::map<Sym, Sym> shown_;
  std::map<std::string, int> last_;
};

bool commutes(Op op) {
  switch (op) {
    case Op::Add:
    case Op::Mul:
    case Op::Max:
    case Op::Min:
    case Op::And:
    case Op::Or:
    case Op::Eq:
    case Op::Ne: return true;
    default: return false;
  }
}

class Printer {
 public:
  Printer(const TileProgram& t, bool canonical) : t_(t), names_(canonical) {}

  std::string program() {
    std::string name = names_.canonical() ? "program" : t_.name;
    out_ += fmt::format("program {}\n", name);
    for (const TileKernel& k : t_.kernels) kernel(k);
    // Scalars stand at the end where names follow the order of occurrence, so that unused ones do not shift
    // them.
    std::string scalars;
    for (const HostScalar& s : t_.scalars)
      scalars += fmt::format("  {} = {}\n", names_(s.sym), expr(s.value));
    if (!scalars.empty()) out_ += "scalars\n" + scalars;
    std::string workspaces;
    for (const Workspace& w : t_.workspaces)
      workspaces += fmt::format("  {} [{}] {}\n", names_(w.sym), list(w.axes), tilewright::name(w.dtype));
    if (!workspaces.empty()) out_ += "workspaces\n" + workspaces;
    return out_;
  }

 private:
  std::string list(const std::vector<Sym>& symbols) {
    std::string text;
    for (Sym s : symbols) text += (text.empty() ? "" : ", ") + names_(s);
    return text;
  }

  /// Reads of tiles at their own axes lose their indices; symbols get their names; arguments that commute get
  /// an order that does not depend on names when canonical.
  Expr display(Expr e) {
    if (auto it = displayed_.find(e); it != displayed_.end()) return it->second;
    Expr result = e;
    if (e.is(Op::Symbol)) {
      result = names_.shown(e->sym);
    } else if (e.is(Op::Read)) {
      bool own = kernel_ && has_tile(*kernel_, e->sym);
      if (own) {
        const std::vector<Sym>& axes = kernel_->tile(e->sym).axes;
        own = axes.size() == e.args().size();
        for (size_t i = 0; own && i < axes.size(); ++i) own = e.arg(i) == Expr(axes[i]);
      }
      Sym shown = names_.shown(e->sym);
      if (own) {
        result = shown;
      } else {
        std::vector<Expr> args;
        for (Expr a : e.args()) args.push_back(display(a));
        result = read(shown, args);
      }
    } else if (!e.args().empty()) {
      std::vector<Expr> args = e.args();
      if (names_.canonical() && commutes(e.op())) sort(args);
      for (Expr& a : args) a = display(a);
      Node node = *e;
      node.args = args;
      for (Sym& b : node.bound) b = names_.shown(b);
      result = make(node);
    }
    return displayed_[e] = result;
  }

  void sort(std::vector<Expr>& args) {
    std::vector<std::pair<std::string, Expr>> keyed;
    for (Expr a : args) keyed.emplace_back(key(a), a);
    std::stable_sort(keyed.begin(), keyed.end(), [](auto& a, auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < args.size(); ++i) args[i] = keyed[i].second;
  }

  /// Structure of an expression without the names of symbols that have not occurred.
  std::string key(Expr e) {
    if (e.is(Op::Symbol))
      return names_.known(e->sym) ? names_(e->sym) : fmt::format("~{}", int(e->sym.kind()));
    if (e.args().empty() && !e.is(Op::Read)) return "0" + to_string(e);
    std::vector<std::string> parts;
    for (Expr a : e.args()) parts.push_back(key(a));
    if (commutes(e.op())) std::sort(parts.begin(), parts.end());
    std::string text = fmt::format("({}", name(e.op()));
    if (e.is(Op::Read)) text += " " + (names_.known(e->sym) ? names_(e->sym) : "~");
    for (const std::string& p : parts) text += " " + p;
    return text + ")";
  }

  std::string expr(Expr e) { return to_string(display(e)); }

  void kernel(const TileKernel& k) {
    kernel_ = &k;
    declared_.clear();
    displayed_.clear();
    std::string head = names_.canonical() ? "kernel" : "kernel " + k.name;
    std::string group;
    for (const KernelAxis& a : k.grid) {
      group += fmt::format("{}{}={}", group.empty() ? "" : ", ", names_(a.index), a.block);
      if (a.piece != a.block) group += fmt::format("/{}", a.piece);
      if (a.kind == KernelAxis::Kind::Part) group += " part";
    }
    if (!group.empty()) head += "   group " + group;
    if (k.heaviest_first) head += fmt::format("   order {} descending", names_(k.grid.back().index));
    std::string whole;
    for (const KernelAxis& a : k.inner)
      if (a.kind == KernelAxis::Kind::Whole)
        whole += fmt::format("{}{}={}", whole.empty() ? "" : ", ", names_(a.index), a.block);
    if (!whole.empty()) head += "   whole " + whole;
    out_ += "\n" + head + "\n";
    for (const ChunkTable& t : k.chunk_tables) {
      std::string rows;
      for (const KernelAxis& a : t.rows) rows += (rows.empty() ? "" : ", ") + names_(a.index);
      out_ += fmt::format("  {} step: {} by block of {} = chunks of {} where {}\n", name(t_.plan.bounds),
                          list(t.bounds), rows.empty() ? "all" : rows, names_(t.stream.index), expr(t.some));
    }
    body(k.body, 1);
    kernel_ = nullptr;
  }

  /// `K [j, d] f16 shared ring 2` where the tile is written for the first time, then its name alone.
  std::string target(Sym sym) {
    std::string text = names_(sym);
    if (!declared_.insert(sym).second) return text;
    const Tile& t = kernel_->tile(sym);
    if (!t.axes.empty()) text += fmt::format(" [{}]", list(t.axes));
    text += fmt::format(" {}", name(t.dtype));
    if (t.level != Level::Registers) text += fmt::format(" {}", name(t.level));
    if (t.use == Tile::Use::State) text += " state";
    if (t.kept) text += " kept";
    if (t.slots > 1) text += fmt::format(" ring {}", t.slots);
    return text;
  }

  std::string access(Sym tensor, const std::vector<Expr>& index) {
    std::string text;
    for (Expr i : index) text += (text.empty() ? "" : ", ") + expr(i);
    return fmt::format("{}[{}]", names_(tensor), text);
  }

  void line(int depth, const std::string& text, const std::string& comment = {}) {
    std::string row(size_t(depth) * 2, ' ');
    row += text;
    if (!comment.empty() && !names_.canonical()) {
      if (row.size() < 72) row.resize(72, ' ');
      row += "  # " + comment;
    }
    out_ += row + "\n";
  }

  void assign(int depth, const Stmt& s, Sym tile, const std::string& sign, const std::string& value) {
    std::string left = target(tile);
    if (left.size() < 28) left.resize(28, ' ');
    line(depth, fmt::format("{} {} {}", left, sign, value), s.comment);
  }

  static std::string masked(const std::string& text) { return text.empty() ? "" : " ; masked " + text; }

  void body(const Body& stmts, int depth) {
    for (const Stmt& s : stmts) std::visit([&](const auto& node) { print(s, node, depth); }, s.node);
  }

  void print(const Stmt& s, const Load& x, int depth) {
    std::string text = "load " + access(x.tensor, x.index);
    if (x.present) text += " where " + expr(x.present);
    assign(depth, s, x.tile, "=", text);
  }
  void print(const Stmt& s, const Store& x, int depth) {
    line(depth, fmt::format("store {} = {}", access(x.tensor, x.index), names_(x.tile)), s.comment);
  }
  void print(const Stmt& s, const Map& x, int depth) {
    std::string value = expr(x.value);
    assign(depth, s, x.tile, "=", value + masked(x.masked ? expr(x.masked) : ""));
  }
  void print(const Stmt& s, const Dot& x, int depth) {
    std::string value = fmt::format("dot {} ({}, {})", list(x.axes), names_(x.a), names_(x.b));
    assign(depth, s, x.tile, x.accumulate ? "+=" : "=",
           value + masked(x.present ? "where " + expr(x.present) : ""));
  }
  void print(const Stmt& s, const Reduce& x, int depth) {
    std::string head = fmt::format("{} {} ", name(x.reducer), list(x.axes));
    std::string sign = !x.accumulate               ? "="
                       : x.reducer == Reducer::Sum ? "+="
                                                   : fmt::format("{}=", name(x.reducer));
    std::string value = head + "(" + expr(x.value) + ")";
    assign(depth, s, x.tile, sign, value + masked(x.masked ? "(" + expr(x.masked) + ")" : ""));
  }
  void print(const Stmt& s, const Rank& x, int depth) {
    std::string left = fmt::format("{}, {}", target(x.keys), target(x.indices));
    if (left.size() < 28) left.resize(28, ' ');
    const std::string pair =
        fmt::format("first {} of {} ({}, {})", names_(x.rank), names_(x.axis), expr(x.value), expr(x.at));
    line(depth,
         fmt::format("{} merge= {}{}", left, pair, masked(x.present ? "where " + expr(x.present) : "")),
         s.comment);
  }
  void print(const Stmt& s, const Loop& x, int depth) {
    const KernelAxis& a = kernel_->axis(x.axis);
    // Long bounds get names of their own.
    std::vector<std::pair<std::string, std::string>> named;
    auto bound = [&](Expr e) {
      std::string text = expr(e);
      if (text.size() <= 24) return text;
      for (const auto& [name, known] : named)
        if (known == text) return name;
      named.emplace_back(fmt::format("{}_{}", names_(x.axis), named.size() + 1), text);
      return named.back().first;
    };
    std::string ranges;
    for (const Segment& g : x.segments) {
      std::string lo = bound(g.lo), hi = bound(g.hi);
      ranges +=
          fmt::format("{} [{}, {}) {}", ranges.empty() ? "" : ",", lo, hi, g.masked ? "masked" : "plain");
    }
    std::string verb = a.kind == KernelAxis::Kind::Resident ? "resident" : "stream";
    line(depth, fmt::format("{} {}={} over chunks{}", verb, names_(x.axis), a.block, ranges), s.comment);
    for (const auto& [name, text] : named) line(depth + 2, fmt::format("{} = {}", name, text));
    body(x.body, depth + 1);
  }
  void print(const Stmt& s, const When& x, int depth) {
    std::string head = fmt::format("when any {} ({})", list(x.axes), expr(x.condition));
    if (x.axes.empty()) head = fmt::format("when ({})", expr(x.condition));
    line(depth, head + (x.slow_path ? " slow path" : ""), s.comment);
    body(x.body, depth + 1);
  }

  const TileProgram& t_;
  Names names_;
  const TileKernel* kernel_ = nullptr;
  std::set<Sym> declared_;
  std::map<Expr, Expr> displayed_;
  std::string out_;
};

}  // namespace

std::string print(const Program&, const TileProgram& t, bool canonical) {
  return Printer(t, canonical).program();
}

}  // namespace tilewright
