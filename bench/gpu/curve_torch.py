"""The loss of every step of GPT-2 in PyTorch: the peer of bench/gpu/curve.

  python3 bench/gpu/curve_torch.py --weights model.safetensors --tokens FILE
      [--steps 300] [--batch 4] [--seq 64] [--lr 3e-4] [--warmup 20] [--decay 0.1]
      [--device cuda] [--precision bf16|fp32]

Initial weights are those of a checkpoint of Tutti's, tokens a file of 16-bit numbers,
read from the beginning; AdamW as Tutti's, gradients clipped at 1, a cosine after a
linear warm-up; bf16 is autocast over f32 weights. Prints `STEP LOSS` lines.
"""
import argparse
import json
import math
import struct

import torch
import torch.nn.functional as F


def read_weights(path, device):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    head.pop("__metadata__", None)
    weights = {}
    for name, t in head.items():
        assert t["dtype"] == "F32", name
        first, end = t["data_offsets"]
        w = torch.frombuffer(bytearray(data[first:end]), dtype=torch.float32)
        weights[name.removeprefix("transformer.")] = \
            w.reshape(t["shape"]).to(device).requires_grad_()
    return weights


def forward(w, ids, labels, heads):
    """Weights of linear layers are [in, out], as GPT-2's were published."""
    b, t = ids.shape
    width = w["wte.weight"].shape[1]
    norm = lambda x, n: F.layer_norm(x, (width,), w[n + ".weight"], w[n + ".bias"])
    linear = lambda x, n: F.linear(x, w[n + ".weight"].t(), w[n + ".bias"])
    x = w["wte.weight"][ids] + w["wpe.weight"][:t]
    layers = sum(n.endswith(".ln_1.weight") for n in w)
    for i in range(layers):
        h = f"h.{i}."
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn")
        q, k, v = qkv.view(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(b, t, width), h + "attn.c_proj")
        y = linear(norm(x, h + "ln_2"), h + "mlp.c_fc")
        x = x + linear(F.gelu(y, approximate="tanh"), h + "mlp.c_proj")
    logits = F.linear(norm(x, "ln_f"), w["wte.weight"])
    return F.cross_entropy(logits.float().view(b * t, -1), labels.reshape(-1))


def factor(step, warmup, steps):
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def main():
    p = argparse.ArgumentParser()
    for name in ["weights", "tokens"]:
        p.add_argument("--" + name, required=True)
    for name, value in dict(steps=300, batch=4, seq=64, warmup=20, heads=12).items():
        p.add_argument("--" + name, type=int, default=value)
    for name, value in dict(lr=3e-4, decay=0.1).items():
        p.add_argument("--" + name, type=float, default=value)
    p.add_argument("--device", default="cuda")
    p.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    a = p.parse_args()
    w = read_weights(a.weights, a.device)
    with open(a.tokens, "rb") as f:
        tokens = torch.frombuffer(bytearray(f.read()), dtype=torch.int16)
    tokens = (tokens.to(torch.int64) & 0xffff).to(a.device)
    optim = torch.optim.AdamW(
        [{"params": [v for v in w.values() if v.dim() > 1], "weight_decay": a.decay},
         {"params": [v for v in w.values() if v.dim() == 1], "weight_decay": 0.0}],
        lr=a.lr, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for step in range(a.steps):
        at = torch.arange(a.batch, device=a.device) + step * a.batch
        rows = at[:, None] * a.seq + torch.arange(a.seq + 1, device=a.device)
        ids = tokens[rows]
        with torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "bf16"):
            loss = forward(w, ids[:, :-1], ids[:, 1:], a.heads)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        for group in optim.param_groups:
            group["lr"] = a.lr * factor(step, a.warmup, a.steps)
        optim.step()
        optim.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    for step, loss in enumerate(torch.stack(losses).tolist()):
        print(step + 1, f"{loss:.6f}")


main()
