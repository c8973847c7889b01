// Programs written in tests, and their derivations.
#pragma once
#include <memory>
#include <string>

#include "tilewright/derive/state.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::testing {

struct Derived {
  Program program;  ///< elaborated
  Derivation d;
  const State& state(size_t pass = 1) const { return d.passes.at(pass - 1).state; }
  const Component* component(const std::string& name, size_t pass = 1) const {
    for (const Component& c : state(pass).components)
      if (c.var.name() == name) return &c;
    return nullptr;
  }
  const Reduction* reduction(const std::string& name) const {
    for (const Reduction& r : d.cascade.reductions)
      if (r.result.name() == name) return &r;
    return nullptr;
  }
};

inline Program elaborated(const std::string& text) {
  return elaborate(parse_program(std::make_shared<SourceText>(SourceText{"test.tw", text})));
}

/// The derivation over the axis of that name.
inline Derived derived(const std::string& text, const std::string& axis) {
  Derived out{elaborated(text), {}};
  out.d = derive(out.program, out.program.axis(axis)->index);
  return out;
}

namespace programs {

inline const std::string softmax = R"(
axis r, j
input x[r, j] : f32
p[r, j] = softmax[j](x)
output p
)";

inline const std::string ranks = R"(
axis t, v
axis n = 8
input x[t, v] : f32
input len[t] : i32
p[t, v] = softmax[v](where(v < len[t], x / 4, -inf))
w[t, n] = topk[v -> n](p)
c[t, n] = argtopk[v -> n](p)
output w : f32, c : i32
)";

inline const std::string causal = R"(
axis b, i, j
axis d = 128, e = 64
input Q[b, i, d] : f16
input K[b, j, d] : f16
input V[b, j, e] : f16
S[b, i, j] = sum[d](Q * K) / sqrt(size(d))
C[b, i, j] = where(j <= i + size(j) - size(i), S, -inf)
P[b, i, j] = softmax[j](C)
O[b, i, e] = sum[j](P * V)
output O : f16
)";

inline const std::string layernorm = R"(
axis r, n
axis c = 4096
input x[r, c] : f16
input gamma[c] : f16
input W[c, n] : f16
mu[r] = mean[c](x)
s2[r] = var[c](x)
y[r, n] = sum[c]((x - mu) * rsqrt(s2 + 1e-5) * gamma * W)
output y : f16
)";

inline const std::string variance = R"(
axis r, c
input x[r, c] : f32
v[r] = var[c](x)
output v
)";

inline const std::string covariance = R"(
axis r, c
input u[r, c] : f32
input v[r, c] : f32
k[r] = mean[c]((u - mean[c](u)) * (v - mean[c](v)))
output k
)";

inline const std::string unsafe_softmax = R"(
axis i, j, e
input S[i, j] : f32
input V[j, e] : f32
O[i, e] = sum[j](exp(S) * V) / sum[j](exp(S))
output O
)";

inline const std::string affine = R"(
axis r, n, c
input x[r, c] : f32
input W[c, n] : f32
lo[r] = min[c](x)
hi[r] = max[c](x)
y[r, n] = sum[c]((x - lo) / (hi - lo) * W)
output y
)";

inline const std::string backward = R"(
axis i, j
axis d = 64
input Q[i, d] : f16
input K[j, d] : f16
input V[j, d] : f16
input G[i, d] : f16
S[i, j] = sum[d](Q * K) / 8
P[i, j] = softmax[j](S)
T[i, j] = sum[d](G * V)
D[i] = sum[j](P * T)
dQ[i, d] = sum[j](P * (T - D) * K)
output dQ : f16
)";

/// y = Σ g(u, r) · v with r an earlier maximum over the same axis.
inline std::string with_earlier_maximum(const std::string& g) {
  return "axis i, j, d\ninput u[i, j] : f32\ninput v[j, d] : f32\nr[i] = max[j](abs(u))\ny[i, d] = sum[j](" +
         g + " * v)\noutput y\n";
}

}  // namespace programs
}  // namespace tilewright::testing
