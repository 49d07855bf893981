"""Small random models of transformers, and what it computes with them.

    python3 tests/oracle/families.py OUTDIR name

writes OUTDIR/hf (save_pretrained) and OUTDIR/ref.safetensors: input.x, input.y,
logits, loss, grad.NAME of every weight, after.NAME of every weight after one step
of SGD, all in double precision; names are those of the model's files, with all
experts of a matrix as one tensor. Needs PyTorch and transformers.
"""
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

VOCAB, BATCH, SEQ, RATE = 96, 2, 40, 0.1

COMMON = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48,
              num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256,
              bos_token_id=1, eos_token_id=[2, 5], pad_token_id=0,
              initializer_range=0.2)


def scaled(kind, **more):
    """Both spellings: versions before 5 know rope_scaling, later ones both."""
    return dict(rope_scaling=dict(rope_type=kind, **more))


def configs():
    t = transformers
    llama3 = scaled("llama3", factor=8.0, low_freq_factor=1.0,
                    high_freq_factor=4.0, original_max_position_embeddings=64)
    yarn = scaled("yarn", factor=4.0, original_max_position_embeddings=64)
    mscale = scaled("yarn", factor=4.0, original_max_position_embeddings=64,
                    beta_fast=16.0, beta_slow=2.0, attention_factor=1.3)
    return {
        "gpt2": lambda: t.GPT2Config(
            vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64,
            bos_token_id=1, eos_token_id=2, initializer_range=0.2,
            attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0),
        "llama": lambda: t.LlamaConfig(**COMMON),
        "llama-tied": lambda: t.LlamaConfig(**COMMON, tie_word_embeddings=True),
        "llama3": lambda: t.LlamaConfig(**COMMON, rope_theta=500000.0, **llama3),
        "llama-linear": lambda: t.LlamaConfig(**COMMON,
                                              **scaled("linear", factor=4.0)),
        "llama-yarn": lambda: t.LlamaConfig(**COMMON, **yarn),
        "llama-yarn-set": lambda: t.LlamaConfig(**COMMON, **mscale),
        "llama-head": lambda: t.LlamaConfig(**COMMON, head_dim=16),
        "llama-bias": lambda: t.LlamaConfig(**COMMON, attention_bias=True,
                                            mlp_bias=True),
        "mistral": lambda: t.MistralConfig(**COMMON, sliding_window=64),
        "mistral-plain": lambda: t.MistralConfig(**COMMON, sliding_window=None),
        "qwen2": lambda: t.Qwen2Config(**COMMON),
        "qwen2-tied": lambda: t.Qwen2Config(**COMMON, tie_word_embeddings=True),
        "qwen3": lambda: t.Qwen3Config(**COMMON, head_dim=16),
        "qwen3-yarn": lambda: t.Qwen3Config(**COMMON, head_dim=16, **yarn),
        "mixtral": lambda: t.MixtralConfig(**COMMON, num_local_experts=4,
                                           num_experts_per_tok=2),
        "mixtral-unbalanced": lambda: t.MixtralConfig(
            **COMMON, num_local_experts=4, num_experts_per_tok=1,
            router_aux_loss_coef=0.0),
    }


def make(name):
    """The model in double precision, whose vectors are not all ones or zeros."""
    torch.manual_seed(7)
    config = configs()[name]()
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"  # others know no double precision
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.2 * torch.randn_like(p))
    return model


def by_file_names(named):
    """Names of the files, experts as one tensor: newer versions hold gate and up
    as one matrix, older ones a module for each expert."""
    out, stacks = {}, {}
    for name, value in named:
        if name.endswith("experts.gate_up_proj"):
            stem = name[:-len("gate_up_proj")].replace(".mlp.",
                                                       ".block_sparse_moe.")
            half = value.shape[1] // 2
            out[stem + "w1.weight"] = value[:, :half]
            out[stem + "w3.weight"] = value[:, half:]
        elif name.endswith("experts.down_proj"):
            stem = name[:-len("down_proj")].replace(".mlp.",
                                                    ".block_sparse_moe.")
            out[stem + "w2.weight"] = value
        elif name.endswith(".mlp.gate.weight"):
            out[name.replace(".mlp.", ".block_sparse_moe.")] = value
        elif ".experts." in name:
            stem, rest = name.split(".experts.")
            number, rest = rest.split(".", 1)
            stacks.setdefault(stem + ".experts." + rest, {})[int(number)] = value
        else:
            out[name] = value
    for name, parts in stacks.items():
        out[name] = torch.stack([parts[i] for i in range(len(parts))])
    return out


def step(model, x, y):
    """One step of SGD: logits, loss and gradients before it."""
    logits = model(x).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    model.zero_grad()
    loss.backward()
    grads = by_file_names([(n, p.grad) for n, p in model.named_parameters()])
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(RATE * p.grad)
    return logits.detach(), loss.detach(), grads


def inputs():
    torch.manual_seed(11)
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def main(folder, name):
    model = make(name)
    model.save_pretrained(os.path.join(folder, "hf"))
    model = model.double()
    x, y = inputs()
    logits, loss, grads = step(model, x, y)
    ref = {"input.x": x, "input.y": y, "logits": logits, "loss": loss}
    ref.update({"grad." + n: g for n, g in grads.items()})
    after = by_file_names(list(model.named_parameters()))
    ref.update({"after." + n: p.detach() for n, p in after.items()})
    save_file({n: t.contiguous().clone() for n, t in ref.items()},
              os.path.join(folder, "ref.safetensors"))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main(sys.argv[1], sys.argv[2])
