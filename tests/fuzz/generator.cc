#include "tests/fuzz/generator.h"

#include <cctype>

namespace tilewright::fuzz {
namespace {

bool mentions(const std::string& text, const std::string& name) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !word(text[at - 1])) && (end >= text.size() || !word(text[end]))) return true;
  }
  return false;
}

}  // namespace

std::string Generator::exact(int depth) {
  if (depth <= 0) return one({"x", "b", "x[r, j]", "2 * x", "-x", "abs(x)", "x * b"});
  switch (pick(4)) {
    case 0: return "max(" + exact(depth - 1) + ", " + exact(0) + ")";
    case 1: return "min(" + exact(0) + ", " + exact(depth - 1) + ")";
    case 2: return "where(" + mask(0) + ", " + exact(depth - 1) + ", " + exact(0) + ")";
    default: return exact(0);
  }
}

std::string Generator::score(int depth) {
  if (depth <= 0)
    return one({"x", "b", "sum[d](q * k)", "sum[d](q * k) / sqrt(size(d))", "x * b", "x - b",
                "x + 0.125 * (j - r)", "sum[d](q[r, d] * k[j, d]) * x", "sum[d](q * k) + b", "a + x",
                "u[g] + x"});
  const std::string s = score(depth - 1);
  switch (pick(11)) {
    case 0: return "cap * tanh((" + s + ") / cap)";
    case 1: return "(" + s + ") * 0.5";
    case 2: return "relu(" + s + ")";
    case 3: return "sigmoid(" + s + ")";
    case 4: return (chance(50) ? "log(1 + (" : "sqrt(1 + (") + s + ") ** 2)";
    case 5: return "abs(" + s + ")";
    case 6: return "where(" + mask(1) + ", " + s + ", " + score(0) + ")";
    case 7: return "(" + s + ") / (1 + abs(" + score(0) + "))";
    case 8: return "max(" + s + ", " + score(0) + ")";
    case 9: return "-(" + s + ")";
    default: return "(" + s + ") + (" + score(0) + ")";
  }
}

std::string Generator::mask(int depth) {
  if (depth <= 0)
    return one({"j <= r + size(j) - size(r)", "r - j < w", "j < n", "g == h", "m", "j % 3 != 1", "j >= 2",
                "x > 0", "j < n[r] and j > 0", "i64(g) == r % 3", "j // 4 <= r // 2", "b < x"});
  switch (pick(3)) {
    case 0: return "(" + mask(depth - 1) + ") and (" + mask(depth - 1) + ")";
    case 1: return "(" + mask(depth - 1) + ") or (" + mask(depth - 1) + ")";
    default: return "not (" + mask(depth - 1) + ")";
  }
}

std::string Generator::weight() {
  if (chance(25))
    return one(
        {"exp(c - max[j](c))", "where(c == -inf, 0, exp(c - max[j](c)))", "exp2(c - logsumexp[j](c))"});
  return one({"softmax[j](c)", "exp(0.1 * c)", "where(m, x, 0)", "x - mean[j](x)",
              "(x - mean[j](x)) * rsqrt(var[j](x) + 0.01)", "x", "s * rsqrt(mean[j](s ** 2) + 0.01)",
              "s / (1 + max[j](abs(s)))", "relu(s - b)", "bf16(softmax[j](c))", "tanh(s) * softmax[j](c)",
              "where(j < n, s, 0)", "max(s, 0) / (1 + sum[j](max(s, 0)))"});
}

std::string Generator::statistic() {
  switch (pick(14)) {
    case 0: return "sum[j](" + weight() + ")";
    case 1: return "max[j](" + one({"c", "s", "x"}) + ")";
    case 2: return "min[j](" + one({"c", "s", "x"}) + ")";
    case 3: return "mean[j](" + one({"c", "s", "x"}) + ")";
    case 4: return "var[j](" + one({"c", "s", "x"}) + ")";
    case 5: return "logsumexp[j](c)";
    case 6: return "argmax[j](" + exact(1) + ")";
    case 7: return "argmin[j](where(" + mask(1) + ", " + exact(0) + ", -inf))";
    case 8: return "sum[j](" + mask(1) + ")";
    case 9: return "where(any[j](" + mask(1) + "), 1, 2)";
    case 10: return "where(all[j](" + mask(1) + "), 1, 2)";
    case 11: return "sum[j]((" + weight() + ") * (" + one({"x", "b", "s", "b * x"}) + "))";
    case 12: return "prod[j](where(" + mask(1) + ", 1 + 0.01 * x, 1))";
    default: return "sum[j](where(" + mask(1) + ", " + one({"s", "x", "exp(0.1 * s)"}) + ", 0))";
  }
}

std::string Generator::combined(int depth) {
  const std::string t = "t" + std::to_string(pick(statistics_));
  if (depth <= 0) return t;
  const std::string a = combined(depth - 1);
  switch (pick(6)) {
    case 0: return "(" + a + ") + " + t;
    case 1: return "(" + a + ") / (1 + abs(" + t + "))";
    case 2: return "where(r % 2 == 0, " + a + ", " + t + ")";
    case 3: return "tanh(" + a + ")";
    case 4: return "max(" + a + ", " + t + ")";
    default: return "0.5 * (" + a + ")";
  }
}

Generated Generator::program() {
  std::string body = "s[r, j] = " + score(pick(3)) + "\n";
  body += "c[r, j] = " + (chance(70) ? "where(" + mask(pick(3)) + ", s, -inf)" : std::string("s")) + "\n";
  std::vector<std::string> outputs;
  if (chance(60)) {
    body += "p[r, j] = " + weight() + "\no[r, e] = sum[j](p * v)\n";
    outputs.push_back("o" + one({"", " : f16", " : f32", " : bf16", "[e, r]"}));
  }
  statistics_ = outputs.empty() || chance(50) ? 1 + pick(3) : 0;
  for (int k = 0; k < statistics_; ++k) body += "t" + std::to_string(k) + "[r] = " + statistic() + "\n";
  if (statistics_) {
    body += "y[r] = " + combined(pick(3)) + "\n";
    outputs.push_back("y" + one({"", " : f32", " : f16", " : f64"}));
    if (chance(20)) {
      body += "z[r, j] = " + one({"s - y", "softmax[j](c) * y", "where(m, y, x)", "c"}) + "\n";
      outputs.push_back("z");
    }
  }
  const std::string real = one({"f32", "f32", "f16", "bf16"});
  const std::pair<std::string, std::string> inputs[] = {{"x", "input x[r, j] : " + real},
                                                        {"q", "input q[r, d] : " + real},
                                                        {"k", "input k[j, d] : " + real},
                                                        {"v", "input v[j, e] : " + real},
                                                        {"b", "input b[j] : f32"},
                                                        {"a", "input a[r] : f32"},
                                                        {"u", "input u[f] : f32"},
                                                        {"n", "input n[r] : i32 range(0, size(j) + 1)"},
                                                        {"g", "input g[j] : i32 range(0, 3)"},
                                                        {"h", "input h[r] : i32 range(0, 3)"},
                                                        {"m", "input m[r, j] : bool"}};
  Generated out;
  out.text =
      "axis r, j\naxis d = " + one({"1", "2", "4", "8"}) + ", e = " + one({"1", "3", "4", "8"}) + ", f = 3\n";
  if (mentions(body, "cap")) out.text += "param cap : f32 = 2 range(1, 9)\n";
  if (mentions(body, "w")) out.text += "param w : i32 = 3\n";
  for (const auto& [name, line] : inputs)
    if (mentions(body, name)) out.text += line + "\n";
  out.text += body + "output ";
  for (size_t k = 0; k < outputs.size(); ++k) out.text += (k ? ", " : "") + outputs[k];
  out.text += "\n";
  const int64_t rows[] = {0, 1, 2, 5, 17}, columns[] = {0, 1, 2, 7, 33, 65, 130};
  out.sizes = {{"r", rows[chance(90) ? 1 + pick(4) : 0]}, {"j", columns[chance(90) ? 1 + pick(6) : 0]}};
  if (chance(50)) {
    out.schedule = "stream j=" + one({"1", "4", "8", "16"});
    if (chance(30)) out.schedule += "; group r=" + one({"1", "2", "4"});
  }
  return out;
}

}  // namespace tilewright::fuzz
