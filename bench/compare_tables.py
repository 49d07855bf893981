#!/usr/bin/env python3
"""Tables and pictures of docs/compare.md, from what `tutti compare --json` printed.

One network (gpt, vgg) was compared on three links. The table has a row per system. The
picture has one too: three points on a logarithmic axis, the time of a step on each link,
so that a long bar between them is a system which the network decides about.

usage: compare_tables.py FOLDER NET [PICTURE.svg]
"""
import html
import json
import math
import pathlib
import sys

LINKS = ["shared memory", "1 Gbit per second", "100 Mbit per second"]
COLORS = ["#2f7d5b", "#3b6fb5", "#c2542d"]


def seconds(v):
    return f"{v * 1e3:.0f} ms" if v < 1 else f"{v:.2f} s"


def cell(s):
    """Time of a step, and the part of it that waited for the network."""
    if "refusal" in s:
        return "-"
    v = s["step_seconds"]["median"]
    return f"{seconds(v)} ({s['exposed_seconds']['median'] / v:.0%})"


def size(v):
    return f"{v / 1e6:.3g} MB" if v >= 1e5 else f"{v / 1e3:.3g} kB"


def table(runs, rows, names):
    out = [f"| system | {' | '.join(LINKS)} | sent | memory | loss after {runs[0]['samples']:.0f} {runs[0]['unit']} |",
           "|---" * 7 + "|"]
    for name in names:
        s = rows[0][name]
        if "refusal" in s:
            out.append(f"| {name} | refused: {s['refusal']} |" + " |" * 5)
        else:
            out.append(f"| {name} | {' | '.join(cell(r[name]) for r in rows)} | {size(s['bytes'])} | "
                       f"{size(s['memory_bytes'])} | {s['loss_at_samples']['median']:.3f} |")
    return "\n".join(out)


def marks(low, high):
    """1, 2, 5, 10, ... between two times."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [k * 10.0 ** p for p in powers for k in (1, 2, 5) if low <= k * 10.0 ** p <= high]


def picture(title, rows, names):
    names = [n for n in names if "refusal" not in rows[0][n]]
    times = {n: [r[n]["step_seconds"]["median"] for r in rows if "refusal" not in r[n]] for n in names}
    low, high = min(map(min, times.values())) / 1.15, max(map(max, times.values())) * 1.15
    left, wide, top, line = 150, 540, 62, 22
    bottom = top + line * len(names)

    def at(v):
        return left + wide * math.log(v / low) / math.log(high / low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 30} {bottom + 34}" role="img" '
           'font-family="sans-serif" font-size="12">', f"<title>{html.escape(title)}</title>",
           "<style>.b{fill:#fff}text{fill:#333}.g{stroke:#e3e3e3}.r{stroke:#b5b5b5;stroke-width:2}"
           "@media(prefers-color-scheme:dark){.b{fill:#191c20}text{fill:#ccc}.g{stroke:#333940}.r{stroke:#666}}</style>",
           '<rect class="b" width="100%" height="100%"/>',
           f'<text x="12" y="18" font-weight="bold">{html.escape(title)}</text>']
    x = left
    for link, color in zip(LINKS, COLORS):
        out.append(f'<circle cx="{x}" cy="36" r="5" fill="{color}"/><text x="{x + 10}" y="40">{link}</text>')
        x += 36 + 7 * len(link)
    for v in marks(low, high):
        out.append(f'<path class="g" d="M{at(v):.1f} {top - 8}V{bottom}"/>'
                   f'<text x="{at(v):.1f}" y="{bottom + 18}" text-anchor="middle">{seconds(v) if v < 1 else f"{v:g} s"}</text>')
    for i, name in enumerate(names):
        y = top + line * i + 6
        out.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{html.escape(name)}</text>'
                   f'<path class="r" d="M{at(min(times[name])):.1f} {y}H{at(max(times[name])):.1f}"/>')
        for r, link, color in zip(rows, LINKS, COLORS):
            if "refusal" not in r[name]:
                v = r[name]["step_seconds"]["median"]
                out.append(f'<circle cx="{at(v):.1f}" cy="{y}" r="5" fill="{color}"><title>{html.escape(name)}, '
                           f"{link}: {seconds(v)}</title></circle>")
    return "\n".join(out + ["</svg>", ""])


def main():
    folder, net = sys.argv[1:3]
    runs = [json.loads(pathlib.Path(folder, f"{net}-{link}.json").read_text()) for link in LINKS]
    rows = [{s["system"]: s for s in r["systems"]} for r in runs]
    names = sorted(rows[0], key=lambda n: rows[0][n].get("step_seconds", {}).get("median", math.inf))
    print(f"\n### {net.upper()}\n\n{table(runs, rows, names)}")
    if len(sys.argv) > 3:
        by_slow = sorted(names, key=lambda n: rows[-1][n].get("step_seconds", {}).get("median", math.inf))
        text = picture(f"{net.upper()}: time of a step on four ranks", rows, by_slow)
        pathlib.Path(sys.argv[3]).write_text(text)


main()
