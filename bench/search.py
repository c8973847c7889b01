#!/usr/bin/env python3
"""How far plans are from the best of a measured search: the default, and the best by prediction.

    nice -n -15 python3 bench/search.py --budget 30                       # every plan that the budget reaches
    nice -n -15 python3 bench/search.py --only pf_ --best 12 --out search.json
    python3 bench/search.py --target cuda --best 16 --budget 25 --out search_h200.json

Runs `tilewright tune` on the ten attention operators and on cascades at sizes of some milliseconds which no rule was fitted to. Every plan is checked to be legal
by the compiler; all that the budget reaches are measured in interleaved rounds on the same arrays, the least time of each counts (others may use the machine), and
those that are hopeless after a round stop. "default" and "predicted" are the times of the default plan and of the plan that the model puts first over the best of all."""
import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

ATTENTION = {
    "pf_global": "b=1,h=2,i=1280,j=1280", "pf_causal": "b=1,h=3,i=1280,j=1280", "pf_alibi": "b=1,h=3,i=1280,j=1280",
    "pf_gqa": "b=1,k=1,g=3,i=1280,j=1280", "pf_softcap": "b=1,k=1,g=2,i=1280,j=1280", "pf_window": "b=1,k=1,g=2,i=1280,j=1280",
    "dc_causal": "b=1,h=6,j=20000", "dc_alibi": "b=1,h=6,j=20000", "dc_gqa": "b=1,k=4,g=8,j=20000", "dc_softcap": "b=1,k=4,g=2,j=20000",
}
CASCADES = {
    "softmax": "r=768,j=12000", "logsumexp": "r=1200,j=12000", "cross_entropy_linear": "t=192,v=6000,c=1024", "variance": "r=1200,c=12000",
    "layernorm": "r=768,c=12000", "rmsnorm_matmul": "r=12,n=6144,c=3072", "layernorm_matmul": "r=12,n=6144,c=3072",
    "rmsnorm_swiglu": "b=8,f=5120,c=3072", "gated_mlp": "t=8,f=5120,c=3072", "quant_gemm": "m=384,n=768,k=3072",
    "affine_quant_gemm": "m=384,n=768,k=3072", "softmax_backward_dq": "b=1,h=1,i=1280,j=1280", "performer_state": "b=1,h=3,j=5000",
    "qknorm_gqa": "b=1,k=1,g=8,i=256,j=3000", "mla_decode": "b=1,h=96,j=3000", "moe_routing": "t=40000", "spherical_attention": "b=1,h=2,i=1280,j=1280",
    "argmax": "r=1200,j=12000", "unsafe_softmax": "b=1,h=2,i=1280,j=1280",
}

GPU = {"pf_global": "b=1,h=32,i=4096,j=4096", "pf_causal": "b=1,h=32,i=4096,j=4096", "softmax": "r=8192,j=8192"}


def tune(options, name, sizes):
    command = [options.command, "tune", f"examples/{name}.tw", "--size", sizes, "--best", options.best, "--budget", str(options.budget),
               "--rounds", str(options.rounds), "--target", options.target, "--json"]
    if options.machine:
        command += ["--machine", options.machine]
    r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        answer = json.loads(r.stdout)
    except json.JSONDecodeError:
        answer = {"error": {"diagnostics": [{"what": r.stderr.strip() or "no answer"}]}}
    return answer


def summary(answer):
    """Ratios to the best of all plans measured."""
    if "error" in answer:
        return {"error": answer["error"]["diagnostics"][0]["what"]}
    # Those of the final ran in the same rounds: the default, the first by prediction and the fastest of the rounds before.
    measured = [p for p in answer["plans"] if "least" in p]
    final = [p for p in measured if p["rounds"] == max(q["rounds"] for q in measured)]
    own = answer["plans"][0]
    best = min(final, key=lambda p: p["least"])
    first = [p for p in final if p.get("place") == 1 and not p.get("kernel")]
    row = {"milliseconds": own["least"] * 1e3, "measured": len(measured), "of": len(answer["plans"]), "default": own["least"] / best["least"],
           "best": best["schedule"], "best_place": best.get("place")}
    if first:
        row["predicted"] = first[0]["least"] / best["least"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=os.path.join(ROOT, "build", "tilewright"))
    parser.add_argument("--machine", default="", help="the machine file that predicts (default: this CPU with typical rates)")
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"], help="cuda: three operators on the GPU")
    parser.add_argument("--only", default="", help="programs whose names begin so, separated by commas")
    parser.add_argument("--best", default="all")
    parser.add_argument("--budget", type=int, default=30, help="seconds for each program, compiling included")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", help="keep every answer as JSON")
    options = parser.parse_args()
    kept, rows = {}, []
    print(f"{'program':<22} {'ms':>7} {'default':>8} {'predicted':>9} {'measured':>9}  best plan")
    for name, sizes in (GPU if options.target == "cuda" else {**ATTENTION, **CASCADES}).items():
        if options.only and not name.startswith(tuple(options.only.split(","))):
            continue
        answer = kept[name] = tune(options, name, sizes)
        row = summary(answer)
        if "error" in row:
            print(f"{name:<22} {row['error']}", flush=True)
            continue
        rows.append(row)
        plan = " | ".join(line for line in row["best"].splitlines() if not line.startswith("#"))
        print(f"{name:<22} {row['milliseconds']:7.2f} {row['default']:8.3f} {row.get('predicted', float('nan')):9.3f} "
              f"{row['measured']:4d}/{row['of']:<4d}  {plan[:160]}", flush=True)
        if options.out:
            with open(options.out, "w") as f:
                json.dump(kept, f, indent=1)
    for what in ("default", "predicted"):
        values = [r[what] for r in rows if what in r]
        if values:
            print(f"{what} over best: median {statistics.median(values):.3f}, worst {max(values):.3f} of {len(values)}")


if __name__ == "__main__":
    sys.exit(main())
