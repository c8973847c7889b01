#!/usr/bin/env python3
"""Host time of a launch through the C interface on an NVIDIA GPU.

    python3 bench/launch.py [--rounds 50]

Kernels are compiled, their arrays described and checked once; then batches of launches without waiting for the device, each batch short enough for its queue. Microseconds of
host time a launch, median and least over batches: the call of a C function through Python's ctypes (measured beside it) is part of it. A short kernel of PyTorch in the same rounds.
"""
import argparse, ctypes, pathlib, statistics, sys, time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import tilewright  # noqa: E402

BATCH = 200


def host_time(call):
    begin = time.perf_counter()
    for _ in range(BATCH):
        call()
    taken = time.perf_counter() - begin
    torch.cuda.synchronize()
    return 1e6 * taken / BATCH


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
    times = {name: [] for name in calls}
    for call in calls.values():
        host_time(call)
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(host_time(call))
    print(f"{torch.cuda.get_device_name()}: host time of a launch in microseconds, median (least) of {rounds} batches of {BATCH}")
    for name, t in times.items():
        print(f"  {name:<32} {statistics.median(t):6.2f} ({min(t):.2f})")


main()
