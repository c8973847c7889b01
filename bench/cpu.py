"""Times Tilewright's CPU kernels beside the machine's ceilings and peers, in one process.

    python3 bench/cpu.py [--threads N] [--size 2048] [--heads 8] [--rounds 7] [--features 128 64] [--only attention,product,query] [--clock wall|cpu]
                         [--dtype f32|bf16]

Ceilings are measured in the same rounds (bench/ceilings.cc, compiled here by c++): f32 FMA in widest vectors, and the rate at which memory is read.
Peers: PyTorch's scaled_dot_product_attention where PyTorch is installed, NumPy's matrix product (OpenBLAS in its wheels), and our own kernels one for
each statement (bench/unfused). Operations of attention: 4·H·S²·D, half of it behind a causal mask; of a product 2·n³. Bytes of one query: K and V.
With `--dtype bf16` (PyTorch needed) attention and products of bf16 are computed by each unit of this machine in turn: in f32, by dot products of pairs, by tile
registers; percentages are of the unit's own ceiling, and PyTorch's of the highest.
Medians of interleaved rounds with the smallest and largest; percentages are of the best ceiling of the run. Before a call is timed the process is left
alone until it takes no processor time: threads of OpenBLAS and OpenMP go on spinning for up to 0.1 s behind a call, and would take half of a core from
whoever comes next. On a machine that others use, `--clock cpu`
counts the CPU time of the process, shared among the threads, for kernels, peers and ceilings alike: time in which others run is left out, and so is waiting.
"""

import argparse
import ctypes
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = len(os.sched_getaffinity(0))
if "--threads" in sys.argv:  # before NumPy starts its threads
    THREADS = int(sys.argv[sys.argv.index("--threads") + 1])
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:THREADS]))
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)  # they slow the peer down

import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import tilewright  # noqa: E402

try:
    import torch

    torch.set_num_threads(THREADS)
except ImportError:
    torch = None

RNG = np.random.default_rng(0)


CPU_TIME = False


def now():
    return time.process_time() / THREADS if CPU_TIME else time.perf_counter()


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def ceilings():
    folder = tempfile.mkdtemp()
    path = pathlib.Path(folder) / "ceilings.so"
    command = ["c++", "-O2", "-march=native", "-Wno-psabi", "-shared", "-fPIC", "-pthread", "-std=c++17"]
    subprocess.run([*command, str(ROOT / "bench/ceilings.cc"), "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))
    library.read_rate.restype = ctypes.c_double
    for peak in (library.fma_peak, library.dot_peak, library.tile_peak):
        peak.restype, peak.argtypes = ctypes.c_double, [ctypes.c_int, ctypes.c_int]
    library.read_rate.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_int]
    return library


def kernel(path, arrays, overrides="", params=None):
    """A call without arguments."""
    k = tilewright.Kernel((ROOT / path).read_text(), "cpu", "", overrides)
    prepared = k.prepare(params=params, **arrays)
    return lambda: k.run(prepared)


def settle():
    """Waits until no thread of this process runs, for at most half a second."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(0.005)
        if time.process_time() - before < 0.001:
            return


def timed(calls, ceiling, rounds):
    """Times of each call, and the ceiling of each round; calls in random order within a round."""
    for f in calls.values():
        f()
    times, ceilings_of = {name: [] for name in calls}, []
    for _ in range(rounds):
        settle()
        ceilings_of.append(ceiling())
        order = list(calls)
        random.shuffle(order)
        for name in order:
            settle()
            begin = now()
            calls[name]()
            times[name].append(now() - begin)
    return times, ceilings_of


def report(title, times, ceilings_of, work, unit, of):
    best = max(ceilings_of)
    print(f"{title}: {of} {best:.1f} {unit} (of {min(ceilings_of):.1f} to {best:.1f})")
    for name, t in times.items():
        rate = work[name] / statistics.median(t) * 1e-9
        print(f"  {name:26s} {statistics.median(t) * 1e3:8.2f} ms ({min(t) * 1e3:.2f} to {max(t) * 1e3:.2f})  {rate:7.1f} {unit}  "
              f"{100 * rate / best:5.1f} %, best {100 * work[name] / min(t) * 1e-9 / best:5.1f} %")


def ratio(text, times, slow, fast):
    print(f"  {text}: {statistics.median(times[slow]) / statistics.median(times[fast]):.2f} x")


def attention(args, library):
    for d in args.features:
        shape = (1, args.heads, args.size, d)
        q, k, v = (normal(*shape) for _ in range(3))
        o, o2 = np.empty(shape, np.float32), np.empty(shape, np.float32)
        overrides = f"d={d},e={d}," + ",".join(f"{n}=f32" for n in "QKVO")
        full = 4.0 * args.heads * args.size**2 * d
        arrays = {"Q": q, "K": k, "V": v, "O": o}
        slope = (2.0 ** -np.arange(1, args.heads + 1)).astype(np.float32)
        calls = {"pf_global": kernel("examples/pf_global.tw", arrays, overrides),
                 "pf_causal": kernel("examples/pf_causal.tw", arrays, overrides),
                 "pf_alibi": kernel("examples/pf_alibi.tw", {**arrays, "slope": slope}, overrides),
                 "pf_softcap": kernel("examples/pf_softcap.tw", arrays, overrides),
                 "pf_window": kernel("examples/pf_window.tw", arrays, overrides, {"w": args.size // 4})}
        work = {name: full / 2 for name in calls}
        work["pf_global"] = full
        w = args.size // 4
        work["pf_window"] = 4.0 * args.heads * d * (w * args.size - w * (w - 1) / 2)
        s, p = (np.empty((1, args.heads, args.size, args.size), np.float32) for _ in range(2))
        unfused = [kernel("bench/unfused/scores.tw", {"Q": q, "K": k, "S": s}, f"d={d}"),
                   kernel("bench/unfused/probabilities.tw", {"S": s, "P": p}),
                   kernel("bench/unfused/values.tw", {"P": p, "V": v, "O": o2}, f"e={d}")]
        calls["unfused pf_global"] = lambda unfused=unfused: [f() for f in unfused]
        work["unfused pf_global"] = full
        calls["unfused pf_global"]()
        calls["pf_global"]()
        assert np.allclose(o, o2, atol=1e-4), "fused and unfused disagree"
        if torch is not None:
            tq, tk, tv = (torch.from_numpy(x) for x in (q, k, v))
            sdpa = torch.nn.functional.scaled_dot_product_attention
            calls["PyTorch global"] = lambda: sdpa(tq, tk, tv)
            calls["PyTorch causal"] = lambda: sdpa(tq, tk, tv, is_causal=True)
            work["PyTorch global"], work["PyTorch causal"] = full, full / 2
        times, peaks = timed(calls, lambda: library.fma_peak(THREADS, CPU_TIME), args.rounds)
        report(f"attention, f32, H={args.heads}, S={args.size}, D={d}", times, peaks, work, "GFLOP/s", "FMA peak")
        ratio("unfused / fused", times, "unfused pf_global", "pf_global")
        for name in ("pf_alibi", "pf_softcap"):
            ratio(f"{name} / pf_causal", times, name, "pf_causal")
        if torch is not None:
            ratio("PyTorch / ours, global", times, "PyTorch global", "pf_global")
            ratio("PyTorch / ours, causal", times, "PyTorch causal", "pf_causal")


def product(args, library):
    for n in (1024, 2048):
        a, b = normal(n, n), normal(n, n)
        c, c2 = np.empty((n, n), np.float32), np.empty((n, n), np.float32)
        calls = {"product": kernel("bench/product.tw", {"A": a, "B": b, "C": c}), "NumPy": lambda: np.matmul(a, b, out=c2)}
        for f in calls.values():
            f()
        assert np.allclose(c, c2, atol=1e-2), "the products disagree"
        times, peaks = timed(calls, lambda: library.fma_peak(THREADS, CPU_TIME), args.rounds)
        report(f"product, f32, n={n}", times, peaks, {name: 2.0 * n**3 for name in calls}, "GFLOP/s", "FMA peak")
        ratio("NumPy / ours", times, "NumPy", "product")


def units(library):
    """Suffix of a row, TILEWRIGHT_CPU_ISA and ceiling of each way to multiply bf16."""
    found = [(" in f32", "avx512", library.fma_peak)]
    if library.dot_peak(THREADS, CPU_TIME) > 0:
        found.append((" by dots", "avx512+bf16_dot", library.dot_peak))
    if library.tile_peak(THREADS, CPU_TIME) > 0:
        found.append((" by tiles", "avx512+bf16_tiles", library.tile_peak))
    return found


def on_unit(isa, path, arrays, overrides):
    """A kernel made for a unit; it is compiled on its first run."""
    before = os.environ.get("TILEWRIGHT_CPU_ISA")
    os.environ["TILEWRIGHT_CPU_ISA"] = isa
    call = kernel(path, arrays, overrides)
    call()
    os.environ.pop("TILEWRIGHT_CPU_ISA")
    if before is not None:
        os.environ["TILEWRIGHT_CPU_ISA"] = before
    return call


def timed_on_units(title, calls, work, ceilings_of, rounds):
    peaks = {name: f(THREADS, CPU_TIME) for name, f in ceilings_of.items()}
    times, _ = timed(calls, lambda: 0, rounds)
    print(title)
    for name, t in times.items():
        peak, rate = max(peaks[name], ceilings_of[name](THREADS, CPU_TIME)), work[name] / statistics.median(t) * 1e-9
        print(f"  {name:22s} {statistics.median(t) * 1e3:8.2f} ms ({min(t) * 1e3:.2f} to {max(t) * 1e3:.2f})  {rate:7.1f} GFLOP/s  "
              f"{100 * rate / peak:5.1f} % of {peak:.0f}", flush=True)


def bf16(args, library):
    """Attention and products of bf16 on every unit."""
    ways, sdpa = units(library), torch.nn.functional.scaled_dot_product_attention
    best = ways[-1][2]
    for d in args.features if "attention" in args.only else []:
        shape = (1, args.heads, args.size, d)
        q, k, v = (torch.from_numpy(normal(*shape)).bfloat16() for _ in range(3))
        overrides = f"d={d},e={d}," + ",".join(f"{n}=bf16" for n in "QKVO")
        calls, work, peaks = {}, {}, {}
        for mask in ("global", "causal"):
            exact = sdpa(q.float(), k.float(), v.float(), is_causal=mask == "causal")
            for suffix, isa, peak in ways:
                o = torch.empty(shape, dtype=torch.bfloat16)
                calls[mask + suffix] = on_unit(isa, f"examples/pf_{mask}.tw", {"Q": q, "K": k, "V": v, "O": o}, overrides)
                assert torch.allclose(o.float(), exact, atol=2e-2, rtol=2e-2), f"{mask}{suffix} is wrong"
                peaks[mask + suffix] = peak
            calls[mask + " PyTorch"] = lambda causal=mask == "causal": sdpa(q, k, v, is_causal=causal)
            peaks[mask + " PyTorch"] = best
            for name in [n for n in calls if n.startswith(mask)]:
                work[name] = 4.0 * args.heads * args.size**2 * d / (2 if mask == "causal" else 1)
        timed_on_units(f"attention, bf16, H={args.heads}, S={args.size}, D={d}", calls, work, peaks, args.rounds)
    for n in (1024, 2048) if "product" in args.only else []:
        a, b = (torch.from_numpy(normal(n, n)).bfloat16() for _ in range(2))
        calls, peaks, exact = {}, {}, a.float() @ b.float()
        for suffix, isa, peak in ways:
            c = torch.empty((n, n), dtype=torch.bfloat16)
            calls["product" + suffix] = on_unit(isa, "bench/product.tw", {"A": a, "B": b, "C": c}, "A=bf16,B=bf16,C=bf16")
            assert (c.float() - exact).abs().max().item() < 2, f"product{suffix} is wrong"
            peaks["product" + suffix] = peak
        calls["product PyTorch"], peaks["product PyTorch"] = lambda: a @ b, best
        timed_on_units(f"product, bf16, n={n}", calls, {name: 2.0 * n**3 for name in calls}, peaks, args.rounds)


def query(args, library):
    heads, keys, d = args.heads, 32768, 128
    for shared in (1, 8):
        k, v = normal(1, heads, keys, d), normal(1, heads, keys, d)
        q = normal(1, heads * shared, d)
        o = np.empty_like(q)
        path = "examples/dc_causal.tw" if shared == 1 else "examples/dc_gqa.tw"
        calls = {path.split("/")[1][:-3]: kernel(path, {"Q": q, "K": k, "V": v, "O": o}, ",".join(f"{n}=f32" for n in "QKVO"))}
        if torch is not None:
            tq, tk, tv = (torch.from_numpy(x) for x in (q.reshape(1, heads, shared, d), k, v))
            calls["PyTorch"] = lambda: torch.nn.functional.scaled_dot_product_attention(tq, tk, tv)
        times, rates = timed(calls, lambda: library.read_rate(k.ctypes.data, k.size, THREADS, CPU_TIME), args.rounds)
        title = f"one query, f32, {heads} key heads of {keys} keys, {shared} query heads each"
        report(title, times, rates, {name: 2.0 * k.nbytes for name in calls}, "GB/s", "reads")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--features", type=int, nargs="*", default=[128, 64])
    parser.add_argument("--only", default="attention,product,query")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    args = parser.parse_args()
    global CPU_TIME
    CPU_TIME = args.clock == "cpu"
    library = ceilings()
    print(f"threads {THREADS}" + ("" if torch is not None else "; PyTorch is not installed: its rows are skipped"))
    if args.dtype == "bf16":
        if torch is None:
            sys.exit("--dtype bf16 needs PyTorch: NumPy has no such type")
        bf16(args, library)
        return 0
    for part in args.only.split(","):
        if part not in ("attention", "product", "query"):
            parser.error(f"--only {part}: name attention, product or query, separated by commas")
    for part in args.only.split(","):
        {"attention": attention, "product": product, "query": query}[part](args, library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
