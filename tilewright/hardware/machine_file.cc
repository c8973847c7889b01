#include "tilewright/hardware/machine_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cctype>
#include <cmath>

#include "tilewright/hardware/machine.h"
#include "tilewright/support/input_file.h"

namespace tilewright {

const std::vector<MachineField>& machine_fields() {
  using M = MachineFile;
  static const std::vector<MachineField> fields = {
      {"counts", "cores", "", &M::cores},
      {"counts", "threads_per_group", "threads", &M::threads_per_group},
      {"counts", "groups_per_core", "", &M::groups_per_core},
      {"counts", "blocks_per_core", "", &M::blocks_per_core},
      {"counts", "registers_per_core", "registers", &M::registers_per_core},
      {"counts", "registers_per_thread", "registers", &M::registers_per_thread},
      {"counts", "fma_per_clock", "", &M::fma_per_clock},
      {"counts", "special_per_clock", "", &M::special_per_clock},
      {"counts", "vector_bytes", "bytes", &M::vector_bytes},
      {"counts", "vector_registers", "registers", &M::vector_registers},
      {"rates", "clock", "Hz", &M::clock},
      {"rates", "fma_f32", "op/s", &M::fma_f32},
      {"rates", "fma_f64", "op/s", &M::fma_f64},
      {"rates", "special", "exp/s", &M::special},
      {"rates", "products", "op/s", &M::products},
      {"rates", "quotients", "op/s", &M::quotients},
      {"rates", "tangents", "op/s", &M::tangents},
      {"rates", "conversions", "elements/s", &M::conversions},
      {"rates", "runs", "runs/s", &M::runs},
      {"rates", "tasks", "tasks/s", &M::tasks},
      {"transfers", "line_bytes", "bytes", &M::line_bytes},
      {"transfers", "launch", "s", &M::launch},
  };
  return fields;
}

const MemoryLevel* MachineFile::level(const std::string& role) const {
  for (const MemoryLevel& l : levels)
    if (l.role == role) return &l;
  return nullptr;
}

std::string MachineFile::missing(const std::string& figure) const {
  auto it = unknown.find(figure);
  return it != unknown.end() ? it->second : fmt::format("{} gives no {}", name, figure);
}

namespace {

const std::vector<std::string> kRoles = {"memory", "cache", "shared", "registers"};

class MachineReader {
 public:
  MachineReader(const std::string& text, const std::string& name)
      : source_(std::make_shared<SourceText>(SourceText{name, text})) {}

  MachineFile run() {
    toml::table root;
    try {
      root = toml::parse(std::string_view(source_->text));
    } catch (const toml::parse_error& e) {
      throw UserError(at(e.source()), fmt::format("this is not TOML: {}", e.description()),
                      "docs/adding_a_machine.md shows what a machine looks like");
    }
    known(root, {"name", "kind", "about", "arch", "sources", "counts", "rates", "transfers", "levels",
                 "clusters", "unknown"});
    m_.name = text_of(root, "name", true);
    const std::string kind = text_of(root, "kind", true);
    one_of(*root.get("kind"), kind, {"gpu", "cpu"}, "kind");
    m_.gpu = kind == "gpu";
    m_.about = text_of(root, "about", false);
    m_.arch = text_of(root, "arch", false);
    if (!m_.arch.empty()) architecture(*root.get("arch"));
    m_.sources = texts(root, "sources");
    m_.unknown = texts(root, "unknown");
    for (const char* name : {"counts", "rates", "transfers"}) fields(root, name);
    if (!m_.cores)
      refuse(
          root.get("counts") ? *root.get("counts") : root, "the field counts.cores is missing",
          "write `cores = { value = …, source = … }` under [counts]: the number of multiprocessors or cores");
    for_each_table(root, "levels", [&](const toml::table& t) { level(t); });
    if (!m_.level("memory"))
      refuse(root, "no level has the role \"memory\"",
             "begin [[levels]] with the memory that holds the arrays");
    for_each_table(root, "clusters", [&](const toml::table& t) {
      known(t, {"size", "bandwidth"});
      m_.clusters.push_back({figure(t, "size"), figure(t, "bandwidth")});
      if (!m_.clusters.back().size)
        refuse(t, "a cluster lacks its size", "write `size = { value = 2, source = … }`");
    });
    return std::move(m_);
  }

 private:
  [[noreturn]] void refuse(const toml::node& node, std::string what, std::string hint) const {
    throw UserError(at(node.source()), std::move(what), std::move(hint));
  }

  Span at(const toml::source_region& region) const {
    const std::string& text = source_->text;
    size_t begin = 0;
    for (uint32_t line = 1; line < region.begin.line && begin < text.size(); ++begin)
      if (text[begin] == '\n') ++line;
    begin = std::min(begin + (region.begin.column > 0 ? region.begin.column - 1 : 0), text.size());
    return {source_, begin, std::min(begin + 1, text.size())};
  }

  void one_of(const toml::node& node, const std::string& given, const std::vector<std::string>& all,
              const std::string& what) const {
    if (std::find(all.begin(), all.end(), given) != all.end()) return;
    const std::string near = nearest_name(given, all);
    refuse(node, fmt::format("no {} is called `{}`", what, given),
           near.empty() ? fmt::format("known are {}", fmt::join(all, ", "))
                        : fmt::format("did you mean `{}`?", near));
  }

  void architecture(const toml::node& node) const {
    if (!m_.gpu)
      refuse(node, "a CPU has no arch", "leave it out: it says what kernels for a GPU are made for");
    try {
      gpu_machine(m_.arch);
    } catch (const UserError& e) {
      refuse(node, e.diagnostics()[0].what, e.diagnostics()[0].hint);
    }
  }

  void known(const toml::table& t, const std::vector<std::string>& keys) const {
    for (const auto& [key, node] : t) one_of(node, std::string(key.str()), keys, "field of a machine");
  }

  std::string text_of(const toml::table& t, const char* key, bool required) const {
    const toml::node* node = t.get(key);
    if (!node) {
      if (required)
        refuse(t, fmt::format("the field {} is missing", key), fmt::format("write `{} = \"…\"`", key));
      return {};
    }
    if (!node->is_string()) refuse(*node, fmt::format("{} is not a text", key), "put it in quotes");
    return node->as_string()->get();
  }

  std::map<std::string, std::string> texts(const toml::table& root, const char* name) const {
    std::map<std::string, std::string> all;
    const toml::node* node = root.get(name);
    if (!node) return all;
    if (!node->is_table())
      refuse(*node, fmt::format("{} is not a table", name), fmt::format("write [{}]", name));
    for (const auto& [key, text] : *node->as_table()) {
      if (!text.is_string())
        refuse(text, fmt::format("{}.{} is not a text", name, key.str()), "put it in quotes");
      all.emplace(std::string(key.str()), text.as_string()->get());
    }
    return all;
  }

  void fields(const toml::table& root, const std::string& name) {
    const toml::node* node = root.get(name);
    if (!node) return;
    if (!node->is_table())
      refuse(*node, fmt::format("{} is not a table", name), fmt::format("write [{}]", name));
    const toml::table& t = *node->as_table();
    std::vector<std::string> keys;
    for (const MachineField& f : machine_fields())
      if (name == f.table) {
        keys.emplace_back(f.key);
        m_.*f.figure = figure(t, f.key);
      }
    if (name == "rates") {
      keys.emplace_back("matrix");
      if (const toml::node* matrix = t.get("matrix")) matrix_units(*matrix);
    }
    known(t, keys);
  }

  void matrix_units(const toml::node& node) {
    if (!node.is_table()) refuse(node, "rates.matrix is not a table", "write [rates.matrix.f16]");
    for (const auto& [key, unit] : *node.as_table()) {
      const std::optional<DType> dtype = parse_dtype(std::string(key.str()));
      if (!dtype) {
        std::vector<std::string> all;
        for (DType t :
             {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8})
          all.emplace_back(tilewright::name(t));
        one_of(unit, std::string(key.str()), all, "dtype");
      }
      if (!unit.is_table()) refuse(unit, "a matrix unit is not a table", "write [rates.matrix.f16]");
      const toml::table& t = *unit.as_table();
      known(t, {"rate", "sustained", "shape"});
      MatrixUnit& u = m_.matrix[*dtype];
      u.rate = figure(t, "rate");
      u.sustained = figure(t, "sustained");
      if (const toml::node* shape = t.get("shape")) {
        const toml::array* numbers = shape->as_array();
        if (!numbers || numbers->size() != 3)
          refuse(*shape, "a shape is not three numbers", "write `shape = [rows, columns, depth]`");
        for (size_t k = 0; k < 3; ++k) {
          const auto n = (*numbers)[k].value<int64_t>();
          if (!n || *n < 1)
            refuse((*numbers)[k], "a shape holds a number below 1", "rows, columns and depth are positive");
          u.shape[k] = *n;
        }
      }
    }
  }

  /// `key` of a table; nothing where it is not given.
  MaybeFigure figure(const toml::table& t, const std::string& key) const {
    const toml::node* node = t.get(key);
    if (!node) return {};
    const toml::table* f = node->as_table();
    const std::string form = fmt::format("write `{} = {{ value = …, source = \"…\" }}`", key);
    if (!f) refuse(*node, fmt::format("{} is a number without a source", key), form);
    known(*f, {"value", "source"});
    const toml::node *value = f->get("value"), *source = f->get("source");
    if (!value) refuse(*f, fmt::format("{} has no value", key), form);
    if (!source || !source->is_string()) refuse(*f, fmt::format("{} has no source", key), form);
    Figure x;
    x.value = value->value<double>().value_or(0);
    if (!(x.value > 0) || !std::isfinite(x.value))
      refuse(*value, fmt::format("{} is not a positive number", key),
             "leave out what is not known, and say why under [unknown]");
    x.source = source->as_string()->get();
    std::vector<std::string> keys;
    for (const auto& [k, text] : m_.sources) keys.push_back(k);
    one_of(*source, x.source, keys, "source");
    return x;
  }

  template <class F>
  void for_each_table(const toml::table& root, const std::string& name, F f) const {
    const toml::node* node = root.get(name);
    if (!node) return;
    if (!node->is_array())
      refuse(*node, fmt::format("{} is not a list", name), fmt::format("write [[{}]]", name));
    for (const toml::node& item : *node->as_array()) {
      if (!item.is_table())
        refuse(item, fmt::format("{} holds something that is no table", name),
               fmt::format("write [[{}]]", name));
      f(*item.as_table());
    }
  }

  void level(const toml::table& t) {
    known(t, {"name", "role", "capacity", "per_block", "units", "bandwidth", "writes", "copies", "one_core"});
    MemoryLevel l;
    l.name = text_of(t, "name", true);
    l.role = text_of(t, "role", true);
    one_of(*t.get("role"), l.role, kRoles, "role");
    if (l.role != "cache" && m_.level(l.role))
      refuse(*t.get("role"), fmt::format("two levels have the role \"{}\"", l.role),
             "one level holds the arrays, one the tiles, one the values of threads; others are caches");
    l.capacity = figure(t, "capacity");
    l.per_block = figure(t, "per_block");
    l.units = figure(t, "units");
    l.bandwidth = figure(t, "bandwidth");
    l.writes = figure(t, "writes");
    l.copies = figure(t, "copies");
    l.one_core = figure(t, "one_core");
    m_.levels.push_back(std::move(l));
  }

  SourceRef source_;
  MachineFile m_;
};

/// The shortest text that reads as the number.
std::string number_text(double x) {
  if (x == std::floor(x) && std::fabs(x) < 1e7) return fmt::format("{:.0f}", x);
  return fmt::format("{}", x);
}

std::string quoted(const std::string& s) {
  std::string q = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') q += '\\';
    q += c == '\n' ? ' ' : c;
  }
  return q + "\"";
}

std::string toml_key(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  return bare ? key : quoted(key);
}

std::string toml_figure(const char* key, const MaybeFigure& f) {
  if (!f) return {};
  return fmt::format("{} = {{ value = {}, source = {} }}\n", key, number_text(f->value), quoted(f->source));
}

}  // namespace

MachineFile parse_machine(const std::string& text, const std::string& name) {
  return MachineReader(text, name).run();
}

std::string to_toml(const MachineFile& m) {
  std::string s = fmt::format("name = {}\nkind = \"{}\"\n", quoted(m.name), m.gpu ? "gpu" : "cpu");
  if (!m.about.empty()) s += fmt::format("about = {}\n", quoted(m.about));
  if (!m.arch.empty()) s += fmt::format("arch = {}\n", quoted(m.arch));
  auto texts = [&](const char* name, const std::map<std::string, std::string>& all) {
    if (!all.empty()) s += fmt::format("\n[{}]\n", name);
    for (const auto& [key, text] : all) s += fmt::format("{} = {}\n", toml_key(key), quoted(text));
  };
  texts("sources", m.sources);
  for (const char* table : {"counts", "rates", "transfers"}) {
    std::string lines;
    for (const MachineField& f : machine_fields())
      if (std::string(table) == f.table) lines += toml_figure(f.key, m.*f.figure);
    if (!lines.empty()) s += fmt::format("\n[{}]\n{}", table, lines);
    if (std::string(table) == "rates")
      for (const auto& [dtype, unit] : m.matrix)
        s += fmt::format("\n[rates.matrix.{}]\n{}{}shape = [{}, {}, {}]\n", name(dtype),
                         toml_figure("rate", unit.rate), toml_figure("sustained", unit.sustained),
                         unit.shape[0], unit.shape[1], unit.shape[2]);
  }
  for (const MemoryLevel& l : m.levels)
    s += fmt::format("\n[[levels]]\nname = {}\nrole = \"{}\"\n{}{}{}{}{}{}{}", quoted(l.name), l.role,
                     toml_figure("capacity", l.capacity), toml_figure("per_block", l.per_block),
                     toml_figure("units", l.units), toml_figure("bandwidth", l.bandwidth),
                     toml_figure("writes", l.writes), toml_figure("copies", l.copies),
                     toml_figure("one_core", l.one_core));
  for (const Cluster& c : m.clusters)
    s += fmt::format("\n[[clusters]]\n{}{}", toml_figure("size", c.size),
                     toml_figure("bandwidth", c.bandwidth));
  texts("unknown", m.unknown);
  return s;
}

std::string quantity(double value, const std::string& unit) {
  if (unit == "bytes") {
    static const char* const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int k = 0;
    while (k < 4 && value >= 1024) value /= 1024, ++k;
    return fmt::format("{:.4g} {}", value, names[k]);
  }
  if (unit == "s") {
    if (value <= 0) return "0 s";
    if (value < 1e-6) return fmt::format("{:.3g} ns", value * 1e9);
    if (value < 1e-3) return fmt::format("{:.3g} µs", value * 1e6);
    if (value < 1) return fmt::format("{:.3g} ms", value * 1e3);
    return fmt::format("{:.3g} s", value);
  }
  if (unit.empty() || unit == "registers" || unit == "threads") {
    const std::string n = value < 1e6 ? fmt::format("{:g}", value) : fmt::format("{:.6g}", value);
    return unit.empty() ? n : n + " " + unit;
  }
  static const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  const std::string shown = unit == "bytes/s" ? "B/s" : unit;
  int k = 0;
  while (k < 5 && value >= 1000) value /= 1000, ++k;
  return fmt::format("{:.4g} {}{}", value, prefixes[k], shown);
}

std::string to_text(const MachineFile& m) {
  std::string s = fmt::format("{} ({})\n", m.name, m.gpu ? "GPU" : "CPU");
  if (!m.about.empty()) s += m.about + "\n";
  auto line = [&](const std::string& what, const std::string& unit, const MaybeFigure& f) {
    if (f) s += fmt::format("  {:<24} {:<16} {}\n", what, quantity(f->value, unit), f->source);
  };
  s += "\n";
  for (const MachineField& f : machine_fields()) line(f.key, f.unit, m.*f.figure);
  for (const auto& [dtype, unit] : m.matrix) {
    line(fmt::format("matrix {}", name(dtype)), "op/s", unit.rate);
    line("sustained", "op/s", unit.sustained);
    s += fmt::format("  {:<24} {} x {} x {}\n", "", unit.shape[0], unit.shape[1], unit.shape[2]);
  }
  s += "\nlevels, farthest first\n";
  for (const MemoryLevel& l : m.levels) {
    s += fmt::format("  {} ({})\n", l.name, l.role);
    line("  units", "", l.units);
    line("  capacity of one", "bytes", l.capacity);
    line("  of it to a block", "bytes", l.per_block);
    line("  bandwidth to it", "bytes/s", l.bandwidth);
    line("  of writes", "bytes/s", l.writes);
    line("  of copies", "bytes/s", l.copies);
    line("  of reads by one core", "bytes/s", l.one_core);
  }
  for (const Cluster& c : m.clusters) {
    s += fmt::format("\ncluster of {:g}\n", c.size->value);
    line("bandwidth inside", "bytes/s", c.bandwidth);
  }
  if (!m.unknown.empty()) s += "\nnot known\n";
  for (const auto& [what, why] : m.unknown) s += fmt::format("  {:<24} {}\n", what, why);
  if (!m.sources.empty()) s += "\nsources\n";
  for (const auto& [key, text] : m.sources) s += fmt::format("  {:<24} {}\n", key, text);
  return s;
}

MachineFile find_machine(const std::string& given) {
  if (given.find('/') != std::string::npos || given.ends_with(".toml")) {
    InputFile file(given);
    const std::string text = file.problem().empty() && !file.missing() ? file.text() : std::string();
    if (file.missing())
      throw UserError(Span{}, fmt::format("there is no machine file {}", given),
                      "`tilewright hardware list` names the machines that need no file");
    if (!file.problem().empty())
      throw UserError(Span{}, fmt::format("cannot read {}: {}", given, file.problem()), file.remedy());
    return parse_machine(text, given);
  }
  auto plain = [](std::string s) {
    std::string p;
    for (unsigned char c : s)
      if (std::isalnum(c)) p += char(std::tolower(c));
    return p;
  };
  if (plain(given) == "thiscpu") return detect_cpu();
  std::vector<std::string> keys{"this-cpu"};
  for (const auto& [key, text] : machine_texts()) {
    keys.push_back(key);
    if (plain(key) == plain(given)) return parse_machine(text, key + ".toml");
  }
  std::vector<std::string> longer;  // "h100" is the beginning of two
  for (const std::string& key : keys)
    if (!plain(given).empty() && plain(key).rfind(plain(given), 0) == 0)
      longer.push_back(fmt::format("`{}`", key));
  if (!longer.empty())
    throw UserError(Span{}, fmt::format("no machine is called `{}`", given),
                    fmt::format("did you mean {}?", fmt::join(longer, " or ")));
  const std::string near = nearest_name(given, keys);
  throw UserError(Span{}, fmt::format("no machine is called `{}`", given),
                  near.empty()
                      ? fmt::format("known are {}; or name a file that ends in .toml", fmt::join(keys, ", "))
                      : fmt::format("did you mean `{}`?", near));
}

}  // namespace tilewright
