#!/usr/bin/env python3
"""Makes again what pages of docs/ show of the command: pictures, formulas, numbers.

  scripts/pages.py           runs every command that a page names and puts what it prints in its place
  scripts/pages.py --check   exits with 1 and names what differs from what the command prints now

A page names a command in a comment of its own line:

  <!-- tilewright draw examples/pf_causal.tw --output docs/pictures/pf_causal.svg -->
      writes the picture; the page shows it as it likes
  <!-- tilewright model examples/napkin/product.tw | section canonical form -->
      what is printed stands in the code block behind it, or up to <!-- end --> where it is Markdown. Behind `|` stands what of it:
      section TEXT   the part that begins with a line that begins so, up to an empty line (several: separated by `;`); of Markdown
                     without its heading
      step TEXT      of `derive --steps` the step that is called so, without its number (several: separated by `;`)
      lines REGEX    lines that match
      columns N      of every line that many characters at most

TILEWRIGHT names the command (default: build/tilewright). Needs nothing but Python.
"""
import concurrent.futures
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMAND = os.environ.get("TILEWRIGHT", os.path.join(ROOT, "build", "tilewright"))
PAGES = ["docs/diagrams.md", "docs/napkin.md"]
MARK = re.compile(r"^<!-- tilewright (.*?)(?: \| (.*))? -->$")


def run(words):
    result = subprocess.run([COMMAND, *words], cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"tilewright {shlex.join(words)}: status {result.returncode}\n{result.stderr}")
    return result.stdout


def chosen(text, what):
    """What of a text a filter keeps."""
    lines = text.rstrip("\n").split("\n")
    for step in (what or "").split(" | "):
        verb, _, argument = step.partition(" ")
        if verb == "section":
            kept = []
            for title in argument.split(";"):
                begin = next((k for k, l in enumerate(lines) if l.lstrip("# ").startswith(title.strip())), None)
                if begin is None:
                    sys.exit(f"no line begins with `{title.strip()}`")
                end = next((k for k in range(begin + 2, len(lines)) if not lines[k]), len(lines))
                if lines[begin].startswith("#"):  # a heading of Markdown is left out
                    begin += 2
                kept += ([""] if kept else []) + lines[begin:end]
            lines = kept
        elif verb == "step":
            kept = []
            for title in argument.split(";"):
                begin = next((k for k, l in enumerate(lines) if re.match(r"\d+\. " + re.escape(title.strip()) + ":", l)), None)
                if begin is None:
                    sys.exit(f"no step is called `{title.strip()}`")
                end = next((k for k in range(begin + 1, len(lines)) if re.match(r"\d+\. ", lines[k])), len(lines))
                part = [re.sub(r"^\d+\. ", "", lines[begin]), *lines[begin + 1:end]]
                while part and not part[-1]:
                    part.pop()
                kept += ([""] if kept else []) + part
            lines = kept
        elif verb == "lines":
            lines = [l for l in lines if re.search(argument, l)]
        elif verb == "columns":
            lines = [l if len(l) <= int(argument) else l[:int(argument) - 1] + "…" for l in lines]
        elif verb:
            sys.exit(f"no filter is called `{verb}`")
    return "\n".join(lines)


def page_of(path, pictures):
    """The page with every text made again; `pictures` receives files and their content."""
    lines = open(os.path.join(ROOT, path), encoding="utf-8").read().split("\n")
    marks = [(k, MARK.match(l)) for k, l in enumerate(lines) if MARK.match(l)]

    def made(mark):
        words = shlex.split(mark.group(1))
        if "--output" not in words:
            return chosen(run(words), mark.group(2)), None
        at = words.index("--output") + 1
        picture = words[at]
        with tempfile.TemporaryDirectory() as folder:
            words[at] = os.path.join(folder, "picture.svg")
            run(words)
            return open(words[at], encoding="utf-8").read(), picture

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(lambda m: made(m[1]), marks))
    for (k, _), (text, picture) in reversed(list(zip(marks, texts))):
        if picture:
            pictures[picture] = text
            continue
        if k + 1 < len(lines) and lines[k + 1].startswith("```"):
            end = lines.index("```", k + 2)
            lines[k + 2:end] = text.split("\n")
        else:
            end = lines.index("<!-- end -->", k + 1)
            lines[k + 1:end] = ["", *text.split("\n"), ""]
    return "\n".join(lines)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    files = {}
    for path in PAGES:
        files[path] = page_of(path, files)
    differs = []
    for path, text in files.items():
        full = os.path.join(ROOT, path)
        if not os.path.exists(full) or open(full, encoding="utf-8").read() != text:
            differs.append(path)
    if sys.argv[1:] == ["--check"]:
        for path in differs:
            print(f"{path} is not what the command prints now: run scripts/pages.py")
        sys.exit(1 if differs else 0)
    for path in differs:
        os.makedirs(os.path.dirname(os.path.join(ROOT, path)), exist_ok=True)
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as f:
            f.write(files[path])
    print(f"{len(files)} files, {len(differs)} written")


main()
