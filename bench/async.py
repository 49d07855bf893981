#!/usr/bin/env python3
"""What clocks and rules about staleness do, on a small network: docs/async.md's tables.

    python3 bench/async.py build/tutti          # all tables, about two minutes

Everything is drawn from seeds, so the numbers are the same on every machine with the same
instructions. Times are in gradients of a worker of speed 1.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

STEPS = 60
USUAL = ["model=mlp", "model.layers=2", "model.width=32", "image=8", "data=synthetic", "optim.lr=0.1",
         "batch=64", f"train.steps={STEPS}", "log.every=60", "threads=1"]


def run(tutti, settings):
    """(validation loss, workers.json) of a run."""
    with tempfile.TemporaryDirectory() as folder:
        run_folder = pathlib.Path(folder) / "run"
        command = [tutti, "train", *USUAL, *settings, f"run={run_folder}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                              env={"XDG_STATE_HOME": folder, "PATH": "/usr/bin:/bin"})
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        loss = None
        for line in (run_folder / "metrics.jsonl").read_text().splitlines():
            loss = json.loads(line).get("val/loss", loss)
        path = run_folder / "workers.json"
        return loss, json.loads(path.read_text()) if path.exists() else None


def straggler(tutti):
    print("\nOne of four workers at half speed (trial.pace=1,1,1,0.5): gradients in updates per "
          "time, as a part of the sum of speeds.\n")
    print("| clock | used | staleness | val loss |\n|---|---|---|---|")
    for clock in ["bsp", "ssp exchange.bound=3", "async", "backup exchange.bound=1",
                  "quorum exchange.bound=3", "softsync exchange.bound=2", "delay exchange.bound=4"]:
        name, *more = clock.split()
        loss, w = run(tutti, ["exchange.policy=ps", "exchange.replicas=4", f"exchange.clock={name}", *more,
                              "trial.pace=1,1,1,0.5", "exchange.jitter=0", "exchange.delay=0", "optim=sgd"])
        used = (w["gradients"] - w["dropped"]) / w["time"] / 3.5
        print(f"| `{clock.replace(' exchange.bound=', '(')}{')' if more else ''}` | {100 * used:.0f}% "
              f"| {w['staleness']:.2f} | {loss:.3f} |")


def corrections(tutti):
    rules = [("none", []), ("lr", []), ("compensate", ["exchange.lambda=1"]), ("momentum", []),
             ("reject", ["exchange.reject=4"]), ("predict", [])]
    print("\nValidation loss after 60 steps of `optim=momentum optim.momentum=0.9`, `exchange.clock=async`, equal "
          "workers: with the rule, at the staleness that so many workers have.\n")
    print("| workers | staleness | " + " | ".join(f"`{r}`" for r, _ in rules) + " |")
    print("|---|---|" + "---|" * len(rules))
    for workers in [1, 4, 8, 16]:
        cells = []
        for rule, more in rules:
            loss, w = run(tutti, ["exchange.policy=ps", f"exchange.replicas={workers}", f"exchange.staleness={rule}",
                                  *more, "exchange.spread=0", "exchange.delay=0", "optim=momentum",
                                  "optim.momentum=0.9", "optim.lr=0.01"])
            cells.append(f"{loss:.3f}")
            stale = w["staleness"] if rule == "none" else stale
        print(f"| {workers} | {stale:.2f} | " + " | ".join(cells) + " |")


def local(tutti):
    print("\nLocal steps between pushes (`bsp`, 4 workers, `optim=sgd`), the same samples in all.\n")
    print("| local steps | val loss |\n|---|---|")
    for steps in [1, 2, 4, 8]:
        loss, _ = run(tutti, ["exchange.policy=ps", "exchange.replicas=4", "exchange.clock=bsp",
                              f"exchange.local_steps={steps}", "optim=sgd"])
        print(f"| {steps} | {loss:.3f} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    straggler(sys.argv[1])
    corrections(sys.argv[1])
    local(sys.argv[1])
