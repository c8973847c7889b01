#!/usr/bin/env python3
"""Makes docs/gallery.md and its pictures from the example programs.

  scripts/gallery.py           writes them
  scripts/gallery.py --check   exits with 1 and names what differs from what the command says now

The programs, their order and their sections are those of examples/README.md. Of each the page shows the sentence at the head of the file, the
picture of the program, its state (tilewright derive --json) and its cost on an H100 SXM (tilewright model --json). TILEWRIGHT names the command
(default: build/tilewright). Needs nothing but Python.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMAND = os.environ.get("TILEWRIGHT", os.path.join(ROOT, "build", "tilewright"))
PICTURES = "docs/pictures/gallery"

HEAD = """# Gallery

Every example: its definition in a sentence, its picture ([how to read one](diagrams.md)), the state that streams ([derivation](derivation.md)) and what the default plan for a GPU costs: H is
what crosses between device memory and the blocks, M what one block holds, both from [the model](model.md), where `q_f16` is the width of an element, `g_i` a block, `s_j` a chunk and `phi_j` the
share of the stream that a mask leaves. Made by `scripts/gallery.py` from the programs in [examples](../examples/README.md).
"""


def run(*arguments):
    """Standard output of the command; ends with its message where it fails."""
    result = subprocess.run([COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"tilewright {' '.join(arguments)}: status {result.returncode}\n{result.stderr}")
    return result.stdout


def sections():
    """(heading, program names) in the order of examples/README.md."""
    found = []
    with open(os.path.join(ROOT, "examples", "README.md"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                found.append((line[3:].strip(), []))
            elif line.startswith("|") and found:
                found[-1][1].extend(re.findall(r"\]\((\w+)\.tw\)", line.split("|")[1]))
    return [s for s in found if s[1]]


def sentence(name):
    """The comment at the head of a program."""
    lines = []
    with open(os.path.join(ROOT, "examples", name + ".tw"), encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                break
            lines.append(line[1:].strip())
    return " ".join(lines)


def states(one):
    """What streams, a line each: points and states with their repairs."""
    lines = []
    for p in one["points"]:
        lines.append(f"{p['name']}: {p['meaning']}")
    points = {p["name"] for p in one["points"]}
    for r in one["reductions"]:
        if r["name"] in points:
            continue
        repairs = dict(zip((s.split("[")[0].split(" ")[0] for s in r["state"]), r["repair"]))
        for s in r["state"]:
            if s.startswith("the point"):
                continue
            repair = repairs.get(s.split("[")[0].split(" ")[0])
            lines.append(s + (f"; {repair}" if repair else ""))
    lines = list(dict.fromkeys(lines))
    for r in one["refusals"]:
        lines.append(f"second pass: {r['subterm']} mixes what runs and what varies")
    if not one["refusals"] and one["passes"] > 1:
        lines.append(f"{one['passes']} passes")
    return lines or ["no state: nothing is carried"]


def costs(kernel):
    """H by array, and M."""
    moved, held = [], []
    for section in kernel["sections"]:
        for line in section["lines"]:
            array, _, way = line["name"].partition(" ")
            if section["title"].startswith("transfers H between") and way in ("loaded", "stored"):
                moved.append(f"{line['formula']} ({array})")
            if section["title"].startswith("memory M") and line["name"] in ("shared", "registers"):
                value = line["value"] / 1024
                held.append(f"{line['name']} {value:.4g} KiB" if value >= 1 else f"{line['name']} {line['value']:g} B")
    return f"H  {' + '.join(moved)}" if moved else "H  nothing", f"M  {', '.join(held)}"


def entry(name):
    """The lines of one program, and its picture."""
    path = f"examples/{name}.tw"
    picture = run("draw", path)
    derived = json.loads(run("derive", path, "--json"))
    model = json.loads(run("model", path, "--machine", "h100-sxm", "--json"))
    parts = derived["kernels"] if "kernels" in derived else [derived]
    lines = [f"### [{name}](../examples/{name}.tw)", "", sentence(name), "",
             f"![{name}](pictures/gallery/{name}.svg)", "", "```"]
    for k, part in enumerate(parts):
        if len(parts) > 1:
            lines.append(f"{'' if k == 0 else chr(10)}kernel {k + 1}: {part['kernel']}")
        lines += states(part)
    for k, kernel in enumerate(model["kernels"]):
        if len(model["kernels"]) > 1:
            lines.append(f"{chr(10)}cost of kernel {k + 1}: {kernel['kernel']}")
        lines += costs(kernel)
    lines += ["```", ""]
    return "\n".join(lines), picture


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    names = [n for _, programs in sections() for n in programs]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        entries = dict(zip(names, pool.map(entry, names)))
    page = HEAD
    for heading, programs in sections():
        page += f"\n## {heading}\n\n" + "\n".join(entries[n][0] for n in programs)
    files = {f"{PICTURES}/{n}.svg": picture for n, (_, picture) in entries.items()}
    files["docs/gallery.md"] = page
    differs = []
    for path, text in files.items():
        full = os.path.join(ROOT, path)
        if not os.path.exists(full) or open(full, encoding="utf-8").read() != text:
            differs.append(path)
    folder = os.path.join(ROOT, PICTURES)
    others = [f"{PICTURES}/{f}" for f in sorted(os.listdir(folder)) if f"{PICTURES}/{f}" not in files] \
        if os.path.isdir(folder) else []
    if sys.argv[1:] == ["--check"]:
        for path in differs:
            print(f"{path} is not what the command says now: run scripts/gallery.py")
        for path in others:
            print(f"{path} is of no program in examples/README.md")
        sys.exit(1 if differs or others else 0)
    os.makedirs(folder, exist_ok=True)
    for path in differs:
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as f:
            f.write(files[path])
    for path in others:
        os.remove(os.path.join(ROOT, path))
    print(f"{len(names)} programs, {sum(map(len, files.values())) // 1024} KiB, {len(differs)} files written")


main()
