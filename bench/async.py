#!/usr/bin/env python3
"""async - published behaviour of asynchronous training, on a small GPT and on LeNet.

    python3 bench/async.py build/tutti [--out FOLDER] [--seeds N] [PART ...]

Parts: straggler, staleness, corrections, backup, elastic, federated; all without a name.
Prints the tables of docs/async.md and, with --out, writes its curves (svg). Everything is
drawn from seeds, so numbers are the same on every machine with the same instructions;
times are in gradients of a worker of speed 1. All parts take about twelve minutes on one core.

LeNet learns Fashion-MNIST where Debian's package dataset-fashion-mnist is installed, else
made-up images; the GPT learns made-up tokens.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

CLOTHES = "/usr/share/datasets/fashion-mnist"
GPT = ["model=gpt", "model.layers=2", "model.heads=2", "model.width=32", "model.context=16", "model.vocab=32",
       "data=synthetic"]
LENET = ["model=lenet"] + (["data=idx", "data.path=" + CLOTHES, "data.pad=2", "data.mean=0.286", "data.std=0.353",
                            "image=32"] if os.path.isdir(CLOTHES) else ["data=synthetic"])
MLP = ["model=mlp", "model.layers=2", "model.width=32", "image=8", "data=synthetic"]
EVEN = ["exchange.spread=0", "exchange.delay=0"]
COLORS = ["#2563eb", "#d9480f", "#0d9488", "#9333ea", "#ca8a04", "#db2777", "#64748b"]

VALIDATED = 2048  # samples in an evaluation, whatever the batch

args = None


class Run:
    """A run: its last validation loss, workers.json, and lines of metrics."""

    def __init__(self, settings, validated=VALIDATED):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            batch = int([s for s in settings if s.startswith("batch=")][0][6:])
            command = [args.tutti, "train", *settings, f"run={run}", "threads=1", "checkpoint.every=0",
                       f"eval.batches={-(-validated // batch)}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600,
                                  env={"XDG_STATE_HOME": folder, "PATH": "/usr/bin:/bin"})
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}\n{done.stdout[-600:]}{done.stderr[-600:]}")
            self.lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            path = run / "workers.json"
            self.workers = json.loads(path.read_text()) if path.exists() else None
        self.loss = [line["val/loss"] for line in self.lines if "val/loss" in line][-1]

    def reached(self, goal):
        """The drawn time at which the validation loss falls below the goal; infinity: never."""
        time = {line["step"]: line["workers/time"] for line in self.lines if "workers/time" in line}
        before = None
        for line in self.lines:
            if "val/loss" not in line:
                continue
            now = (time[line["step"]], line["val/loss"])
            if now[1] <= goal:
                if before is None:
                    return now[0]
                return before[0] + (now[0] - before[0]) * (before[1] - goal) / (before[1] - now[1])
            before = now
        return math.inf


def mean_loss(settings):
    return sum(Run(settings + [f"seed={1 + s}"]).loss for s in range(args.seeds)) / args.seeds


def workers(model, updates, each, n, more):
    """`updates` updates of `each` samples by n workers: only staleness depends on n."""
    return [*model, "exchange.policy=ps", f"exchange.replicas={n}", f"batch={each * n}", f"train.steps={updates // n}",
            "log.every=100000", *more]


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|" + "---|" * len(cells))


# ---- curves ------------------------------------------------------------------

def ticks(low, high, n=5):
    step = 10 ** math.floor(math.log10((high - low) / n))
    step *= next(k for k in (1, 2, 5, 10) if (high - low) / (step * k) <= n)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def svg(name, title, x_name, y_name, curves, is_log=False, y_most=math.inf):
    """Curves {name: [(x, y)]} as a picture that is light or dark as its reader likes."""
    if not args.out:
        return
    wide, high, left, top, right = 520, 260, 52, 34, 150
    points = [(x, min(y, y_most)) for c in curves.values() for x, y in c if y is not None]
    xs, ys = sorted({x for x, _ in points}), [y for _, y in points]
    y0, y1 = min(ys), max(ys)
    y0, y1 = y0 - 0.05 * (y1 - y0 or 1), y1 + 0.05 * (y1 - y0 or 1)
    u = (lambda x: math.log2(x)) if is_log else (lambda x: x)

    def place(x, y):
        return (left + (u(x) - u(xs[0])) / (u(xs[-1]) - u(xs[0]) or 1) * wide,
                top + (y1 - min(y, y_most)) / (y1 - y0) * high)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + right} {top + high + 46}" role="img" '
           'font-family="sans-serif" font-size="12">', f"<title>{title}</title>",
           "<style>.b{fill:#fff}text{fill:#333}.g{stroke:#e3e3e3}@media(prefers-color-scheme:dark)"
           "{.b{fill:#191c20}text{fill:#ccc}.g{stroke:#333940}}</style>", '<rect class="b" width="100%" height="100%"/>',
           f'<text x="{left}" y="14" font-weight="bold">{title}</text><text x="{left - 40}" y="{top - 8}">{y_name}</text>']
    for y in ticks(y0, y1):
        at = place(xs[0], y)[1]
        out.append(f'<path class="g" d="M{left} {at:.1f}h{wide}"/><text x="{left - 6}" y="{at + 4:.1f}" '
                   f'text-anchor="end">{y:.4g}</text>')
    for x in xs if len(xs) < 12 else ticks(xs[0], xs[-1], 8):
        out.append(f'<text x="{place(x, y0)[0]:.1f}" y="{top + high + 16}" text-anchor="middle">{x:.4g}</text>')
    out.append(f'<text x="{left + wide / 2}" y="{top + high + 36}" text-anchor="middle">{x_name}</text>')
    for i, (label, curve) in enumerate(curves.items()):
        color = COLORS[i % len(COLORS)]
        at = [place(x, y) for x, y in curve if y is not None]
        out.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.8" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in at) + '"/>')
        if len(at) < 30:
            out.append(f'<g fill="{color}">' + "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at)
                       + "</g>")
        out.append(f'<path d="M{left + wide + 12} {top + 6 + 18 * i}h16" stroke="{color}" stroke-width="3"/>'
                   f'<text x="{left + wide + 33}" y="{top + 10 + 18 * i}">{label}</text>')
    os.makedirs(args.out, exist_ok=True)
    pathlib.Path(args.out, name).write_text("\n".join(out + ["</svg>", ""]))


# ---- parts -------------------------------------------------------------------

def straggler():
    print("\nOne of four workers at half speed (trial.pace=1,1,1,0.5): gradients in updates per "
          "time, as a part of the sum of speeds.\n")
    head("clock", "used", "staleness", "held", "val loss")
    for clock in ["bsp", "ssp exchange.bound=3", "async", "backup exchange.bound=1",
                  "quorum exchange.bound=3", "softsync exchange.bound=2", "delay exchange.bound=4"]:
        name, *more = clock.split()
        r = Run([*MLP, "batch=64", "train.steps=60", "log.every=60", "optim.lr=0.1", "optim=sgd", "exchange.policy=ps",
                 "exchange.replicas=4", f"exchange.clock={name}", *more, "trial.pace=1,1,1,0.5", "exchange.jitter=0",
                 "exchange.delay=0"])
        w = r.workers
        used = (w["gradients"] - w["dropped"]) / w["time"] / 3.5
        held = sum(k["time"]["held"] for k in w["workers"]) / 4 / w["time"]
        row(f"`{clock.replace(' exchange.bound=', '(')}{')' if more else ''}`", f"{100 * used:.0f}%",
            f"{w['staleness']:.2f}", f"{100 * held:.0f}%", f"{r.loss:.3f}")


def staleness():
    print("\nStaleness of `async` with W workers, 1920 gradients: of equal speed, and drawn from 0.8 to 1.2.\n")
    head("workers", "W - 1", "equal: mean", "most", "drawn: mean", "most")
    curves = {}
    for n in [2, 4, 8, 16]:
        cells = []
        for spread in [0, 0.2]:
            w = Run(workers(GPT, 1920, 1, n, [f"exchange.spread={spread}", "exchange.delay=0", "optim=sgd",
                                              "optim.lr=0.01"])).workers
            cells += [f"{w['staleness']:.2f}", len(w["histogram"]) - 1]
        sum_of = sum(w["histogram"])
        curves[f"W = {n}"] = [(i, c / sum_of) for i, c in enumerate(w["histogram"])]
        row(n, n - 1, *cells)
    svg("async-staleness.svg", "Staleness of async, speeds from 0.8 to 1.2", "updates", "part of gradients", curves)


def corrections():
    rules = [("none", []), ("lr", []), ("compensate", ["exchange.lambda=1"]), ("momentum", []),
             ("reject", ["exchange.reject=4"]), ("predict", [])]
    for name, model, lr in [("gpt", GPT, 0.02), ("lenet", LENET, 0.01)]:
        print(f"\n{name}: validation loss after 960 updates of 8 samples, `optim=momentum optim.lr={lr}`, `async`, equal "
              "workers: with each rule, at the staleness that so many workers have.\n")
        head("workers", "staleness", *[f"`{r}`" for r, _ in rules])
        curves = {r: [] for r, _ in rules}
        for n in [1, 2, 4, 8, 16]:
            cells = []
            for rule, more in rules:
                loss = mean_loss(workers(model, 960, 8, n, [f"exchange.staleness={rule}", *more, *EVEN, "optim=momentum",
                                                            f"optim.lr={lr}"]))
                curves[rule].append((n - 1, loss))
                cells.append(f"{loss:.3f}")
            row(n, n - 1, *cells)
        most = 1.5 * max(y for r in rules[1:] for _, y in curves[r[0]])
        svg(f"async-corrections-{name}.svg", f"{name}: loss against staleness", "staleness", "validation loss", curves,
            y_most=most)


def backup():
    """Time to a loss against b, with a heavy tail of pauses."""
    print("\nTime to a validation loss with 16 workers, of which `backup` waits for 16 - b (one sample each; pauses of "
          "10 gradients with probability 0.02); median of the seeds.\n")
    goals = [("gpt", GPT, 0.5, 1.15), ("lenet", LENET, 0.1, 1.05)]
    head("b", *[f"{name}: time to {goal}" for name, _, _, goal in goals], "time of an update")
    curves = {name: [] for name, *_ in goals}
    for b in [0, 1, 2, 3, 4, 6, 8, 10, 12]:
        cells = []
        for name, model, lr, goal in goals:
            times = []
            for seed in range(max(3, args.seeds)):
                r = Run([*model, "exchange.policy=ps", "exchange.clock=backup", f"exchange.bound={b}",
                         "exchange.replicas=16", "batch=16", "train.steps=150", "log.every=5", "eval.every=5",
                         "exchange.pause=0.02", "exchange.length=10", "exchange.spread=0.05", "optim=sgd",
                         f"optim.lr={lr}", f"seed={1 + seed}"], validated=512)
                times.append(r.reached(goal))
            time = sorted(times)[len(times) // 2]
            curves[name].append((b, time if math.isfinite(time) else None))
            cells.append(f"{time:.0f}" if math.isfinite(time) else "not reached")
        row(b, *cells, f"{r.workers['time'] / r.workers['updates']:.2f}")
    svg("async-backup.svg", "Time to a loss against backup workers", "b of 16 workers", "time", curves)


def elastic():
    """EASGD and DOWNPOUR against the steps between two exchanges."""
    taus = [1, 2, 4, 8, 16, 32, 64]
    for name, model, lr in [("gpt", GPT, 0.3), ("lenet", LENET, 0.05)]:
        print(f"\n{name}: validation loss after 512 local steps of 4 samples by each of 4 workers, `optim.lr={lr}`, against "
              "tau steps between two exchanges.\n")
        head("tau", "EASGD `elastic`", "`average`", "DOWNPOUR `ps`, `local_steps`")
        curves = {"EASGD": [], "average": [], "DOWNPOUR": []}
        usual = [*model, "exchange.replicas=4", "optim=sgd", f"optim.lr={lr}", "log.every=100000"]
        for tau in taus:
            runs = [usual + ["exchange.policy=elastic", f"exchange.every={tau}", "batch=16", "train.steps=512"],
                    usual + ["exchange.policy=average", f"exchange.every={tau}", "batch=16", "train.steps=512"],
                    usual + ["exchange.policy=ps", f"exchange.local_steps={tau}", f"batch={16 * tau}",
                             f"train.steps={512 // tau}", *EVEN]]
            losses = [mean_loss(r) for r in runs]
            for curve, loss in zip(curves.values(), losses):
                curve.append((tau, loss))
            row(tau, *[f"{loss:.3f}" for loss in losses])
        most = 1.6 * max(y for _, y in curves["EASGD"])
        svg(f"async-elastic-{name}.svg", f"{name}: loss against steps between exchanges", "tau", "validation loss", curves,
            is_log=True, y_most=most)


def federated():
    """FedAvg against how uneven the clients' data are."""
    rounds, shown = 120, [10, 20, 40, 80, 120]
    print("\nlenet: validation accuracy of a federation of 20 clients, of whom a round asks 5, which make 20 steps of 16 "
          "samples each; mean of the seeds.\n")
    plain, usual = ["optim=sgd", "optim.lr=1"], ["exchange.local_lr=0.05"]
    runs = {"i.i.d.": ["exchange.split=iid", *plain], "Dirichlet 1": ["exchange.split=dirichlet", "exchange.alpha=1", *plain],
            "Dirichlet 0.1": ["exchange.split=dirichlet", "exchange.alpha=0.1", *plain],
            "0.1, FedYogi": ["exchange.split=dirichlet", "exchange.alpha=0.1", "optim=yogi", "optim.lr=0.01"]}
    head("data", *[f"{n} rounds" for n in shown])
    curves = {}
    for name, more in runs.items():
        sums = {}
        for seed in range(args.seeds):
            r = Run([*LENET, "exchange.policy=federated", "exchange.replicas=20", "exchange.fraction=0.25",
                     "exchange.local_steps=20", "batch=16", f"train.steps={rounds}", "log.every=1000", "eval.every=10",
                     *usual, *more, f"seed={1 + seed}"])
            for line in r.lines:
                if "val/accuracy" in line and line["step"] > 0:
                    sums[line["step"]] = sums.get(line["step"], 0) + line["val/accuracy"] / args.seeds
        curves[name] = sorted(sums.items())
        row(name, *[f"{100 * sums[n]:.1f}%" for n in shown])
    svg("async-federated.svg", "LeNet: FedAvg on even and uneven clients", "rounds", "validation accuracy", curves)


PARTS = {"straggler": straggler, "staleness": staleness, "corrections": corrections, "backup": backup,
         "elastic": elastic, "federated": federated}


def main():
    global args
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tutti")
    p.add_argument("--out")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("part", nargs="*", metavar="PART")
    args = p.parse_intermixed_args()
    for part in args.part or PARTS:
        PARTS[part]()


main()
