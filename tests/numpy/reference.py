#!/usr/bin/env python3
"""The reference evaluator against formulas in NumPy.

Each case is a program, its inputs, and what NumPy says its outputs are, computed in float64 from the inputs as
they are stored. The helper `numpy_evaluate` (evaluate.cc) evaluates all programs; every element must agree
within 1e-9, NaN, infinities, integers and booleans exactly. Exit status 77, which ctest reports as skipped,
where NumPy is missing.

    reference.py PATH_OF_numpy_evaluate [--interp PATH_OF_tilewright] [CASE...]

With --interp each program also runs as tile programs (`tilewright run --target interp`); those that are refused
are listed with the first line of the message, others must agree within the precision of their outputs.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed: the reference evaluator is not compared with it")
    sys.exit(77)

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


class Case:
    """text; inputs NAME -> array as stored; want NAME -> float64; sizes of axes that no input has; params."""

    def __init__(self, text, inputs, want, sizes=None, params=None):
        self.text, self.inputs, self.want = text, inputs, want
        self.sizes, self.params = sizes or {}, params or {}


def rng(seed):
    return np.random.default_rng(seed)


def normal(seed, *shape, dtype=np.float32):
    return rng(seed).standard_normal(shape).astype(dtype)


def wide(x):
    return np.asarray(x).astype(np.float64)


def softmax(x, axis=-1):
    """0 on rows that are −inf throughout."""
    m = x.max(axis=axis, keepdims=True)
    e = np.where(np.isneginf(x), 0.0, np.exp(x - np.where(np.isinf(m), 0.0, m)))
    l = e.sum(axis=axis, keepdims=True)
    return np.where(l == 0, 0.0, e / np.where(l == 0, 1.0, l))


def logsumexp(x, axis=-1):
    m = x.max(axis=axis)
    with np.errstate(divide="ignore"):
        l = np.log(np.exp(x - np.expand_dims(np.where(np.isinf(m), 0.0, m), axis)).sum(axis=axis))
    return np.where(np.isinf(m), m, m + l)


# ---- attention: the ten operators ----------------------------------------------------------------------------


def attention_inputs(seed, queries, keys, heads, kv_heads, d=16, dtype=np.float16):
    q = normal(seed, 2, heads, queries, d, dtype=dtype)
    k = normal(seed + 1, 2, kv_heads, keys, d, dtype=dtype)
    v = normal(seed + 2, 2, kv_heads, keys, d, dtype=dtype)
    return {"Q": q, "K": k, "V": v}


def attend(inputs, change=lambda s, i, j: s, seen=lambda i, j: i + j >= 0):
    q, k, v = (wide(inputs[n]) for n in "QKV")
    ratio = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, ratio, axis=1), np.repeat(v, ratio, axis=1)
    s = q @ np.swapaxes(k, 2, 3) / math.sqrt(q.shape[-1])
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    s = np.where(seen(i, j), change(s, i, j), -np.inf)
    return softmax(s) @ v, logsumexp(s)


PLAIN = """axis b, h, i, j
axis d = 16, e = 16
input Q[b, h, i, d] : f16
input K[b, h, j, d] : f16
input V[b, h, j, e] : f16
S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))
C[b, h, i, j] = {}
O[b, h, i, e] = sum[j](softmax[j](C) * V)
L[b, h, i] = logsumexp[j](C)
output O : f16, L : f32
"""
CAUSAL = "where(j <= i + size(j) - size(i), {}, -inf)"
GROUPED = """axis b, k, g, i, j
axis d = 16, e = 16
input Q[b, (k g), i, d] : f16
input K[b, k, j, d] : f16
input V[b, k, j, e] : f16
S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K) / sqrt(size(d))
C[b, k, g, i, j] = {}
O[b, k, g, i, e] = sum[j](softmax[j](C) * V)
L[b, k, g, i] = logsumexp[j](C)
output O[b, (k g), i, e] : f16, L[b, (k g), i] : f32
"""


def causal(q, k):
    return lambda i, j: j <= i + k - q


@case
def pf_global():
    x = attention_inputs(1, 24, 40, 3, 3)
    o, l = attend(x)
    return Case(PLAIN.format("S"), x, {"O": o, "L": l})


@case
def pf_causal():
    x = attention_inputs(2, 40, 24, 3, 3)  # the first 16 rows see nothing
    o, l = attend(x, seen=causal(40, 24))
    return Case(PLAIN.format(CAUSAL.format("S")), x, {"O": o, "L": l})


SLOPES = "axis b, h, i, j\n", "axis b, h, i, j\ninput slope[h] : f32\n"


@case
def pf_alibi():
    x = attention_inputs(3, 24, 40, 4, 4)
    slope = x["slope"] = (2.0 ** -np.arange(1, 5)).astype(np.float32)
    o, l = attend(x, lambda s, i, j: s + wide(slope)[:, None, None] * (j - i), causal(24, 40))
    return Case(PLAIN.format(CAUSAL.format("S + slope * (j - i)")).replace(*SLOPES), x, {"O": o, "L": l})


@case
def pf_gqa():
    x = attention_inputs(4, 24, 40, 6, 2)
    o, l = attend(x, seen=causal(24, 40))
    return Case(GROUPED.format(CAUSAL.format("S")), x, {"O": o, "L": l}, {"g": 3})


@case
def pf_softcap():
    x = attention_inputs(5, 24, 40, 6, 2)
    o, l = attend(x, lambda s, i, j: 2 * np.tanh(s / 2), causal(24, 40))
    text = "param cap : f32 = 50 range(1, 100)\n" + GROUPED.format(CAUSAL.format("cap * tanh(S / cap)"))
    return Case(text, x, {"O": o, "L": l}, {"k": 2}, {"cap": 2})


@case
def pf_window():
    x = attention_inputs(6, 40, 40, 4, 2)
    o, l = attend(x, lambda s, i, j: 3 * np.tanh(s / 3), lambda i, j: (j <= i) & (i - j < 7))
    masked = "where(j <= i and i - j < 7, 3 * tanh(S / 3), -inf)"
    return Case(GROUPED.format(masked), x, {"O": o, "L": l})


@case
def dc_causal():
    x = attention_inputs(7, 1, 300, 3, 3)
    o, l = attend(x, seen=causal(1, 300))
    return Case(PLAIN.format(CAUSAL.format("S")), x, {"O": o, "L": l})


@case
def dc_alibi():
    x = attention_inputs(8, 1, 300, 4, 4)
    slope = x["slope"] = (2.0 ** -np.arange(1, 5)).astype(np.float32)
    o, l = attend(x, lambda s, i, j: s + wide(slope)[:, None, None] * (j - 299), causal(1, 300))
    text = PLAIN.format(CAUSAL.format("S + slope * (j - (size(j) - 1))")).replace(*SLOPES)
    return Case(text, x, {"O": o, "L": l})


@case
def dc_gqa():
    x = attention_inputs(9, 1, 300, 10, 2)
    o, l = attend(x, seen=causal(1, 300))
    return Case(GROUPED.format(CAUSAL.format("S")), x, {"O": o, "L": l})


@case
def dc_softcap():
    x = attention_inputs(10, 1, 300, 6, 2)
    o, l = attend(x, lambda s, i, j: 5 * np.tanh(s / 5), causal(1, 300))
    return Case(GROUPED.format(CAUSAL.format("5.0 * tanh(S / 5.0)")), x, {"O": o, "L": l})


# ---- norms and losses -----------------------------------------------------------------------------------------


@case
def layernorm_matmul():
    x, gamma, w = normal(11, 7, 96), normal(12, 96), normal(13, 96, 5)
    c = wide(x) - wide(x).mean(axis=1, keepdims=True)
    y = (c / np.sqrt((c**2).mean(axis=1, keepdims=True) + 1e-5) * wide(gamma)) @ wide(w)
    return Case(
        """axis r, c, n
input x[r, c] : f32
input gamma[c] : f32
input W[c, n] : f32
mu[r] = mean[c](x)
y[r, n] = sum[c]((x - mu) * rsqrt(var[c](x) + 1e-5) * gamma * W)
output y : f64
""",
        {"x": x, "gamma": gamma, "W": w},
        {"y": y},
    )


@case
def rmsnorm_swiglu():
    x, w1, w2 = normal(14, 5, 32), normal(15, 32, 24), normal(16, 32, 24)
    n = wide(x) / np.sqrt((wide(x) ** 2).mean(axis=1, keepdims=True) + 1e-6)
    a = n @ wide(w1)
    return Case(
        """axis b, c, f
input x[b, c] : f32
input W1[c, f] : f32
input W2[c, f] : f32
n[b, c] = x * rsqrt(mean[c](x ** 2) + 1e-6)
y[b, f] = silu(sum[c](n * W1)) * sum[c](n * W2)
output y
""",
        {"x": x, "W1": w1, "W2": w2},
        {"y": a / (1 + np.exp(-a)) * (n @ wide(w2))},
    )


@case
def cross_entropy():
    x, w, label = normal(17, 9, 12), normal(18, 12, 50), rng(19).integers(0, 50, 9).astype(np.int32)
    z = wide(x) @ wide(w)
    return Case(
        """axis t, c, v
input x[t, c] : f32
input W[c, v] : f32
input label[t] : i32 range(0, size(v))
Z[t, v] = sum[c](x * W)
loss[t] = logsumexp[v](Z) - Z[t, label[t]]
total[] = mean[t](loss)
output loss : f64, total : f64
""",
        {"x": x, "W": w, "label": label},
        {"loss": logsumexp(z) - z[np.arange(9), label], "total": (logsumexp(z) - z[np.arange(9), label]).mean()},
    )


@case
def huber_and_hinge():
    x, y = normal(20, 6, 33), normal(21, 6, 33)
    d = np.abs(wide(x) - wide(y))
    return Case(
        """axis r, c
input x[r, c] : f32
input y[r, c] : f32
d[r, c] = abs(x - y)
huber[r] = mean[c](where(d < 1, 0.5 * d ** 2, d - 0.5))
hinge[r] = sum[c](relu(1 - x * y))
output huber, hinge
""",
        {"x": x, "y": y},
        {
            "huber": np.where(d < 1, 0.5 * d**2, d - 0.5).mean(axis=1),
            "hinge": np.maximum(0, 1 - wide(x) * wide(y)).sum(axis=1),
        },
    )


@case
def variance_over_two_axes():
    x = normal(22, 3, 8, 9, dtype=np.float64)
    return Case(
        "axis b, r, c\ninput x[b, r, c] : f64\nv[b] = var[r, c](x)\nm[b] = mean[c, r](x)\noutput v, m\n",
        {"x": x},
        {"v": x.var(axis=(1, 2)), "m": x.mean(axis=(1, 2))},
    )


# ---- cumulative, masked and ragged forms ----------------------------------------------------------------------


@case
def cumulative_sums():
    x = normal(23, 4, 37)
    return Case(
        """axis r, i, j = size(i)
input x[r, j] : f32
s[r, i] = sum[j](where(j <= i, x, 0))
p[r, i] = prod[j](where(j < i, x, 1))
m[r, i] = max[j](where(j <= i, x, -inf))
output s : f64, p : f64, m : f64
""",
        {"x": x},
        {
            "s": np.cumsum(wide(x), axis=1),
            "p": np.cumprod(np.concatenate([np.ones((4, 1)), wide(x)[:, :-1]], axis=1), axis=1),
            "m": np.maximum.accumulate(wide(x), axis=1),
        },
    )


@case
def ragged_rows():
    x, n = normal(24, 6, 20), np.array([0, 1, 5, 20, 19, 7], np.int32)
    x[0, :] = np.nan  # never seen
    x[2, 5:] = np.inf
    inside = np.arange(20)[None, :] < n[:, None]
    y = np.where(inside, wide(x), -np.inf)
    clean = np.where(inside, wide(x), 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = clean.sum(axis=1) / n
    return Case(
        """axis b, j
input x[b, j] : f32
input len[b] : i32 range(0, size(j) + 1)
c[b, j] = where(j < len[b], x, -inf)
p[b, j] = softmax[j](c)
m[b] = mean[j](c)
a[b] = argmax[j](c)
z[b] = logsumexp[j](c)
lo[b] = min[j](c)
output p, m, a, z, lo
""",
        {"x": x, "len": n},
        {
            "p": softmax(y),
            "m": mean,
            "a": np.where(n == 0, -1, y.argmax(axis=1)),
            "z": logsumexp(y),
            "lo": np.where(inside, wide(x), np.inf).min(axis=1),
        },
    )


@case
def documents():
    x, doc = normal(25, 30, 4), np.repeat(np.arange(5), 6).astype(np.int32)
    s = wide(x) @ wide(x).T
    s = np.where((doc[:, None] == doc[None, :]) & (np.arange(30)[None, :] <= np.arange(30)[:, None]), s, -np.inf)
    return Case(
        """axis i, j = size(i)
axis d
input x[i, d] : f32
input y[j, d] : f32
input doc[i] : i32
s[i, j] = sum[d](x * y)
c[i, j] = where(doc[i] == doc[j] and j <= i, s, -inf)
o[i, d] = sum[j](softmax[j](c) * y)
output o
""",
        {"x": x, "y": x, "doc": doc},
        {"o": softmax(s) @ wide(x)},
    )


@case
def masked_factor_hides_nan():
    x, w = normal(26, 5, 16), normal(27, 16)
    x[:, 3] = np.nan
    w[3] = 0
    keep = np.arange(16) != 3
    return Case(
        """axis r, j
input x[r, j] : f32
input w[j] : f32
y[r] = sum[j](x * where(j != 3, w, 0))
z[r] = max[j](x)
output y, z
""",
        {"x": x, "w": w},
        {"y": wide(x)[:, keep] @ wide(w)[keep], "z": np.full(5, np.nan)},
    )


@case
def sinks():
    x, sink = normal(28, 3, 10, 25), normal(29, 3)
    s = wide(x)
    m = np.maximum(s.max(axis=2), wide(sink)[:, None])
    e = np.exp(s - m[..., None])
    return Case(
        """axis h, i, j
input s[h, i, j] : f32
input sink[h] : f32
m[h, i] = max(max[j](s), sink)
l[h, i] = sum[j](exp(s - m)) + exp(sink - m)
p[h, i, j] = exp(s - m) / l
output p
""",
        {"s": x, "sink": sink},
        {"p": e / (e.sum(axis=2) + np.exp(wide(sink)[:, None] - m))[..., None]},
    )


# ---- integers, booleans, indices ------------------------------------------------------------------------------


@case
def integers():
    a, b = rng(30).integers(-50, 50, (6, 11)), rng(31).integers(1, 9, (6, 11)).astype(np.int32)
    return Case(
        """axis r, c
input a[r, c] : i64
input b[r, c] : i32
q[r, c] = a // b
m[r, c] = a % -b
s[r] = sum[c](a * b - a ** 2)
p[r] = prod[c](a % 3 + 1)
x[r] = max[c](a) - min[c](b)
f[r, c] : i8 = a * 1000
d[r, c] = a / b
output q, m, s, p, x, f, d : f64
""",
        {"a": a, "b": b},
        {
            "q": a // b,
            "m": a % -b,
            "s": (a * b - a**2).sum(axis=1),
            "p": (a % 3 + 1).prod(axis=1),
            "x": a.max(axis=1) - b.min(axis=1),
            "f": np.clip(a * 1000, -128, 127),
            "d": a / b,
        },
    )


@case
def booleans():
    m, x = rng(32).random((5, 9)) < 0.5, normal(33, 5, 9)
    return Case(
        """axis r, c
input m[r, c] : bool
input x[r, c] : f32
any_[r] = any[c](m and x > 0)
all_[r] = all[c](m or not (x < 1))
count[r] = sum[c](m == (x > 0))
share[r] = mean[c](m)
flip[r, c] = m != (c % 2 == 0)
output any_, all_, count, share, flip
""",
        {"m": m, "x": x},
        {
            "any_": (m & (x > 0)).any(axis=1),
            "all_": (m | ~(x < 1)).all(axis=1),
            "count": (m == (x > 0)).sum(axis=1),
            "share": m.mean(axis=1),
            "flip": m != (np.arange(9) % 2 == 0),
        },
    )


@case
def extreme_indices():
    x = rng(34).integers(-3, 3, (8, 20)).astype(np.float32)  # many ties
    x[5, [4, 9]] = np.nan
    return Case(
        """axis r, c
input x[r, c] : f32
a[r] = argmax[c](x)
b[r] = argmin[c](-abs(x))
v[r] = x[r, argmin[c](x)]
output a, b, v
""",
        {"x": x},
        {
            "a": np.argmax(x, axis=1),
            "b": np.argmin(-np.abs(x), axis=1),
            "v": wide(x[np.arange(8), np.argmin(x, axis=1)]),
        },
    )


def ranked(x, k, present=None):
    """Values and indices of topk: NaN first, then descending, smaller index first; −inf and −1 where missing."""
    values, index = np.full(x.shape[:-1] + (k,), -np.inf), np.full(x.shape[:-1] + (k,), -1)
    for row in np.ndindex(x.shape[:-1]):
        all_of = [i for i in range(x.shape[-1]) if present is None or present[row + (i,)]]
        all_of.sort(key=lambda i: (not np.isnan(x[row + (i,)]), -x[row + (i,)] if not np.isnan(x[row + (i,)]) else 0, i))
        for n, i in enumerate(all_of[:k]):
            values[row + (n,)], index[row + (n,)] = x[row + (i,)], i
    return values, index


@case
def router():
    x = normal(35, 16, 64)
    p = softmax(wide(x))
    w, c = ranked(p, 8)
    return Case(
        """axis t, v
axis n = 8
input x[t, v] : f32
p[t, v] = softmax[v](x)
w[t, n] = topk[v -> n](p)
c[t, n] = argtopk[v -> n](p)
output w : f64, c : i32
""",
        {"x": x},
        {"w": w, "c": c},
    )


@case
def topk_of_what_is_masked():
    x = rng(36).integers(-2, 3, (6, 12)).astype(np.float32)
    x[1, 7] = np.nan
    x[2, [0, 3]] = -np.inf
    n = np.array([12, 12, 5, 3, 0, 1], np.int32)
    present = np.arange(12)[None, :] < n[:, None]
    w, c = ranked(wide(x), 4, present)
    return Case(
        """axis t, v
axis n = 4
input x[t, v] : f32
input len[t] : i32 range(0, size(v) + 1)
m[t, v] = where(v < len[t], x, -inf)
w[t, n] = topk[v -> n](m)
c[t, n] = argtopk[v -> n](m)
second[t] = c[t, 1]
output w, c, second
""",
        {"x": x, "len": n},
        {"w": w, "c": c, "second": c[:, 1]},
    )


# ---- gathers and layouts --------------------------------------------------------------------------------------


@case
def paged_cache():
    pages, page, keys = normal(37, 9, 4, 3), rng(38).permutation(9)[:5].astype(np.int32)[None, :], 18
    flat = wide(pages)[page[0]].reshape(-1, 3)[:keys]
    q = normal(39, 1, 3)
    return Case(
        """axis b, j, p, u, s = 4, d
input q[b, d] : f32
input C[p, s, d] : f32
input page[b, u] : i32 range(0, size(p))
z[b, j] = sum[d](q * C[page[b, j // 4], j % 4, d])
o[b, d] = sum[j](softmax[j](z) * C[page[b, j // 4], j % 4, d])
output o
""",
        {"q": q, "C": pages, "page": page},
        {"o": softmax(wide(q) @ flat.T) @ flat},
        {"j": keys},
    )


@case
def embedding_and_rotation():
    table, ids, x = normal(40, 20, 6), rng(41).integers(0, 20, (2, 7)).astype(np.int64), normal(42, 2, 7, 6)
    t, d = np.arange(7)[:, None], np.arange(6)[None, :]
    angle = t / 100.0 ** (2 * (d % 3) / 6)
    half = np.where(np.arange(6) < 3, -1, 1) * wide(x)[..., (np.arange(6) + 3) % 6]
    return Case(
        """axis b, t, w, d = 6
input E[w, d] : f32
input ids[b, t] : i64 range(0, size(w))
input x[b, t, d] : f32
a[t, d] = t / 100 ** (2 * (d % 3) / 6)
h[b, t, d] = where(d < 3, -x[b, t, (d + 3) % 6], x[b, t, (d + 3) % 6])
r[b, t, d] = E[ids[b, t], d] + x * a + h * exp(-a)
output r
""",
        {"E": table, "ids": ids, "x": x},
        {"r": wide(table)[ids] + wide(x) * angle + half * np.exp(-angle)},
    )


@case
def composite_dimensions():
    x = normal(43, 3, 8, 5)  # [a, (k g), d], k = 2, g = 4
    y = wide(x).reshape(3, 2, 4, 5)
    return Case(
        """axis a, k, g, d, f = size(k) * size(g)
input x[a, (k g), d] : f32
y[a, k, g, d] = x
z[a, f, d] = x[a, f, d] * 2
s[a, k] = sum[g, d](x[a, (k g), d])
output y[(g d), (a k)], z[d, f, a], s[k, a]
""",
        {"x": x},
        {"y": y.transpose(2, 3, 0, 1).reshape(20, 6), "z": wide(x).transpose(2, 1, 0) * 2, "s": y.sum(axis=(2, 3)).T},
        {"k": 2},
    )


@case
def roundings():
    x = normal(44, 5, 40) * 100
    half = x.astype(np.float16)
    return Case(
        """axis r, c
input x[r, c] : f32
h[r, c] : f16 = x
s[r] = sum[c](h)
t[r] = sum[c](f16(x) - x)
k[r, c] = i32(x) + round(x) + floor(x)
big[r, c] : f16 = x * 10000
output h : f32, s : f64, t : f64, k, big : f64
""",
        {"x": x},
        {
            "h": wide(half),
            "s": wide(half).sum(axis=1),
            "t": (wide(half) - wide(x)).sum(axis=1),
            "k": np.trunc(wide(x)) + np.rint(wide(x)) + np.floor(wide(x)),
            "big": wide((wide(x) * 10000).astype(np.float16)),
        },
    )


@case
def functions():
    x = normal(45, 200)
    y, erf = wide(x), np.vectorize(math.erf)
    return Case(
        """axis i
input x[i] : f32
a[i] = exp(x) + log(abs(x)) + exp2(x) * log2(x ** 2)
b[i] = sqrt(abs(x)) + rsqrt(x ** 2 + 1) + tanh(x) * sigmoid(x)
c[i] = gelu(x) + silu(x) + relu(x) + erf(x) + sign(x)
d[i] = pow(abs(x), 1.5) + 2 ** -x + max(x, -0.5, 0) - min(x, i)
e[i] = where(x == x, 1 / x, 0)
output a : f64, b : f64, c : f64, d : f64, e : f64
""",
        {"x": x},
        {
            "a": np.exp(y) + np.log(np.abs(y)) + np.exp2(y) * np.log2(y**2),
            "b": np.sqrt(np.abs(y)) + 1 / np.sqrt(y**2 + 1) + np.tanh(y) / (1 + np.exp(-y)),
            "c": 0.5 * y * (1 + erf(y / math.sqrt(2))) + y / (1 + np.exp(-y)) + np.maximum(y, 0) + erf(y) + np.sign(y),
            "d": np.abs(y) ** 1.5 + 2**-y + np.maximum(np.maximum(y, -0.5), 0) - np.minimum(y, np.arange(200)),
            "e": 1 / y,
        },
    )


@case
def nan_tests():
    x = normal(46, 4, 12)
    x[1, 2] = x[3, 0] = np.nan
    x[2, 5] = np.inf
    y = wide(x)
    return Case(
        """axis r, c
input x[r, c] : f32
n[r] = sum[c](x != x)
s[r] = sum[c](where(x == x, x, 0))
a[r] = any[c](not (x <= x))
m[r] = max[c](where(x == x, x, -inf))
output n, s, a, m
""",
        {"x": x},
        {
            "n": np.isnan(y).sum(axis=1),
            "s": np.nansum(y, axis=1),
            "a": np.isnan(y).any(axis=1),
            "m": np.nanmax(y, axis=1),
        },
    )


@case
def empty_axes():
    x = np.zeros((3, 0), np.float32)
    nan = np.full(3, np.nan)
    return Case(
        """axis r, c
axis n = 2
input x[r, c] : f32
s[r] = sum[c](x)
p[r] = prod[c](x)
h[r] = max[c](x)
l[r] = min[c](x)
m[r] = mean[c](x)
v[r] = var[c](x)
z[r] = logsumexp[c](x)
a[r] = argmax[c](x)
e[r] = any[c](x > 0)
f[r] = all[c](x > 0)
t[r, n] = topk[c -> n](x)
i[r, n] = argtopk[c -> n](x)
y[r, c] = softmax[c](x)
output s, p, h, l, m, v, z, a, e, f, t, i, y
""",
        {"x": x},
        {
            "s": np.zeros(3), "p": np.ones(3), "h": np.full(3, -np.inf), "l": np.full(3, np.inf), "m": nan, "v": nan,
            "z": np.full(3, -np.inf), "a": np.full(3, -1), "e": np.zeros(3), "f": np.ones(3),
            "t": np.full((3, 2), -np.inf), "i": np.full((3, 2), -1), "y": np.zeros((3, 0)),
        },
    )


# ---- running --------------------------------------------------------------------------------------------------


def write(folder, c):
    folder.mkdir()
    (folder / "program.tw").write_text(c.text)
    for name, array in c.inputs.items():
        np.save(folder / f"{name}.npy", array)
    lines = [f"size {k} {v}" for k, v in c.sizes.items()] + [f"param {k} {v}" for k, v in c.params.items()]
    (folder / "bindings").write_text("\n".join(lines) + "\n")


def difference(got, want, tolerance):
    """A text that says where the two differ, empty where they do not."""
    want = np.asarray(want, np.float64)
    if got.shape != want.shape:
        return f"shape {got.shape} for {want.shape}"
    got = got.astype(np.float64)
    finite = np.isfinite(want) & np.isfinite(got)
    wrong = ~finite & ~((got == want) | (np.isnan(got) & np.isnan(want)))
    with np.errstate(invalid="ignore"):
        wrong |= finite & (np.abs(got - want) > tolerance * (1 + np.abs(want)))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements, first at {at}: {got[at]} for {want[at]}"


def interpreted(tilewright, folder, c):
    command = [tilewright, "run", str(folder / "program.tw"), "--target", "interp"]
    for name in c.inputs:
        command += ["--input", f"{name}={folder / name}.npy"]
    for name, value in c.sizes.items():
        command += ["--size", f"{name}={value}"]
    for name, value in c.params.items():
        command += ["--param", f"{name}={value}"]
    for name in c.want:
        command += ["--output", f"{name}={folder / name}.interp.npy"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        return ran.returncode, (ran.stderr.strip().splitlines() or ["no message"])[0]
    return 0, ""


def main():
    options = argparse.ArgumentParser()
    options.add_argument("evaluate")
    options.add_argument("--interp", help="path of the command: also run the programs as tile programs")
    options.add_argument("cases", nargs="*")
    o = options.parse_args()
    chosen = {name: CASES[name]() for name in o.cases or CASES}
    failures = 0

    def fail(message):
        nonlocal failures
        failures += 1
        print("FAILED", message)

    with tempfile.TemporaryDirectory() as root:
        folders = {name: pathlib.Path(root) / name for name in chosen}
        for name, c in chosen.items():
            write(folders[name], c)
        subprocess.run([o.evaluate, *map(str, folders.values())], check=True)
        for name, c in chosen.items():
            error = folders[name] / "error.txt"
            if error.exists():
                fail(f"{name}: {error.read_text()}")
                continue
            for output, want in c.want.items():
                text = difference(np.load(folders[name] / f"{output}.out.npy"), want, 1e-9)
                if text:
                    fail(f"{name}, output {output}: {text}")
            if not o.interp:
                continue
            status, message = interpreted(o.interp, folders[name], c)
            if status == 2:
                print(f"refused as tile program: {name}: {message}")
            elif status:
                fail(f"{name}: the command gave {status}: {message}")
            else:
                for output, want in c.want.items():
                    text = difference(np.load(folders[name] / f"{output}.interp.npy"), want, 5e-3)
                    if text:
                        fail(f"{name}, output {output} of the tile program: {text}")
    print(f"{len(chosen)} programs compared with NumPy, {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
