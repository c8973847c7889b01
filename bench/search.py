#!/usr/bin/env python3
"""How far plans are from the best of a measured search: the default, and the best by prediction.

    nice -n -15 python3 bench/search.py --budget 30                       # every plan that the budget reaches
    nice -n -15 python3 bench/search.py --only pf_ --best 12 --out search.json
    python3 bench/search.py --target cuda --best 16 --budget 25 --out search_h200.json

    nice -n 19 python3 bench/search.py --set held-out --exhaustive --fill       # compile ahead, while the machine does other things
    python3 bench/search.py --set held-out --exhaustive --out regret.json --seconds 80     # measure on a quiet machine; again until it says that all is done

Runs `tilewright tune` on the ten attention operators and on cascades at sizes of some milliseconds which no rule was fitted to. Every plan is checked to be legal
by the compiler; all that the budget reaches are measured in interleaved rounds on the same arrays, and those that are hopeless after a round stop. "default" and "predicted"
are the times of the default plan and of the plan that the model puts first over the best of all, by least times (others may use the machine) and by medians.

--exhaustive takes of each kernel all legal plans (docs/search.md says what is enumerated) that are predicted to take less than `--within` times what the first takes, 2 if not said. All run once; what is 2.6 times as slow as the best then, or
1.3 times after three rounds, is given up; the rest runs `--rounds` times, and the best eight of those, the default and the first by prediction twice as many times again, interleaved. The best plan is chosen by the median of half of those times (of two rounds out of four), and what is reported are
medians of the other half: the fastest of many by the same times was lucky too.
--fill does the same with one round and a small budget until every kernel is in the cache of compiled kernels, so that a sitting measures and does not compile. With --out, programs that the file holds are not measured again."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SETS = {
    "first": {
        "pf_global": "b=1,h=2,i=1280,j=1280", "pf_causal": "b=1,h=3,i=1280,j=1280", "pf_alibi": "b=1,h=3,i=1280,j=1280",
        "pf_gqa": "b=1,k=1,g=3,i=1280,j=1280", "pf_softcap": "b=1,k=1,g=2,i=1280,j=1280", "pf_window": "b=1,k=1,g=2,i=1280,j=1280",
        "dc_causal": "b=1,h=6,j=20000", "dc_alibi": "b=1,h=6,j=20000", "dc_gqa": "b=1,k=4,g=8,j=20000", "dc_softcap": "b=1,k=4,g=2,j=20000",
        "softmax": "r=768,j=12000", "logsumexp": "r=1200,j=12000", "cross_entropy_linear": "t=192,v=6000,c=1024", "variance": "r=1200,c=12000",
        "layernorm": "r=768,c=12000", "rmsnorm_matmul": "r=12,n=6144,c=3072", "layernorm_matmul": "r=12,n=6144,c=3072",
        "rmsnorm_swiglu": "b=8,f=5120,c=3072", "gated_mlp": "t=8,f=5120,c=3072", "quant_gemm": "m=384,n=768,k=3072",
        "affine_quant_gemm": "m=384,n=768,k=3072", "softmax_backward_dq": "b=1,h=1,i=1280,j=1280", "performer_state": "b=1,h=3,j=5000",
        "qknorm_gqa": "b=1,k=1,g=8,i=256,j=3000", "mla_decode": "b=1,h=96,j=3000", "moe_routing": "t=40000", "spherical_attention": "b=1,h=2,i=1280,j=1280",
        "argmax": "r=1200,j=12000", "unsafe_softmax": "b=1,h=2,i=1280,j=1280",
    },
    # Sizes that no other table has, of 5 to 30 ms on two cores with 512-bit vectors.
    "held-out": {
        "pf_global": "b=1,h=3,i=1088,j=1152", "pf_causal": "b=1,h=4,i=1408,j=1408", "pf_alibi": "b=1,h=4,i=1344,j=1344",
        "pf_gqa": "b=1,k=1,g=5,i=1216,j=1216", "pf_softcap": "b=1,k=2,g=2,i=1344,j=1344", "pf_window": "b=1,k=1,g=3,i=1472,j=1472",
        "dc_causal": "b=1,h=10,j=24000", "dc_alibi": "b=1,h=9,j=27000", "dc_gqa": "b=1,k=9,g=5,j=24000", "dc_softcap": "b=1,k=10,g=3,j=23000",
        "softmax": "r=1100,j=14000", "logsumexp": "r=1700,j=15000", "cross_entropy_linear": "t=208,v=7000,c=1280", "variance": "r=1700,c=15000",
        "layernorm": "r=1400,c=17000", "rmsnorm_matmul": "r=14,n=7168,c=3584", "layernorm_matmul": "r=13,n=7168,c=3584",
        "rmsnorm_swiglu": "b=7,f=6400,c=3584", "gated_mlp": "t=9,f=6400,c=3584", "quant_gemm": "m=352,n=896,k=3584",
        "affine_quant_gemm": "m=352,n=896,k=3584", "softmax_backward_dq": "b=1,h=2,i=1152,j=1088", "performer_state": "b=1,h=4,j=5200",
        "qknorm_gqa": "b=1,k=1,g=10,i=240,j=3300", "mla_decode": "b=1,h=104,j=5200", "moe_routing": "t=30000",
        "spherical_attention": "b=1,h=3,i=1088,j=1152", "argmax": "r=1700,j=15000", "unsafe_softmax": "b=1,h=3,i=1088,j=1152",
    },
    # For rules that were changed after the set above.
    "held-out-again": {
        "pf_global": "b=1,h=3,i=1120,j=1184", "pf_causal": "b=1,h=4,i=1504,j=1504", "pf_alibi": "b=1,h=4,i=1248,j=1248",
        "pf_gqa": "b=1,k=1,g=5,i=1312,j=1312", "pf_softcap": "b=1,k=2,g=2,i=1232,j=1232", "pf_window": "b=1,k=1,g=3,i=1392,j=1392",
        "dc_causal": "b=1,h=11,j=22500", "dc_alibi": "b=1,h=10,j=25500", "dc_gqa": "b=1,k=7,g=7,j=23000", "dc_softcap": "b=1,k=9,g=3,j=25000",
        "softmax": "r=1250,j=13000", "logsumexp": "r=1600,j=16500", "cross_entropy_linear": "t=224,v=6600,c=1152", "variance": "r=1800,c=14500",
        "layernorm": "r=1550,c=14000", "rmsnorm_matmul": "r=11,n=7680,c=3328", "layernorm_matmul": "r=14,n=7680,c=3328",
        "rmsnorm_swiglu": "b=9,f=6000,c=3328", "gated_mlp": "t=7,f=6800,c=3328", "quant_gemm": "m=416,n=832,k=3328",
        "affine_quant_gemm": "m=368,n=832,k=3328", "softmax_backward_dq": "b=1,h=2,i=1104,j=1168", "performer_state": "b=1,h=4,j=5600",
        "qknorm_gqa": "b=1,k=1,g=11,i=230,j=3500", "mla_decode": "b=1,h=112,j=4900", "moe_routing": "t=34000",
        "spherical_attention": "b=1,h=3,i=1040,j=1216", "argmax": "r=1500,j=17000", "unsafe_softmax": "b=1,h=3,i=1120,j=1184",
    },
    # For what was mended after the set above.
    "mended": {
        "quant_gemm": "m=464,n=896,k=2816", "gated_mlp": "t=9,f=5600,c=2816", "argmax": "r=1900,j=13500", "rmsnorm_swiglu": "b=7,f=5600,c=2816",
        "layernorm_matmul": "r=10,n=6400,c=2816", "rmsnorm_matmul": "r=13,n=6400,c=2816",
    },
    # Again sizes that no other table has, for the rules as they stand after all sets above; rows from 3 to 16 where products have few.
    "held-out-last": {
        "pf_global": "b=1,h=3,i=1024,j=1280", "pf_causal": "b=1,h=5,i=1312,j=1312", "pf_alibi": "b=1,h=5,i=1200,j=1200",
        "pf_gqa": "b=1,k=1,g=6,i=1168,j=1168", "pf_softcap": "b=1,k=2,g=2,i=1424,j=1424", "pf_window": "b=1,k=1,g=3,i=1328,j=1328",
        "dc_causal": "b=1,h=9,j=26500", "dc_alibi": "b=1,h=11,j=21500", "dc_gqa": "b=1,k=8,g=6,j=22000", "dc_softcap": "b=1,k=11,g=2,j=22500",
        "softmax": "r=1350,j=11500", "logsumexp": "r=1750,j=14500", "cross_entropy_linear": "t=240,v=6200,c=1216", "variance": "r=1650,c=15500",
        "layernorm": "r=1450,c=13500", "rmsnorm_matmul": "r=6,n=7424,c=3456", "layernorm_matmul": "r=16,n=6912,c=3456",
        "rmsnorm_swiglu": "b=12,f=5888,c=3072", "gated_mlp": "t=3,f=6656,c=3456", "quant_gemm": "m=336,n=960,k=3072",
        "affine_quant_gemm": "m=336,n=960,k=3072", "softmax_backward_dq": "b=1,h=2,i=1056,j=1216", "performer_state": "b=1,h=4,j=4900",
        "qknorm_gqa": "b=1,k=1,g=12,i=216,j=3400", "mla_decode": "b=1,h=100,j=5500", "moe_routing": "t=32000",
        "spherical_attention": "b=1,h=3,i=1072,j=1184", "argmax": "r=1600,j=15500", "unsafe_softmax": "b=1,h=3,i=1072,j=1248",
    },
    # For rules that were changed after the first set, and again after the first of these.
    "rows": {
        "softmax": "r=1400,j=11000", "logsumexp": "r=1300,j=21000", "variance": "r=2100,c=13000", "layernorm": "r=1900,c=11000", "argmax": "r=2300,j=11000",
    },
    "rows-again": {
        "softmax": "r=1600,j=12500", "logsumexp": "r=1900,j=13500", "variance": "r=1500,c=17000", "layernorm": "r=1300,c=15000", "argmax": "r=1300,j=19000",
        "qknorm_gqa": "b=1,k=1,g=9,i=250,j=3600",
    },
}

GPU = {"pf_global": "b=1,h=32,i=4096,j=4096", "pf_causal": "b=1,h=32,i=4096,j=4096", "softmax": "r=8192,j=8192"}


def tune(options, name, sizes, budget, rounds, finals):
    legal = 0
    if options.within:
        options.best, legal = within(options, name, sizes)
    command = [options.command, "tune", f"examples/{name}.tw", "--size", sizes, "--best", str(options.best), "--budget", str(budget),
               "--rounds", str(rounds), "--target", options.target, "--json"]
    if finals:
        command += ["--finals", str(finals)]
    if options.machine:
        command += ["--machine", options.machine]
    r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        answer = json.loads(r.stdout)
    except json.JSONDecodeError:
        answer = {"error": {"diagnostics": [{"what": r.stderr.strip() or "no answer"}]}}
    answer["legal"] = legal
    return answer


def within(options, name, sizes):
    """How many plans of the kernel that has most are predicted to take less than so many times what its first takes, and how many are legal in all."""
    command = [options.command, "search", f"examples/{name}.tw", "--size", sizes, "--best", "10000", "--json"]
    if options.machine:
        command += ["--machine", options.machine]
    r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    kernels = [k["plans"] for k in json.loads(r.stdout)["kernels"]]
    return max(1, *(sum(p["seconds"] < options.within * plans[0]["seconds"] for p in plans) for plans in kernels)), sum(map(len, kernels))


def summary(answer):
    """Ratios to the best of all plans measured, by least times and by medians."""
    if "error" in answer:
        return {"error": answer["error"]["diagnostics"][0]["what"]}
    # Those of the final ran in the same rounds: the default, the first by prediction and the fastest of the rounds before.
    measured = [p for p in answer["plans"] if "least" in p]
    rounds = max(p["rounds"] for p in measured)
    final = [p for p in measured if p["rounds"] == rounds]
    own = answer["plans"][0]
    # One half of the times says which is best, the other what it takes; neighbouring rounds run in opposite orders.
    halves = [[k for k in range(rounds) if k // 2 % 2 == half] for half in (0, 1)]

    def median(p, half):
        return statistics.median([p["times"][k] for k in halves[half]] if "times" in p and halves[1] else [p["median"]])

    best = min(final, key=lambda p: median(p, 0))
    first = [p for p in final if p.get("place") == 1 and not p.get("kernel")]
    row = {"milliseconds": own["median"] * 1e3, "measured": len(measured), "of": len(answer["plans"]), "best": best["schedule"], "best_place": best.get("place"),
           "legal": answer.get("legal", 0), "given_up": sum(p["rounds"] <= 3 for p in measured)}
    for kind, time in (("least", lambda p: p["least"]), ("median", lambda p: median(p, 1))):
        shortest = min(map(time, final)) if kind == "least" else time(best)
        row["default", kind] = max(1.0, time(own) / shortest)
        if first:
            row["predicted", kind] = max(1.0, time(first[0]) / shortest)
    return row


def fill(options, name, sizes):
    """Compiles every plan, a little at a time, so that others get their turn."""
    while True:
        answer = tune(options, name, sizes, options.budget, 1, 0)
        left = 0 if "error" in answer else sum("least" not in p and "refused" not in p for p in answer["plans"])
        print(f"{name:<22} {answer['error'] if 'error' in answer else str(len(answer['plans'])) + ' plans'}, {left} left", flush=True)
        if not left:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=os.path.join(ROOT, "build", "tilewright"))
    parser.add_argument("--machine", default="", help="the machine file that predicts (default: this CPU with typical rates)")
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"], help="cuda: three operators on the GPU")
    parser.add_argument("--set", default="first", choices=sorted(SETS), help="the sizes on a CPU")
    parser.add_argument("--only", default="", help="programs whose names begin so, separated by commas")
    parser.add_argument("--best", help="plans of each kernel, the fastest by prediction first (default: all)")
    parser.add_argument("--within", type=float, help="instead of --best: all that are predicted to take less than so many times what the first takes (with --exhaustive 2)")
    parser.add_argument("--budget", type=int, default=30, help="seconds for each program, compiling included")
    parser.add_argument("--rounds", type=int, help="of every plan; the final has twice as many (default: 7; with --exhaustive 5)")
    parser.add_argument("--exhaustive", action="store_true", help="eight plans in the final")
    parser.add_argument("--fill", action="store_true", help="compile alone")
    parser.add_argument("--seconds", type=float, help="begin no program after so long")
    parser.add_argument("--out", help="keep every answer as JSON; programs that it holds are not measured again")
    options = parser.parse_args()
    if options.exhaustive and not options.best:
        options.within = options.within or 2.0
    options.best = options.best or "all"
    rounds = options.rounds or (5 if options.exhaustive else 7)
    kept, rows, begin, left = {}, [], time.monotonic(), []
    if options.out and os.path.exists(options.out):
        with open(options.out) as f:
            kept = json.load(f)
    if not options.fill:
        print(f"{'':<22} {'':>7} {'least times':^17} {'medians':^17}\n{'program':<22} {'ms':>7} {'default':>8} {'predicted':>9} {'default':>8} {'predicted':>9} {'legal':>5} {'measured':>11} {'given up':>4}  best plan")
    for name, sizes in (GPU if options.target == "cuda" else SETS[options.set]).items():
        if options.only and not name.startswith(tuple(options.only.split(","))):
            continue
        if options.fill:
            fill(options, name, sizes)
            continue
        if name not in kept:
            if options.seconds and time.monotonic() - begin > options.seconds:
                left.append(name)
                continue
            kept[name] = tune(options, name, sizes, options.budget, rounds, 8 if options.exhaustive else 0)
        row = summary(kept[name])
        if "error" in row:
            print(f"{name:<22} {row['error']}", flush=True)
            continue
        rows.append(row)
        plan = " | ".join(line for line in row["best"].splitlines() if not line.startswith("#"))
        ratios = " ".join(f"{row.get((what, kind), float('nan')):{width}.3f}" for kind in ("least", "median") for what, width in (("default", 8), ("predicted", 9)))
        print(f"{name:<22} {row['milliseconds']:7.2f} {ratios} {row['legal']:5d} {row['measured']:5d}/{row['of']:<5d} {row['given_up']:4d}  {plan[:160]}", flush=True)
        if options.out:
            with open(options.out, "w") as f:
                json.dump(kept, f, indent=1)
    for kind in ("least", "median"):
        for what in ("default", "predicted"):
            values = [r[what, kind] for r in rows if (what, kind) in r]
            if values:
                print(f"{what} over best by {kind}: median {statistics.median(values):.3f}, worst {max(values):.3f} of {len(values)}")
    if left:
        print(f"not yet measured: {', '.join(left)}")


if __name__ == "__main__":
    sys.exit(main())
