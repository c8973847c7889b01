#!/usr/bin/env python3
"""Cold compile and cached start of every example, at the sizes of its `# try:` line.

    python3 bench/start.py [--command build/tilewright] [--target cpu] [--rounds 5] [name ...]

Cold: `tilewright run` with an empty cache folder; the compiler does nearly all of it. Cached: the same again, the
median of rounds. Wall seconds, and in parentheses CPU seconds, which tell more where other work shares the machine.
"""
import argparse, glob, os, re, resource, shutil, statistics, subprocess, tempfile, time

def timed(command, cache):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "TILEWRIGHT_CACHE_DIR": cache})
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--command", default="build/tilewright")
    a.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("names", nargs="*")
    a = a.parse_args()
    root = os.path.join(os.path.dirname(__file__), "..", "examples")
    print(f"{'program':<20} {'cold s':>16} {'cached ms':>18}")
    for path in sorted(glob.glob(os.path.join(root, "*.tw"))):
        name = os.path.basename(path)[:-3]
        if a.names and name not in a.names:
            continue
        tried = re.search(r"^# try: (.*)$", open(path).read(), re.M).group(1).split()
        command = [a.command, "run", path, "--target", a.target, "--warmup", "0", *tried]
        cache = tempfile.mkdtemp()
        wall, cpu = timed(command, cache)
        again = [timed(command, cache) for _ in range(a.rounds)]
        shutil.rmtree(cache)
        print(f"{name:<20} {wall:>7.2f} ({cpu:>5.2f}) {1e3 * statistics.median(w for w, _ in again):>9.0f} "
              f"({1e3 * statistics.median(c for _, c in again):>5.0f})", flush=True)

main()
