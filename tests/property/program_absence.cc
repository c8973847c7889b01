// The rules of absence as conditions (presence.h, elaborate.h) against the same rules applied to values:
// every element carries flags, and reductions skip by flag. Random definitions over masks, NaN and
// infinities.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::program_absence_test {
namespace {

constexpr int length = 5;
constexpr double inf = INFINITY;

/// A value and how it may be skipped: absent and reading −inf, absent and reading 0, the literal 0 of a
/// `where`.
struct Flagged {
  double value = 0;
  bool minus_inf = false, zero = false, literal_zero = false;
  bool absent() const { return minus_inf || zero; }
};

/// Evaluates written expressions over one axis j, element by element.
class Oracle {
 public:
  Oracle(const Program& p, const std::map<std::string, std::vector<double>>& data)
      : program_(p), data_(data) {}

  Flagged element(const std::string& name, int j) {
    for (const Definition& d : program_.definitions)
      if (d.sym.name() == name) return eval(d.value, j);
    throw std::runtime_error("no definition " + name);
  }

 private:
  /// A positive constant that the generator can make: a number, or a function of one that is positive.
  bool positive(Expr e) const {
    if (!tensors_read(e).empty()) return false;
    Bindings sizes = {{program_.axes[0].index.size(), double(length)}};
    for (Sym s : free_symbols(e)) {
      if (s.kind() != SymbolKind::Size) return false;
    }
    return evaluate(e, sizes) > 0;
  }
  static bool is_literal(Expr e, double x) { return e.number() && *e.number() == x; }

  Flagged eval(Expr e, int j) {
    const auto arg = [&](size_t k) { return eval(e.arg(k), j); };
    const auto plain = [](double x) { return Flagged{x}; };
    switch (e.op()) {
      case Op::Constant:
      case Op::Real: return plain(*e.number());
      case Op::Symbol: return plain(e->sym.kind() == SymbolKind::Size ? length : j);
      case Op::Read: {
        const int at = e.args().empty() ? 0 : int(arg(0).value);
        if (const Definition* d = program_.definition(e->sym)) return eval(d->value, at);
        return plain(data_.at(e->sym.name()).at(size_t(at)));
      }
      case Op::Add: return sum(arg(0), arg(1), 1);
      case Op::Sub: return sum(arg(0), arg(1), -1);
      case Op::Neg: {
        const Flagged a = arg(0);
        return {-a.value, false, a.zero, a.literal_zero};
      }
      case Op::Mul: {
        const Flagged a = arg(0), b = arg(1);
        return {a.value * b.value, (a.minus_inf && positive(e.arg(1))) || (b.minus_inf && positive(e.arg(0))),
                a.zero || b.zero, a.literal_zero || b.literal_zero};
      }
      case Op::Div: {
        const Flagged a = arg(0), b = arg(1);
        return {a.value / b.value, a.minus_inf && positive(e.arg(1)), a.zero, a.literal_zero};
      }
      case Op::Exp: return {std::exp(arg(0).value), false, arg(0).minus_inf, false};
      case Op::Exp2: return {std::exp2(arg(0).value), false, arg(0).minus_inf, false};
      case Op::Tanh: return plain(std::tanh(arg(0).value));
      case Op::Max: {
        const double a = arg(0).value, b = arg(1).value;
        return plain(std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b));
      }
      case Op::Lt: return plain(arg(0).value < arg(1).value);
      case Op::Le: return plain(arg(0).value <= arg(1).value);
      case Op::Eq: return plain(arg(0).value == arg(1).value);
      case Op::Ne: return plain(arg(0).value != arg(1).value);
      case Op::And: return plain(arg(0).value != 0 && arg(1).value != 0);
      case Op::Or: return plain(arg(0).value != 0 || arg(1).value != 0);
      case Op::Not: return plain(arg(0).value == 0);
      case Op::Mod: return plain(std::fmod(arg(0).value, arg(1).value));
      case Op::Select: return where(e, j);
      case Op::Reduce: return reduction(e, j);
      default: throw std::runtime_error(std::string("the oracle has no ") + name(e.op()));
    }
  }

  static Flagged sum(const Flagged& a, const Flagged& b, int sign) {
    return {a.value + sign * b.value, a.minus_inf || (sign > 0 && b.minus_inf), a.zero && b.zero,
            (a.literal_zero || a.zero) && (b.literal_zero || b.zero)};
  }

  Flagged where(Expr e, int j) {
    const bool c = eval(e.arg(0), j).value != 0;
    const Expr taken = e.arg(c ? 1 : 2);
    Flagged f = is_literal(taken, -inf) ? Flagged{-inf, true} : eval(taken, j);
    if (is_literal(taken, 0)) f.literal_zero = true;
    for (int zero : {1, 2}) {
      if (!is_literal(e.arg(zero), 0)) continue;
      if (eval(e.arg(3 - zero), j).zero) f.zero = true;
      const Expr test = e.arg(0);
      const bool equal = test.is(Op::Eq) && zero == 1, unequal = test.is(Op::Ne) && zero == 2;
      if ((equal || unequal) && is_literal(test.arg(1), -inf) && eval(test.arg(0), j).minus_inf)
        f.zero = true;
    }
    return f;
  }

  Flagged reduction(Expr e, int j) {
    std::vector<Flagged> all;
    for (int k = 0; k < length; ++k) all.push_back(eval(e.arg(0), k));
    const auto maximum = [&] {
      double m = -inf;
      for (const Flagged& f : all)
        if (!f.absent()) m = std::isnan(m) || std::isnan(f.value) ? NAN : std::max(m, f.value);
      return m;
    };
    double count = 0, total = 0;
    for (const Flagged& f : all) {
      if (f.absent()) continue;
      ++count;
      if (!f.literal_zero) total += f.value;
    }
    const auto exponentials = [&](double m, bool guarded) {
      double l = 0;
      for (const Flagged& f : all)
        if (!f.absent() && !(guarded && f.value == -inf)) l += std::exp(f.value - m);
      return l;
    };
    switch (e->reducer) {
      case Reducer::Sum: return {total};
      case Reducer::Max: return {maximum()};
      case Reducer::Min: {
        double m = inf;
        for (const Flagged& f : all)
          if (!f.absent()) m = std::isnan(m) || std::isnan(f.value) ? NAN : std::min(m, f.value);
        return {m};
      }
      case Reducer::Prod: {
        double m = 1;
        for (const Flagged& f : all)
          if (!f.absent()) m *= f.value;
        return {m};
      }
      case Reducer::Mean: return {total / count};
      case Reducer::Var: {
        double squares = 0;
        for (const Flagged& f : all)
          if (!f.absent()) squares += (f.value - total / count) * (f.value - total / count);
        return {squares / count};
      }
      case Reducer::Argmax: {
        const double m = maximum();
        for (int k = 0; k < length; ++k)
          if (!all[size_t(k)].absent() &&
              (all[size_t(k)].value == m || (std::isnan(m) && std::isnan(all[size_t(k)].value))))
            return {double(k)};
        return {-1};
      }
      case Reducer::Logsumexp: {
        const double m = maximum();
        return {std::isinf(m) ? m : m + std::log(exponentials(m, false))};
      }
      case Reducer::Softmax: {
        const Flagged own = all[size_t(j)];
        const double m = maximum(), l = exponentials(m, true);
        const double x = own.absent() || own.value == -inf ? 0 : std::exp(own.value - m);
        return {l == 0 ? 0 : x / l, false, own.absent(), l == 0 || own.value == -inf};
      }
      default: throw std::runtime_error("the oracle has no such reducer");
    }
  }

  const Program& program_;
  const std::map<std::string, std::vector<double>>& data_;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  int pick(int n) { return int(random_() % unsigned(n)); }

  std::string real(int depth, int definitions) {
    const auto a = [&] { return real(depth - 1, definitions); };
    const auto c = [&] { return condition(depth - 1, definitions); };
    if (depth <= 0) {
      switch (pick(definitions > 0 ? 6 : 4)) {
        case 0: return "x";
        case 1: return "v";
        case 2: return "j * 0.5";
        case 3: return "1.5";
        default: return "c" + std::to_string(pick(definitions));
      }
    }
    switch (pick(20)) {
      case 0: return "(" + a() + " + " + a() + ")";
      case 1: return "(" + a() + " - " + a() + ")";
      case 2: return "(" + a() + " * " + a() + ")";
      case 3: return "(" + a() + " / 2)";
      case 4: return "(3 * " + a() + ")";
      case 5: return "(" + a() + " * -2)";
      case 6: return "-(" + a() + ")";
      case 7: return "exp(" + a() + ")";
      case 8: return "exp2(" + a() + ")";
      case 9: return "where(" + c() + ", " + a() + ", -inf)";
      case 10: return "where(" + c() + ", -inf, " + a() + ")";
      case 11: return "where(" + c() + ", " + a() + ", 0)";
      case 12: return "where(" + c() + ", 0, " + a() + ")";
      case 13: {
        const std::string x = a();
        return "where(" + x + " == -inf, 0, exp(" + x + " - 1))";
      }
      case 14: return "where(" + a() + " != -inf, " + a() + ", 0)";
      case 15: return "where(" + c() + ", " + a() + ", " + a() + ")";
      case 16: return "softmax[j](" + a() + ")";
      case 17: return "tanh(" + a() + ")";
      case 18: return "(" + a() + " / " + a() + ")";
      default: return reducer() + "[j](" + a() + ")";
    }
  }

  std::string reducer() {
    static const char* const all[] = {"sum", "sum", "sum", "max", "min", "prod", "mean", "var", "logsumexp"};
    return all[pick(9)];
  }

  std::string condition(int depth, int definitions) {
    switch (pick(depth > 0 ? 8 : 4)) {
      case 0: return "j < 3";
      case 1: return "j % 2 == 0";
      case 2: return "x > 0";
      case 3: return "j != 1";
      case 4:
        return "(" + condition(depth - 1, definitions) + " and " + condition(depth - 1, definitions) + ")";
      case 5:
        return "(" + condition(depth - 1, definitions) + " or " + condition(depth - 1, definitions) + ")";
      case 6: return "not (" + condition(depth - 1, definitions) + ")";
      default: return real(depth - 1, definitions) + " <= " + real(depth - 1, definitions);
    }
  }

  double number(bool special) {
    if (special && pick(4) == 0) return std::vector<double>{NAN, inf, -inf}[size_t(pick(3))];
    return pick(9) * 0.5 - 2;
  }

 private:
  std::mt19937 random_;
};

std::string shown(double x) { return std::isnan(x) ? "nan" : std::to_string(x); }

bool close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b));
}

class ProgramAbsence : public ::testing::TestWithParam<bool> {};

TEST_P(ProgramAbsence, ConditionsAgreeWithFlags) {
  const bool special = GetParam();
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Generator g(seed);
    std::string text = "axis j\ninput x[j] : f64\ninput v[j] : f64\n";
    const int definitions = g.pick(4);
    for (int k = 0; k < definitions; ++k) text += "c" + std::to_string(k) + "[j] = " + g.real(2, k) + "\n";
    const bool arg = !special && g.pick(8) == 0;
    text += "y[] = " + (arg ? "argmax" : g.reducer()) + "[j](" + g.real(3, definitions) + ")\noutput y\n";
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}));
    std::map<std::string, std::vector<double>> data;
    for (const char* name : {"x", "v"})
      for (int j = 0; j < length; ++j) data[name].push_back(g.number(special));

    const Program made = elaborate(p);
    const Expr value = inlined(made, made.definitions.back().sym);
    const Reader reader = [&](Sym t, const std::vector<int64_t>& at) {
      return data.at(t.name()).at(size_t(at[0]));
    };
    const Bindings sizes = {{p.axes[0].index.size(), double(length)}};
    const double expected = Oracle(p, data).element("y", 0).value, found = evaluate(value, sizes, reader);
    ASSERT_TRUE(close(expected, found))
        << text << "x = " << shown(data["x"][0]) << " " << shown(data["x"][1]) << " " << shown(data["x"][2])
        << " " << shown(data["x"][3]) << " " << shown(data["x"][4]) << "\nexpected " << shown(expected)
        << ", found " << shown(found) << "\n"
        << print(made) << to_string(value) << "\nseed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Data, ProgramAbsence, ::testing::Values(false, true),
                         [](const auto& instance) { return instance.param ? "NonFinite" : "Finite"; });

}  // namespace
}  // namespace tilewright::program_absence_test
