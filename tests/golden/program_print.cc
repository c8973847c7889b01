// Canonical text of programs, and what elaboration makes of them.
#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::program_print_test {
namespace {

Program example(const std::string& name) {
  return load_program(std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw");
}

TEST(ProgramPrint, Canonical) {
  // Everything the language has, in one text that means nothing.
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{"all.tw", R"(
program everything
axis b,k, g , i, j, p           # comment
axis d = 2*8, s=16, n, l = size(p) * size(s)
let scale = 1/sqrt(size(d))
param cap:f32=50 range(1,100)
param causal : bool = true
param w : i64 = -3
input Q[b,(k g),i,d]:f16
input K[b, k, j, d] : bf16
input C[p, s, d] : f8e4m3
input page[b, l] : i32 range(0, size(p))
input ok[b, j] : bool
input t[] : f64
S[b, k, g, i, j] = sum[d](Q[b,(k g),i,d]*K)*scale
T[b, i, j] = sum[d](Q[b, i % 4, i, d] * Q[b, j // 3 + 1, 0, d]) - -1 + 1.5 ** -2 ** i - (2 - 3)
U[b, l, d] : bf16 = C[page[b, l // size(s)], l % 16, d]
M[b, i, j] : bool = not (ok[b, j] and (i < j or true)) or ok == (i != j) and causal or not not ok
W[b, k, g, i, j] = where(M, cap * tanh(S / cap), -inf)
X[b, k, g, i] = logsumexp[j](W) + argmax[j](W) + mean[j](W) * var[j](W) + max[j](max(W, S, 1e-5))
Y[] = prod[b, i](X[b, 0, 0, i]) + min[b](t) + 0.1 + inf
Z[i] = relu(i) + silu(t) + gelu(t) + rsqrt(t) + log2(exp2(t)) + pow(t, 2) + f16(t) + i8(i) + sign(erf(abs(round(floor(t)))))
A[i] = all[j](i > j) or any[j](i >= j)
R[b,n] = topk[j->n](ok) + min[k, g, i](argtopk[j -> n](W))
output W[b, (k g), j, i] : f16, U, X, Y:f64, A, Z, T, R
output Q, page[l, b]
)"}));
  const std::string text = print(p);
  testing::expect_golden("program/everything.txt", text);
  EXPECT_EQ(print(parse_program(std::make_shared<SourceText>(SourceText{"printed.tw", text}))), text);
}

TEST(ProgramPrint, Elaborated) {
  for (const char* name : {"pf_causal", "layernorm_matmul", "softmax", "respelled"})
    testing::expect_golden(std::string("program/") + name + ".elaborated.txt",
                           print(elaborate(example(name))));
}

}  // namespace
}  // namespace tilewright::program_print_test
