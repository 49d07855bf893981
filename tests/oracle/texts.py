"""The language models in PyTorch: GPT-2 and Llama with Hugging Face's names, the
LSTM with those of PyTorch's word_language_model. Attention is written out."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def causal_attention(q, k, v):
    """q, k, v: (batch, heads, seq, head)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    t = q.shape[-2]
    mask = torch.ones(t, t, dtype=torch.bool).triu(1)
    return scores.masked_fill(mask, -math.inf).softmax(-1) @ v


def by_head(x, heads):
    b, t, c = x.shape
    return x.view(b, t, heads, c // heads).transpose(1, 2)


def joined(x):
    b, h, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, h * d)


# ---------------------------------------------------------------- GPT-2

class Conv1D(nn.Module):
    """Hugging Face's name for a linear layer whose weight is (in, out)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class GPT2Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x):
        q, k, v = (by_head(z, self.heads)
                   for z in self.c_attn(x).chunk(3, dim=-1))
        return self.c_proj(joined(causal_attention(q, k, v)))


class GPT2MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width)

    def forward(self, x):
        x = self.c_fc(x)
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3)
        return self.c_proj(0.5 * x * (1.0 + torch.tanh(inner)))


class GPT2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = GPT2Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = GPT2MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, vocab, positions, layers, heads, width):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, width),
            "wpe": nn.Embedding(positions, width),
            "h": nn.ModuleList(GPT2Block(width, heads)
                               for _ in range(layers)),
            "ln_f": nn.LayerNorm(width)})

    def forward(self, x):
        t = self.transformer
        h = t["wte"](x) + t["wpe"](torch.arange(x.shape[1]))
        for block in t["h"]:
            h = block(h)
        return t["ln_f"](h) @ t["wte"].weight.t()


# ---------------------------------------------------------------- Llama

class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (x * scale)


def rotary(x, theta=10000.0):
    """Rotates pairs (i, i + head/2), as Hugging Face stores the weights."""
    t, d = x.shape[-2:]
    rate = theta ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angle = torch.outer(torch.arange(t, dtype=x.dtype), rate)
    angle = torch.cat([angle, angle], -1)
    left, right = x.chunk(2, dim=-1)
    return x * angle.cos() + torch.cat([-right, left], -1) * angle.sin()


class LlamaAttention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        head = width // heads
        self.n_heads, self.n_kv_heads = heads, kv_heads
        self.q_proj = nn.Linear(width, heads * head, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * head, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * head, bias=False)
        self.o_proj = nn.Linear(heads * head, width, bias=False)

    def forward(self, x):
        q = rotary(by_head(self.q_proj(x), self.n_heads))
        k = rotary(by_head(self.k_proj(x), self.n_kv_heads))
        v = by_head(self.v_proj(x), self.n_kv_heads)
        share = self.n_heads // self.n_kv_heads
        k = k.repeat_interleave(share, dim=1)
        v = v.repeat_interleave(share, dim=1)
        return self.o_proj(joined(causal_attention(q, k, v)))


class LlamaMLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.input_layernorm = RMSNorm(width)
        self.self_attn = LlamaAttention(width, heads, kv_heads)
        self.post_attention_layernorm = RMSNorm(width)
        self.mlp = LlamaMLP(width, hidden)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """`m`: layers, width, heads, kv_heads, vocab, ff and tied."""

    def __init__(self, m):
        super().__init__()
        vocab, width = m["vocab"], m["width"]
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(vocab, width),
            "layers": nn.ModuleList(
                LlamaLayer(width, m["heads"], m["kv_heads"], m["ff"])
                for _ in range(m["layers"])),
            "norm": RMSNorm(width)})
        self.lm_head = None
        if m["tied"] == "false":
            self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, x):
        h = self.model["embed_tokens"](x)
        for layer in self.model["layers"]:
            h = layer(h)
        h = self.model["norm"](h)
        if self.lm_head is None:
            return h @ self.model["embed_tokens"].weight.t()
        return self.lm_head(h)


# ---------------------------------------------------------------- LSTM

class LSTM(nn.Module):
    """The state before the first token is zero."""

    def __init__(self, vocab, width, hidden, layers):
        super().__init__()
        self.encoder = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, hidden, layers, batch_first=True)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, x):
        return self.decoder(self.rnn(self.encoder(x))[0])
