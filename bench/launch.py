#!/usr/bin/env python3
"""Host time of a launch through the C interface on an NVIDIA GPU.

    python3 bench/launch.py [--rounds 50]

Kernels are compiled, their arrays described and checked once; then batches of launches without waiting for the device, each batch short enough for its queue. Microseconds of
host time a launch, median and least over batches: by a loop in C, compiled here, and by one in Python, where the call of a C function through ctypes (measured beside it) is part of it.
A short kernel of PyTorch in the same rounds.
"""
import argparse, ctypes, pathlib, statistics, subprocess, sys, tempfile, time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import tilewright  # noqa: E402

BATCH = 200
LOOP = """
#include <time.h>
#include "tilewright.h"
int loop(int (*run)(tw_kernel*, const tw_array*, int32_t, const tw_value*, int32_t, void*), tw_kernel* kernel, const tw_array* arrays, int n, const tw_value* values,
         int n_values, void* stream, int batch, double* microseconds) {
  struct timespec begin, end;
  int status = 0;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < batch; ++i) status |= run(kernel, arrays, n, values, n_values, stream);
  clock_gettime(CLOCK_MONOTONIC, &end);
  *microseconds = (1e6 * (end.tv_sec - begin.tv_sec) + 1e-3 * (end.tv_nsec - begin.tv_nsec)) / batch;
  return status;
}
"""


def host_time(call):
    begin = time.perf_counter()
    for _ in range(BATCH):
        call()
    taken = time.perf_counter() - begin
    torch.cuda.synchronize()
    return 1e6 * taken / BATCH


def loop_in_c():
    """The loop above as a function: (kernel, what `prepare` gave, stream) -> microseconds a launch."""
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "loop.c").write_text(LOOP)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT / 'include'}", "-o", folder / "loop.so", folder / "loop.c"], check=True)
    loop, run = ctypes.CDLL(str(folder / "loop.so")).loop, ctypes.cast(tilewright._library().tw_run, ctypes.c_void_p)

    def measure(kernel, p, stream):
        arrays, n, values, n_values, _ = p
        taken = ctypes.c_double()
        status = loop(run, ctypes.c_void_p(kernel._handle), arrays, n, values, n_values, ctypes.c_void_p(stream or None), BATCH, ctypes.byref(taken))
        torch.cuda.synchronize()
        if status:
            raise SystemExit(f"a launch failed with status {status}")
        return taken.value

    return measure


def prepared(name, arrays):
    kernel = tilewright.Kernel((ROOT / f"examples/{name}.tw").read_text(), "cuda")
    return kernel, kernel.prepare(**arrays)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=50)
    rounds = a.parse_args().rounds
    half = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.float16)
    q, k, v = (half(1, 1, 64, 128) for _ in range(3))
    x = half(4, 256)
    one, keys, values = half(1, 1, 128), half(1, 1, 2048, 128), half(1, 1, 2048, 128)
    cases = {
        "softmax": prepared("softmax", {"x": x, "P": torch.empty_like(x)}),
        "pf_causal": prepared("pf_causal", {"Q": q, "K": k, "V": v, "O": torch.empty_like(q)}),
        "dc_causal, two kernels": prepared("dc_causal", {"Q": one, "K": keys, "V": values, "O": torch.empty_like(one)}),
    }
    stream = torch.cuda.current_stream().cuda_stream
    calls = {name: (lambda kernel=kernel, p=p: kernel.run(p, stream)) for name, (kernel, p) in cases.items()}
    calls["PyTorch softmax"] = lambda: torch.softmax(x, -1)
    nothing = ctypes.CDLL(None).abs
    calls["a C function that does nothing"] = lambda: nothing(0)
    in_c = loop_in_c()
    measures = {f"{name}, from C": (lambda kernel=kernel, p=p: in_c(kernel, p, stream)) for name, (kernel, p) in cases.items()}
    measures |= {name: (lambda call=call: host_time(call)) for name, call in calls.items()}
    times = {name: [] for name in measures}
    for measure in measures.values():
        measure()
    for _ in range(rounds):
        for name, measure in measures.items():
            times[name].append(measure())
    print(f"{torch.cuda.get_device_name()}: host time of a launch in microseconds, median (least) of {rounds} batches of {BATCH}")
    for name, t in times.items():
        print(f"  {name:<32} {statistics.median(t):6.2f} ({min(t):.2f})")


main()
