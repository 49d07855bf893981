#!/usr/bin/env python3
"""async_wall - one of four workers at half speed, on real processes by the wall clock.

usage: bench/async_wall.py TUTTI [STEPS]

For each clock a run of four ranks with trial.pace=1,1,1,0.5: what part of the sum of speeds
becomes updates. The speed of one worker is measured alone first. A gradient takes an eighth
of a second, nearly all of it asleep, so two cores carry four ranks; on a machine that is
busy with other things figures are lower. Half a minute.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

SPEED = 0.004  # of trial.pace's machine: an eighth of a second for a gradient
SETTINGS = """model=mlp model.layers=2 model.width=64 data=synthetic image=16 optim.lr=0.05
threads=1 log.every=1000 checkpoint.every=0 eval.every=0 exchange.policy=ps
exchange.schedule=wall""".split()
CLOCKS = [("bsp", None), ("ssp", 3), ("async", None), ("backup", 1), ("quorum", 3),
          ("softsync", 2), ("delay", 4), ("absp", 3)]
MICRO = 8  # micro-batches of a gradient, where a clock takes parts of it


def run(tutti, folder, pace, steps, more):
    """Deliveries, as their time and the part of a gradient that it is, and workers.json."""
    path = os.path.join(folder, "run")
    shutil.rmtree(path, ignore_errors=True)
    n = len(pace)
    words = [tutti, "train", *SETTINGS, "run=" + path, "-n", str(n), "batch=%d" % (8 * n),
             "exchange.replicas=%d" % n, "train.steps=%d" % steps,
             "trial.pace=" + ",".join("%g" % (SPEED * p) for p in pace), *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600,
                          env=dict(os.environ, XDG_STATE_HOME=folder))
    if done.returncode != 0:
        sys.exit(done.stderr)
    with open(os.path.join(path, "schedule.txt")) as file:
        lines = [line.split() for line in file]
    pushed = [(float(line[1]), 1 - int((line + ["0"])[2]) / MICRO) for line in lines]
    with open(os.path.join(path, "workers.json")) as file:
        return pushed, json.load(file)


def rate(pushed, dropped):
    """Gradients in updates per second, without the first fifth."""
    first = len(pushed) // 5
    whole = sum(part for _, part in pushed[first + 1:])
    return whole / (pushed[-1][0] - pushed[first][0]) * (1 - dropped / len(pushed))


def main():
    tutti = os.path.abspath(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    pace = [1, 1, 1, 0.5]
    with tempfile.TemporaryDirectory() as folder:
        def alone(more):
            return rate(run(tutti, folder, [1], 20, more)[0], 0)

        whole, parts = [], ["accumulate=%d" % MICRO]
        speed = {False: alone(whole), True: alone(parts)}
        print("| clock | used | staleness | dropped |\n|---|---|---|---|")
        for clock, bound in CLOCKS:
            more = ["exchange.clock=" + clock]
            more += ["exchange.bound=%d" % bound] if bound is not None else []
            in_parts = clock == "absp"
            more += parts if in_parts else whole
            pushed, did = run(tutti, folder, pace, steps, more)
            used = rate(pushed, did["dropped"]) / (speed[in_parts] * sum(pace))
            name = clock if bound is None else "%s(%d)" % (clock, bound)
            print("| `%s` | %.0f%% | %.2f | %d |" %
                  (name, 100 * used, did["staleness"], did["dropped"]), flush=True)


if __name__ == "__main__":
    main()
