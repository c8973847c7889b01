// C text of scalar expressions.
#include "tilewright/emit/c_expr.h"

#include <gtest/gtest.h>

namespace tilewright::emit_c_expr_test {
namespace {

Sym index_symbol(const std::string& name) {
  static std::map<std::string, Sym> known;
  Sym& s = known[name];
  if (!s) {
    SymbolInfo size{.name = "n" + name, .kind = SymbolKind::Size, .integer = true, .nonnegative = true};
    SymbolInfo info{.name = name, .kind = SymbolKind::Index, .integer = true, .nonnegative = true};
    info.size = &Sym::fresh(size).info();
    s = Sym::fresh(info);
  }
  return s;
}
Sym tile(const std::string& name) { return Sym::fresh({.name = name, .kind = SymbolKind::Tile}); }

CDialect plain() {
  CDialect d;
  for (Op op : {Op::Exp, Op::Exp2, Op::Log, Op::Sqrt, Op::Tanh, Op::Pow})
    d.functions[{op, CKind::Real}] = std::string("t_") + name(op) + (op == Op::Pow ? "({0}, {1})" : "({0})");
  for (CKind k : {CKind::Real, CKind::Integer}) {
    d.functions[{Op::Max, k}] = k == CKind::Real ? "fmax({0}, {1})" : "imax({0}, {1})";
    d.functions[{Op::FloorDiv, k}] = "floordiv({0}, {1})";
    d.functions[{Op::Mod, k}] = "floormod({0}, {1})";
  }
  d.casts[DType::f16] = "round_f16({0})";
  d.casts[DType::i32] = "to_i32({0})";
  return d;
}

class Plain : public CPrinter {
 public:
  explicit Plain(CDialect d = plain()) : CPrinter(std::move(d)) {}

 protected:
  CValue symbol(Sym s) override {
    return s.info().integer ? CValue::integer(s.name()) : CValue::real(s.name());
  }
  CValue read(Expr e) override {
    std::string text = e->sym.name();
    for (Expr a : e.args()) text += "[" + integer(a) + "]";
    return CValue::real(text);
  }
};

struct CExpr : ::testing::Test {
  Plain c;
  Sym i = index_symbol("i"), j = index_symbol("j"), x = tile("x"), y = tile("y");
  Expr xi = read(x, {i}), yi = read(y, {i});
  Sym t = Sym::fresh({.name = "t"});
};

TEST_F(CExpr, FoldsClosedFactorsIntoOneLiteral) {
  const Expr root = pow(128, Expr(Rational(-1, 2)));
  EXPECT_EQ(c.real(make(Op::Mul, {root, pow(log(2), -1), xi})), "0.12751743f * x[i]");
  EXPECT_EQ(c.real(make(Op::Add, {log(2), xi, root})), "x[i] + 0.7815355f");
}

TEST_F(CExpr, PrintsIntegersAndConvertsTheirExactSum) {
  EXPECT_EQ(c.integer(make(Op::Add, {make(Op::Mul, {Expr(i), Expr(128)}), Expr(j), Expr(-3)})),
            "128 * i + j - 3");
  EXPECT_EQ(c.real(make(Op::Add, {xi, Expr(j), make(Op::Mul, {Expr(-1), Expr(i)})})),
            "x[i] + (float)(j - i)");
  EXPECT_EQ(c.real(Expr(i) * Expr(Rational(1, 2))), "0.5f * (float)i");
}

TEST_F(CExpr, WrapsDifferencesWithALeadingConstantInProducts) {
  for (const Expr& constant : {Expr(-3), Expr(3)}) {
    const std::string shown = constant == Expr(3) ? "3.0f" : "-3.0f";
    const Expr difference = make(Op::Sub, {constant, xi});
    EXPECT_EQ(c.real(difference), shown + " - x[i]");
    EXPECT_EQ(c.real(make(Op::Mul, {difference, Expr(2)})), "2.0f * (" + shown + " - x[i])");
    EXPECT_EQ(c.real(make(Op::Sub, {yi, difference})), "y[i] - (" + shown + " - x[i])");
    EXPECT_EQ(c.real(make(Op::Exp2, {make(Op::Mul, {difference, yi})})),
              "t_exp2((" + shown + " - x[i]) * y[i])");
  }
  EXPECT_EQ(c.integer(make(Op::Mul, {make(Op::Sub, {Expr(-3), Expr(i)}), Expr(j)})), "(-3 - i) * j");
  EXPECT_EQ(c.real(make(Op::Mul, {make(Op::Neg, {xi}), yi})), "-x[i] * y[i]");
}

TEST_F(CExpr, ShiftsAndMasksForPowersOfTwo) {
  EXPECT_EQ(c.integer(floordiv(i, 16)), "i >> 4");
  EXPECT_EQ(c.integer(mod(Expr(i) + j, 16)), "(i + j) & 15");
  EXPECT_EQ(c.integer(floordiv(i, 6) + 1), "i / 6 + 1");
  EXPECT_EQ(c.integer(mod(Expr(i) - j, 6)), "floormod(i - j, 6)");
}

TEST_F(CExpr, MovesNegativeTermsAcrossAComparison) {
  const Expr minus_j = make(Op::Mul, {Expr(-1), Expr(j)}),
             minus_nj = make(Op::Mul, {Expr(-1), Expr(j.size())});
  EXPECT_EQ(c.boolean(less_equal(0, make(Op::Add, {Expr(i), minus_j, Expr(i.size()), minus_nj}))),
            "j + nj <= i + ni");
  EXPECT_EQ(c.boolean(less_equal(0, make(Op::Add, {Expr(-1), Expr(i), minus_j}))), "j < i");
  EXPECT_EQ(c.boolean(logical_and(less(i, j), logical_not(equal(i, 3)))), "i < j && !(i == 3)");
}

TEST_F(CExpr, PrintsQuotientsRootsAndPowers) {
  EXPECT_EQ(c.real(make(Op::Mul, {xi, pow(yi, -1)})), "x[i] / y[i]");
  EXPECT_EQ(c.real(pow(yi, -1)), "1.0f / y[i]");
  EXPECT_EQ(c.real(pow(xi, Expr(Rational(1, 2)))), "t_sqrt(x[i])");
  EXPECT_EQ(c.real(xi * pow(yi, Expr(Rational(-1, 2)))), "x[i] / t_sqrt(y[i])");
  EXPECT_EQ(c.real(pow(t, 3)), "t * t * t");
  EXPECT_EQ(c.real(pow(xi, yi)), "t_pow(x[i], y[i])");
  EXPECT_EQ(c.real(make(Op::Mul, {Expr(-2), xi + yi})), "-2.0f * (x[i] + y[i])");
  EXPECT_EQ(c.real(xi - make(Op::Mul, {Expr(-2), yi})), "x[i] + 2.0f * y[i]");
}

TEST_F(CExpr, RecognisesPowersOfTwo) {
  const Expr log2 = log(2);
  const Expr difference = make(Op::Add, {make(Op::Mul, {log2, xi}), make(Op::Mul, {Expr(-1), log2, yi})});
  EXPECT_EQ(c.real(exp(difference)), "t_exp2(x[i] - y[i])");
  EXPECT_EQ(c.real(exp(xi - yi)), "t_exp(x[i] - y[i])");
}

TEST_F(CExpr, SelectsAndCasts) {
  EXPECT_EQ(c.real(select(less_equal(j, i), xi, Expr::real(-__builtin_inf()))),
            "j <= i ? x[i] : -__builtin_inff()");
  EXPECT_EQ(c.real(cast(DType::f16, xi) + 1), "round_f16(x[i]) + 1.0f");
  EXPECT_EQ(c.integer(cast(DType::i32, xi)), "to_i32(x[i])");
  EXPECT_EQ(c.real(max(xi, max(yi, 0))), "fmax(x[i], fmax(y[i], 0.0f))");
}

TEST_F(CExpr, SharesWhatOccursTwice) {
  c.share("t");
  const Expr s = xi + yi;
  EXPECT_EQ(c.real(make(Op::Tanh, {s}) * s), "t_tanh(t0) * t0");
  EXPECT_EQ(c.take_declarations(), (std::vector<std::string>{"const float t0 = x[i] + y[i];"}));
}

TEST_F(CExpr, ComputesInTheWidthAskedFor) {
  CDialect d = plain();
  d.integer_bits = 32;
  d.real_bits = 64;
  Plain p(d);
  EXPECT_EQ(p.real(Expr(i) + Expr(Rational(1, 3))), "(double)(int)i + 0.3333333333333333");
  EXPECT_EQ(p.integer(Expr(i) + 2), "(int)i + 2");
}

}  // namespace
}  // namespace tilewright::emit_c_expr_test
