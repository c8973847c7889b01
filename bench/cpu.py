"""Times Tilewright's CPU kernels beside the machine's FMA peak and the unfused program (our own kernels, one for each statement), in one process.

    python3 bench/cpu.py [--threads N] [--size 2048] [--heads 8] [--rounds 7]

The peak is measured in the same run: widest vectors, 12 and more independent accumulators (bench/fma_peak.cc, compiled here by c++).
Operations of attention: 4·H·S²·D (half for causal). Medians of interleaved rounds, smallest and largest shown.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import tilewright  # noqa: E402


def peak_function():
    folder = tempfile.mkdtemp()
    library = pathlib.Path(folder) / "peak.so"
    subprocess.run(["c++", "-O2", "-march=native", "-shared", "-fPIC", "-pthread", "-std=c++17", str(ROOT / "bench/fma_peak.cc"), "-o", str(library)], check=True)
    f = ctypes.CDLL(str(library)).fma_peak
    f.restype = ctypes.c_double
    f.argtypes = [ctypes.c_int]
    return f


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--features", type=int, nargs="*", default=[128, 64])
    args = parser.parse_args()
    if args.threads != len(os.sched_getaffinity(0)):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: args.threads]))
    peak = peak_function()
    rng = np.random.default_rng(0)
    print(f"threads {args.threads}, f32, H={args.heads}, S={args.size}")
    for d in args.features:
        shape = (1, args.heads, args.size, d)
        q, k, v = (rng.standard_normal(shape, dtype=np.float32) for _ in range(3))
        o = np.empty(shape, np.float32)
        dtypes = ",".join(f"{n}=f32" for n in "QKVO")
        calls, flop = {}, {}
        for name, share in (("pf_global", 1.0), ("pf_causal", 0.5)):
            kernel = tilewright.Kernel((ROOT / f"examples/{name}.tw").read_text(), "cpu", "", f"d={d},e={d},{dtypes}")
            prepared = kernel.prepare(Q=q, K=k, V=v, O=o)
            calls[name] = lambda kernel=kernel, prepared=prepared: kernel.run(prepared)
            flop[name] = 4.0 * args.heads * args.size**2 * d * share
        s, p = (np.empty((1, args.heads, args.size, args.size), np.float32) for _ in range(2))
        o2 = np.empty(shape, np.float32)
        steps = [("scores", {"Q": q, "K": k, "S": s}, f"d={d}"), ("probabilities", {"S": s, "P": p}, ""), ("values", {"P": p, "V": v, "O": o2}, f"e={d}")]
        unfused = []
        for name, arrays, overrides in steps:
            kernel = tilewright.Kernel((ROOT / f"bench/unfused/{name}.tw").read_text(), "cpu", "", overrides)
            unfused.append((kernel, kernel.prepare(**arrays)))
        calls["unfused pf_global"] = lambda unfused=unfused: [kernel.run(prepared) for kernel, prepared in unfused]
        flop["unfused pf_global"] = flop["pf_global"]
        for call in calls.values():
            call()
        calls["pf_global"]()
        assert np.allclose(o, o2, atol=1e-4), "fused and unfused disagree"
        times, peaks = {name: [] for name in calls}, []
        for _ in range(args.rounds):
            peaks.append(peak(args.threads))
            for name, call in calls.items():
                begin = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - begin)
        best = max(peaks)
        print(f"D={d}  FMA peak {best:.0f} GFLOP/s (of {min(peaks):.0f} to {max(peaks):.0f})")
        for name, t in times.items():
            rate = flop[name] / statistics.median(t) * 1e-9
            print(f"  {name:20s} {statistics.median(t) * 1e3:8.1f} ms ({min(t) * 1e3:.1f} to {max(t) * 1e3:.1f})  {rate:7.1f} GFLOP/s  {100 * rate / best:5.1f} % of peak")
        print(f"  fused is {statistics.median(times['unfused pf_global']) / statistics.median(times['pf_global']):.2f} x the unfused program")
    return 0


if __name__ == "__main__":
    sys.exit(main())
