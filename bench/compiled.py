"""Times what PyTorch compiles beside our kernels: FlexAttention's variants of attention, and a Llama block.

    python3 bench/compiled.py [--threads N] [--rounds 7] [--only flex,block] [--features 64] [--size 2048]

f32 on the CPU; needs PyTorch and the compiler that torch.compile calls. Medians of alternating runs; results are compared before they are timed.
"""

import argparse
import random
import statistics
import sys
import time

import cpu
import numpy as np
from cpu import ROOT, tilewright, torch


def alternate(calls, rounds):
    """Median seconds of each call, in random order within a round."""
    times = {name: [] for name in calls}
    for _ in range(rounds):
        order = list(calls)
        random.shuffle(order)
        for name in order:
            cpu.settle()
            begin = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(t) for name, t in times.items()}


def flex(args):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    heads, size, d = 8, args.size, args.features
    q, k, v = (torch.from_numpy(cpu.normal(1, heads, size, d)) for _ in range(3))
    slope = 2.0 ** -torch.arange(1, heads + 1).float()
    window = size // 4
    compiled = torch.compile(flex_attention)
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, size, size, device="cpu")
    near = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < window), None, None, size, size, device="cpu")
    alibi = lambda s, b, h, i, j: s + slope[h] * (j - i)
    cap = lambda s, b, h, i, j: 50 * torch.tanh(s / 50)
    peers = {"pf_causal": lambda: compiled(q, k, v, block_mask=causal), "pf_alibi": lambda: compiled(q, k, v, score_mod=alibi, block_mask=causal),
             "pf_softcap": lambda: compiled(q, k, v, score_mod=cap, block_mask=causal), "pf_window": lambda: compiled(q, k, v, score_mod=cap, block_mask=near)}
    for name, peer in peers.items():
        o = torch.empty(1, heads, size, d)
        arrays = {"Q": q, "K": k, "V": v, "O": o, **({"slope": slope} if name == "pf_alibi" else {})}
        ours = cpu.kernel(f"examples/{name}.tw", arrays, f"d={d},e={d}," + ",".join(f"{n}=f32" for n in "QKVO"),
                          {"w": window} if name == "pf_window" else None)
        ours()
        assert torch.allclose(peer(), o, atol=1e-3), name
        t = alternate({"ours": ours, "flex": peer}, args.rounds)
        print(f"{name:12s} S={size} D={d}: ours {t['ours'] * 1e3:.1f} ms, FlexAttention {t['flex'] * 1e3:.1f} ms, {t['flex'] / t['ours']:.2f} x", flush=True)


def block(args):
    rows, heads, d, c, f = 512, 16, 128, 2048, 5632
    weight = lambda *shape: cpu.normal(*shape) * np.float32(shape[0] ** -0.5)
    angle = np.arange(rows)[:, None] / 10000 ** (np.arange(0, d, 2) / d)[None]
    angle = np.concatenate([angle, angle], 1)
    a = {"x": cpu.normal(1, rows, c), "gain1": 1 + 0.1 * cpu.normal(c), "Wq": weight(c, heads * d), "Wk": weight(c, heads * d), "Wv": weight(c, heads * d),
         "cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32), "Wo": weight(heads * d, c), "gain2": 1 + 0.1 * cpu.normal(c),
         "W1": weight(c, f), "W3": weight(c, f), "W2": weight(f, c)}
    z = np.empty((1, rows, c), np.float32)
    k = tilewright.Kernel((ROOT / "examples/llama_block.tw").read_text().replace(": f16", ": f32"), "cpu", "", "")
    prepared = k.prepare(**a, z=z)
    t = {name: torch.from_numpy(x) for name, x in a.items()}
    rms = lambda v, g: v * torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-5) * g

    def turned(v):
        half = v.chunk(2, -1)
        return v * t["cos"] + torch.cat([-half[1], half[0]], -1) * t["sin"]

    def eager(x):
        h = rms(x, t["gain1"])
        q, u, v = ((h @ t[w]).view(1, rows, heads, d).transpose(1, 2) for w in ("Wq", "Wk", "Wv"))
        o = torch.nn.functional.scaled_dot_product_attention(turned(q), turned(u), v, is_causal=True)
        y = x + o.transpose(1, 2).reshape(1, rows, heads * d) @ t["Wo"]
        h = rms(y, t["gain2"])
        return y + (torch.nn.functional.silu(h @ t["W1"]) * (h @ t["W3"])) @ t["W2"]

    compiled = torch.compile(eager)
    k.run(prepared)
    assert torch.allclose(compiled(t["x"]), torch.from_numpy(z), atol=1e-3), "the blocks disagree"
    times = alternate({"ours": lambda: k.run(prepared), "eager": lambda: eager(t["x"]), "compiled": lambda: compiled(t["x"])}, args.rounds)
    print("Llama block, 512 tokens: " + ", ".join(f"{n} {s * 1e3:.0f} ms" for n, s in times.items()) + f", compiled / ours {times['compiled'] / times['ours']:.2f} x")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=cpu.THREADS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="flex,block")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--size", type=int, default=2048)
    args = parser.parse_args()
    if torch is None:
        print("PyTorch is not installed: there is nothing to compare with")
        return 1
    with torch.no_grad():
        for part in args.only.split(","):
            {"flex": flex, "block": block}[part](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
