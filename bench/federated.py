#!/usr/bin/env python3
"""What label skew and codes do to federations of LeNet: docs/federated.md's tables.

    python3 bench/federated.py build/tutti          # about half a minute

Everything is drawn from seeds, so the numbers are the same on every machine with the same
instructions.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROUNDS = 20
USUAL = ["examples/lenet-tiny.yaml", "exchange.policy=federated", "exchange.replicas=20", "exchange.fraction=0.25",
         "exchange.local_epochs=1", "exchange.local_lr=0.1", f"train.steps={ROUNDS}", "eval.every=5", "threads=1",
         "log.tensorboard=false"]
SPLITS = [("`iid`", []), ("`dirichlet`, alpha 1", ["exchange.split=dirichlet", "exchange.alpha=1"]),
          ("`dirichlet`, alpha 0.1", ["exchange.split=dirichlet", "exchange.alpha=0.1"])]
ALGORITHMS = [("FedAvg", ["optim=sgd", "optim.lr=1"]),
              ("FedProx", ["optim=sgd", "optim.lr=1", "exchange.proximal=0.1"]),
              ("SCAFFOLD", ["optim=sgd", "optim.lr=1", "exchange.control=scaffold"]),
              ("FedAdam", ["optim=adam", "optim.lr=0.01", "optim.eps=1e-3"])]
CODES = ["none", "int8", "qsgd", "sign", "powersgd", "topk", "topk exchange.feedback=false",
         "randomk exchange.codec.ratio=0.25"]


def run(tutti, settings):
    """The last validation loss of a run, and the bytes that its clients sent."""
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
        workers = json.loads((run_folder / "workers.json").read_text())["workers"]
        return loss, sum(w["bytes_up"] for w in workers)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"Validation loss after {ROUNDS} rounds of 5 of 20 clients, one local epoch each.\n")
    print("| split | " + " | ".join(name for name, _ in ALGORITHMS) + " |")
    print("|---|" + "---|" * len(ALGORITHMS))
    for split, which in SPLITS:
        losses = [run(sys.argv[1], which + how)[0] for _, how in ALGORITHMS]
        print(f"| {split} | " + " | ".join(f"{x:.3f}" for x in losses) + " |", flush=True)
    print("\n| `exchange.codec` | MB sent by clients | " + " | ".join(name for name, _ in SPLITS) + " |")
    print("|---|---|" + "---|" * len(SPLITS))
    for code in CODES:
        words = ["optim=sgd", "optim.lr=1", *f"exchange.codec={code}".split()]
        runs = [run(sys.argv[1], which + words) for _, which in SPLITS]
        print(f"| `{code}` | {runs[0][1] / 1e6:.2f} | " + " | ".join(f"{x:.3f}" for x, _ in runs) + " |", flush=True)
