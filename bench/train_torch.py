#!/usr/bin/env python3
"""nanoGPT's CPU configuration on a text, whole: what bench/train runs beside Tutti.

    train_torch.py TEXT STEPS [--compile]

The network of peer_torch.py, characters as tokens, 90% for training, AdamW with
decay on matrices, warm-up and cosine, clipping at 1; evaluation over the whole
held-out text at the end. Prints one JSON object.
"""
import json
import math
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer_torch  # noqa: E402  (needs the path above)

BATCH, SEQ, LAYERS, HEADS, WIDTH = 12, 64, 4, 4, 128
LR, FINAL, WARMUP = 1e-3, 0.1, 100


def rate(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    part = (step - WARMUP) / max(1, steps - WARMUP)
    return LR * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * part)))


def main():
    text, steps = pathlib.Path(sys.argv[1]).read_text(), int(sys.argv[2])
    chars = sorted(set(text))
    index = {c: i for i, c in enumerate(chars)}
    ids = torch.tensor([index[c] for c in text])
    cut = int(0.9 * len(ids))
    train, val = ids[:cut], ids[cut:]
    torch.manual_seed(1)
    start = time.perf_counter()
    net = peer_torch.GPT(len(chars), SEQ, LAYERS, HEADS, WIDTH)
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1],
               "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.dim() < 2],
               "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99), fused=True)

    def loss_of(x, y):
        logits = net(x)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))

    run = torch.compile(loss_of) if "--compile" in sys.argv else loss_of
    for step in range(steps):
        at = torch.randint(len(train) - SEQ - 1, (BATCH,))
        x = torch.stack([train[i:i + SEQ] for i in at])
        y = torch.stack([train[i + 1:i + SEQ + 1] for i in at])
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        optimizer.zero_grad(set_to_none=True)
        loss = run(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    seconds = time.perf_counter() - start
    n = (len(val) - 1) // SEQ
    total = 0.0
    with torch.no_grad():
        for i in range(0, n, 64):
            k = min(64, n - i)
            x = val[i * SEQ:(i + k) * SEQ].view(k, SEQ)
            y = val[i * SEQ + 1:(i + k) * SEQ + 1].view(k, SEQ)
            total += loss_of(x, y).item() * k
    print(json.dumps({"seconds": seconds, "val_loss": total / n}))


if __name__ == "__main__":
    main()
