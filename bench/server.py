#!/usr/bin/env python3
"""server - the rate of a sharded parameter server beside that of an all-reduce, and beside PyTorch's RPC.

usage: bench/server.py TUTTI [--ranks 2,4] [--models gpt,mlp] [--width N] [--rounds N] [--steps N] [--no-torch]

The same network at equal ranks on shared memory, one thread each: all-reduce; exchange.policy=ps with bsp
and exchange.server=sharded, by the wall clock. gpt: 4 layers of width 256, 8 samples of 64 tokens for each
rank. mlp: 3 layers of width 1024 (--width), 8 images for each rank: hardly any computing, so that it is the way
of gradients and weights that is measured; beside it server_torch.py runs, if a Python with PyTorch is found
(find_torch.py). Each round runs all of them in turn, and ratios are of runs of the same round; printed is
the median over rounds. A run's rate is that of its last four fifths.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import find_torch

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGE, LAYERS, BATCH = 28, 3, 8
MODELS = {
    "gpt": "model=gpt model.layers=4 model.heads=4 model.width=256 model.context=64 data=synthetic data.classes=512 "
           "data.size=200000",
    "mlp": "model=mlp model.layers=%d model.width=%%d data=synthetic image=%d" % (LAYERS, IMAGE),
}
SERVER = ["exchange.policy=ps", "exchange.clock=bsp", "exchange.server=sharded", "exchange.schedule=wall"]


def tutti(args, model, ranks, more):
    """Steps per second."""
    with tempfile.TemporaryDirectory(prefix="server-") as folder:
        network = MODELS[model] % args.width if model == "mlp" else MODELS[model]
        words = [args.tutti, "train", *network.split(), "batch=%d" % (BATCH * ranks), "optim=sgd", "optim.lr=0.05",
                 "threads=1", "train.steps=%d" % args.steps, "log.every=%d" % (args.steps // 5), "eval.every=0",
                 "checkpoint.every=0", "checkpoint.best=false", "run=" + folder + "/run", "-n", str(ranks), *more]
        done = subprocess.run(words, capture_output=True, text=True, timeout=900,
                              env=dict(os.environ, XDG_STATE_HOME=folder))
        if done.returncode != 0:
            sys.exit("server: %s: %s" % (" ".join(more), (done.stdout + done.stderr)[-600:]))
        with open(folder + "/run/metrics.jsonl") as file:
            lines = [json.loads(line) for line in file]
    points = [(m["step"], m["seconds"]) for m in lines if "train/loss" in m]
    first, last = next(p for p in points if p[0] >= args.steps // 5), points[-1]
    return (last[0] - first[0]) / (last[1] - first[1])


def torch(args, ranks, python):
    words = [python, os.path.join(HERE, "server_torch.py"), str(ranks), str(LAYERS), str(args.width),
             str(IMAGE * IMAGE), str(BATCH * ranks), str(args.steps)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit("server: PyTorch: " + done.stderr[-600:])
    return float(done.stdout.split()[-1])


def row(args, model, ranks, python):
    runs = []
    for _ in range(args.rounds):
        runs.append((tutti(args, model, ranks, []), tutti(args, model, ranks, SERVER),
                     torch(args, ranks, python) if python else float("nan")))
    of = [statistics.median(column) for column in zip(*runs)]
    return "| `%s` | %d | %.1f /s | %.1f /s | %s | %.2f | %s |" % (
        model, ranks, of[0], of[1], "%.1f /s" % of[2] if python else "",
        statistics.median(r[1] / r[0] for r in runs),
        "%.1f" % statistics.median(r[1] / r[2] for r in runs) if python else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tutti")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--models", default="gpt,mlp")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--no-torch", action="store_true")
    args = parser.parse_args()
    args.tutti = os.path.abspath(args.tutti)
    python, version = (None, "not asked for") if args.no_torch else find_torch.find()
    print("PyTorch: %s" % version)
    print("| model | ranks | all-reduce | server | PyTorch RPC | server / all-reduce | server / RPC |")
    print("|---|---|---|---|---|---|---|")
    for model in args.models.split(","):
        for ranks in (int(n) for n in args.ranks.split(",")):
            print(row(args, model, ranks, python if model == "mlp" else None), flush=True)


if __name__ == "__main__":
    main()
