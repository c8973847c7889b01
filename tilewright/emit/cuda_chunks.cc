#include "tilewright/emit/cuda_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tilewright/emit/cuda_text.h"
#include "tilewright/emit/emit.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

class ChunkStepPrinter {
 public:
  ChunkStepPrinter(const Program& p, const MappedProgram& m, const ChunkStep& s)
      : program_(p), mapped_(m), step_(s), table_(s.table) {
    for (const char* member : {"chunk", "hi", "lo", "next", "store", "take"}) names_.fresh(member);
  }

  std::string text() {
    const std::string symbol = step_symbol(step_), found = fresh("found");
    for (const Argument& a : step_.arguments) names_.of(a.sym);
    Lines out;
    out.line(fmt::format("// {}: one block for each row of {}, chunks of {} that hold present elements.",
                         step_.name, table_.table.name(), table_.stream.index.name()));
    out.open(fmt::format("struct {}_words", symbol));
    for (const Argument& a : step_.arguments)
      out.line(
          fmt::format("{} {};", a.kind == Argument::Kind::Scalar ? "double" : "long long", names_.of(a.sym)));
    out.close("};");
    out.line(fmt::format("extern \"C\" __global__ void __launch_bounds__({})", ChunkStep::threads));
    out.open(fmt::format("{0}(const __grid_constant__ {0}_words words)", symbol));
    out.line("tw_grid_wait();");
    out.line("tw_grid_release();  // the kernel behind waits until the table is written");
    const int64_t chunk = table_.stream.block;
    before_ = &out;
    row(out);
    const Expr length = table_.stream.index.size();
    const std::string from = of(table_.stream.begin ? table_.stream.begin : Expr(0)),
                      to = of(table_.stream.end ? table_.stream.end : length);
    const std::string first = fresh("first_chunk");
    out.line(fmt::format("const int {} = (int)({}).lo / {};", first, from, chunk));
    out.line(
        fmt::format("tw_chunks {} = tw_chunks_of((int)({}).lo, (int)({}).lo, {});", found, from, to, chunk));
    Lines loop;
    within_ = &loop;
    const std::string j = names_.of(table_.stream.index);
    at_[table_.stream.index] = j;
    loop.open(fmt::format("while ({0}.next < {0}.end)", found));
    loop.line(fmt::format("const tw_span {} = {}.chunk();", j, found));
    const std::string s = condition(table_.some), e = condition(table_.every);
    loop.line(fmt::format("{}.take({}.hi != 0, {}.lo == 1);", found, s, e));
    loop.close();
    out.append(loop);
    out.line(fmt::format("{}.store({}, (long long*)words.{} + 4ll * blockIdx.x);", found, first,
                         names_.of(table_.table)));
    out.close();
    return out.text();
  }

 private:
  /// The counters of the block's row, and where the indices lie.
  void row(Lines& out) {
    const std::string number = fresh("row");
    if (table_.rows.size() > 1) out.line(fmt::format("int {} = blockIdx.x;", number));
    for (size_t k = table_.rows.size(); k-- > 0;) {
      const KernelAxis& a = table_.rows[k];
      const std::string index = names_.of(a.index), counter = names_.of(a.counter, index + "_block"),
                        size = word(a.index.size());
      if (k == 0) {
        out.line(fmt::format("const int {} = {};", counter, table_.rows.size() > 1 ? number : "blockIdx.x"));
      } else {
        const std::string blocks = fresh(index + "_blocks");
        out.line(fmt::format("const int {} = tw_blocks({}, {});", blocks, size, a.block));
        out.line(fmt::format("const int {} = {} % {};", counter, number, blocks));
        out.line(fmt::format("{} /= {};", number, blocks));
      }
      out.line(fmt::format("const tw_span {} = tw_block({}, {}, {});", index, counter, a.block, size));
      at_[a.index] = index;
      at_[a.counter] = fmt::format("tw_one({})", counter);
    }
  }

  std::string fresh(const std::string& wish) { return names_.fresh(wish); }
  std::string word(Sym s) { return "words." + names_.of(s); }

  static std::string number(double x) {
    return std::isinf(x) ? (x > 0 ? "tw_infinity64()" : "-tw_infinity64()") : fmt::format("{}", x);
  }

  /// A variable for what `call` gives, defined where `e` does not change any more.
  std::string define(Expr e, const std::string& call) {
    const std::string name = fresh("span");
    Lines& out = within_ != nullptr && depends_on(e, table_.stream.index) ? *within_ : *before_;
    out.line(fmt::format("const tw_span {} = {};", name, call));
    return name;
  }

  std::string condition(Expr e) { return define(e, fmt::format("tw_condition({})", of(e))); }

  std::string of(Expr e) {
    const auto known = known_.find(e);
    if (known != known_.end()) return known->second;
    const std::string text = print(e);
    return known_.emplace(e, text).first->second;
  }

  std::string print(Expr e) {
    if (auto x = e.number()) return std::isnan(*x) ? "tw_anything()" : fmt::format("tw_one({})", number(*x));
    switch (e.op()) {
      case Op::Symbol: return symbol(e->sym);
      case Op::Read: return read(e);
      case Op::Lt: return call("tw_span_less", e);
      case Op::Le: return call("tw_span_less_equal", e);
      case Op::Eq: return call("tw_span_equal", e);
      case Op::Ne:
        return define(e, fmt::format("tw_span_not(tw_span_equal({}, {}))", of(e.arg(0)), of(e.arg(1))));
      case Op::And: return fold("tw_span_and", e, true);
      case Op::Or: return fold("tw_span_or", e, true);
      case Op::Not: return define(e, fmt::format("tw_span_not({})", condition(e.arg(0))));
      case Op::Select:
        return define(
            e, fmt::format("tw_span_select({}, {}, {})", condition(e.arg(0)), of(e.arg(1)), of(e.arg(2))));
      default: break;
    }
    // Real arithmetic rounds in a kernel otherwise than here.
    return is_integer(e) ? integer(e) : "tw_anything()";
  }

  std::string integer(Expr e) {
    switch (e.op()) {
      case Op::Add: return fold("tw_span_add", e, false);
      case Op::Sub: return call("tw_span_subtract", e);
      case Op::Neg: return define(e, fmt::format("tw_span_subtract(tw_one(0), {})", of(e.arg(0))));
      case Op::Mul: return fold("tw_span_multiply", e, false);
      case Op::Max: return fold("tw_span_max", e, false);
      case Op::Min: return fold("tw_span_min", e, false);
      case Op::Abs: return define(e, fmt::format("tw_span_abs({})", of(e.arg(0))));
      case Op::FloorDiv: return call("tw_span_floor_divide", e);
      case Op::Mod: return call("tw_span_modulo", e);
      case Op::Cast:
        return is_integer(e.arg(0)) || is_boolean(e.arg(0))
                   ? define(e, fmt::format("tw_span_finite({})", of(e.arg(0))))
                   : "tw_anything()";
      default: return "tw_anything()";
    }
  }

  std::string call(const char* function, Expr e) {
    return define(e, fmt::format("{}({}, {})", function, of(e.arg(0)), of(e.arg(1))));
  }

  std::string fold(const char* function, Expr e, bool conditions) {
    if (e.args().empty()) return fmt::format("tw_one({})", e.is(Op::And) || e.is(Op::Mul) ? 1 : 0);
    std::string all;
    for (Expr a : e.args()) {
      const std::string next = conditions ? condition(a) : of(a);
      all = all.empty() ? next : fmt::format("{}({}, {})", function, all, next);
    }
    return define(e, all);
  }

  std::string symbol(Sym s) {
    if (const auto known = at_.find(s); known != at_.end()) return known->second;
    if (s.kind() == SymbolKind::Index) return define(Expr(s), fmt::format("tw_index({})", word(s.size())));
    const bool given = std::any_of(step_.arguments.begin(), step_.arguments.end(),
                                   [&](const Argument& a) { return a.sym == s; });
    return given ? fmt::format("tw_one({})", word(s)) : "tw_anything()";
  }

  /// Least and greatest element in the box that the indices span.
  std::string read(Expr e) {
    const Input* input = program_.input(e->sym);
    if (input == nullptr || is_float(input->dtype)) return "tw_anything()";
    const std::vector<Dim> dims = memory_dims(program_, mapped_, e->sym);
    std::string at, sizes, strides;
    size_t piece = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      std::string stride;
      for (const Argument& a : step_.arguments)
        if (a.kind == Argument::Kind::Stride && a.tensor == e->sym && a.dim == int(d)) stride = word(a.sym);
      for (size_t k = 0; k < dims[d].pieces.size(); ++k) {
        const char* comma = piece > 0 ? ", " : "";
        std::string inner = stride;
        for (size_t l = k + 1; l < dims[d].pieces.size(); ++l)
          inner += " * " + word(dims[d].pieces[l].size());
        at += comma + of(e.arg(piece++));
        sizes += comma + word(dims[d].pieces[k].size());
        strides += comma + inner;
      }
    }
    const std::string type = storage(input->dtype);
    if (piece == 0) return define(e, fmt::format("tw_span_element((const {}*){})", type, word(e->sym)));
    const std::string box = fresh("box");
    Lines& out = within_ != nullptr && depends_on(e, table_.stream.index) ? *within_ : *before_;
    out.line(fmt::format("const tw_box<{}> {}{{{{{}}}, {{{}}}, {{{}}}}};  // of {}", piece, box, at, sizes,
                         strides, e->sym.name()));
    return define(e, fmt::format("tw_extrema((const {}*){}, {})", type, word(e->sym), box));
  }

  static const char* storage(DType t) {
    switch (t) {
      case DType::i64: return "long long";
      case DType::i32: return "int";
      case DType::i8: return "signed char";
      case DType::boolean: return "unsigned char";
      default: TW_CHECK(false, "an array of reals has no bounds");
    }
  }

  const Program& program_;
  const MappedProgram& mapped_;
  const ChunkStep& step_;
  const ChunkTable& table_;
  Identifiers names_ = kernel_names();
  Lines* before_ = nullptr;  ///< in front of the loop over chunks
  Lines* within_ = nullptr;  ///< its body
  std::map<Sym, std::string> at_;
  std::map<Expr, std::string> known_;
};

}  // namespace

std::string chunk_step(const Program& p, const MappedProgram& m, const ChunkStep& s, Helpers& helpers) {
  helpers.use("tw_chunks");
  return ChunkStepPrinter(p, m, s).text();
}

}  // namespace tilewright::cuda_text
