#include "tilewright/emit/cuda_prelude.h"

#include <fmt/format.h>

#include <cctype>

#include "tilewright/emit/cuda_text.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {

std::string Helpers::use(const std::string& name) {
  for (const Helper& h : helper_library()) {
    if (name != h.name) continue;
    used_.insert(name);
    for (const char* n : h.needs) use(n);
    return name;
  }
  TW_CHECK(false, "no helper " + name);
}

void Helpers::use_from(const std::string& text) {
  auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (const Helper& h : helper_library()) {
    const std::string source = h.text;
    // Names that the helper defines: tw_… before a parenthesis on a line that says __forceinline__.
    for (size_t at = 0; at < source.size();) {
      const size_t end = source.find('\n', at);
      const std::string line = source.substr(at, end - at);
      at = end == std::string::npos ? source.size() : end + 1;
      const size_t mark = line.find("__forceinline__");
      const size_t name_at = mark == std::string::npos ? mark : line.find("tw_", mark);
      if (name_at == std::string::npos) continue;
      size_t stop = name_at;
      while (stop < line.size() && word(line[stop])) ++stop;
      const std::string name = line.substr(name_at, stop - name_at);
      if (mentions(text, name)) use(h.name);
    }
  }
}

std::string Helpers::use_wgmma(int n, DType dtype, bool a_in_registers, bool a_transposed,
                               bool b_transposed) {
  use("tw_products");
  const std::string name =
      fmt::format("tw_wgmma_n{}_{}{}{}{}", n, tilewright::name(dtype), a_in_registers ? "_rs" : "",
                  a_transposed ? "_at" : "", b_transposed ? "_bt" : "");
  std::string& text = made_[name];
  if (!text.empty()) return name;
  const int registers = n / 2;
  std::string regs, outs;
  for (int k = 0; k < registers; ++k) {
    regs += fmt::format("{}%{}", k ? ", " : "", k);
    outs += fmt::format("{}\"+f\"(d[{}])", k ? ", " : "", k);
  }
  const std::string shape = fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{}", n,
                                        tilewright::name(dtype), tilewright::name(dtype));
  int next = registers;
  std::string a_text, a_in, a_parameters;
  if (a_in_registers) {
    a_text = fmt::format("{{%{}, %{}, %{}, %{}}}", next, next + 1, next + 2, next + 3);
    a_in = "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])";
    a_parameters = "const unsigned* a";
    next += 4;
  } else {
    a_text = fmt::format("%{}", next);
    a_in = "\"l\"(a)";
    a_parameters = "unsigned long long a";
    next += 1;
  }
  const int b = next, scale = next + 1;
  const std::string flags = a_in_registers
                                ? fmt::format("1, 1, {}", int(b_transposed))
                                : fmt::format("1, 1, {}, {}", int(a_transposed), int(b_transposed));
  text = fmt::format(
      "// d[64, {0}] = {1} a[64, 16] b[16, {0}]\n"
      "__device__ __forceinline__ void {2}(float* d, {3}, unsigned long long b, int accumulate) {{\n"
      "  asm volatile(\n"
      "      \"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{4}, 0;\\n\"\n"
      "      \"{5} {{{6}}}, {7}, %{8}, p, {9};\\n}}\"\n"
      "      : {10}\n"
      "      : {11}, \"l\"(b), \"r\"(accumulate));\n"
      "}}\n",
      n, "(accumulate ? d : 0) +", name, a_parameters, scale, shape, regs, a_text, b, flags, outs, a_in);
  return name;
}

std::string Helpers::use_bulk_copy(int rank) {
  use("tw_signal");
  const std::string name = fmt::format("tw_bulk_copy{}", rank);
  std::string& text = made_[name];
  if (!text.empty()) return name;
  std::string parameters, places, values;
  for (int k = 0; k < rank; ++k) {
    parameters += fmt::format(", int c{}", k);
    places += fmt::format("{}%{}", k ? ", " : "", k + 3);
    values += fmt::format(", \"r\"(c{})", k);
  }
  text = fmt::format(
      "// The box of the map at the coordinates -> shared memory; its bytes complete `signal`.\n"
      "__device__ __forceinline__ void {0}(unsigned to, const TensorMap* map, unsigned signal{1}) {{\n"
      "  asm volatile(\n"
      "      \"cp.async.bulk.tensor.{2}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{{{3}}}], [%2];\" ::\"r\"(to), \"l\"(map), "
      "\"r\"(signal){4}\n"
      "      : \"memory\");\n"
      "}}\n",
      name, parameters, rank, places, values);
  return name;
}

std::string Helpers::text() const {
  std::string out;
  for (const Helper& h : helper_library())
    if (used_.count(h.name)) out += h.text;
  for (const auto& [name, text] : made_) out += text;
  return out;
}

}  // namespace tilewright::cuda_text
