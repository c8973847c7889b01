#include "tests/support/random_cascade.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tilewright::testing {
namespace {

constexpr double kLongest = 9;  // elements along j at most

std::vector<size_t> joined(std::vector<size_t> a, const std::vector<size_t>& b) {
  for (size_t k : b)
    if (std::find(a.begin(), a.end(), k) == a.end()) a.push_back(k);
  return a;
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  RandomCascade run(bool outside) {
    const int n = 2 + pick(outside ? 3 : 4);
    for (int k = 0; k < n; ++k) out_.statements.push_back(statement());
    if (outside) {
      while (running().empty()) out_.statements.push_back(extremum());
      out_.statements.push_back(mixed());
    }
    return std::move(out_);
  }

 private:
  int pick(int n) { return int(random_() % uint64_t(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  std::string one(std::initializer_list<const char*> all) { return all.begin()[pick(int(all.size()))]; }
  std::string number() { return one({"0.5", "2", "0.25", "1.5", "3"}); }

  // ---- what varies, and holds no result ----

  Piece varying() {
    switch (pick(16)) {
      case 0:
      case 1: return {.text = "x", .bound = 3};
      case 2:
      case 3: return {.text = "y", .bound = 3};
      case 4: return {.text = "z", .bound = 3};
      case 5: return {.text = "V", .features = true, .bound = 3};
      case 6: return {.text = "x * y", .bound = 9};
      case 7: return {.text = "abs(x)", .bound = 3};
      case 8: return {.text = "tanh(y)", .bound = 1};
      case 9: return {.text = "x ** 2", .bound = 9};
      case 10: return {.text = "relu(x - 0.25)", .bound = 3};
      case 11: return {.text = "sum[d](Q * K)", .bound = 18};
      case 12: return {.text = "where(x > 0.5, y, 0.25)", .bound = 3};
      case 13: return {.text = "j * 0.25", .bound = 3};
      case 14: return {.text = "min(x, y)", .bound = 3};
      default: return {.text = "(x - 0.5 * y)", .bound = 5};
    }
  }
  Piece positive() {
    switch (pick(4)) {
      case 0: return {.text = "sigmoid(y)", .bound = 1, .least = 0.04};
      case 1: return {.text = "(0.5 + x ** 2)", .bound = 10, .least = 0.5};
      case 2: return {.text = "exp(0.25 * z)", .bound = 3, .least = 0.4};
      default: return {.text = "(1 + abs(y))", .bound = 4, .least = 1};
    }
  }
  std::string condition() { return one({"j <= r + 3", "x > 0", "z > y", "j % 3 != 1", "y < 1 and j != 2"}); }

  // ---- what holds results, and does not vary ----

  std::vector<size_t> results(const std::function<bool(const Statement&)>& fits) const {
    std::vector<size_t> out;
    for (size_t k = 0; k < out_.statements.size(); ++k)
      if (fits(out_.statements[k])) out.push_back(k);
    return out;
  }
  bool features(size_t k) const {
    for (const auto& t : out_.statements[k].terms)
      for (const Piece& p : t)
        if (p.features) return true;
    for (const Wrapper& w : out_.statements[k].wrappers)
      if (w.features) return true;
    return false;
  }
  Piece result(size_t k) const {
    const Statement& s = out_.statements[k];
    return {.text = fmt::format("R{}", k),
            .reads = {k},
            .features = features(k),
            .bound = s.bound,
            .least = s.least};
  }
  /// An earlier number of moderate size.
  std::optional<Piece> moderate() {
    const auto all = results([](const Statement& s) { return !s.boolean; });
    if (all.empty()) return {};
    Piece p = result(all[size_t(pick(int(all.size())))]);
    if (p.bound > 8) {
      const int shift = int(std::ceil(std::log2(p.bound / 8)));
      p.text = fmt::format("({} / {})", p.text, int64_t(1) << shift);
      p.bound = 8;
      p.least /= double(int64_t(1) << shift);
    }
    return p;
  }
  std::optional<Piece> scalar() {
    auto a = moderate();
    if (!a) return {};
    const auto b = *moderate();
    const auto both = [&](const std::string& text, double bound) {
      return Piece{.text = text,
                   .reads = joined(a->reads, b.reads),
                   .features = a->features || b.features,
                   .bound = bound};
    };
    const auto alone = [&](const std::string& text, double bound, double least = 0) {
      return Piece{.text = text, .reads = a->reads, .features = a->features, .bound = bound, .least = least};
    };
    switch (pick(12)) {
      case 0: return both(fmt::format("({} + {})", a->text, b.text), a->bound + b.bound);
      case 1: return both(fmt::format("({} - 0.5 * {})", a->text, b.text), a->bound + b.bound);
      case 2: return both(fmt::format("{} * {}", a->text, b.text), a->bound * b.bound);
      case 3: return alone(fmt::format("tanh({})", a->text), 1);
      case 4: return alone(fmt::format("sqrt(1 + {} ** 2)", a->text), a->bound + 1, 1);
      case 5: return alone(fmt::format("rsqrt({} ** 2 + 0.01)", a->text), 10, 0.05);
      case 6: return alone(fmt::format("(1 / (1 + abs({})))", a->text), 1, 0.05);
      case 7: return both(fmt::format("max({}, {})", a->text, b.text), std::max(a->bound, b.bound));
      case 8: return both(fmt::format("where({} > 0.01, {}, 0.5)", a->text, b.text), std::max(1., b.bound));
      case 9:
        if (a->least > 0.05) return alone(fmt::format("(1 / {})", a->text), 1 / a->least, 1 / a->bound);
        return a;
      case 10:
        if (a->least > 0.05) return alone(fmt::format("log({})", a->text), 5);
        return a;
      default: return a;
    }
  }
  std::string scalar_condition(std::vector<size_t>& reads, bool& e) {
    const auto flags = results([](const Statement& s) { return s.boolean; });
    if (!flags.empty() && chance(50)) {
      const Piece p = result(flags[size_t(pick(int(flags.size())))]);
      reads = joined(reads, p.reads);
      e = e || p.features;
      return p.text;
    }
    const Piece p = *moderate();
    reads = joined(reads, p.reads);
    e = e || p.features;
    return fmt::format("{} > {}", p.text, one({"0.01", "0.53", "-1.03"}));
  }

  // ---- factors of a sum ----

  Piece difference() {
    const Piece c = varying();
    auto r = scalar();
    if (!r) return c;
    const int power = 1 + (chance(40) ? 1 : 0) + (chance(15) ? 1 : 0);
    std::string text;
    switch (pick(4)) {
      case 0: text = fmt::format("({} - {})", c.text, r->text); break;
      case 1: text = fmt::format("({} + {})", r->text, c.text); break;
      case 2: text = fmt::format("(2 * {} - {} + 0.5)", c.text, r->text); break;
      default: text = fmt::format("({} - {} * {})", c.text, number(), r->text); break;
    }
    if (power > 1) text += fmt::format(" ** {}", power);
    return {.text = text,
            .reads = r->reads,
            .features = c.features || r->features,
            .bound = std::pow(2 * c.bound + 3 * r->bound + 1, power)};
  }

  /// Exponentials of differences with an earlier maximum, or with any earlier value.
  Piece exponential() {
    const auto maxima = results([](const Statement& s) { return !s.maximum_of.empty(); });
    if (!maxima.empty() && chance(70)) {
      const Statement& s = out_.statements[maxima[size_t(pick(int(maxima.size())))]];
      const Piece m = result(size_t(&s - out_.statements.data()));
      const std::string u = s.maximum_of;
      const std::string forms[] = {
          fmt::format("exp({} - {})", u, m.text), fmt::format("exp({1} * ({0} - {2}))", u, number(), m.text),
          fmt::format("exp2({} - {})", u, m.text), fmt::format("exp(-({1} - {0}) / 2)", u, m.text)};
      const size_t form = size_t(pick(4));
      return {.text = forms[form], .reads = m.reads, .features = m.features, .bound = 1, .least = -1};
    }
    Piece c = varying();
    while (c.bound > 3) c = varying();
    const auto r = scalar();
    if (!r || chance(30))
      return {.text = fmt::format("exp({})", c.text), .features = c.features, .bound = 20};
    return {.text = fmt::format("exp({} - tanh({}))", c.text, r->text),
            .reads = r->reads,
            .features = c.features || r->features,
            .bound = 60};
  }

  /// Functions of products that separate.
  Piece separable() {
    auto r = scalar();
    if (!r) return positive();
    const Piece c = varying(), p = positive();
    const auto piece = [&](const std::string& text, const Piece& q, double bound) {
      return Piece{.text = text, .reads = r->reads, .features = q.features || r->features, .bound = bound};
    };
    switch (pick(6)) {
      case 5:
        return piece(fmt::format("log({} * (1 + abs({})))", p.text, r->text), p, 4 + std::log(1 + r->bound));
      case 0: return piece(fmt::format("abs({} * {})", c.text, r->text), c, c.bound * r->bound);
      case 1:
        return piece(fmt::format("({} * {}) ** 2", c.text, r->text), c, std::pow(c.bound * r->bound, 2));
      case 2:
        return piece(fmt::format("sqrt({} * abs({}))", p.text, r->text), p, std::sqrt(p.bound * r->bound));
      case 3:
        if (r->least > 0.01)
          return piece(fmt::format("(1 / ({} * {}))", p.text, r->text), p, 1 / (p.least * r->least));
        return piece(fmt::format("sum[d](K * {})", r->text), Piece{}, 6 * r->bound);
      default: return piece(fmt::format("sum[d]((K - {}) * Q)", r->text), Piece{}, 6 * (3 + r->bound));
    }
  }

  /// A choice whose condition is taken apart.
  Piece choice() {
    std::vector<size_t> reads;
    bool e = false;
    const auto any = results([](const Statement&) { return true; });
    const Piece c = varying();
    if (any.empty() || results([](const Statement& s) { return !s.boolean; }).empty())
      return {.text = fmt::format("where({}, {}, 0)", condition(), c.text),
              .features = c.features,
              .bound = c.bound};
    const std::string r = scalar_condition(reads, e);
    const char* how = chance(50) ? "and" : "or";
    return {
        .text = fmt::format("where(({}) {} {}, {}, {})", condition(), how, r, c.text, one({"0", "0.5", "z"})),
        .reads = reads,
        .features = c.features || e,
        .bound = std::max(3., c.bound)};
  }

  Piece factor() {
    switch (pick(10)) {
      case 0:
      case 1: return varying();
      case 2: {
        auto r = scalar();
        return r ? *r : positive();
      }
      case 3:
      case 4: return difference();
      case 5:
      case 6: return exponential();
      case 7: return separable();
      case 8: return choice();
      default: {
        const Piece c = varying();
        auto r = scalar();
        if (!r || chance(50))
          return {.text = fmt::format("softmax[j]({})", c.text), .features = c.features, .bound = 1};
        return {.text = fmt::format("softmax[j]({} - {})", c.text, r->text),
                .reads = r->reads,
                .features = c.features || r->features,
                .bound = 1};
      }
    }
  }

  // ---- statements ----

  static double bound_of(const Statement& s) {
    double sum = 0;
    for (const auto& t : s.terms) {
      double product = 1;
      for (const Piece& p : t) product *= p.bound;
      sum += product;
    }
    return sum;
  }

  Statement sum() {
    for (;;) {
      Statement s{.reducer = chance(12) ? "mean" : "sum"};
      const int terms = chance(25) ? 2 : 1;
      int shifts = 0;
      for (int t = 0; t < terms; ++t) {
        std::vector<Piece> factors{factor()};
        while (factors.size() < 3 && chance(45)) {
          const Piece next = factor();
          const auto choice = [](const Piece& p) { return p.text.starts_with("where(("); };
          // each choice doubles the terms
          if (!choice(next) || std::none_of(factors.begin(), factors.end(), choice)) factors.push_back(next);
        }
        for (const Piece& p : factors) shifts += p.text.find("**") != std::string::npos ? 2 : 1;
        s.terms.push_back(factors);
      }
      if (shifts > 5) continue;
      if (chance(20))
        s.wrappers.push_back({.before = fmt::format("where({}, ", condition()), .after = ", 0)"});
      s.bound = kLongest * bound_of(s);
      if (s.bound > 1e5) continue;
      const bool plain = s.wrappers.empty() && terms == 1 && s.terms[0].size() == 1;
      if (plain && s.reducer == "sum") {
        const Piece& p = s.terms[0][0];
        if (p.least > 0 && p.reads.empty()) s.least = p.least;
        if (p.text.starts_with("exp(") && p.least < 0) s.least = 1;  // the maximum itself gives 1
      }
      return s;
    }
  }

  Statement extremum() {
    const bool maximum = chance(65);
    Statement s{.reducer = maximum ? "max" : "min"};
    Piece c = varying();
    s.terms = {{c}};
    s.bound = c.bound;
    if (chance(40)) {
      if (maximum && c.bound <= 20) s.maximum_of = c.text;
      return s;
    }
    const int n = 1 + pick(3);
    bool two = false;  // of two varying values: a factor of unknown sign would make it a minimum of a maximum
    for (int k = 0; k < n; ++k) {
      auto r = scalar();
      const std::string none = maximum ? "-inf" : "inf";
      switch (pick(8)) {
        case 0:
        case 1:
          if (!r) break;
          s.wrappers.push_back({"(", fmt::format(" + {})", r->text), r->reads, r->features});
          s.bound += r->bound;
          break;
        case 2:
        case 3:
          if (!r || two) break;
          s.wrappers.push_back({"(", fmt::format(" * {})", r->text), r->reads, r->features});
          s.bound *= r->bound;
          break;
        case 4:
          s.wrappers.push_back({"tanh(", ")"});
          s.bound = 1;
          break;
        case 5:
          if (!r) break;
          s.wrappers.push_back(
              {chance(50) ? "max(" : "min(", fmt::format(", {})", r->text), r->reads, r->features});
          s.bound = std::max(s.bound, r->bound);
          break;
        case 6:
          if (k + 1 == n) s.wrappers.push_back({"where(j <= r + 2, ", ", " + none + ")"});
          break;
        default:
          two = true;
          s.wrappers.push_back({maximum ? "max(" : "min(", ", z)"});
          s.bound = std::max(s.bound, 3.);
      }
    }
    return s.bound > 1e4 ? extremum() : s;
  }

  Statement other() {
    auto r = scalar();
    const Piece c = varying();
    switch (pick(5)) {
      case 0:
      case 1: {
        Statement s{.reducer = chance(50) ? "any" : "all", .boolean = true};
        std::vector<size_t> reads;
        bool e = false;
        std::string text = condition();
        if (!results([](const Statement& q) { return !q.boolean; }).empty())
          text = fmt::format("({}) {} {}", text, chance(50) ? "and" : "or", scalar_condition(reads, e));
        s.terms = {{{.text = text, .reads = reads, .features = e}}};
        return s;
      }
      case 2: {
        Statement s{.reducer = "prod"};
        s.terms = {{{.text = one({"(1 + 0.1 * x)", "(0.75 + 0.25 * abs(y))", "exp(0.1 * x)"})}}};
        if (r)
          s.terms[0].push_back({.text = fmt::format("sqrt(0.5 + 1 / (1 + abs({})))", r->text),
                                .reads = r->reads,
                                .features = r->features});
        s.bound = 100;
        return s;
      }
      case 3: {
        Statement s{.reducer = chance(50) ? "argmax" : "argmin", .bound = kLongest, .integer = true};
        s.terms = {{c}};
        if (r && chance(50))
          s.wrappers.push_back({"(", fmt::format(" + {})", r->text), r->reads, r->features});
        if (r && chance(30))
          s.wrappers.push_back({"(", fmt::format(" * (0.1 + abs({})))", r->text), r->reads, r->features});
        return s;
      }
      default: {
        Statement s{.reducer = chance(50) ? "var" : "logsumexp"};
        s.terms = {{c}};
        s.bound = s.reducer == "var" ? c.bound * c.bound : c.bound + 3;
        if (r && chance(40)) {
          s.wrappers.push_back({"(", fmt::format(" + {})", r->text), r->reads, r->features});
          if (s.reducer == "logsumexp") s.bound += r->bound;
        }
        return s;
      }
    }
  }

  Statement statement() {
    const int k = pick(100);
    return k < 62 ? sum() : k < 84 ? extremum() : other();
  }

  // ---- outside ----

  /// Results that truly depend on the elements: what mixes with them cannot separate.
  std::vector<size_t> running() const {
    return results([](const Statement& s) {
      if (s.boolean || s.integer || s.wrappers.size() > 0) return false;
      return (s.reducer == "max" || s.reducer == "sum") && s.terms.size() == 1 && s.terms[0].size() == 1 &&
             s.terms[0][0].reads.empty() && s.bound <= 200;
    });
  }

  Statement mixed() {
    const auto all = running();
    const Piece r = result(all[size_t(pick(int(all.size())))]);
    const std::string c = one({"x", "y", "(x + z)"});
    struct Form {
      const char *op, *text;
    };
    static const Form forms[] = {{"abs", "abs({0} - {1})"},        {"<", "where({1} - 0.01 < {0}, y, 0.5)"},
                                 {"tanh", "tanh({0} - {1})"},      {"sigmoid", "sigmoid({0} + {1})"},
                                 {"round", "round({0} * {1})"},    {"floor", "floor({0} - {1})"},
                                 {"*", "exp({0} * {1} / 256)"},    {"log", "log(500 + {0} + {1})"},
                                 {"pow", "sqrt(500 + {0} + {1})"}, {"pow", "(1 / (500 + {0} - {1}))"},
                                 {"max", "max({0}, {1} / 2)"},     {"cast", "f16({0} * {1})"},
                                 {"erf", "erf({0} - {1})"}};
    const Form& form = forms[pick(int(std::size(forms)))];
    Piece p{
        .text = fmt::format(fmt::runtime(form.text), c, r.text), .reads = r.reads, .features = r.features};
    out_.mixing = p;
    out_.mixing_op = form.op;
    Statement s{.reducer = "sum", .terms = {{p}}};
    if (chance(60)) s.terms[0].push_back(varying());
    if (chance(30)) s.terms[0].push_back(exponential());
    return s;
  }

  std::mt19937_64 random_;
  RandomCascade out_;
};

/// A part of a cascade dropped, or nothing where the cascade cannot do without.
std::optional<RandomCascade> without(const RandomCascade& c, size_t part) {
  const auto reads = [](const Statement& s, size_t k) {
    const auto has = [&](const std::vector<size_t>& all) {
      return std::find(all.begin(), all.end(), k) != all.end();
    };
    for (const auto& t : s.terms)
      for (const Piece& p : t)
        if (has(p.reads)) return true;
    return std::any_of(s.wrappers.begin(), s.wrappers.end(), [&](const Wrapper& w) { return has(w.reads); });
  };
  RandomCascade out = c;
  for (size_t k = 0; k < c.statements.size(); ++k) {
    Statement& s = out.statements[k];
    if (part-- == 0) {
      // Others keep their numbers: a statement is emptied, and left out of the text.
      for (const Statement& q : c.statements)
        if (reads(q, k)) return {};
      const auto held = std::count_if(c.statements.begin(), c.statements.end(),
                                      [](const Statement& q) { return !q.terms.empty(); });
      if (s.terms.empty() || held == 1 || (c.mixing && k + 1 == c.statements.size())) return {};
      s.terms.clear();
      s.wrappers.clear();
      return out;
    }
    for (size_t t = 0; t < s.terms.size(); ++t) {
      if (part-- == 0) {
        if (s.terms.size() == 1) return {};
        s.terms.erase(s.terms.begin() + long(t));
        return out;
      }
      for (size_t f = 0; f < s.terms[t].size(); ++f) {
        if (part-- != 0) continue;
        const bool mixing = c.mixing && s.terms[t][f].text == c.mixing->text;
        if (s.terms[t].size() == 1 || mixing) return {};
        s.terms[t].erase(s.terms[t].begin() + long(f));
        return out;
      }
    }
    for (size_t w = 0; w < s.wrappers.size(); ++w) {
      if (part-- != 0) continue;
      s.wrappers.erase(s.wrappers.begin() + long(w));
      return out;
    }
  }
  return {};
}

}  // namespace

size_t RandomCascade::size() const {
  size_t n = 0;
  for (const Statement& s : statements) {
    n += 1 + s.wrappers.size();
    for (const auto& t : s.terms) n += 1 + t.size();
  }
  return n;
}

std::string RandomCascade::text() const {
  std::string out =
      "axis r, j, d, e\ninput x[r, j] : f32\ninput y[r, j] : f32\ninput z[j] : f32\ninput V[j, e] : f32\n"
      "input Q[r, d] : f32\ninput K[j, d] : f32\n";
  std::vector<std::string> outputs;
  std::vector<bool> features(statements.size(), false);
  for (size_t k = 0; k < statements.size(); ++k) {
    const Statement& s = statements[k];
    if (s.terms.empty()) continue;
    std::vector<std::string> terms;
    bool e = false;
    const auto along = [&](const std::vector<size_t>& reads) {
      for (size_t q : reads) e = e || features[q];
    };
    for (const auto& t : s.terms) {
      std::vector<std::string> factors;
      for (const Piece& p : t) {
        factors.push_back(p.text);
        e = e || p.text.find('V') != std::string::npos;
        along(p.reads);
      }
      terms.push_back(fmt::format("{}", fmt::join(factors, " * ")));
    }
    std::string body = fmt::format("{}", fmt::join(terms, " + "));
    if (!s.wrappers.empty()) body = "(" + body + ")";
    for (const Wrapper& w : s.wrappers) {
      body = w.before + body + w.after;
      along(w.reads);
    }
    features[k] = e;
    out += fmt::format("R{}[{}] = {}[j]({})\n", k, e ? "r, e" : "r", s.reducer, body);
    outputs.push_back(fmt::format("R{}", k));
  }
  return out + fmt::format("output {}\n", fmt::join(outputs, ", "));
}

RandomCascade random_cascade(uint64_t seed, bool outside) { return Generator(seed).run(outside); }

RandomCascade shrunk(RandomCascade c, const std::function<bool(const RandomCascade&)>& fails) {
  for (size_t part = 0; part < c.size();) {
    const auto smaller = without(c, part);
    if (smaller && fails(*smaller)) {
      c = *smaller;
      part = 0;
    } else {
      ++part;
    }
  }
  return c;
}

}  // namespace tilewright::testing
