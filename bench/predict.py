#!/usr/bin/env python3
"""Predicted and measured times, side by side: attention (prefill and decode) and cascaded reductions beyond it on this CPU, attention and products on a GPU.

    tilewright hardware calibrate --output this.toml
    bench/predict.py --machine this.toml --set first --predict > predictions.json   # before anything is measured
    bench/predict.py --against predictions.json --rounds 5 --save measured.json     # measure, and compare

    bench/predict.py --machine h200 --set h200 --predict > predictions.json       # for a GPU, anywhere
    bench/gpu.py --only "$(bench/predict.py --against predictions.json --cases)" --sizes 512,3072,8192,32768 --out measured.json
    bench/predict.py --against predictions.json --measured measured.json

Predictions come first and are kept, so that they are predictions. Both use the plan that the sizes choose. Rounds are interleaved: each takes every program once, `--repeat` runs of
each, so that what else the machine does falls on all of them. A measured time is the median of all runs; the least is noted beside it. "bound" and "serial" are the two times between which the
model predicts (docs/model.md). The verdict is the median over programs of |predicted − measured| / measured, over those that take at least `--least` milliseconds."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# Sizes take 5 to 200 ms on two cores with 256-bit vectors.
SETS = {
    "first": [
        ("bench/product.tw", "i=1024,k=1024,j=1024"),
        ("examples/pf_global.tw", "b=1,h=4,i=1024,j=1024"),
        ("examples/pf_causal.tw", "b=1,h=4,i=2048,j=2048"),
        ("examples/pf_alibi.tw", "b=1,h=4,i=2048,j=2048"),
        ("examples/pf_gqa.tw", "b=1,k=1,g=8,i=1024,j=1024"),
        ("examples/pf_softcap.tw", "b=1,k=2,g=2,i=1536,j=1536"),
        ("examples/pf_window.tw", "b=1,k=1,g=1,i=6144,j=6144"),
        ("examples/dc_causal.tw", "b=1,h=8,j=32768"),
        ("examples/dc_alibi.tw", "b=1,h=8,j=32768"),
        ("examples/dc_gqa.tw", "b=1,k=2,g=8,j=65536"),
        ("examples/dc_softcap.tw", "b=1,k=4,g=2,j=65536"),
        ("examples/softmax.tw", "r=2048,j=8192"),
        ("examples/logsumexp.tw", "r=2048,j=16384"),
        ("examples/cross_entropy_linear.tw", "t=64,v=8192"),
        ("examples/variance.tw", "r=1024,c=16384"),
        ("examples/layernorm.tw", "r=2048,c=8192"),
        ("examples/rmsnorm_matmul.tw", "r=16,n=6144"),
        ("examples/layernorm_matmul.tw", "r=64,n=6144"),
        ("examples/rmsnorm_swiglu.tw", "b=4,f=14336"),
        ("examples/gated_mlp.tw", "t=8,f=8192"),
        ("examples/quant_gemm.tw", "m=256,n=1024"),
        ("examples/affine_quant_gemm.tw", "m=256,n=2048"),
        ("examples/softmax_backward_dq.tw", "b=1,h=2,i=1024,j=1024"),
        ("examples/softmax_backward_one_pass.tw", "b=1,h=4,i=1024,j=1024"),
        ("examples/performer_state.tw", "b=1,h=4,j=4096"),
        ("examples/qknorm_gqa.tw", "b=1,k=2,g=8,i=256,j=4096"),
        ("examples/mla_decode.tw", "b=1,h=128,j=4096"),
        ("examples/moe_routing.tw", "t=131072"),
        ("examples/spherical_attention.tw", "b=1,h=4,i=1024,j=1024"),
        ("examples/argmax.tw", "r=512,j=65536"),
        ("examples/unsafe_softmax.tw", "b=1,h=4,i=1024,j=1024"),
    ],
    # Other sizes, on which nothing was looked at when the model was changed after the first set.
    "second": [
        ("bench/product.tw", "i=1536,k=1024,j=768"),
        ("examples/pf_global.tw", "b=1,h=3,i=1280,j=1408"),
        ("examples/pf_causal.tw", "b=1,h=6,i=1600,j=1600"),
        ("examples/pf_alibi.tw", "b=1,h=3,i=1792,j=1792"),
        ("examples/pf_gqa.tw", "b=2,k=1,g=4,i=1152,j=1152"),
        ("examples/pf_softcap.tw", "b=1,k=1,g=4,i=1280,j=1280"),
        ("examples/pf_window.tw", "b=1,k=1,g=2,i=5120,j=5120"),
        ("examples/dc_causal.tw", "b=2,h=6,j=24576"),
        ("examples/dc_alibi.tw", "b=1,h=12,j=20480"),
        ("examples/dc_gqa.tw", "b=1,k=4,g=6,j=40960"),
        ("examples/dc_softcap.tw", "b=2,k=2,g=3,j=49152"),
        ("examples/softmax.tw", "r=3072,j=6144"),
        ("examples/logsumexp.tw", "r=1024,j=40960"),
        ("examples/cross_entropy_linear.tw", "t=96,v=6144"),
        ("examples/variance.tw", "r=768,c=32768"),
        ("examples/layernorm.tw", "r=1536,c=12288"),
        ("examples/rmsnorm_matmul.tw", "r=12,n=8192"),
        ("examples/layernorm_matmul.tw", "r=96,n=5120"),
        ("examples/rmsnorm_swiglu.tw", "b=6,f=10240"),
        ("examples/gated_mlp.tw", "t=12,f=6144"),
        ("examples/quant_gemm.tw", "m=320,n=1152"),
        ("examples/affine_quant_gemm.tw", "m=192,n=3072"),
        ("examples/softmax_backward_dq.tw", "b=1,h=3,i=896,j=1024"),
        ("examples/softmax_backward_one_pass.tw", "b=1,h=3,i=1152,j=1152"),
        ("examples/performer_state.tw", "b=1,h=3,j=6144"),
        ("examples/qknorm_gqa.tw", "b=1,k=2,g=8,i=192,j=5120"),
        ("examples/mla_decode.tw", "b=1,h=96,j=3072"),
        ("examples/moe_routing.tw", "t=98304"),
        ("examples/spherical_attention.tw", "b=1,h=3,i=1152,j=1152"),
        ("examples/argmax.tw", "r=384,j=98304"),
        ("examples/unsafe_softmax.tw", "b=1,h=3,i=1152,j=1280"),
    ],
    # Again other sizes, for a machine with 512-bit vectors.
    "third": [
        ("bench/product.tw", "i=1408,k=1600,j=1280"),
        ("examples/pf_global.tw", "b=1,h=5,i=1216,j=1344"),
        ("examples/pf_causal.tw", "b=1,h=7,i=1728,j=1728"),
        ("examples/pf_alibi.tw", "b=1,h=5,i=1856,j=1856"),
        ("examples/pf_gqa.tw", "b=1,k=2,g=5,i=1472,j=1472"),
        ("examples/pf_softcap.tw", "b=1,k=3,g=2,i=1664,j=1664"),
        ("examples/pf_window.tw", "b=1,k=1,g=1,i=5632,j=5632"),
        ("examples/dc_causal.tw", "b=1,h=14,j=28672"),
        ("examples/dc_alibi.tw", "b=2,h=7,j=26624"),
        ("examples/dc_gqa.tw", "b=1,k=6,g=6,j=53248"),
        ("examples/dc_softcap.tw", "b=1,k=7,g=3,j=57344"),
        ("examples/softmax.tw", "r=2816,j=9216"),
        ("examples/logsumexp.tw", "r=1536,j=28672"),
        ("examples/cross_entropy_linear.tw", "t=160,v=5120"),
        ("examples/variance.tw", "r=1792,c=20480"),
        ("examples/layernorm.tw", "r=2304,c=14336"),
        ("examples/rmsnorm_matmul.tw", "r=10,n=10240"),
        ("examples/layernorm_matmul.tw", "r=80,n=7168"),
        ("examples/rmsnorm_swiglu.tw", "b=5,f=12288"),
        ("examples/gated_mlp.tw", "t=10,f=9216"),
        ("examples/quant_gemm.tw", "m=448,n=1280"),
        ("examples/affine_quant_gemm.tw", "m=224,n=2560"),
        ("examples/softmax_backward_dq.tw", "b=1,h=4,i=960,j=1088"),
        ("examples/softmax_backward_one_pass.tw", "b=1,h=5,i=1088,j=1216"),
        ("examples/performer_state.tw", "b=1,h=5,j=5632"),
        ("examples/qknorm_gqa.tw", "b=1,k=2,g=8,i=224,j=3584"),
        ("examples/mla_decode.tw", "b=1,h=112,j=5632"),
        ("examples/moe_routing.tw", "t=57344"),
        ("examples/spherical_attention.tw", "b=1,h=4,i=1216,j=1344"),
        ("examples/argmax.tw", "r=448,j=81920"),
        ("examples/unsafe_softmax.tw", "b=1,h=4,i=1216,j=1408"),
    ],
    # For prices that were changed after the third set.
    "fourth": [
        ("bench/product.tw", "i=1152,k=1792,j=1344"),
        ("examples/pf_global.tw", "b=1,h=4,i=1280,j=1472"),
        ("examples/pf_causal.tw", "b=1,h=5,i=1792,j=1792"),
        ("examples/pf_alibi.tw", "b=1,h=6,i=1632,j=1632"),
        ("examples/pf_gqa.tw", "b=1,k=2,g=4,i=1568,j=1568"),
        ("examples/pf_softcap.tw", "b=1,k=2,g=3,i=1568,j=1568"),
        ("examples/pf_window.tw", "b=1,k=1,g=1,i=5376,j=5376"),
        ("examples/dc_causal.tw", "b=1,h=13,j=30720"),
        ("examples/dc_alibi.tw", "b=1,h=15,j=25600"),
        ("examples/dc_gqa.tw", "b=1,k=5,g=7,j=57344"),
        ("examples/dc_softcap.tw", "b=1,k=6,g=3,j=61440"),
        ("examples/softmax.tw", "r=2560,j=10240"),
        ("examples/logsumexp.tw", "r=1664,j=25600"),
        ("examples/cross_entropy_linear.tw", "t=192,v=4608"),
        ("examples/variance.tw", "r=1920,c=18432"),
        ("examples/layernorm.tw", "r=2176,c=15360"),
        ("examples/rmsnorm_matmul.tw", "r=7,n=9728"),
        ("examples/layernorm_matmul.tw", "r=72,n=7680"),
        ("examples/rmsnorm_swiglu.tw", "b=11,f=9216"),
        ("examples/gated_mlp.tw", "t=6,f=10240"),
        ("examples/quant_gemm.tw", "m=400,n=1408"),
        ("examples/affine_quant_gemm.tw", "m=240,n=2304"),
        ("examples/softmax_backward_dq.tw", "b=1,h=4,i=1024,j=960"),
        ("examples/softmax_backward_one_pass.tw", "b=1,h=4,i=1120,j=1344"),
        ("examples/performer_state.tw", "b=1,h=5,j=5120"),
        ("examples/qknorm_gqa.tw", "b=1,k=2,g=8,i=208,j=3840"),
        ("examples/mla_decode.tw", "b=1,h=104,j=6144"),
        ("examples/moe_routing.tw", "t=61440"),
        ("examples/spherical_attention.tw", "b=1,h=4,i=1280,j=1216"),
        ("examples/argmax.tw", "r=480,j=73728"),
        ("examples/unsafe_softmax.tw", "b=1,h=4,i=1152,j=1472"),
    ],
}


HALF = "Q=f16,K=f16,V=f16,O=f16"
# Heads as Neptune has them: (sizes, with {S} for the length of a sequence).
GPU_ATTENTION = {
    "pf_global": "b=1,h=32,i={S},j={S},d=128,e=128", "pf_causal": "b=1,h=32,i={S},j={S},d=128,e=128",
    "pf_alibi": "b=1,h=32,i={S},j={S},d=128,e=128", "pf_gqa": "b=1,k=8,g=8,i={S},j={S},d=128,e=128",
    "pf_softcap": "b=1,k=16,g=2,i={S},j={S},d=128,e=128", "pf_window": "b=1,k=8,g=4,i={S},j={S},d=128,e=128",
    "dc_causal": "b=1,h=32,j={S},d=128,e=128", "dc_alibi": "b=1,h=32,j={S},d=128,e=128",
    "dc_gqa": "b=1,k=8,g=8,j={S},d=128,e=128", "dc_softcap": "b=1,k=16,g=2,j={S},d=128,e=128",
}


# Lengths of queries and of cached keys. Other lengths than those of bench/results/h200.json, on which the model was looked at.
GPU_SETS = {"h200": ((512, 3072, 8192), (8192, 32768)), "h200-second": ((1536, 6144, 12288), (12288, 49152))}


def gpu_cases(chosen):
    """(case of bench/gpu.py, program, sizes, dtypes)."""
    prefill, decode = GPU_SETS[chosen]
    for kind, sizes in GPU_ATTENTION.items():
        for S in prefill if kind.startswith("pf_") else decode:
            yield f"{kind} f16 D=128 S={S}", f"examples/{kind}.tw", sizes.format(S=S), HALF
    if chosen != "h200":
        return
    for n in (3072, 6144):
        yield f"product f16 {n}", "bench/product.tw", f"i={n},k={n},j={n}", "A=f16,B=f16,C=f16"
    yield "softmax f32 4096 x 8192", "examples/softmax.tw", "r=4096,j=8192", "x=f32,P=f32"


def call(command, *arguments):
    r = subprocess.run([command, *arguments, "--json"], cwd=ROOT, capture_output=True, text=True)
    try:
        answer = json.loads(r.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{command} {' '.join(arguments)}: {r.stderr.strip() or 'no answer'}")
    if r.returncode != 0:
        return None, "; ".join(d["what"] for d in answer["error"]["diagnostics"])
    return answer, None


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            name = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown")
    except OSError:
        name = "unknown"
    return f"{name}, {os.cpu_count()} cores"


def predict(command, machine, cases):
    rows = []
    for case, program, sizes, dtypes in cases:
        answer, error = call(command, "model", program, "--machine", machine, "--size", sizes, *(["--dtype", dtypes] if dtypes else []))
        row = {"case": case} if case else {}
        row.update(program=program, sizes=sizes)
        if error or "seconds" not in answer:
            row["error"] = error or "not priced"
        else:
            kernels = [k["prediction"] for k in answer["kernels"]]
            row.update(plan=[k["plan"] for k in answer["kernels"]], seconds=answer["seconds"], bound=sum(k["overlapped"] for k in kernels),
                       serial=sum(k["serial"] for k in kernels), bound_by=[k["bound_by"] for k in kernels])
        rows.append(row)
    if not os.path.exists(machine):
        return {"machine": machine, "rows": rows}
    with open(machine) as f:
        return {"processor": processor(), "machine": f.read().splitlines(), "rows": rows}


def run(command, row, repeat, threads):
    answer, error = call(command, "run", row["program"], "--size", row["sizes"], "--repeat", str(repeat), "--warmup", "2",
                         "--threads", str(threads))
    return (None, error) if error else (answer["milliseconds"], None)


def measure(command, rows, options):
    """Interleaved rounds; each round of a program gives the median and the least of its runs. Goes on where a call before ended, and ends when its time is over."""
    end = time.monotonic() + (options.seconds or float("inf"))
    for done in range(options.rounds):
        for row in rows:
            if "seconds" not in row or "failed" in row or len(row.get("medians", [])) > done or time.monotonic() > end:
                continue
            times, error = run(command, row, options.repeat, options.threads)
            if error:
                row["failed"] = error
                continue
            row.setdefault("medians", []).append(times["median"] / 1e3)
            row["least"] = min(row.get("least", 1e9), times["min"] / 1e3)
    for row in rows:
        if "medians" in row:
            row["measured"] = statistics.median(row["medians"])


def take_measured(rows, path):
    """Times that bench/gpu.py wrote, by the names of its cases."""
    with open(path) as f:
        results = json.load(f)["results"]
    for row in rows:
        found = results.get(row["case"])
        if not found or "milliseconds" not in found:
            row["failed"] = found["failed"].splitlines()[0][:80] if found else "not measured"
            continue
        median, least, _ = found["milliseconds"]["tilewright"]
        row.update(measured=median / 1e3, least=least / 1e3)


def table(rows, least):
    print(f"{'program':<32} {'sizes':<26} {'bound':>9} {'serial':>9} {'predicted':>9} {'measured':>9} {'least':>9} {'error':>7}  bound by")
    errors, errors_of_least = [], []
    for row in rows:
        name = os.path.basename(row["program"])
        if "measured" not in row:
            print(f"{name:<32} {row['sizes']:<26} {row.get('error') or row.get('failed') or 'not measured'}")
            continue
        predicted, measured, best = row["seconds"], row["measured"], row["least"]
        error = (predicted - measured) / measured
        short = measured * 1e3 < least
        if not short:
            errors.append(abs(error))
            errors_of_least.append(abs(predicted - best) / best)
        print(f"{name:<32} {row['sizes']:<26} {row['bound'] * 1e3:8.2f}m {row['serial'] * 1e3:8.2f}m {predicted * 1e3:8.2f}m "
              f"{measured * 1e3:8.2f}m {best * 1e3:8.2f}m {error:+7.0%}  {'; '.join(row['bound_by'])}{' (too short to count)' if short else ''}",
              flush=True)
    if errors:
        print(f"median error {statistics.median(errors):.0%} against medians, {statistics.median(errors_of_least):.0%} against the least times, "
              f"of {len(errors)} programs of at least {least:g} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", help="a machine file that `tilewright hardware calibrate` wrote")
    parser.add_argument("--command", default=os.path.join(ROOT, "build", "tilewright"))
    parser.add_argument("--set", default="first", choices=[*sorted(SETS), *sorted(GPU_SETS)], help="which programs and sizes are predicted")
    parser.add_argument("--predict", action="store_true", help="print predictions as JSON and measure nothing")
    parser.add_argument("--against", metavar="FILE", help="predictions made before; else they are made now")
    parser.add_argument("--table", metavar="FILE", help="print the table of what --save wrote, and measure nothing")
    parser.add_argument("--measured", metavar="FILE", help="what bench/gpu.py wrote, in place of running anything")
    parser.add_argument("--cases", action="store_true", help="print the cases of bench/gpu.py that --against predicts, as its --only takes them")
    parser.add_argument("--save", metavar="FILE", help="write predictions and measured times as JSON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, help="begin no run after so long: the same call with --against what --save wrote goes on")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each program in a round")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--least", type=float, help="milliseconds below which a program does not count (default: 5; of a GPU 0.05)")
    options = parser.parse_args()
    gpu = options.set in GPU_SETS or bool(options.measured)
    if options.least is None:
        options.least = 0.05 if gpu else 5
    if options.table:
        with open(options.table) as f:
            return table(json.load(f)["rows"], options.least)
    if options.against:
        with open(options.against) as f:
            predictions = json.load(f)
    elif options.machine:
        cases = list(gpu_cases(options.set)) if gpu else [(None, program, sizes, None) for program, sizes in SETS[options.set]]
        machine = os.path.abspath(options.machine) if options.machine.endswith(".toml") else options.machine
        predictions = predict(options.command, machine, cases)
    else:
        parser.error("--machine or --against is needed")
    if options.predict:
        json.dump(predictions, sys.stdout, indent=1)
        print()
        return
    if options.cases:
        print("^(" + "|".join(re.escape(row["case"]) for row in predictions["rows"]) + ")$")
        return
    if options.measured:
        take_measured(predictions["rows"], options.measured)
    else:
        measure(options.command, predictions["rows"], options)
    if options.save:
        with open(options.save, "w") as f:
            json.dump(predictions, f, indent=1)
            f.write("\n")
    table(predictions["rows"], options.least)


if __name__ == "__main__":
    main()
