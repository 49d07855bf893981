"""Tokens per second of GPT-2 training steps in PyTorch: the peer of `tutti bench step`.

  python3 bench/gpu/gpt_torch.py [--layers 12 --heads 12 --width 768] [--micro 64]
      [--accumulate 8] [--steps 5] [--attention flash|cudnn] [--eager]

bf16 autocast over f32 weights, fused AdamW, gradient clipping at 1, random tokens;
the vocabulary is padded to 50304, which is the faster setting there.
"""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte = nn.Embedding(50304, a.width)
        self.wpe = nn.Embedding(a.seq, a.width)
        self.blocks = nn.ModuleList(Block(a.width, a.heads) for _ in range(a.layers))
        self.ln_f = nn.LayerNorm(a.width)

    def forward(self, ids, labels):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def main():
    p = argparse.ArgumentParser()
    for name, value in dict(layers=12, heads=12, width=768, seq=1024, micro=64,
                            accumulate=8, steps=5, warmup=2).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--attention", choices=["flash", "cudnn"], default="flash")
    p.add_argument("--eager", action="store_true")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = GPT(a).cuda()
    for name, w in model.named_parameters():
        nn.init.normal_(w, std=0.02) if w.dim() > 1 else None
    optim = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    ids = torch.randint(50257, (a.accumulate, 2, a.micro, a.seq), device="cuda")
    run = model if a.eager else torch.compile(model)
    kind = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}

    def step():
        for x, y in ids:
            with torch.autocast("cuda", torch.bfloat16), sdpa_kernel(kind[a.attention]):
                loss = run(x, y) / a.accumulate
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)
        return loss

    for _ in range(a.warmup):
        step()
    times = []
    for _ in range(a.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    median = sorted(times)[len(times) // 2]
    tokens = a.accumulate * a.micro * a.seq
    print(f"torch {torch.__version__} {'eager' if a.eager else 'compile'} {a.attention}: "
          f"{median * 1e3:.1f} ms a step, {tokens / median:.0f} tokens/s, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


main()
