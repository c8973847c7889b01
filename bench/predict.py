#!/usr/bin/env python3
"""Predicted and measured times of the examples on this CPU, side by side.

    tilewright hardware calibrate --output this.toml
    bench/predict.py --machine this.toml --predict > predictions.json     # before anything is measured
    bench/predict.py --machine this.toml --against predictions.json       # measure, and compare

Predictions come first and are kept, so that they are predictions. Both use the plan that the sizes choose. The machine should do nothing else while it measures;
each time is the median of `--repeat` runs. "bound" and "serial" are the two times between which the model predicts (docs/model.md)."""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

CASES = [
    ("bench/product.tw", "i=1024,k=1024,j=1024"),
    ("bench/product.tw", "i=2048,k=2048,j=2048"),
    ("examples/pf_global.tw", "b=1,h=4,i=2048,j=2048"),
    ("examples/pf_causal.tw", "b=1,h=4,i=2048,j=2048"),
    ("examples/pf_gqa.tw", "b=1,k=2,g=4,i=1024,j=1024"),
    ("examples/pf_softcap.tw", "b=1,k=2,g=2,i=1024,j=1024"),
    ("examples/dc_causal.tw", "b=1,h=8,j=32768"),
    ("examples/dc_gqa.tw", "b=1,k=2,g=8,j=32768"),
    ("examples/softmax.tw", "r=1024,j=16384"),
    ("examples/logsumexp.tw", "r=1024,j=16384"),
    ("examples/layernorm.tw", "r=1024,c=16384"),
    ("examples/variance.tw", "r=1024,c=16384"),
    ("examples/gated_mlp.tw", "t=64,f=4096"),
    ("examples/layernorm_matmul.tw", "r=256,n=4096"),
    ("examples/rmsnorm_matmul.tw", "r=256,n=4096"),
]


def call(command, *arguments):
    r = subprocess.run([command, *arguments, "--json"], cwd=ROOT, capture_output=True, text=True)
    try:
        answer = json.loads(r.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{command} {' '.join(arguments)}: {r.stderr.strip() or 'no answer'}")
    if r.returncode != 0:
        return None, "; ".join(d["what"] for d in answer["error"]["diagnostics"])
    return answer, None


def predict(command, machine):
    rows = []
    for program, sizes in CASES:
        answer, error = call(command, "model", program, "--machine", machine, "--size", sizes)
        row = {"program": program, "sizes": sizes}
        if error or "seconds" not in answer:
            row["error"] = error or "not priced"
        else:
            kernels = [k["prediction"] for k in answer["kernels"]]
            row.update(seconds=answer["seconds"], bound=sum(k["overlapped"] for k in kernels),
                       serial=sum(k["serial"] for k in kernels), bound_by=[k["bound_by"] for k in kernels])
        rows.append(row)
    return {"machine": machine, "rows": rows}


def measure(command, row, repeat, threads):
    answer, error = call(command, "run", row["program"], "--size", row["sizes"], "--repeat", str(repeat), "--warmup", "2",
                         "--threads", str(threads))
    return (None, error) if error else (answer["milliseconds"]["median"] / 1e3, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", required=True, help="a machine file that `tilewright hardware calibrate` wrote")
    parser.add_argument("--command", default=os.path.join(ROOT, "build", "tilewright"))
    parser.add_argument("--predict", action="store_true", help="print predictions as JSON and measure nothing")
    parser.add_argument("--against", metavar="FILE", help="predictions made before; else they are made now")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    machine = os.path.abspath(options.machine)
    if options.against:
        with open(options.against) as f:
            predictions = json.load(f)
    else:
        predictions = predict(options.command, machine)
    if options.predict:
        json.dump(predictions, sys.stdout, indent=1)
        print()
        return
    print(f"{'program':<32} {'sizes':<28} {'bound':>9} {'serial':>9} {'predicted':>9} {'measured':>9} {'meas/pred':>9}  bound by")
    for row in predictions["rows"]:
        name = os.path.basename(row["program"])
        if "error" in row:
            print(f"{name:<32} {row['sizes']:<28} {row['error']}")
            continue
        seconds, error = measure(options.command, row, options.repeat, options.threads)
        if error:
            print(f"{name:<32} {row['sizes']:<28} {error}")
            continue
        print(f"{name:<32} {row['sizes']:<28} {row['bound'] * 1e3:8.2f}m {row['serial'] * 1e3:8.2f}m {row['seconds'] * 1e3:8.2f}m "
              f"{seconds * 1e3:8.2f}m {seconds / row['seconds']:9.2f}  {'; '.join(row['bound_by'])}", flush=True)


if __name__ == "__main__":
    main()
