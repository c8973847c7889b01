#include "tilewright/driver/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "tilewright/driver/compiled.h"
#include "tilewright/driver/library_text.h"
#include "tilewright/emit/c_expr.h"
#include "tilewright/emit/emit.h"
#include "tilewright/emit/identifiers.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/map/checks.h"
#include "tilewright/program/failures.h"

namespace tilewright {

namespace {

/// Statuses of the exported function; failed index checks follow.
enum LibraryStatus { kLengths = 1, kNull = 2, kNoPlan = 3, kMemory = 4, kParam = 5, kFirstCheck = 16 };

class LibraryWriter : private CPrinter {
 public:
  LibraryWriter(const Program& p, const CompileOptions& o, const std::string& prefix)
      : CPrinter(host_dialect()), program_(p), prefix_(prefix) {
    CompileOptions options = o;
    options.target = Target::Cpu;
    options.host_steps = false;
    compiled_ = compile_program(p, options);
  }

  LibrarySource write() {
    check_prefix();
    check_params();
    name_fields();
    LibrarySource s;
    s.header = header();
    // Kernels come first, since the messages of their checks are part of what follows.
    std::string kernels, choice;
    if (compiled_.parted()) stored_arrays(choice);
    for (size_t k = 0; k < compiled_.kernels.size(); ++k) kernel(k, kernels, choice);
    if (compiled_.parted()) line(choice, 1, "return 0;");
    s.source = s.header + "\n" + kernels + library_helpers + messages() + defaults() + entry(choice);
    s.flags = "-fvisibility=hidden " + flags_;
    return s;
  }

 private:
  void line(std::string& text, int depth, const std::string& content) const {
    text += std::string(static_cast<size_t>(2 * depth), ' ') + content + "\n";
  }

  void check_prefix() const {
    const bool letters = !prefix_.empty() && std::all_of(prefix_.begin(), prefix_.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    });
    if (!letters || c_function(prefix_) != prefix_)
      throw UserError(Span{}, fmt::format("`{}` cannot name a function of C", prefix_),
                      "give another name with --name");
  }

  void check_params() const {
    for (const Param& q : program_.params)
      if (is_float(q.dtype) && bytes(q.dtype) < 4)
        throw UserError(
            q.span,
            fmt::format("param `{}` is {}, which a library cannot round to", q.sym.name(), name(q.dtype)),
            "declare it f32");
  }

  static bool rounds_low(Expr e) {
    if (e.is(Op::Cast) && is_float(e->dtype) && bytes(e->dtype) < 4) return true;
    return std::any_of(e.args().begin(), e.args().end(), rounds_low);
  }

  /// A name for a field or variable that is neither a keyword nor taken.
  std::string fresh(std::string name) {
    name = c_identifier(name);
    while (!taken_.insert(name).second) name += "_";
    return name;
  }

  void name_fields() {
    taken_ = {"a",        "parallel_for", "pool",      "error",    "words",
              "launch",   "admits",       "bits",      "lay_out",  "run_range",
              "host_max", "host_min",     "host_sign", "host_mod", "host_floordiv"};
    for (const auto& reserve : {"shape_", "strides_", "elements_"}) {
      for (const Input& in : program_.inputs) taken_.insert(reserve + in.sym.name());
      for (const Output& out : program_.outputs) taken_.insert(reserve + out.sym.name());
    }
    for (const Axis& x : program_.axes) names_[x.index.size()] = fresh("size_" + x.name());
    for (const Param& q : program_.params) names_[q.sym] = fresh(q.sym.name());
    for (const Input& in : program_.inputs) field(in.sym, in.dims, in.dtype, true);
    for (const Output& out : program_.outputs) field(out.sym, out.dims, out.dtype, false);
  }

  struct Array {
    Sym sym;
    std::vector<Dim> dims;
    DType dtype;
    bool input;
    std::string name, strides;
    bool given = true;  ///< by the caller; else it lies between kernels
    std::string pointer() const { return given ? "a->" + name : name; }
  };

  void field(Sym sym, const std::vector<Dim>& dims, DType dtype, bool input) {
    const std::string name = fresh(sym.name());
    arrays_.push_back({sym, dims, dtype, input, name, fresh(name + "_strides"), true});
  }

  std::string dims_comment(const Array& x) const {
    std::string text;
    for (const Dim& d : x.dims) {
      std::string dim;
      for (Sym piece : d.pieces) dim += (dim.empty() ? "" : " ") + piece.name();
      text += (text.empty() ? "" : ", ") + (d.pieces.size() > 1 ? "(" + dim + ")" : dim);
    }
    return fmt::format("{} [{}]", tilewright::name(x.dtype), text);
  }

  std::string header() {
    std::string guard = prefix_;
    for (char& c : guard) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    std::string s = fmt::format("/* {}: made by Tilewright {} for {}. The definition:\n *\n", prefix_,
                                TILEWRIGHT_VERSION, this_cpu().name);
    std::istringstream definition(tilewright::print(program_));
    for (std::string row; std::getline(definition, row);) {
      for (size_t at = row.find("*/"); at != std::string::npos; at = row.find("*/")) row.insert(at + 1, " ");
      s += row.empty() ? " *\n" : " *     " + row + "\n";
    }
    s += " */\n";
    s += fmt::format(
        "#ifndef {0}_TILEWRIGHT_H\n#define {0}_TILEWRIGHT_H\n#include <stdint.h>\n\n#ifdef "
        "__cplusplus\nextern \"C\" {{\n#endif\n#if defined(__GNUC__)\n",
        guard);
    s += fmt::format(
        "#define {0}_API __attribute__((visibility(\"default\")))\n#else\n#define {0}_API\n#endif\n\n",
        guard);
    s += "/* Runs body(context, begin, end) on ranges that cover [0, n) once, in any order and on any "
         "threads, and returns when all are done. A thread needs 8 MiB\n"
         " * of stack. */\n";
    s += fmt::format(
        "typedef void (*{}_parallel_for)(void* pool, int64_t n, void (*body)(void* context, int64_t begin, "
        "int64_t end), void* context);\n\n",
        prefix_);
    s += fmt::format("typedef struct {}_arguments {{\n", prefix_);
    for (const Axis& x : program_.axes) {
      const std::string& name = names_.at(x.index.size());
      if (!x.size)
        line(s, 1, fmt::format("int64_t {};  /* length of {} */", name, x.name()));
      else
        line(s, 1, fmt::format("/* {} = {} */", x.name(), to_string(x.size)));
    }
    for (const Param& q : program_.params) {
      const std::string range =
          q.range ? fmt::format(" in [{}, {})", to_string(q.range.lo), to_string(q.range.hi)) : "";
      line(s, 1,
           fmt::format("double {};  /* param, {}{}{} */", names_.at(q.sym), tilewright::name(q.dtype), range,
                       q.value ? "; default " + to_string(q.value) : ""));
    }
    line(s, 1,
         "/* Arrays. Strides are in elements; NULL: row-major. f16, bf16 and f8 are given by their bits. */");
    for (const Array& x : arrays_) {
      line(s, 1,
           fmt::format("{}{}* {};  /* {}, {} */", x.input ? "const " : "", c_type(x.dtype), x.name,
                       x.input ? "input" : "output", dims_comment(x)));
      line(s, 1, fmt::format("const int64_t* {};", x.strides));
    }
    line(s, 1, fmt::format("{}_parallel_for parallel_for;  /* NULL: all on the calling thread */", prefix_));
    line(s, 1, "void* pool;                   /* handed to parallel_for */");
    s += fmt::format("}} {}_arguments;\n\n", prefix_);
    s += "/* Sets every field to 0 and params to their defaults (lengths that defaults depend on are taken "
         "to be 0). */\n";
    s += fmt::format("{}_API void {}_defaults({}_arguments* a);\n", guard, prefix_, prefix_);
    s += fmt::format(
        "/* Runs. 0, or a status that {}_message explains; the outputs are then incomplete. Any number of "
        "calls may run at once. */\n",
        prefix_);
    s += fmt::format("{}_API int {}(const {}_arguments* a);\n", guard, prefix_, prefix_);
    s += fmt::format("{}_API const char* {}_message(int status);\n\n#ifdef __cplusplus\n}}\n#endif\n#endif\n",
                     guard, prefix_);
    return s;
  }

  /// The arrays between kernels: one allocation, and where each of them lies in it.
  void stored_arrays(std::string& text) {
    const Partition& q = compiled_.partition;
    std::vector<std::string> regions;
    for (const WorkspacePlan::Region& r : compiled_.workspaces.regions) {
      const std::string bytes = fresh("region_bytes");
      line(text, 1, fmt::format("int64_t {} = 0;", bytes));
      for (size_t k : r.arrays) {
        const StoredArray& a = q.arrays[k];
        const std::string name = fresh(a.sym.name());
        arrays_.push_back({a.sym, a.dims, a.dtype, false, name, "", false});
        shape_of_array(text, 1, arrays_.back(), "0");
        line(text, 1,
             fmt::format("{0} = host_max({0}, (elements_{1} * {2} + {3}) / {4} * {4});", bytes, name,
                         tilewright::bytes(a.dtype), workspace_alignment - 1, workspace_alignment));
      }
      line(text, 1,
           fmt::format("if ({} > ((int64_t)1 << 56)) return {};", bytes, static_cast<int>(kLengths)));
      regions.push_back(bytes);
    }
    if (regions.empty()) return;
    const std::string memory = fresh("between_kernels");
    line(text, 1, fmt::format("const Workspace {}({});", memory, fmt::join(regions, " + ")));
    line(text, 1, fmt::format("if (!{}.memory) return {};", memory, static_cast<int>(kMemory)));
    std::string offset;
    for (size_t r = 0; r < regions.size(); ++r) {
      for (size_t k : compiled_.workspaces.regions[r].arrays)
        line(text, 1,
             fmt::format("void* const {} = (char*){}.address(){};", array(q.arrays[k].sym).name, memory,
                         offset));
      offset += " + " + regions[r];
    }
  }

  /// The kernels of one part of the program, or of all of it.
  void kernel(size_t number, std::string& kernels, std::string& choice) {
    const Compilation& c = compiled_.kernels[number];
    current_ = &c;
    unconditional_ = false;
    const bool parted = compiled_.parted();
    if (parted) {
      line(choice, 1,
           fmt::format("do {{  // kernel {} of {}: {}", number + 1, compiled_.kernels.size(),
                       compiled_.name_of(number)));
      for (const Axis& x : c.program.axes)
        if (!declared(program_, x)) {
          names_[x.index.size()] = fresh("size_" + x.name());
          line(
              choice, 1,
              fmt::format("const int64_t {0} = {1}; (void){0};", names_.at(x.index.size()), integer(x.size)));
        }
      // A part may take neighbouring dimensions of an array between kernels as one.
      const auto view = [&](Sym sym, const std::vector<Dim>& dims) {
        for (Array& x : arrays_)
          if (x.sym == sym && !x.given) {
            x.dims = dims;
            shape_of_array(choice, 1, x, "0");
            line(choice, 1, fmt::format("(void)elements_{};", x.name));
          }
      };
      for (const Input& in : c.program.inputs) view(in.sym, in.dims);
      for (const Output& o : c.program.outputs) view(o.sym, o.dims);
    }
    const std::string space = parted ? fmt::format("kernel{}_plan", number) : "plan";
    for (size_t k = 0; k < c.plans.size(); ++k) plan(k, space + std::to_string(k), kernels, choice);
    if (parted && !unconditional_) line(choice, 1, fmt::format("return {};", static_cast<int>(kNoPlan)));
    if (parted) line(choice, 1, "} while (0);");
    unconditional_ = unconditional_ || parted;
  }

  /// The kernels of one plan, in a namespace for each layout class, and the code that chooses and runs them.
  void plan(size_t number, const std::string& space, std::string& kernels, std::string& choice) {
    const GuardedPlan& g = current_->plans[number];
    const TileProgram tiles = lower(*current_, g.plan);
    std::string condition;
    for (const auto& [axis, limit] : g.when.at_most)
      condition += fmt::format("{}{} <= {}", condition.empty() ? "" : " && ", names_.at(axis.size()), limit);
    line(choice, 1, "// " + tilewright::print(program_, g.plan));
    line(choice, 1, condition.empty() ? "{" : fmt::format("if ({}) {{", condition));
    MappedProgram aligned = lower_mapped(*current_, tiles, Target::Cpu, LayoutClass::Aligned);
    std::string guards;
    for (const LayoutGuard& l : aligned.layout) {
      const Array& x = array(l.tensor);
      guards += fmt::format("{}admits({}, {}, shape_{}, strides_{}, elements_{}, {}, {}, {})",
                            guards.empty() ? "" : " && ", x.pointer(), x.dims.size(), x.name, x.name, x.name,
                            bytes(x.dtype), l.align, l.unit_inner);
    }
    if (!guards.empty()) line(choice, 2, fmt::format("if ({}) {{", guards));
    variant(aligned, space, kernels, choice, guards.empty() ? 2 : 3);
    if (!guards.empty()) {
      line(choice, 2, "}");
      MappedProgram general = lower_mapped(*current_, tiles, Target::Cpu, LayoutClass::General);
      variant(general, space + "_general", kernels, choice, 2);
    }
    line(choice, 1, "}");
    unconditional_ = unconditional_ || condition.empty();
  }

  static bool declared(const Program& p, const Axis& x) {
    return std::any_of(p.axes.begin(), p.axes.end(), [&](const Axis& y) { return y.index == x.index; });
  }

  void variant(MappedProgram& m, const std::string& space, std::string& kernels, std::string& text,
               int depth) {
    for (MappedKernel& k : m.kernels) k.name = fmt::format("{}_{}_{}", prefix_, space, k.name);
    kernels +=
        fmt::format("namespace {} {{\n{}\n}}  // namespace {}\n\n", space, lower_source(*current_, m), space);
    flags_ = m.machine.vector.flags;
    for (const Axis& x : m.axes) {
      if (names_.count(x.index.size())) continue;
      names_[x.index.size()] = fresh("size_" + x.name());
    }
    for (const Axis& x : m.axes)
      if (!declared(program_, x) && !declared(current_->program, x))
        line(text, depth, fmt::format("const int64_t {} = {};", names_.at(x.index.size()), integer(x.size)));
    for (const HostScalar& h : m.scalars) {
      if (rounds_low(h.value))
        throw UserError(
            Span{},
            fmt::format("`{}` is rounded to 16 bits or fewer outside the kernels, which a library cannot do",
                        to_string(h.value)),
            "round it to f32");
      if (!names_.count(h.sym)) names_[h.sym] = fresh("scalar_" + h.sym.name());
      for (const ZeroDivision& z : zero_divisions(h.value)) {
        line(text, depth,
             fmt::format("if ({}) return {};", boolean(z.condition),
                         static_cast<int>(kFirstCheck) + static_cast<int>(checks_.size())));
        checks_.push_back(failure(RunCheck{{}, {}, z.division}));
      }
      line(text, depth, fmt::format("const double {} = {};", names_.at(h.sym), real(h.value)));
    }
    std::map<Sym, std::vector<std::string>> work;  // strides of workspaces
    for (const Workspace& w : m.workspaces) {
      names_[w.sym] = fresh("work");
      std::vector<std::string> lengths, strides;
      for (Sym x : w.axes) lengths.push_back(names_.at(x.size()));
      for (size_t k = 0; k < lengths.size(); ++k)
        strides.push_back(
            k + 1 == lengths.size()
                ? "1"
                : fmt::format("{}", fmt::join(lengths.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                                              lengths.end(), " * ")));
      work[w.sym] = strides;
      line(text, depth,
           fmt::format("const Workspace {}({}{}{});", names_.at(w.sym), bytes(w.dtype),
                       lengths.empty() ? "" : " * ", fmt::join(lengths, " * ")));
      line(text, depth,
           fmt::format("if (!{}.memory) return {};", names_.at(w.sym), static_cast<int>(kMemory)));
    }
    line(text, depth, "long long error = 0;");
    const size_t first_check = checks_.size();
    for (const RunCheck& c : m.checks) checks_.push_back(failure(c));
    for (const MappedKernel& k : m.kernels) {
      std::vector<std::string> words;
      for (const Argument& w : k.arguments) words.push_back(word(w, work));
      std::string blocks;
      for (const KernelAxis& g : k.grid) {
        const std::string& size = names_.at(g.index.size());
        blocks += (blocks.empty() ? "" : " * ") +
                  (g.block == 1 ? size : fmt::format("(({} + {}) / {})", size, g.block - 1, g.block));
      }
      line(text, depth, "{");
      line(text, depth + 1,
           fmt::format("const long long words[] = {{{}}};",
                       words.empty() ? "0" : fmt::format("{}", fmt::join(words, ", "))));
      line(text, depth + 1,
           fmt::format("launch(a, {}, {}::{}, words);", blocks.empty() ? "1" : blocks, space,
                       kernel_symbol(k)));
      line(text, depth + 1,
           fmt::format("if (error) return {} + (int)(error & {});",
                       static_cast<int>(kFirstCheck) + static_cast<int>(first_check) - 1,
                       (1 << check_bits) - 1));
      line(text, depth, "}");
    }
    line(text, depth, compiled_.parted() ? "break;" : "return 0;");
  }

  const Array& array(Sym sym) const {
    for (const Array& x : arrays_)
      if (x.sym == sym) return x;
    TW_CHECK(false, "no array is called " + sym.name());
  }

  std::string word(const Argument& w, const std::map<Sym, std::vector<std::string>>& work) {
    switch (w.kind) {
      case Argument::Kind::Pointer:
        return work.count(w.sym) ? names_.at(w.sym) + ".address()" : "(int64_t)" + array(w.sym).pointer();
      case Argument::Kind::Stride:
        return work.count(w.tensor) ? "(int64_t)" + work.at(w.tensor).at(static_cast<size_t>(w.dim))
                                    : fmt::format("strides_{}[{}]", array(w.tensor).name, w.dim);
      case Argument::Kind::Size: return names_.at(w.sym);
      case Argument::Kind::Scalar: return fmt::format("bits({})", names_.at(w.sym));
      case Argument::Kind::Error: return "(int64_t)&error";
    }
    TW_CHECK(false, "unknown argument");
  }

  /// What a failed check is called.
  std::string failure(const RunCheck& c) const {
    if (c.division) return division_by_zero(program_, c.division).diagnostics()[0].what;
    return fmt::format("an index is outside axis {} of {}", c.axis.name(), c.tensor.name());
  }

  std::string messages() const {
    std::string s =
        fmt::format("\nextern \"C\" const char* {}_message(int status) {{\n  switch (status) {{\n", prefix_);
    const auto say = [&](int status, const std::string& text) {
      line(s, 2, fmt::format("case {}: return \"{}\";", status, text));
    };
    say(0, "fine");
    say(kLengths, "a length is negative, or an array larger than 2^62 bytes");
    say(kNull, "an array that is not empty is NULL");
    say(kNoPlan, "no plan admits these lengths");
    say(kMemory, "out of memory");
    say(kParam, "a param lies outside its range, or is an integer and not given one");
    for (size_t k = 0; k < checks_.size(); ++k) say(kFirstCheck + static_cast<int>(k), checks_[k]);
    return s + "  }\n  return \"unknown status\";\n}\n";
  }

  std::string defaults() {
    std::string s = fmt::format(
        "\nextern \"C\" void {0}_defaults({0}_arguments* a) {{\n  __builtin_memset(a, 0, sizeof *a);\n",
        prefix_);
    for (const Axis& x : program_.axes)
      line(s, 1,
           fmt::format("const int64_t {} = {}; (void){};", names_.at(x.index.size()),
                       x.size ? integer(x.size) : "0", names_.at(x.index.size())));
    for (const Param& q : program_.params) {
      const std::string& name = names_.at(q.sym);
      line(s, 1, fmt::format("const double {} = {}; (void){};", name, q.value ? real(q.value) : "0", name));
      line(s, 1, fmt::format("a->{} = {};", name, name));
    }
    return s + "}\n";
  }

  /// Variables for the shape, strides and elements of an array.
  void shape_of_array(std::string& s, int depth, const Array& x, const std::string& given) const {
    std::vector<std::string> shape;
    for (const Dim& d : x.dims) {
      std::string length;
      for (Sym piece : d.pieces) length += (length.empty() ? "" : " * ") + names_.at(piece.size());
      shape.push_back(length);
    }
    if (shape.empty()) shape.emplace_back("1");
    line(s, depth, fmt::format("const int64_t shape_{}[] = {{{}}};", x.name, fmt::join(shape, ", ")));
    line(s, depth, fmt::format("int64_t strides_{0}[{1}], elements_{0};", x.name, shape.size()));
    line(s, depth,
         fmt::format("if (!lay_out({1}, shape_{0}, {2}, strides_{0}, {3}, elements_{0})) return {4};", x.name,
                     x.dims.size(), given, bytes(x.dtype), static_cast<int>(kLengths)));
  }

  static std::string rounded(DType t, const std::string& value) {
    switch (t) {
      case DType::f32: return "(double)(float)" + value;
      case DType::i64:
      case DType::i32:
      case DType::i8: return fmt::format("(double)({}){}", c_type(t), value);
      case DType::boolean: return fmt::format("(double)({} != 0)", value);
      default: return value;
    }
  }

  std::string entry(const std::string& choice) {
    std::string s = fmt::format(
        "\nstatic void launch(const {}_arguments* a, int64_t n, Entry entry, const long long* words) {{\n"
        "  Task task = {{entry, words}};\n"
        "  if (n <= 0) return;\n"
        "  if (a->parallel_for)\n"
        "    a->parallel_for(a->pool, n, run_range, &task);\n"
        "  else\n"
        "    run_range(&task, 0, n);\n"
        "}}\n",
        prefix_);
    s += fmt::format("\nextern \"C\" int {0}(const {0}_arguments* a) {{\n  if (!a) return {1};\n", prefix_,
                     static_cast<int>(kNull));
    for (const Axis& x : program_.axes) {
      const std::string& name = names_.at(x.index.size());
      line(s, 1, fmt::format("const int64_t {} = {};", name, x.size ? integer(x.size) : "a->" + name));
      line(s, 1, fmt::format("if ({} < 0) return {};", name, static_cast<int>(kLengths)));
    }
    for (const Param& q : program_.params) {
      const std::string& name = names_.at(q.sym);
      line(s, 1, fmt::format("const double {} = {};", name, rounded(q.dtype, "a->" + name)));
      if (!is_float(q.dtype))
        line(s, 1, fmt::format("if ({0} != a->{0}) return {1};", name, static_cast<int>(kParam)));
      if (q.range)
        line(s, 1,
             fmt::format("if (!({0} >= {1} && {0} < {2})) return {3};", name, real(q.range.lo),
                         real(q.range.hi), static_cast<int>(kParam)));
      line(s, 1, fmt::format("(void){};", name));
    }
    for (const Array& x : arrays_) {
      if (!x.given) continue;
      shape_of_array(s, 1, x, "a->" + x.strides);
      line(s, 1,
           fmt::format("if (elements_{0} > 0 && !a->{0}) return {1};", x.name, static_cast<int>(kNull)));
    }
    s += choice;
    if (!unconditional_) line(s, 1, fmt::format("return {};", static_cast<int>(kNoPlan)));
    return s + "}\n";
  }

  CValue symbol(Sym s) override {
    const auto it = names_.find(s);
    TW_CHECK(it != names_.end(), "the host part of a library does not know " + s.name());
    if (s.kind() == SymbolKind::Size) return CValue::integer(it->second);
    return s.info().integer ? CValue::integer("(int64_t)" + it->second, 64, c_precedence::unary)
                            : CValue::real(it->second, 64);
  }
  CValue read(Expr e) override {
    TW_CHECK(false, "the host part of a library reads no array: " + to_string(e));
  }

  const Program program_;
  const std::string prefix_;
  CompiledProgram compiled_;
  const Compilation* current_ = nullptr;  ///< the kernel that is written
  std::set<std::string> taken_;
  std::map<Sym, std::string> names_;
  std::vector<Array> arrays_;
  std::vector<std::string> checks_;
  std::string flags_;
  bool unconditional_ = false;
};

}  // namespace

LibrarySource library_source(const Program& p, const CompileOptions& o, const std::string& prefix) {
  return LibraryWriter(p, o, prefix).write();
}

}  // namespace tilewright
