#!/usr/bin/env python3
"""The PyTorch side of the benchmark: a process that trains when it is told to.

Reads one JSON object a line, answers with one JSON object a line:

    {"do": "hello"}                              -> versions
    {"do": "prepare", "torch": {..}, "precision": "bf16", "quick": false}
          builds the network, times every variant, keeps the fastest
                                                 -> {"variant": .., "ms": .., "tried": ..}
    {"do": "run", "steps": 5}                    -> {"ms": [..], "loss": ..}
    {"do": "gemm", "precision": "fp32"}          -> {"gflops": ..}
    {"do": "quit"}

Between commands it sleeps in read(), so the cores belong to the other side. A
variant is the product of how the step runs (eager, torch.compile, compile with
autotuned kernels), the memory layout of images (plain, channels-last), and the
implementation of AdamW (fused, foreach).
"""
import gc
import json
import math
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent
                       / "tests" / "oracle"))
import nets  # noqa: E402  (needs the path above)


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[2]                                       # PyTorch before 2.0
    mask = torch.full((t, t), -math.inf, dtype=q.dtype).triu(1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[3]) + mask
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.proj = nn.Linear(4 * width, width)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for z in self.c_attn(x).split(c, dim=2))
        y = attention(q, k, v)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2 as in nanoGPT: fused attention, output tied to the embedding."""

    def __init__(self, vocab, positions, layers, heads, width):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return F.linear(self.ln_f(h), self.wte.weight)


IMAGE_NETS = {"resnet18": nets.resnet18, "resnet50": nets.resnet50,
              "vgg11": nets.vgg11, "vit-b16": nets.ViT}


def build(spec, channels_last):
    torch.manual_seed(1)
    if spec["net"] == "gpt":
        net = GPT(spec["vocab"], spec["positions"], spec["layers"],
                  spec["heads"], spec["width"])
        shape = (spec["batch"], spec["seq"])
        return net, torch.randint(spec["vocab"], shape), \
            torch.randint(spec["vocab"], shape)
    net = IMAGE_NETS[spec["net"]]()
    size = spec["image"]
    x = torch.randn(spec["batch"], 3, size, size)
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    return net, x, torch.randint(1000, (spec["batch"],))


class Trainer:
    """One variant of one workload, ready to step."""

    def __init__(self, spec, precision, variant):
        self.variant = variant
        self.precision = precision
        self.net, self.x, self.y = build(spec, "channels-last" in variant)
        self.optimizer = torch.optim.AdamW(
            self.net.parameters(), lr=1e-4,
            **{"fused" if "fused" in variant else "foreach": True})
        self.loss_of = self.loss
        if "max-autotune" in variant:
            self.loss_of = torch.compile(self.loss,
                                         mode="max-autotune-no-cudagraphs")
        elif "compile" in variant:
            self.loss_of = torch.compile(self.loss)

    def loss(self, x, y):
        with torch.autocast("cpu", torch.bfloat16,
                            enabled=self.precision == "bf16"):
            logits = self.net(x)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]),
                                   y.view(-1))

    def step(self):
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.x, self.y)
        loss.backward()
        self.optimizer.step()
        self.last_loss = loss.item()
        return (time.perf_counter() - start) * 1e3

    def times(self, steps):
        return [self.step() for _ in range(steps)]


def trial(spec, precision, variant, seconds=4.0):
    """A trainer and its best step after warm-up, or the reason of failure.

    The best and not the median: another process may have disturbed this trial.
    """
    try:
        trainer = Trainer(spec, precision, variant)
        first = max(trainer.times(2)[1], 0.1)
        steps = min(20, max(3, math.ceil(seconds * 1e3 / first)))
        return trainer, min(trainer.times(steps)), None
    except Exception as error:  # a variant may be unsupported: try the others
        return None, math.inf, "%s: %s" % (type(error).__name__,
                                           str(error).splitlines()[:1])


def prepare(spec, precision, quick):
    """The fastest variant: first optimiser and layout in eager, then compile."""
    tried, best = {}, (None, math.inf)
    if hasattr(torch, "compiler"):
        torch.compiler.reset()     # or it keeps the last network's weights

    def consider(variant):
        nonlocal best
        gc.collect()
        trainer, ms, why = trial(spec, precision, variant)
        tried[variant] = why or round(ms, 2)
        if ms < best[1]:
            best = (trainer, ms)
        return ms

    adamw = "fused"
    fused = consider("eager fused")
    if not (quick and fused < math.inf) and consider("eager foreach") < fused:
        adamw = "foreach"
    layout = ""
    if spec["net"] in ("resnet18", "resnet50", "vgg11"):
        plain = best[1]
        if consider("eager channels-last " + adamw) < plain:
            layout = "channels-last "
    consider("compile " + layout + adamw)
    if not quick:
        consider("max-autotune " + layout + adamw)
    if best[0] is None:
        raise RuntimeError("no variant runs: %s" % tried)
    return best[0], best[1], tried


def gemm_gflops(precision, n=2048):
    """The rate of one large square product: what this machine can do."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
    out = torch.empty(n, n, dtype=dtype)
    times = []
    for _ in range(8):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        times.append(time.perf_counter() - start)
    return 2.0 * n ** 3 / statistics.median(times[2:]) / 1e9


def hello():
    return {"torch": torch.__version__, "threads": torch.get_num_threads(),
            "python": sys.version.split()[0]}


def main():
    # Answers go to the real stdout; whatever libraries print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    trainer = None
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            if ask["do"] == "quit":
                break
            if ask["do"] == "hello":
                answer = hello()
            elif ask["do"] == "prepare":
                trainer = None
                gc.collect()
                trainer, ms, tried = prepare(ask["torch"], ask["precision"],
                                             ask["quick"])
                answer = {"variant": trainer.variant, "ms": ms,
                          "tried": tried}
            elif ask["do"] == "run":
                answer = {"ms": trainer.times(ask["steps"]),
                          "loss": trainer.last_loss}
            elif ask["do"] == "gemm":
                answer = {"gflops": gemm_gflops(ask["precision"])}
            else:
                answer = {"error": "unknown command %s" % ask["do"]}
        except Exception as error:  # the driver reports it and goes on
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
