"""Times Tilewright's CUDA kernels beside PyTorch's (cuDNN, FlashAttention-2, FlexAttention, cuBLAS) and the machine's ceilings, in one process.

    python3 bench/gpu.py [--only REGEX] [--out bench/results/h200.json] [--sizes 1024,4096] [--flex] [--quick] [--schedule NAME=TEXT]

`--only` takes the cases whose names match, so that a long table can be made in slices; with `--out`, results are added to those of the file. `--list` prints names.
Every timed configuration is checked first against PyTorch in f32 or f64. Medians of interleaved rounds by CUDA events; calls that take the host under 0.4 ms are replayed from CUDA graphs, ours and
the peers' alike. The table shows ratios. Operations: 4·D for each pair of a query and a key that the mask leaves (half of the square for causal, the band for a window), 6·D for
the gradient of the queries. Bytes of a copy: read and written. A peer that cannot run is listed with its error, and no ratio is made of it.
"""

import argparse
import json
import math
import pathlib
import random
import re
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import tilewright  # noqa: E402

SHORT = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
SHORT_CALL = 0.4  # milliseconds, with what the host takes to launch, which may be most of it
TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 2e-2, torch.float32: 1e-4}


def events(f, inner):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(inner):
        f()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / inner


def replayed(f, inner):
    """The call `inner` times as one CUDA graph; None where it cannot be captured."""
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(inner):
                f()
        graph.replay()
        torch.cuda.synchronize()
        return graph.replay
    except Exception:  # noqa: BLE001 - a call that cannot be captured is timed as it is
        torch.cuda.synchronize()
        return None


def interleaved(calls, rounds, inner):
    """Median, least and largest milliseconds of each call; calls in random order within a round."""
    timed = {}
    for name, f in calls.items():
        for _ in range(2):
            f()
        torch.cuda.synchronize()
        once = events(f, inner)
        graph = replayed(f, 20) if once < SHORT_CALL else None
        timed[name] = (graph, 20, 1) if graph else (f, 1, max(1, min(inner, int(20 / max(once, 1e-3)))))
    times = {name: [] for name in calls}
    for _ in range(rounds):
        order = list(calls)
        random.shuffle(order)
        for name in order:
            f, held, repeats = timed[name]
            f()
            times[name].append(events(f, repeats) / held)
    return {name: (statistics.median(t), min(t), max(t)) for name, t in times.items()}


def relative_error(out, ref):
    return ((out.double() - ref.double()).norm() / ref.double().norm()).item()


def record(results, name, amount, unit, error, times, refused):
    rates = {label: amount / t[0] * (1e-6 if unit == "GB/s" else 1e-9) for label, t in times.items()}
    results[name] = {"unit": unit, "rates": rates, "error": error, "milliseconds": times, "refused": refused}
    ours = rates["tilewright"]
    others = "  ".join(f"{label} {rate:7.1f} ({ours / rate:4.2f}x)" for label, rate in rates.items() if label != "tilewright")
    others += "".join(f"  {label}: {why.splitlines()[0][:60]}" for label, why in refused.items())
    print(f"{name:42s} tilewright {ours:7.1f} {unit}  {others}  error {error:.1e}", flush=True)


def timed_case(o, name, example, overrides, inputs, outputs, reference, amount, peers, unit="TFLOP/s", tolerance=5e-3, **more):
    """Compiles `example` (a file of this repository, or a text), checks `reference` (pairs of what was written and what should have been), times beside `peers`, records."""
    text = (ROOT / example).read_text() if example.endswith(".tw") else example
    kernel = tilewright.Kernel(text, "cuda", o.schedules.get(name.split()[0], ""), overrides)
    for x in outputs.values():
        x.fill_(float("nan"))
    prepared = kernel.prepare(**inputs, **outputs, **more)
    calls, refused = {"tilewright": lambda: kernel.run(prepared)}, {}
    calls["tilewright"]()
    torch.cuda.synchronize()
    error = max(relative_error(out, ref) for out, ref in reference())
    assert all(not torch.isnan(x).any() for x in outputs.values()), f"{name}: unwritten output"
    assert error < tolerance, f"{name}: error {error}"
    for label, call in peers.items():
        try:
            call()
            torch.cuda.synchronize()
            calls[label] = call
        except Exception as e:  # noqa: BLE001
            refused[label] = str(e) or type(e).__name__
    record(o.results, name, amount, unit, error, interleaved(calls, o.rounds, o.inner), refused)


def scores(kind, q, k, slope, cap, window):
    """Scores of one head in f32, masked."""
    n = q.shape[-2]
    s = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    i, j = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")[None, :]
    if kind == "pf_alibi":
        s = s + slope * (j - i)
    if kind in ("pf_softcap", "pf_window"):
        s = cap * torch.tanh(s / cap)
    if kind not in ("pf_global", "unsafe_softmax", "qknorm_gqa"):
        s = s.masked_fill(j > i, float("-inf"))
    return s.masked_fill(i - j >= window, float("-inf")) if kind == "pf_window" else s


DECODE_HEADS = {"dc_gqa": (8, 8), "dc_softcap": (16, 2)}
HEADS = {"pf_gqa": (8, 8), "pf_softcap": (16, 2), "pf_window": (8, 4), "qknorm_gqa": (2, 8)}  # key heads, queries for each


def attention(o, kind, S, D=128, dtype=torch.float16, H=32):
    grouped = kind in HEADS
    kv, g = HEADS.get(kind, (H, 1))
    q = torch.randn(1, kv * g, S, D, device="cuda", dtype=dtype)
    k, v = (torch.randn(1, kv, S, D, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(q)
    causal = kind in ("pf_causal", "respelled", "pf_gqa", "pf_alibi", "pf_softcap", "pf_window")
    slope = torch.tensor([2.0 ** (-8.0 * (h + 1) / H) for h in range(H)], device="cuda")
    window, cap = 4096, 50.0
    names = {"Q": "queries", "K": "keys", "V": "values", "O": "result", "d": "f", "e": "v"} if kind == "respelled" else {}
    named = lambda name: names.get(name, name)  # noqa: E731
    inputs = {named("Q"): q, named("K"): k, named("V"): v} | ({"slope": slope} if kind == "pf_alibi" else {})
    pairs = float(S) * S / (2 if causal else 1)
    if kind == "pf_window":
        pairs = float(sum(min(i + 1, window) for i in range(S)))

    def reference():
        h = kv * g - 1  # the last query head
        x, y = q[:, h], k[:, h // g]
        if kind == "qknorm_gqa":
            x, y = (t.float() * torch.rsqrt(t.float().square().mean(-1, keepdim=True) + 1e-6) for t in (x, y))
        s = scores(kind, x, y, slope[h] if kind == "pf_alibi" else 0, cap, window)
        if kind == "spherical_attention":
            s = q[:, h].float() @ y.float().transpose(-1, -2) / math.sqrt(D)
            p = s / s.square().sum(-1, keepdim=True).sqrt()
        else:
            p = torch.softmax(s, -1)
        yield out[:, h], p @ v[:, h // g].float()

    def backend(b):
        def call():
            with sdpa_kernel(b):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

        return call

    peers = {}
    if kind in ("pf_global", "pf_causal", "pf_gqa", "respelled", "unsafe_softmax"):
        peers = {"cuDNN": backend(SDPBackend.CUDNN_ATTENTION), "FA2": backend(SDPBackend.FLASH_ATTENTION)}
    if kind in ("pf_alibi", "pf_softcap", "pf_window") and o.flex:
        peers["Flex"] = flex(kind, q, k, v, slope, cap, window)
    if kind.startswith("pf_") and kind != "pf_alibi":
        softcap, behind = cap if kind in ("pf_softcap", "pf_window") else 0.0, window if kind == "pf_window" else None
        for label in o.packages:
            peers[label] = PACKAGES[label](q, k, v, causal, softcap, behind)
    short = SHORT[dtype]
    overrides = f"{named('d')}={D},{named('e')}={D}," + ",".join(f"{named(t)}={short}" for t in "QKVO")
    timed_case(o, f"{kind} {short} D={D} S={S}", f"examples/{kind}.tw", overrides, inputs, {named("O"): out}, reference, 4.0 * D * kv * g * pairs, peers, tolerance=TOLERANCE[dtype])


GUARDS = ("always", "moved", "threshold", "speculative")


def guards(o, S, growing, D=128, H=32):
    """The policies of the guard on random scores, or on the worst of speculation: maxima that grow in every chunk, so that each is lifted twice. The ratio of the table is that of
    `guard speculative` to each other policy."""
    q, k, v = (torch.randn(1, H, S, D, device="cuda", dtype=torch.float16) for _ in range(3))
    if growing:  # 12 for each 64 keys, beyond the range of what is lifted at the old point
        q[..., 0] = math.sqrt(D)
        k[..., 0] = (12 * (torch.arange(S, device="cuda") // 64)).half()
    calls, errors = {}, []
    ref = torch.softmax(scores("pf_global", q[:, -1], k[:, -1], 0, 0, 0), -1) @ v[:, -1].float()
    for guard in GUARDS:
        out = torch.full_like(q, float("nan"))
        kernel = tilewright.Kernel((ROOT / "examples/pf_global.tw").read_text(), "cuda", f"group i=128/64; stream j=128; stages 2; roles 1+2; guard {guard}", f"d={D},e={D}")
        prepared = kernel.prepare(Q=q, K=k, V=v, O=out)
        kernel.run(prepared)
        torch.cuda.synchronize()
        errors.append(relative_error(out[:, -1], ref))
        assert errors[-1] < TOLERANCE[torch.float16] and not torch.isnan(out).any(), f"guard {guard}: error {errors[-1]}"
        calls["tilewright" if guard == "speculative" else guard] = lambda kernel=kernel, prepared=prepared, out=out: kernel.run(prepared)  # out stays alive
    record(o.results, f"guards {'growing' if growing else 'random'} S={S}", 4.0 * D * H * S * S, "TFLOP/s", max(errors), interleaved(calls, o.rounds, o.inner), {})


def decode(o, kind, S, D=128, dtype=torch.float16, H=32):
    """One query for each head against S keys."""
    grouped = kind in DECODE_HEADS
    kv, g = DECODE_HEADS.get(kind, (H, 1))
    q = torch.randn(1, kv * g, D, device="cuda", dtype=dtype)
    k, v = (torch.randn(1, kv, S, D, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(q)
    slope = torch.tensor([2.0 ** (-8.0 * (h + 1) / H) for h in range(H)], device="cuda")

    def reference():
        h = kv * g - 1
        s = q[:, h : h + 1].float() @ k[:, h // g].float().transpose(-1, -2) / math.sqrt(D)
        if kind == "dc_alibi":
            s = s + slope[h] * torch.arange(1 - S, 1, device="cuda")
        if kind == "dc_softcap":
            s = 50 * torch.tanh(s / 50)
        yield out[:, h : h + 1], torch.softmax(s, -1) @ v[:, h // g].float()

    peers = {}
    if kind in ("dc_causal", "dc_gqa"):
        for name, b in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FA2", SDPBackend.FLASH_ATTENTION)):

            def call(b=b):
                with sdpa_kernel(b):
                    return F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=grouped)

            peers[name] = call
    short = SHORT[dtype]
    timed_case(o, f"{kind} {short} D={D} S={S}", f"examples/{kind}.tw", f"d={D},e={D}," + ",".join(f"{t}={short}" for t in "QKVO"),
               {"Q": q, "K": k, "V": v} | ({"slope": slope} if kind == "dc_alibi" else {}), {"O": out}, reference, 2.0 * k.numel() * k.element_size(), peers, "GB/s")


def paged(o, S, ragged, D=128, B=8, H=8):
    """One query for each sequence and head on pages of 16 keys in random order; the peers read contiguous keys."""
    lengths = torch.randint(1, S + 1, (B,), device="cuda") if ragged else torch.full((B,), S, device="cuda")
    pages = B * S // 16
    page = torch.randperm(pages, device="cuda").view(B, S // 16)
    q, out = torch.randn(B, H, D, device="cuda", dtype=torch.float16), torch.empty(B, H, D, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(pages, H, 16, D, device="cuda", dtype=torch.float16) for _ in range(2))
    flat_k, flat_v = (t[page].transpose(1, 2).reshape(B, H, S, D).contiguous() for t in (k, v))
    seen = (torch.arange(S, device="cuda")[None] < lengths[:, None])[:, None, None]

    def masked():
        return F.scaled_dot_product_attention(q[:, :, None], flat_k, flat_v, attn_mask=None if not ragged else seen)

    def reference():
        yield out[:, :, None], F.scaled_dot_product_attention(q[:, :, None].float(), flat_k.float(), flat_v.float(), attn_mask=seen)

    timed_case(o, f"paged {'ragged' if ragged else 'equal'} S={S}", "examples/paged.tw", f"d={D},e={D}", {"Q": q, "K": k, "V": v, "page": page, "len": lengths}, {"O": out},
               reference, 4.0 * D * H * int(lengths.sum()), {"SDPA, contiguous": masked}, "GB/s")


def documents(o, S, count, D=128, H=32):
    """Attention inside `count` documents of equal length, in one sequence."""
    q, k, v = (torch.randn(1, H, S, D, device="cuda", dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(q)
    of = (torch.arange(S, device="cuda", dtype=torch.int32) // (S // count)).contiguous()
    same = of[:, None] == of[None, :]
    parts = [t[0].view(H, count, S // count, D).transpose(0, 1).contiguous() for t in (q, k, v)]

    def separate():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(*parts)

    def blocks():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        mask = create_block_mask(lambda b, h, i, j: of[i] == of[j], None, None, S, S, device="cuda")
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda: compiled(q, k, v, block_mask=mask)

    def reference():
        ref = F.scaled_dot_product_attention(*(t[:, :2].float() for t in (q, k, v)), attn_mask=same)
        yield out[:, :2], ref

    peers = {"SDPA, mask": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=same), "cuDNN, one by one": separate}
    if o.flex:
        peers["Flex"] = lazily(blocks)
    text = (ROOT / "examples/documents.tw").read_text().replace("range(0, 3)", f"range(0, {count})")
    timed_case(o, f"documents {count} of {S // count}", text, f"d={D},e={D}", {"Q": q, "K": k, "V": v, "qdoc": of, "kdoc": of}, {"O": out}, reference,
               4.0 * D * H * S * S / count, peers)


def flex(kind, q, k, v, slope, cap, window):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def score(s, b, h, i, j):
        return s + slope[h] * (j - i) if kind == "pf_alibi" else cap * torch.tanh(s / cap)

    def mask(b, h, i, j):
        return (j <= i) & (i - j < window) if kind == "pf_window" else j <= i

    S = q.shape[2]
    blocks = create_block_mask(mask, None, None, S, S, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=q.shape[1] != k.shape[1])


def lazily(make):
    """A call that is made at its first use, where what it lacks is listed like any other refusal."""
    made = []

    def call():
        if not made:
            made.append(make())
        return made[0]()

    return call


def flash_attention_4(q, k, v, causal, cap, window):
    """The package flash-attn-4 (CuTe DSL): arrays [b, s, h, d]."""

    def make():
        from flash_attn.cute.interface import flash_attn_func

        arrays = [t.transpose(1, 2) for t in (q, k, v)]
        band = (window - 1, 0) if window else (None, None)
        with torch.no_grad():
            return lambda: flash_attn_func(*arrays, causal=causal and not window, softcap=cap, window_size=band)

    return lazily(make)


def cudnn_frontend(q, k, v, causal, cap, window):
    """The package nvidia-cudnn-frontend: the graph of cuDNN without PyTorch's dispatcher."""

    def make():
        import cudnn

        if cap:
            raise ValueError("its attention takes no cap on scores")
        kind = {torch.float16: cudnn.data_type.HALF, torch.bfloat16: cudnn.data_type.BFLOAT16}[q.dtype]
        graph = cudnn.pygraph(io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT)
        x, y, z = (graph.tensor_like(t) for t in (q, k, v))
        result = graph.sdpa(name="sdpa", q=x, k=y, v=z, generate_stats=False, attn_scale=1 / math.sqrt(q.shape[-1]), use_causal_mask=causal)[0]
        out = torch.empty_like(q)
        result.set_output(True).set_dim(list(out.shape)).set_stride(list(out.stride()))
        graph.build([cudnn.heur_mode.A])
        workspace = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)
        arrays = {x: q, y: k, z: v, result: out}
        handle = cudnn.create_handle()

        def call():
            cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
            graph.execute(arrays, workspace, handle=handle)
            return out

        return call

    return lazily(make)


def flashinfer(q, k, v, causal, cap, window):
    """The package flashinfer-python: arrays [s, h, d] of one batch, compiled by it at first use."""

    def make():
        from flashinfer import single_prefill_with_kv_cache

        arrays = [t[0].transpose(0, 1).contiguous() for t in (q, k, v)]
        return lambda: single_prefill_with_kv_cache(*arrays, causal=causal, logits_soft_cap=cap or None, window_left=window - 1 if window else -1)

    return lazily(make)


# Peers that are packages of their own. tilelang has no attention operator to call: its kernels are examples that are not part of the package.
PACKAGES = {"FA4": flash_attention_4, "cudnn-frontend": cudnn_frontend, "flashinfer": flashinfer}


def backward_dq(o, S, D=128, H=32):
    q, k, v, do = (torch.randn(1, H, S, D, device="cuda", dtype=torch.float16) for _ in range(4))
    L, delta = (torch.empty(1, H, S, device="cuda") for _ in range(2))
    for h in range(H):
        s = q[0, h].float() @ k[0, h].float().T / math.sqrt(D)
        L[0, h] = torch.logsumexp(s, -1)
        delta[0, h] = (do[0, h].float() * (torch.softmax(s, -1) @ v[0, h].float())).sum(-1)
    out = torch.empty_like(q)

    def reference():
        s = q[0, H - 1].float() @ k[0, H - 1].float().T / math.sqrt(D)
        p = torch.exp(s - L[0, H - 1, :, None])
        yield out[0, H - 1], (p * (do[0, H - 1].float() @ v[0, H - 1].float().T - delta[0, H - 1, :, None])) @ k[0, H - 1].float() / math.sqrt(D)

    timed_case(o, f"softmax_backward_dq f16 D={D} S={S}", "examples/softmax_backward_dq.tw", "", {"Q": q, "K": k, "V": v, "dO": do, "L": L, "D": delta}, {"dQ": out}, reference,
               6.0 * D * H * S * S, {})


def rows(o, R, C, dtype):
    x = torch.randn(R, C, device="cuda", dtype=dtype)
    y, z = torch.empty_like(x), torch.empty_like(x)
    timed_case(o, f"softmax {SHORT[dtype]} {R} x {C}", "examples/softmax.tw", f"x={SHORT[dtype]},P={SHORT[dtype]}", {"x": x}, {"P": y}, lambda: [(y, torch.softmax(x.double(), -1))],
               2.0 * x.numel() * x.element_size(), {"torch.softmax": lambda: torch.softmax(x, -1), "copy": lambda: z.copy_(x)}, "GB/s", 5e-3 if dtype != torch.float32 else 1e-5)


def product(o, n, dtype):
    a, b = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
    c = torch.empty_like(a)
    short = SHORT[dtype]
    timed_case(o, f"product {short} {n}", "bench/product.tw", ",".join(f"{t}={short}" for t in "ABC"), {"A": a, "B": b}, {"C": c}, lambda: [(c[:512], a[:512].float() @ b.float())],
               2.0 * n**3, {"cuBLAS": lambda: torch.matmul(a, b)}, tolerance=TOLERANCE[dtype])


def norm_matmul(o, kind, r, n, c, dtype=torch.float16):
    x, gamma, w = (torch.randn(s, device="cuda", dtype=dtype) for s in ((r, c), (c,), (c, n)))
    y = torch.empty((r, n), device="cuda", dtype=dtype)
    norm = (lambda t, g: F.layer_norm(t, (c,), g)) if kind == "layernorm_matmul" else (lambda t, g: F.rms_norm(t, (c,), g, 1e-5))
    short = SHORT[dtype]
    timed_case(o, f"{kind} {short} r={r} n={n} c={c}", f"examples/{kind}.tw", f"c={c}," + ",".join(f"{t}={short}" for t in ("x", "gamma", "W", "y")),
               {"x": x, "gamma": gamma, "W": w}, {"y": y}, lambda: [(y[:256], norm(x[:256].double(), gamma.double()) @ w.double())], 2.0 * r * n * c,
               {"norm + cuBLAS": lambda: norm(x, gamma) @ w}, tolerance=TOLERANCE[dtype])


def cases(o):
    half, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
    for S in o.sizes:
        for kind in ("pf_global", "pf_causal", "pf_gqa", "pf_alibi", "pf_softcap", "pf_window"):
            yield f"{kind} f16 D=128 S={S}", lambda kind=kind, S=S: attention(o, kind, S)
        for kind in ("pf_global", "pf_causal"):
            yield f"{kind} bf16 D=128 S={S}", lambda kind=kind, S=S: attention(o, kind, S, 128, bf16)
            for D, H in ((64, 32), (256, 16)):
                yield f"{kind} f16 D={D} S={S}", lambda kind=kind, S=S, D=D, H=H: attention(o, kind, S, D, half, H)
    for S in o.sizes:
        for kind in ("dc_causal", "dc_alibi", "dc_gqa", "dc_softcap"):
            yield f"{kind} f16 D=128 S={S}", lambda kind=kind, S=S: decode(o, kind, S)
    for ragged in (False, True):
        yield f"paged {'ragged' if ragged else 'equal'} S=8192", lambda ragged=ragged: paged(o, 8192, ragged)
    for count in (1, 8, 64):
        yield f"documents {count} of {8192 // count}", lambda count=count: documents(o, 8192, count)
    for kind in ("respelled", "unsafe_softmax", "spherical_attention", "qknorm_gqa"):
        D = 64 if kind == "qknorm_gqa" else 128
        yield f"{kind} f16 D={D} S=4096", lambda kind=kind, D=D: attention(o, kind, 4096, D)
    for growing in (False, True):
        yield f"guards {'growing' if growing else 'random'} S=4096", lambda growing=growing: guards(o, 4096, growing)
    yield "softmax_backward_dq f16 D=128 S=4096", lambda: backward_dq(o, 4096)
    yield "pf_global f32 D=128 S=2048", lambda: attention(o, "pf_global", 2048, 128, f32, 8)
    for n, dtype in ((8192, half), (8192, bf16), (4096, half), (3072, half), (6144, half), (2048, f32)):
        yield f"product {SHORT[dtype]} {n}", lambda n=n, dtype=dtype: product(o, n, dtype)
    for kind in ("layernorm_matmul", "rmsnorm_matmul"):
        yield f"{kind} f16 r=4096 n=6144 c=4096", lambda kind=kind: norm_matmul(o, kind, 4096, 6144, 4096)
    for R, dtype in ((8192, f32), (8192, half), (4096, f32)):
        yield f"softmax {SHORT[dtype]} {R} x 8192", lambda R=R, dtype=dtype: rows(o, R, 8192, dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--sizes", default="1024,2048,4096,16384", help="lengths of sequences")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--flex", action="store_true", help="compile FlexAttention beside ALiBi, softcap and window (20 s each)")
    parser.add_argument("--packages", default="", help="peers that are packages of their own, separated by commas: " + ", ".join(PACKAGES))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--schedule", action="append", default=[], metavar="NAME=TEXT", help="a schedule for the cases of a program")
    o = parser.parse_args()
    o.sizes = [int(s) for s in o.sizes.split(",")]
    o.packages = [p for p in o.packages.split(",") if p]
    for p in o.packages:
        if p not in PACKAGES:
            parser.error(f"--packages {p}: no such peer; known are {', '.join(PACKAGES)}")
    o.rounds, o.inner = (5, 3) if o.quick else (11, 5)
    o.schedules = dict(s.split("=", 1) for s in o.schedule)
    chosen = [(name, run) for name, run in cases(o) if re.search(o.only, name)]
    if o.list:
        print("\n".join(name for name, _ in chosen))
        return 0
    path = pathlib.Path(o.out) if o.out else None
    o.results = json.loads(path.read_text())["results"] if path and path.exists() else {}
    torch.manual_seed(0)
    random.seed(0)
    smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    print("#", smi, "torch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), "tilewright", tilewright.version(), flush=True)
    failures = 0
    for name, run in chosen:
        try:
            run()
        except Exception as e:  # noqa: BLE001 - one failing case must not hide the others
            failures += 1
            o.results[name] = {"failed": str(e)[:2000]}
            print(f"{name:42s} FAILED: {str(e)[:600]}", flush=True)
        torch.cuda.empty_cache()
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"machine": smi, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "results": o.results}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
