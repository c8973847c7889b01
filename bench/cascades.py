"""Times cascaded reductions beyond attention (examples/) beside the same program unfused, PyTorch and the machine's roofline, in one process.

    python3 bench/cascades.py [--threads N] [--rounds 5] [--only softmax,argmax] [--dtype f32] [--no-compile]

Unfused: our own kernels, one for each statement of the program written out (below), with arrays between them. PyTorch: eager and, unless --no-compile,
torch.compile. Roofline: the larger of compulsory bytes (inputs and outputs once) over the rate at which memory is read, and operations of the products over
the FMA peak, both measured in the same rounds (medians). Every result is compared with the unfused one before it is timed. Ratios are of medians.
"""

import argparse
import random
import re
import statistics
import sys
import time

import cpu
import numpy as np
from cpu import ROOT, THREADS, tilewright, torch

BITS = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64}


def definitions(text):
    """Lines of a program: declarations, (name, axes, line) of its definitions, output names."""
    declared, defined, outputs = [], [], []
    for line in text.splitlines():
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        made = re.match(r"(\w+)\[([^\]]*)\]\s*(:\s*\w+\s*)?=", line)
        if made:
            defined.append((made[1], made[2], line))
        elif line.startswith("output"):
            outputs += re.findall(r"(\w+)(?:\[[^\]]*\])?", re.sub(r":\s*\w+", "", line[len("output"):]))
        elif not line.startswith("program"):
            declared.append(line)
    return declared, defined, outputs


def statements(text, dtype):
    """The program cut into one program for each definition, which reads what stands before it as inputs."""
    declared, defined, outputs = definitions(text)
    parts = []
    for k, (name, axes, line) in enumerate(defined):
        used = set(re.findall(r"\w+", line.split("=", 1)[1]))
        # An earlier definition is an input in the shape that it was given.
        inputs = [f"input {n}[{a}] : {'i32' if n == 'label' else dtype}" for n, a, _ in defined[:k] if n in used]
        own = [d for d in declared if d.startswith("input") and d.split("[")[0].split()[1] in used]
        own += inputs + [line]
        words = set(re.findall(r"\w+", " ".join(own)))
        given = [a for d in declared if d.startswith("axis") for a in d[len("axis"):].split(",") if a.split()[0] in words]
        parts.append((name, "\n".join([f"axis {a.strip()}" for a in given] + own + [f"output {name}"]) + "\n"))
    return parts, outputs


def shape_of(dims, sizes):
    shape = []
    for dim in re.findall(r"\([^)]*\)|[\w]+", dims):
        n = 1
        for axis in re.findall(r"\w+", dim):
            n *= sizes[axis]
        shape.append(n)
    return tuple(shape)


def literal_sizes(text):
    return {n: int(v) for line in text.splitlines() if line.startswith("axis") for n, v in re.findall(r"(\w+)\s*=\s*(\d+)", line)}


class Case:
    """`sizes` of the axes; `written`: the program with every step a statement, where the example has fewer; `peer`: PyTorch on the inputs in their order;
    `operations` of the products, a function of the sizes; `scale` of the random inputs."""

    def __init__(self, name, sizes, peer, operations=lambda s: 0, written=None, scale=1.0):
        self.name, self.sizes, self.peer, self.operations, self.written, self.scale = name, sizes, peer, operations, written, scale


def typed(text, dtype):
    return re.sub(r": (f16|bf16|f32)\b", f": {dtype}", text)


def attention_axes(b="b, h, i, j"):
    return f"axis {b}\naxis d = 64, e = 64\ninput Q[b, h, i, d] : f32\ninput K[b, h, j, d] : f32\ninput V[b, h, j, e] : f32\n"


def rms(x, g):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g


def norm(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def spherical(q, k, v):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return (s @ v) / torch.sqrt((s * s).sum(-1, keepdim=True))


def backward(q, k, v, do):
    s = q.shape[-1] ** -0.5
    p = torch.softmax(q @ k.transpose(-1, -2) * s, -1)
    dp = do @ v.transpose(-1, -2)
    return (p * (dp - (p * dp).sum(-1, keepdim=True))) @ k * s


def backward_saved(q, k, v, do, l, d):
    s = q.shape[-1] ** -0.5
    p = torch.exp(q @ k.transpose(-1, -2) * s - l[..., None])
    return (p * (do @ v.transpose(-1, -2) - d[..., None])) @ k * s


def unsafe(q, k, v):
    e = torch.exp(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
    return (e @ v) / e.sum(-1, keepdim=True)


def qknorm(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(norm(q), norm(k), v, enable_gqa=True)


def latent(q, c):
    s = torch.softmax(torch.einsum("bhd,bjd->bhj", q, c) * 192 ** -0.5, -1)
    return torch.einsum("bhj,bje->bhe", s, c[..., :512])


def performer(k, v, w):
    u = k @ w.T - (k * k).sum(-1, keepdim=True) / 2
    e = torch.exp(u - u.amax(-2, keepdim=True))
    return (e.transpose(-1, -2) @ v) / e.sum(-2)[..., None]


def cross_entropy(x, w, label):
    z = x @ w
    return torch.logsumexp(z, 1) - z.gather(1, label[:, None].long())[:, 0]


def affine(x, w):
    lo, hi = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    return ((x - lo) / (hi - lo)) @ w


def cases():
    silu = torch.nn.functional.silu if torch else None
    two = lambda *axes: lambda s: 2.0 * np.prod([s[a] for a in axes])
    scores = lambda s, products: 2.0 * products * s["b"] * s["h"] * s["i"] * s["j"] * s["d"]
    heads = {"b": 1, "h": 8, "i": 2048, "j": 2048, "d": 64, "e": 64}
    return [
        Case("softmax", {"r": 4096, "j": 8192}, lambda x: torch.softmax(x, 1),
             written="axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\ne[r, j] = exp(x - m)\nl[r] = sum[j](e)\nP[r, j] = e / l\noutput P\n"),
        Case("logsumexp", {"r": 4096, "j": 8192}, lambda x: torch.logsumexp(x, 1),
             written="axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\nl[r] = sum[j](exp(x - m))\nL[r] = m + log(l)\noutput L\n"),
        Case("cross_entropy_linear", {"t": 256, "v": 32768, "c": 2048}, cross_entropy, two("t", "v", "c"), scale=0.1,
             written="axis t, v\naxis c = 2048\ninput x[t, c] : f32\ninput W[c, v] : f32\ninput label[t] : i32 range(0, size(v))\n"
                     "z[t, v] = sum[c](x * W)\nq[t] = logsumexp[v](z)\nk[t] = sum[v](where(v == label[t], z, 0))\nloss[t] = q - k\noutput loss\n"),
        Case("variance", {"r": 8192, "c": 8192}, lambda x: (x.mean(1), x.var(1, correction=0)),
             written="axis r, c\ninput x[r, c] : f32\nmu[r] = mean[c](x)\ns2[r] = mean[c]((x - mu) ** 2)\noutput mu, s2\n"),
        Case("layernorm", {"r": 8192, "c": 4096}, lambda x, g, b: torch.nn.functional.layer_norm(x, x.shape[1:], g, b),
             written="axis r, c\ninput x[r, c] : f32\ninput gamma[c] : f32\ninput beta[c] : f32\nmu[r] = mean[c](x)\ns2[r] = mean[c]((x - mu) ** 2)\n"
                     "y[r, c] = (x - mu) * rsqrt(s2 + 1e-5) * gamma + beta\noutput y\n"),
        Case("rmsnorm_matmul", {"r": 16, "n": 6144, "c": 4096}, lambda x, g, w: rms(x, g) @ w, two("r", "n", "c"),
             written="axis r, n\naxis c = 4096\ninput x[r, c] : f32\ninput gamma[c] : f32\ninput W[c, n] : f32\n"
                     "q[r] = mean[c](x * x)\nz[r, c] = x * rsqrt(q + 1e-5) * gamma\ny[r, n] = sum[c](z * W)\noutput y\n"),
        Case("layernorm_matmul", {"r": 16, "n": 6144, "c": 4096},
             lambda x, g, w: torch.nn.functional.layer_norm(x, x.shape[1:], g) @ w, two("r", "n", "c"),
             written="axis r, n\naxis c = 4096\ninput x[r, c] : f32\ninput gamma[c] : f32\ninput W[c, n] : f32\nmu[r] = mean[c](x)\n"
                     "s2[r] = mean[c]((x - mu) ** 2)\nz[r, c] = (x - mu) * rsqrt(s2 + 1e-5) * gamma\ny[r, n] = sum[c](z * W)\noutput y\n"),
        Case("rmsnorm_swiglu", {"b": 8, "f": 14336, "c": 4096}, lambda x, g, a, b: (lambda n: silu(n @ a) * (n @ b))(rms(x, g)),
             lambda s: 4.0 * s["b"] * s["f"] * s["c"],
             written="axis b, f\naxis c = 4096\ninput x[b, c] : f32\ninput gain[c] : f32\ninput W1[c, f] : f32\ninput W3[c, f] : f32\n"
                     "q[b] = mean[c](x * x)\nn[b, c] = x * rsqrt(q + 1e-5) * gain\nu[b, f] = sum[c](n * W1)\nv[b, f] = sum[c](n * W3)\n"
                     "hidden[b, f] = silu(u) * v\noutput hidden\n"),
        Case("gated_mlp", {"t": 8, "f": 4096, "c": 4096}, lambda x, a, b: silu(x @ a) * (x @ b), lambda s: 4.0 * s["t"] * s["f"] * s["c"],
             written="axis t, f\naxis c = 4096\ninput x[t, c] : f32\ninput W1[c, f] : f32\ninput W2[c, f] : f32\n"
                     "u[t, f] = sum[c](x * W1)\nv[t, f] = sum[c](x * W2)\nh[t, f] = silu(u) * v\noutput h\n"),
        Case("affine_quant_gemm", {"m": 1024, "n": 1024, "k": 4096}, affine, two("m", "n", "k"),
             written="axis m, n\naxis k = 4096\ninput x[m, k] : f32\ninput W[k, n] : f32\nlo[m] = min[k](x)\nhi[m] = max[k](x)\n"
                     "z[m, k] = (x - lo) / (hi - lo)\ny[m, n] = sum[k](z * W)\noutput y\n"),
        Case("quant_gemm", {"m": 512, "n": 1024, "k": 4096}, None, two("m", "n", "k"),
             written="axis m, n\naxis k = 4096\ninput x[m, k] : f32\ninput W[k, n] : f32\na[m] = max[k](abs(x))\nz[m, k] = f8e4m3(448 * x / a)\n"
                     "y[m, n] = sum[k](z * W) * a / 448\noutput y\n"),
        Case("softmax_backward_dq", heads, backward_saved, lambda s: scores(s, 3),
             written=attention_axes() + "input dO[b, h, i, e] : f32\ninput L[b, h, i] : f32\ninput D[b, h, i] : f32\nS[b, h, i, j] = sum[d](Q * K) / sqrt(size(d))\n"
                     "P[b, h, i, j] = exp(S - L)\ndP[b, h, i, j] = sum[e](dO * V)\nT[b, h, i, j] = P * (dP - D)\n"
                     "dQ[b, h, i, d] = sum[j](T * K) / sqrt(size(d))\noutput dQ\n"),
        Case("softmax_backward_one_pass", heads, backward, lambda s: scores(s, 3),
             written=attention_axes() + "input dO[b, h, i, e] : f32\nS[b, h, i, j] = sum[d](Q * K) / sqrt(size(d))\nm[b, h, i] = max[j](S)\n"
                     "X[b, h, i, j] = exp(S - m)\nl[b, h, i] = sum[j](X)\nP[b, h, i, j] = X / l\ndP[b, h, i, j] = sum[e](dO * V)\nD[b, h, i] = sum[j](P * dP)\n"
                     "T[b, h, i, j] = P * (dP - D)\ndQ[b, h, i, d] = sum[j](T * K) / sqrt(size(d))\noutput dQ\n"),
        Case("performer_state", {"b": 1, "h": 8, "j": 4096, "d": 64, "e": 64, "f": 256}, performer,
             lambda s: 2.0 * s["h"] * s["j"] * s["f"] * (s["d"] + s["e"]), scale=0.3,
             written="axis b, h, j\naxis d = 64, e = 64, f = 256\ninput K[b, h, j, d] : f32\ninput V[b, h, j, e] : f32\ninput W[f, d] : f32\n"
                     "q[b, h, j] = sum[d](K * K) / 2\nu[b, h, j, f] = sum[d](K * W) - q\nm[b, h, f] = max[j](u)\nx[b, h, j, f] = exp(u - m)\n"
                     "z[b, h, f] = sum[j](x)\ns[b, h, f, e] = sum[j](x * V) / z\noutput s\n"),
        Case("qknorm_gqa", {"b": 1, "k": 2, "g": 8, "i": 256, "j": 4096, "d": 64, "e": 64}, qknorm,
             lambda s: 4.0 * s["k"] * s["g"] * s["i"] * s["j"] * s["d"],
             written="axis b, k, g, i, j\naxis d = 64, e = 64\ninput Q[b, (k g), i, d] : f32\ninput K[b, k, j, d] : f32\ninput V[b, k, j, e] : f32\n"
                     "q[b, k, g, i, d] = Q[b, (k g), i, d] * rsqrt(mean[d](Q[b, (k g), i, d] ** 2) + 1e-6)\nc[b, k, j, d] = K * rsqrt(mean[d](K ** 2) + 1e-6)\n"
                     "S[b, k, g, i, j] = sum[d](q * c) / sqrt(size(d))\nm[b, k, g, i] = max[j](S)\nX[b, k, g, i, j] = exp(S - m)\nl[b, k, g, i] = sum[j](X)\n"
                     "P[b, k, g, i, j] = X / l\nO[b, k, g, i, e] = sum[j](P * V)\noutput O[b, (k g), i, e]\n"),
        Case("mla_decode", {"b": 1, "h": 128, "j": 8192, "d": 576, "e": 512}, latent, lambda s: 2.0 * s["h"] * s["j"] * (s["d"] + s["e"]),
             written="axis b, h, j\naxis d = 576, e = 512\ninput Q[b, h, d] : f32\ninput C[b, j, d] : f32\nS[b, h, j] = sum[d](Q * C) / sqrt(192)\n"
                     "m[b, h] = max[j](S)\nX[b, h, j] = exp(S - m)\nl[b, h] = sum[j](X)\nP[b, h, j] = X / l\nO[b, h, e] = sum[j](P * C[b, j, e])\noutput O\n"),
        Case("moe_routing", {"t": 4096, "v": 256, "n": 8}, lambda x: torch.softmax(x, 1).topk(8, 1)),
        Case("spherical_attention", heads, spherical, lambda s: scores(s, 2),
             written=attention_axes() + "S[b, h, i, j] = sum[d](Q * K) / sqrt(size(d))\nl[b, h, i] = sum[j](S * S)\nO[b, h, i, e] = sum[j](S * V) / sqrt(l)\noutput O\n"),
        Case("argmax", {"r": 1024, "j": 131072}, lambda x: torch.max(x, 1),
             written="axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\nk[r] = argmax[j](x)\noutput m, k\n"),
        Case("unsafe_softmax", heads, unsafe, lambda s: scores(s, 2),
             written=attention_axes() + "S[b, h, i, j] = sum[d](Q * K) / sqrt(size(d))\nX[b, h, i, j] = exp(S)\nl[b, h, i] = sum[j](X)\nP[b, h, i, j] = X / l\n"
                     "O[b, h, i, e] = sum[j](P * V)\noutput O\n"),
    ]


def arrays_of(text, case):
    """Inputs in their order, filled; the label of a class is below its number."""
    sizes = {**literal_sizes(text), **case.sizes}
    made = {}
    for name, dims, dtype in re.findall(r"^input (\w+)(?:\[([^\]]*)\])? : (\w+)", text, re.M):
        shape = shape_of(dims, sizes)
        if dtype.startswith("i"):
            made[name] = cpu.RNG.integers(0, sizes["v"], shape).astype(BITS[dtype])
        else:
            made[name] = (cpu.normal(*shape) * case.scale).astype(BITS[dtype])
    return made, sizes


def outputs_of(text, sizes, dtype):
    _, defined, names = definitions(text)
    axes = {n: a for n, a, _ in defined}
    lines = "\n".join(line for line in text.splitlines() if line.startswith("output"))
    types = dict(re.findall(r"(\w+)(?:\[[^\]]*\])?\s*:\s*(\w+)", lines))
    shaped = dict(re.findall(r"(\w+)\[([^\]]*)\]", lines))
    integer = {n for n, _, line in defined if "arg" in line.split("=")[1]}
    made = {}
    for name in names:
        t = types.get(name, "i64" if name in integer else dtype)
        made[name] = np.empty(shape_of(shaped.get(name, axes[name]), sizes), BITS[t if t in BITS else dtype])
    return made


def resize(text, sizes):
    """Literal sizes as the case has them."""
    def line(m):
        return re.sub(r"(\w+)(\s*=\s*)(\d+)", lambda x: f"{x[1]}{x[2]}{sizes.get(x[1], x[3])}", m[0])
    return re.sub(r"^axis.*$", line, text, flags=re.M)


def fused(text, inputs, outputs, sizes, schedule=""):
    declared = re.findall(r"(\w+)", " ".join(re.sub(r"=[^,]*", "", d[len("axis"):]) for d in text.splitlines() if d.startswith("axis")))
    literal = literal_sizes(text)
    k = tilewright.Kernel(text, "cpu", schedule, "")
    prepared = k.prepare(sizes={n: sizes[n] for n in declared if n not in literal and n in sizes}, **inputs, **outputs)
    return lambda: k.run(prepared)


def unfused(text, inputs, sizes, dtype):
    """A call that runs every statement, and its results."""
    parts, outputs = statements(text, dtype)
    made, calls = dict(inputs), []
    shapes = {n: a for n, a, _ in definitions(text)[1]}
    for name, part in parts:
        made[name] = np.empty(shape_of(shapes[name], sizes), np.int64 if "arg" in part.split("=")[-1] else BITS[dtype])
        names = re.findall(r"^input (\w+)", part, re.M)
        calls.append(fused(part, {n: made[n] for n in names}, {name: made[name]}, sizes))
    return lambda: [f() for f in calls], {n: made[n] for n in outputs}


def close(a, b, name):
    if a.dtype.kind == "i":
        return
    scale = float(np.abs(b).max())
    error = float(np.abs(a.reshape(-1).astype(np.float64) - b.reshape(-1)).max())
    assert error <= 2e-4 * scale + 1e-6 or a.dtype == np.float16 and error <= 5e-3 * scale, f"{name}: {error} of {scale}"


def measure(case, args, library):
    text = resize(typed((ROOT / f"examples/{case.name}.tw").read_text(), args.dtype), case.sizes)
    inputs, sizes = arrays_of(text, case)
    outputs = outputs_of(text, sizes, args.dtype)
    calls = {"ours": fused(text, inputs, outputs, sizes, args.schedule)}
    calls["ours"]()
    if case.written:
        written = resize(typed(case.written, args.dtype), case.sizes)
        calls["unfused"], results = unfused(written, inputs, sizes, args.dtype)
        calls["unfused"]()
        for name, r in results.items():
            close(outputs[name], r, f"{case.name}: {name}")
    if torch is not None and case.peer:
        tensors = [torch.from_numpy(x) for x in inputs.values()]
        calls["PyTorch"] = lambda: case.peer(*tensors)
        if not args.no_compile:
            compiled = torch.compile(case.peer, dynamic=False)
            calls["compiled"] = lambda: compiled(*tensors)
    for f in calls.values():
        f()
    data = max(inputs.values(), key=lambda x: x.nbytes)
    times, reads, peaks = {n: [] for n in calls}, [], []
    for _ in range(args.rounds):
        cpu.settle()
        big = data if data.nbytes > 1 << 27 else np.ones(1 << 25, np.float32)
        reads.append(library.read_rate(big.ctypes.data, big.nbytes // 4, THREADS, 0))
        peaks.append(library.fma_peak(THREADS, 0))
        order = list(calls)
        random.shuffle(order)
        for n in order:
            cpu.settle()
            begin = time.perf_counter()
            calls[n]()
            times[n].append(time.perf_counter() - begin)
    median = {n: statistics.median(t) for n, t in times.items()}
    moved = sum(x.nbytes for x in (*inputs.values(), *outputs.values()))
    memory, compute = moved / statistics.median(reads) * 1e-9, case.operations(sizes) / statistics.median(peaks) * 1e-9
    bound = max(memory, compute)
    def ratio(n):
        return f"{median[n] / median['ours']:8.2f}" if n in median else f"{'-':>8}"
    print(f"{case.name:26s} {median['ours'] * 1e3:8.2f} ({min(times['ours']) * 1e3:.2f} to {max(times['ours']) * 1e3:.2f})".ljust(58)
          + f" {'memory' if memory > compute else 'FMA':6s} {100 * bound / median['ours']:5.0f} % {ratio('unfused')} {ratio('PyTorch')} {ratio('compiled')}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", choices=["f32", "f16"], default="f32")
    parser.add_argument("--schedule", default="", help="of our fused kernel, with --only")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    library = cpu.ceilings()
    print(f"threads {THREADS}, {args.dtype}" + ("" if torch is not None else "; PyTorch is not installed: its columns are empty"))
    print(f"{'program':26s} {'ms, median (spread)':30s}  {'bound':6s} {'of it':>7s} {'unfused':>8s} {'PyTorch':>8s} {'compiled':>8s}   times ours")
    for case in cases():
        if not args.only or case.name in args.only.split(","):
            measure(case, args, library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
