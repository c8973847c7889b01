"""Times Tilewright's CUDA kernels beside PyTorch's (cuDNN, FlashAttention-2) and the machine's ceilings, in one process.

    python3 bench/gpu.py [--out bench/results/h200.json] [--quick]

Every timed configuration is checked first against PyTorch in f32. Medians of interleaved rounds by CUDA events; the table shows ratios.
Operations: 4·H·S²·D for global attention, half of it for causal. Bytes of a copy: read and written.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import tilewright  # noqa: E402


def interleaved(calls, rounds, inner):
    """Median milliseconds of each call; calls in random order within a round."""
    for f in calls.values():
        f()
    torch.cuda.synchronize()
    times = {name: [] for name in calls}
    for _ in range(rounds):
        order = list(calls)
        random.shuffle(order)
        for name in order:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            calls[name]()
            begin.record()
            for _ in range(inner):
                calls[name]()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / inner)
    return {name: (statistics.median(t), min(t), max(t)) for name, t in times.items()}


def relative_error(out, ref):
    return ((out.float() - ref.float()).norm() / ref.float().norm()).item()


def attention(results, name, causal, S, H, D, dtype, rounds, inner, schedule=""):
    q, k, v = (torch.randn(1, H, S, D, device="cuda", dtype=dtype) for _ in range(3))
    o = torch.full_like(q, float("nan"))
    short = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}[dtype]
    overrides = f"d={D},e={D}," + ",".join(f"{t}={short}" for t in "QKVO")
    kernel = tilewright.Kernel((ROOT / f"examples/{name}.tw").read_text(), "cuda", schedule, overrides)
    prepared = kernel.prepare(Q=q, K=k, V=v, O=o)
    calls = {"tilewright": lambda: kernel.run(prepared)}

    def peer(backend):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return call

    for label, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FA2", SDPBackend.FLASH_ATTENTION)):
        try:
            peer(backend)()
            calls[label] = peer(backend)
        except RuntimeError:
            pass
    calls["tilewright"]()
    h = min(H, 4)  # the reference in f32 needs the whole score matrix
    ref = F.scaled_dot_product_attention(q[:, :h].float(), k[:, :h].float(), v[:, :h].float(), is_causal=causal)
    error = relative_error(o[:, :h], ref)
    assert not torch.isnan(o).any(), "unwritten output"
    assert error < (2e-2 if dtype == torch.bfloat16 else 5e-3 if dtype == torch.float16 else 1e-4), f"{name}: error {error}"
    flop = 4.0 * H * S * S * D * (0.5 if causal else 1.0)
    times = interleaved(calls, rounds, inner)
    rates = {label: flop / t[0] * 1e-9 for label, t in times.items()}
    record(results, f"{name} {short} D={D} H={H} S={S}" + (f" [{schedule}]" if schedule else ""), rates, "TFLOP/s", error, times)


def rows(results, R, C, dtype, rounds, inner):
    x = torch.randn(R, C, device="cuda", dtype=dtype)
    y = torch.full_like(x, float("nan"))
    z = torch.empty_like(x)
    short = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}[dtype]
    kernel = tilewright.Kernel((ROOT / "examples/softmax.tw").read_text(), "cuda", "", f"x={short},P={short}")
    prepared = kernel.prepare(x=x, P=y)
    calls = {"tilewright": lambda: kernel.run(prepared), "torch.softmax": lambda: torch.softmax(x, -1), "copy": lambda: z.copy_(x)}
    calls["tilewright"]()
    error = relative_error(y, torch.softmax(x.double(), -1))
    assert not torch.isnan(y).any() and error < (5e-3 if dtype != torch.float32 else 1e-5), f"softmax: error {error}"
    times = interleaved(calls, rounds, inner)
    moved = 2.0 * x.numel() * x.element_size()
    record(results, f"softmax {short} {R} x {C}", {label: moved / t[0] * 1e-6 for label, t in times.items()}, "GB/s", error, times)


def layernorm_matmul(results, r, n, c, dtype, rounds, inner):
    x, gamma, w = (torch.randn(s, device="cuda", dtype=dtype) for s in ((r, c), (c,), (c, n)))
    y = torch.full((r, n), float("nan"), device="cuda", dtype=dtype)
    short = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}[dtype]
    kernel = tilewright.Kernel((ROOT / "examples/layernorm_matmul.tw").read_text(), "cuda", "", f"c={c}," + ",".join(f"{t}={short}" for t in ("x", "gamma", "W", "y")))
    prepared = kernel.prepare(x=x, gamma=gamma, W=w, y=y)
    calls = {"tilewright": lambda: kernel.run(prepared), "torch eager": lambda: F.layer_norm(x, (c,), gamma) @ w}
    calls["tilewright"]()
    ref = F.layer_norm(x.double(), (c,), gamma.double()) @ w.double()
    error = relative_error(y, ref)
    assert error < (2e-2 if dtype != torch.float32 else 1e-4), f"layernorm_matmul: error {error}"
    times = interleaved(calls, rounds, inner)
    record(results, f"layernorm_matmul {short} r={r} n={n} c={c}", {label: 2.0 * r * n * c / t[0] * 1e-9 for label, t in times.items()}, "TFLOP/s", error, times)


def record(results, name, rates, unit, error, times):
    results.append({"name": name, "unit": unit, "rates": rates, "error": error, "milliseconds": times})
    ours = rates["tilewright"]
    others = "  ".join(f"{label} {rate:8.1f} ({ours / rate:4.2f}x)" for label, rate in rates.items() if label != "tilewright")
    print(f"{name:44s} tilewright {ours:8.1f} {unit}  {others}  error {error:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--schedule", action="append", default=[], help="also time pf_global with this schedule")
    args = parser.parse_args()
    rounds, inner = (5, 3) if args.quick else (11, 5)
    torch.manual_seed(0)
    random.seed(0)
    results = []
    smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    print("#", smi, "torch", torch.__version__, "tilewright", tilewright.version())
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    ms = interleaved({"matmul": lambda: a @ b}, rounds, inner)["matmul"][0]
    print(f"ceiling: f16 matrix product 8192^3 {2 * 8192**3 / ms * 1e-9:.0f} TFLOP/s")
    results.append({"name": "matmul ceiling", "rates": {"torch": 2 * 8192**3 / ms * 1e-9}, "unit": "TFLOP/s"})
    del a, b
    failures = []
    cases = [lambda: attention(results, "pf_global", False, 8192, 32, 128, torch.float16, rounds, inner),
             lambda: attention(results, "pf_causal", True, 8192, 32, 128, torch.float16, rounds, inner),
             lambda: rows(results, 8192, 8192, torch.float32, rounds, inner),
             lambda: rows(results, 8192, 8192, torch.float16, rounds, inner),
             lambda: layernorm_matmul(results, 1024, 4096, 4096, torch.float16, 3, 1)]
    for s in args.schedule:
        cases.append(lambda s=s: attention(results, "pf_global", False, 8192, 32, 128, torch.float16, rounds, inner, s))
    if not args.quick:
        cases += [lambda: attention(results, "pf_global", False, 8192, 32, 128, torch.bfloat16, rounds, inner),
                  lambda: attention(results, "pf_causal", True, 2048, 32, 128, torch.float16, rounds, inner),
                  lambda: attention(results, "pf_global", False, 8192, 32, 64, torch.float16, rounds, inner),
                  lambda: attention(results, "pf_global", False, 2048, 8, 128, torch.float32, 3, 1)]
    for case in cases:
        try:
            case()
        except Exception as e:  # noqa: BLE001 - one failing case must not hide the others
            failures.append(str(e))
            print("FAILED:", str(e)[:2000], flush=True)
    if args.out:
        path = pathlib.Path(args.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": smi, "torch": torch.__version__, "results": results}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
