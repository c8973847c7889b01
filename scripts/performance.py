#!/usr/bin/env python3
"""Makes docs/performance.md, its plots and the table of README.md from what bench/gpu.py measured.

  scripts/performance.py           writes docs/performance.md, docs/pictures/h200_*.svg, and README.md between its two marks
  scripts/performance.py --check   exits with 1 and names what differs from bench/results/h200.json

Needs nothing but Python.
"""
import json
import math
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = "bench/results/h200.json"
NAMES = {"tilewright": "Tilewright", "FA2": "FlashAttention-2", "FA4": "flash-attn-4", "Flex": "FlexAttention"}
ORDER = ["tilewright", "cuDNN", "cudnn-frontend", "FA2", "FA4", "flashinfer", "Flex", "cuBLAS", "norm + cuBLAS", "torch.softmax", "copy", "SDPA, mask", "SDPA, contiguous", "cuDNN, one by one"]
SERIES = {"tilewright": "s0", "cuDNN": "s1", "FA2": "s2", "Flex": "s3", "FA4": "s4"}  # those that are drawn
MARKS = {"cuDNN": "c", "cudnn-frontend": "n", "FA2": "a", "FA4": "4", "flashinfer": "i", "Flex": "x"}
KINDS = ["pf_global", "pf_causal", "pf_gqa", "pf_alibi", "pf_softcap", "pf_window"]
STYLE = """<style>
text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:10px;fill:#1b1b1f}
.title{font-weight:bold;font-size:11px}.faint{fill:#6d6d76;font-size:9px}
.paper{fill:#ffffff}.grid{stroke:#d9d9df;stroke-width:.7}
.s0{stroke:#1d4ed8;fill:#1d4ed8}.s1{stroke:#15803d;fill:#15803d}.s2{stroke:#d97706;fill:#d97706}.s3{stroke:#be185d;fill:#be185d}.s4{stroke:#7c3aed;fill:#7c3aed}
path{fill:none!important;stroke-width:1.7}circle{stroke:none}rect.bar{stroke:none}
@media (prefers-color-scheme:dark){text{fill:#ececf1}.faint{fill:#9a9aa5}.paper{fill:#16161a}.grid{stroke:#3a3a42}
.s0{stroke:#7aa2ff;fill:#7aa2ff}.s1{stroke:#4ade80;fill:#4ade80}.s2{stroke:#fbbf24;fill:#fbbf24}.s3{stroke:#f472b6;fill:#f472b6}.s4{stroke:#c4b5fd;fill:#c4b5fd}}
</style>"""


def name_of(peer):
    return NAMES.get(peer, peer)


def top_of(values, steps=(100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)):
    return next((s for s in steps if s >= max(values)), max(values))


def picture(width, height, body, title):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            f"<title>{title}</title>\n{STYLE}\n" + f'<rect class="paper" width="{width}" height="{height}"/>\n' + "\n".join(body) + "\n</svg>\n")


def legend(x, y, peers):
    out = []
    for peer in peers:
        out.append(f'<circle class="{SERIES[peer]}" cx="{x}" cy="{y - 3}" r="3.5"/><text x="{x + 8}" y="{y}">{name_of(peer)}</text>')
        x += 30 + 6 * len(name_of(peer))
    return out


def drawn(rates):
    """Peers that occur in any of `rates` and have a colour."""
    there = {p for r in rates for p in r}
    return [p for p in ORDER if p in SERIES and p in there]


def panel(x, y, w, h, title, lines, sizes):
    """Rates over lengths of sequences: lines {peer: {size: rate}}."""
    top = top_of([r for l in lines.values() for r in l.values()])
    at = lambda s: x + w * (sizes.index(s) + 0.5) / len(sizes)
    up = lambda r: y + h - h * r / top
    out = [f'<text class="title" x="{x}" y="{y - 8}">{title}</text>']
    for k in range(0, 5):
        r = top * k / 4
        out.append(f'<line class="grid" x1="{x}" x2="{x + w}" y1="{up(r):.1f}" y2="{up(r):.1f}"/>'
                   f'<text class="faint" x="{x - 4}" y="{up(r) + 3:.1f}" text-anchor="end">{r:.0f}</text>')
    for s in sizes:
        out.append(f'<text class="faint" x="{at(s):.1f}" y="{y + h + 12}" text-anchor="middle">{s if s < 1024 else f"{s // 1024} k"}</text>')
    for peer in [p for p in ORDER if p in lines and p in SERIES]:
        points = [(at(s), up(r), s, r) for s, r in sorted(lines[peer].items())]
        out.append(f'<path class="{SERIES[peer]}" d="M' + " L".join(f"{a:.1f} {b:.1f}" for a, b, _, _ in points) + '"/>')
        for a, b, s, r in points:
            out.append(f'<circle class="{SERIES[peer]}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"><title>{name_of(peer)}, S = {s}: {r:.0f} TFLOP/s</title></circle>')
    return out


def lengths_plot(results):
    groups = {}
    for name, r in results.items():
        m = re.fullmatch(r"(pf_\w+) (f16|bf16) D=(\d+) S=(\d+)", name)
        if m and "rates" in r:
            for peer, rate in r["rates"].items():
                groups.setdefault((m[1], m[2], int(m[3])), {}).setdefault(peer, {})[int(m[4])] = rate
    chosen = [g for g in groups if g[1] == "f16" and max(len(l) for l in groups[g].values()) > 1]
    chosen.sort(key=lambda g: (g[2] != 128, KINDS.index(g[0]), g[2]))
    sizes = sorted({s for g in chosen for l in groups[g].values() for s in l})
    columns, w, h = 3, 210, 130
    body = legend(40, 18, drawn(groups[g] for g in chosen))
    for n, g in enumerate(chosen):
        body += panel(40 + (n % columns) * (w + 45), 55 + (n // columns) * (h + 55), w, h, f"{g[0]}, {g[2]} features", groups[g], sizes)
    rows = math.ceil(len(chosen) / columns)
    return picture(columns * (w + 45) + 15, 45 + rows * (h + 55), body, "TFLOP/s over the length of sequences, f16")


def variants_plot(results):
    rows = [(n.split()[0], n, r) for n, r in results.items() if re.search(r" f16 D=(128|64) S=4096$", n) and not re.search(r"D=64", n.replace("qknorm_gqa f16 D=64", "")) and r.get("unit") == "TFLOP/s"]
    top = top_of([x for _, _, r in rows for x in r["rates"].values()])
    w, body, y = 430, legend(150, 18, drawn(r["rates"] for _, _, r in rows)), 34
    for kind, _, r in rows:
        peers = [p for p in ORDER if p in r["rates"] and p in SERIES]
        body.append(f'<text x="142" y="{y + 5.5 * len(peers) + 2:.1f}" text-anchor="end">{kind}</text>')
        for p in peers:
            length = w * r["rates"][p] / top
            body.append(f'<rect class="bar {SERIES[p]}" x="150" y="{y}" width="{length:.1f}" height="9"><title>{name_of(p)}: {r["rates"][p]:.0f} TFLOP/s</title></rect>'
                        f'<text class="faint" x="{154 + length:.1f}" y="{y + 8}">{r["rates"][p]:.0f}</text>')
            y += 11
        y += 9
    return picture(630, y + 4, body, "TFLOP/s of visited work at 4096 queries and keys, f16")


def table(rows, heading):
    peers = [p for p in ORDER if any(p in r.get("rates", {}) for _, r in rows)]
    unit = next((r["unit"] for _, r in rows if "unit" in r), "")
    out = [f"| {heading} | " + " | ".join(f"{name_of(p)}, {unit}" if p == "tilewright" else name_of(p) for p in peers) + " |", "|---" * (len(peers) + 1) + "|"]
    for name, r in rows:
        cells = []
        for p in peers:
            rate = r.get("rates", {}).get(p)
            if rate is None:
                cells.append("did not run" if p in r.get("refused", {}) else "")
            elif p == "tilewright":
                cells.append(f"**{rate:.0f}**" if rate >= 100 else f"**{rate:.1f}**")
            else:
                cells.append(f"{rate:.0f} ({r['rates']['tilewright'] / rate:.2f} ×)")
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out


def readme(data):
    """README.md with the table between its marks made anew: TFLOP/s of visited work in f16 with 128 features, bandwidth, products."""
    results = data["results"]
    rows = [("global attention, S = 4096", "pf_global f16 D=128 S=4096"), ("global attention, S = 16384", "pf_global f16 D=128 S=16384"),
            ("causal, S = 4096", "pf_causal f16 D=128 S=4096"), ("causal, S = 16384", "pf_causal f16 D=128 S=16384"), ("grouped heads, causal, S = 4096", "pf_gqa f16 D=128 S=4096"),
            ("ALiBi, causal, S = 4096", "pf_alibi f16 D=128 S=4096"), ("softcap, causal, S = 4096", "pf_softcap f16 D=128 S=4096"),
            ("softcap and window of 4096, S = 4096", "pf_window f16 D=128 S=4096"), ("product, n = 8192", "product f16 8192"),
            ("LayerNorm into a product, 4096 × 4096 × 6144", "layernorm_matmul f16 r=4096 n=6144 c=4096"), ("RMSNorm into a product", "rmsnorm_matmul f16 r=4096 n=6144 c=4096")]
    columns = [("cuDNN", ("cuDNN",)), ("FlashAttention-2", ("FA2",)), ("flash-attn-4", ("FA4",)), ("FlexAttention", ("Flex",)), ("cuBLAS, behind a norm kernel where there is one", ("cuBLAS", "norm + cuBLAS"))]
    measured = {n for name in (name for _, name in rows) for n in results.get(name, {}).get("rates", {})}
    columns = [(label, names) for label, names in columns if measured.intersection(names)]
    out = ["| TFLOP/s, f16 | Tilewright | " + " | ".join(label for label, _ in columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for label, name in rows:
        rates = results.get(name, {}).get("rates")
        if rates:
            cells = [next((rates[n] for n in names if n in rates), None) for names in (("tilewright",), *(names for _, names in columns))]
            best = max(c for c in cells if c is not None)
            text = ["" if c is None else f"**{c:.0f}**" if c == best else f"{c:.0f}" for c in cells]
            out.append(f"| {label} | " + " | ".join(text) + " |")
    with open(os.path.join(ROOT, "README.md")) as f:
        text = f.read()
    begin, end = "<!-- table: scripts/performance.py -->\n", "<!-- end of table -->"
    head, rest = text.split(begin)
    return head + begin + "\n".join(out) + "\n" + end + rest.split(end)[1]


def version(n):
    return f"{n // 10000}.{n // 100 % 100}.{n % 100}"


def lengths_table(rows):
    """A row for each program, type and number of features; columns are lengths."""
    groups = {}
    for name, r in rows:
        m = re.fullmatch(r"(\w+) (f16|bf16) D=(\d+) S=(\d+)", name)
        groups.setdefault((m[1], m[2], int(m[3])), {})[int(m[4])] = r["rates"]
    sizes = sorted({s for g in groups.values() for s in g})
    out = ["| program | type | features | " + " | ".join(f"S = {s}" for s in sizes) + " |", "|---" * (3 + len(sizes)) + "|"]
    for (kind, dtype, d), by_size in sorted(groups.items(), key=lambda g: (KINDS.index(g[0][0]), g[0][1] != "f16", g[0][2] != 128, g[0][2])):
        cells = []
        for s in sizes:
            rates = by_size.get(s, {})
            ours = rates.get("tilewright")
            ratios = [f"{ours / rates[p]:.2f} {MARKS[p]}" for p in ORDER if p in MARKS and p in rates]
            cells.append("" if ours is None else f"**{ours:.0f}** " + ", ".join(ratios))
        out.append(f"| {kind} | {dtype} | {d} | " + " | ".join(c.strip() for c in cells) + " |")
    return out


def page(data):
    results = data["results"]
    failed = {n: r["failed"] for n, r in results.items() if "failed" in r}
    rest = {n: r for n, r in results.items() if "rates" in r}
    lengths = sorted((n, r) for n, r in rest.items() if n.startswith("pf_") and " S=" in n and "f32" not in n)
    done = {n for n, _ in lengths}
    guards = [(n, r) for n, r in rest.items() if n.startswith("guards ")]
    others = [(n, r) for n, r in rest.items() if n not in done and not n.startswith("guards ")]
    out = ["# Measured on an H200", "",
           f"{data['machine'].split(',')[0].strip()}, driver {data['machine'].split(',')[1].strip()}, PyTorch {data['torch']}, cuDNN {version(data['cudnn'])}. Made by `scripts/performance.py` from [{RESULTS}](../{RESULTS}), which `python3 bench/gpu.py --out {RESULTS}` writes",
           "on a machine with such a GPU. Medians; kernels and peers alternate in one process, and each result is checked against the definition in f64 before it is timed. In parentheses: how many times as fast Tilewright is.",
           "Work is what masks leave. What is behind these figures, and where they fall short of what was aimed at, stands in [bench/notes.md](../bench/notes.md).", "",
           "![TFLOP/s over the length of sequences](pictures/h200_lengths.svg)", "", "At 4096 queries and keys:", "", "![TFLOP/s of variants](pictures/h200_variants.svg)", "", "## Attention over lengths", ""]
    there = {p for _, r in lengths for p in r["rates"]}
    marks = [f"{'compiled ' if p == 'Flex' else ''}{name_of(p)} ({MARKS[p]})" for p in ORDER if p in MARKS and p in there]
    out += [f"TFLOP/s, and how many times as fast as {', '.join(marks[:-1])} and {marks[-1]}, each where it ran.", ""] + lengths_table(lengths)
    for unit in dict.fromkeys(r["unit"] for _, r in others):
        out += ["", f"## {'Others' if unit == 'TFLOP/s' else 'Bandwidth'}", ""] + table([(n, r) for n, r in others if r["unit"] == unit], "program")
    if guards:
        kinds = ["tilewright", "always", "moved", "threshold"]
        out += ["", "## Guards", "", "Global attention in f16 by guard of the running maximum, TFLOP/s. Growing: every chunk of keys raises the maximum of every row, the worst case of speculation.", "",
                "| scores | speculative | " + " | ".join(kinds[1:]) + " |", "|---" * 5 + "|"]
        out += [f"| {n.removeprefix('guards ')} | " + " | ".join(f"{r['rates'][k]:.0f}" for k in kinds) + " |" for n, r in guards]
    refused = sorted({(p, why.strip().split("\n")[0][:160]) for r in rest.values() for p, why in r.get("refused", {}).items()})
    if refused:
        out += ["", "Peers that did not run where the table says so:", ""] + [f"- {name_of(p)}: {why}" for p, why in refused]
    if failed:
        out += ["", "Failed:", ""] + [f"- {n}: {why}" for n, why in failed.items()]
    return "\n".join(out) + "\n"


def main():
    with open(os.path.join(ROOT, RESULTS)) as f:
        data = json.load(f)
    made = {"README.md": readme(data), "docs/performance.md": page(data), "docs/pictures/h200_lengths.svg": lengths_plot(data["results"]), "docs/pictures/h200_variants.svg": variants_plot(data["results"])}
    status = 0
    for path, text in made.items():
        full = os.path.join(ROOT, path)
        old = open(full).read() if os.path.exists(full) else None
        if "--check" in sys.argv:
            if old != text:
                print(f"{path} differs from {RESULTS}: run scripts/performance.py")
                status = 1
        else:
            with open(full, "w") as f:
                f.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
