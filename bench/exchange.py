#!/usr/bin/env python3
"""exchange - which codecs reach a loss how much sooner on a slow network.

    bench/exchange.py [--rate BYTES] [--ranks N] [--steps N] [--more TIMES] [--seconds S]
                   [--width N] [--every N] [--out FOLDER] [--netns RATE]
                   [[POLICY+]CODEC[:OPTION=VALUE...] ...]

Trains one small GPT on the texts in /usr/share/common-licenses (or --data FOLDER) with
the dense ring and with each codec, or policy and codec (average+int8:exchange.every=8;
options that do not begin with exchange. are the codec's): these take --more times as many steps, since what
codes do not say comes late. The goal is the validation loss with which the dense ring
ends, and 1% more; it is asked for after every --every steps. Prints when each was there, and writes curves of loss over seconds
and over bytes (svg) and all numbers (json) to --out.

--rate is that of each rank's link, by the slow transport (12.5e6: 100 Mbit/s). With
--netns 100mbit ranks are hosts of network namespaces instead (tools/netns: needs root
and Open MPI).
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODECS = ["fp16", "int8", "3lc", "onebit", "topk", "powersgd"]
COLORS = ["#222", "#c33", "#27a", "#393", "#a5a", "#c80", "#088", "#864", "#666"]


def settings(args, name):
    what, *options = name.split(":")
    policy, _, codec = what.rpartition("+")
    more = [] if codec == "dense" else ["exchange.codec=" + codec]
    more += ["exchange.policy=" + policy] if policy else []
    return more + [o if o.startswith("exchange.") else "exchange.codec." + o for o in options]


def command(args, name, folder):
    train = [
        args.tutti, "train", "model=gpt", "model.layers=2", "model.heads=4",
        "model.width=%d" % args.width, "model.context=32", "data=text",
        "data.path=" + args.data, "data.tokenizer=chars",
        "batch=%d" % args.ranks, "optim=adamw", "optim.lr=2e-3", "threads=1",
        "train.steps=%d" % (args.steps * (1 if name == "dense" else args.more)), "log.every=%d" % args.every, "eval.every=%d" % args.every,
        "eval.batches=8", "checkpoint.every=0", "checkpoint.best=false",
        "collective=ring",
        "run=" + folder] + settings(args, name)
    if args.netns:
        return [os.path.join(TOP, "tools/netns"), "--hosts", str(args.ranks),
                "--rate", args.netns, "--"] + train
    return train + ["-n", str(args.ranks), "comm.slow_rate=%g" % args.rate,
                    "comm.slow_latency=%g" % args.latency]


def run(args, name):
    folder = tempfile.mkdtemp(prefix="exchange-")
    try:
        done = subprocess.run(command(args, name, folder), text=True,
                              capture_output=True, timeout=args.seconds)
        if done.returncode != 0:
            sys.exit("exchange: %s: %s" % (name, (done.stdout + done.stderr)[-400:]))
        with open(os.path.join(folder, "metrics.jsonl")) as f:
            lines = [json.loads(line) for line in f]
    finally:
        shutil.rmtree(folder)
    per_step = {m["step"]: m["comm/bytes"] for m in lines if "comm/bytes" in m}
    sent, at = {0: 0.0}, 0
    for step in sorted(per_step):
        sent[step] = sent[at] + per_step[step] * (step - at)
        at = step
    points = [(m["seconds"], sent.get(m["step"], sent[at]), m["val/loss"])
              for m in lines if "val/loss" in m]
    return {"name": name, "points": points, "seconds": points[-1][0],
            "bytes": points[-1][1], "loss": points[-1][2]}


def reached(r, goal):
    for seconds, sent, loss in r["points"]:
        if loss <= goal:
            return seconds, sent
    return None


def svg(results, column, title, path):
    wide, high, left, top = 640, 360, 50, 20
    xs = [p[column] for r in results for p in r["points"] if p[column] > 0]
    ys = [p[2] for r in results for p in r["points"]]
    x0, x1 = math.log10(min(xs)), math.log10(max(xs))
    y0, y1 = min(ys), max(ys)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
           'font-family="sans-serif" font-size="12">' % (wide + 130, high + 60),
           '<rect width="100%" height="100%" fill="#fff"/>']

    def place(x, y):
        return (left + (math.log10(x) - x0) / (x1 - x0 or 1) * (wide - left),
                top + (y1 - y) / (y1 - y0 or 1) * high)

    for k in range(math.ceil(x0), math.floor(x1) + 1):
        x = place(10.0 ** k, y0)[0]
        out.append('<path d="M%.1f %dv%d" stroke="#ddd"/><text x="%.1f" y="%d" '
                   'text-anchor="middle">%g</text>' % (x, top, high, x, top + high + 16, 10.0 ** k))
    for k in range(5):
        y = y0 + (y1 - y0) * k / 4
        at = place(10 ** x0, y)[1]
        out.append('<path d="M%d %.1fH%d" stroke="#eee"/><text x="%d" y="%.1f" '
                   'text-anchor="end">%.2f</text>' % (left, at, wide, left - 6, at + 4, y))
    out.append('<text x="%d" y="%d" text-anchor="middle">%s</text>'
               % ((left + wide) / 2, top + high + 36, title))
    for i, r in enumerate(results):
        color = COLORS[i % len(COLORS)]
        line = " ".join("%.1f,%.1f" % place(p[column], p[2])
                        for p in r["points"] if p[column] > 0)
        out.append('<polyline fill="none" stroke="%s" stroke-width="1.6" points="%s"/>'
                   % (color, line))
        out.append('<text x="%d" y="%d" fill="%s">%s</text>'
                   % (wide + 10, top + 14 + 18 * i, color, r["name"]))
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>", ""]))


def table(results, goal):
    dense = reached(results[0], goal)
    print("goal: validation loss %.4f" % goal)
    print("| codec | loss at the end | seconds to the goal | sooner | MB sent by then |")
    print("|---|---|---|---|---|")
    for r in results:
        at = reached(r, goal)
        print("| %s | %.4f | %s |" % (r["name"], r["loss"], "not reached | | " if at is None
              else "%.1f | %.1f times | %.2f" % (at[0], dense[0] / at[0], at[1] / 1e6)))


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tutti", default=os.path.join(TOP, "build/tutti"))
    p.add_argument("--data", default="/usr/share/common-licenses")
    p.add_argument("--rate", type=float, default=12.5e6)
    p.add_argument("--latency", type=float, default=5e-5)
    p.add_argument("--netns")
    p.add_argument("--ranks", type=int, default=8)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--more", type=int, default=2)
    p.add_argument("--every", type=int, default=5)
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--out")
    p.add_argument("codec", nargs="*", default=CODECS)
    args = p.parse_args()
    results = []
    for name in ["dense"] + args.codec:
        results.append(run(args, name))
        print("%s: %.1f s, loss %.4f, %.2f MB" % (
            name, results[-1]["seconds"], results[-1]["loss"],
            results[-1]["bytes"] / 1e6), file=sys.stderr)
    goal = results[0]["loss"] * 1.01
    table(results, goal)
    if args.out:
        os.makedirs(args.out, exist_ok=True)
        svg(results, 0, "seconds", os.path.join(args.out, "exchange-seconds.svg"))
        svg(results, 1, "bytes sent by a rank", os.path.join(args.out, "exchange-bytes.svg"))
        with open(os.path.join(args.out, "exchange.json"), "w") as f:
            json.dump(results, f)


main()
