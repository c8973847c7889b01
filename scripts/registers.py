#!/usr/bin/env python3
"""Assembles every default plan of GPU programs and says what registers its kernels take. Needs nvcc, no GPU.

  scripts/registers.py [PROGRAM ...] [-- ARGUMENT ...]

Without a program: the ten attention operators (examples/pf_*.tw and dc_*.tw). What stands behind `--` is given to `tilewright emit` (--dtype, --layout).
Exits with 1 where a thread spills registers to memory or products wait for one another for want of them. TILEWRIGHT names the command
(default: build/tilewright).
"""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMAND = os.environ.get("TILEWRIGHT", os.path.join(ROOT, "build", "tilewright"))
KERNEL = re.compile(r"Function properties for (\w+)\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                    r"\s+ptxas info\s+: Used (\d+) registers")


def emit(file, *arguments):
    done = subprocess.run([COMMAND, "emit", file, "--target", "cuda", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout


def plans(file, arguments):
    """(condition, schedule) of each default plan of a program that is one kernel."""
    lines = [line for line in emit(file, "--stage", "plan", *arguments).splitlines() if line and not line.startswith("#")]
    for line in lines:
        guarded = re.match(r"(when [^:]*|otherwise): (.*)", line)
        yield (guarded.group(1), guarded.group(2)) if guarded else ("all sizes", line)


def assembled(file, condition, schedule, arguments):
    """A line for each kernel, and whether all is well."""
    source = emit(file, "--schedule", schedule, *arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.cu")
        with open(path, "w") as out:
            out.write(source)
        done = subprocess.run(["nvcc", "-arch=sm_90a", "-std=c++17", "-cubin", "--ptxas-options=-v", "-o", path + "bin", path],
                              capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip()[:2000])
    report = done.stdout + done.stderr
    serial = "C7511" in report or "C7512" in report
    lines, well = [], not serial
    for name, stores, loads, registers in KERNEL.findall(report):
        well = well and stores == loads == "0"
        lines.append(f"{name:24} {registers:>3} registers, spills {stores} and {loads} bytes{', products serialized' if serial else ''}"
                     f"   {condition}")
    return lines, well


def main():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    files, arguments = words[:cut], words[cut + 1:]
    if not files:
        files = sorted(glob.glob(os.path.join(ROOT, "examples", "pf_*.tw")) + glob.glob(os.path.join(ROOT, "examples", "dc_*.tw")))
    jobs = [(file, condition, schedule, arguments) for file in files for condition, schedule in plans(file, arguments)]
    well = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines, good in pool.map(lambda job: assembled(*job), jobs):
            print("\n".join(lines), flush=True)
            well = well and good
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
