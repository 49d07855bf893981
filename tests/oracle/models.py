#!/usr/bin/env python3
"""The models as PyTorch trains them, in double precision, for comparison.

    python3 tests/oracle/models.py OUTDIR [name ...]      (no name: all of them)

writes OUTDIR/<name>.safetensors for each model below; tests/oracle/README.md
lists what is in a file. Runs on PyTorch 1.13 and later, on one thread.
"""
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

import nets
import texts
from write import write_safetensors

STEPS = 10
SEED = 20240601


# ---------------------------------------------------------------- small nets

class MLP(nn.Module):
    """Linear layers with ReLU between them, named as in nn.Sequential."""

    def __init__(self, inputs, widths, classes):
        super().__init__()
        layers = []
        for width in widths:
            layers += [nn.Linear(inputs, width), nn.ReLU()]
            inputs = width
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, classes))

    def forward(self, x):
        return self.layers(x.flatten(1))


class LeNet(nn.Module):
    """LeNet-5 for 28x28 grey images, with ReLU and max-pooling."""

    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


# ---------------------------------------------------------------- optimisers

# Learning rates at which the loss falls, so that rounding is not magnified; an
# eps that swallows the rounding of gradients that are mathematically zero (the
# bias of keys), which Adam would else scale up to the size of a step. Keys are
# Tutti's own.
SGD = {"name": "sgd", "lr": 0.01, "weight_decay": 0.001}
MOMENTUM = {"name": "momentum", "lr": 0.02, "momentum": 0.9,
            "dampening": 0.1, "nesterov": "false", "weight_decay": 0.0001}
NESTEROV = {"name": "momentum", "lr": 0.002, "momentum": 0.9,
            "dampening": 0.0, "nesterov": "true", "weight_decay": 0.0001}
ADAGRAD = {"name": "adagrad", "lr": 0.01, "eps": 1e-10,
           "weight_decay": 0.0}
RMSPROP = {"name": "rmsprop", "lr": 0.001, "alpha": 0.99, "eps": 1e-8,
           "weight_decay": 0.01}
ADAM = {"name": "adam", "lr": 0.0005, "beta1": 0.9, "beta2": 0.999,
        "eps": 1e-8, "weight_decay": 0.01}
ADAMW = {"name": "adamw", "lr": 0.003, "beta1": 0.9, "beta2": 0.95,
         "eps": 1e-6, "weight_decay": 0.1, "clip": 1.0}


def build_optimizer(net, o):
    """Weights of one dimension (biases, gains) are not decayed."""
    groups = [
        {"params": [p for p in net.parameters() if p.dim() >= 2],
         "weight_decay": o["weight_decay"]},
        {"params": [p for p in net.parameters() if p.dim() < 2],
         "weight_decay": 0.0}]
    if o["name"] in ("adam", "adamw"):
        kind = torch.optim.Adam if o["name"] == "adam" else torch.optim.AdamW
        return kind(groups, o["lr"], (o["beta1"], o["beta2"]), o["eps"])
    if o["name"] == "rmsprop":
        return torch.optim.RMSprop(groups, o["lr"], o["alpha"], o["eps"])
    if o["name"] == "adagrad":
        return torch.optim.Adagrad(groups, o["lr"], eps=o["eps"])
    return torch.optim.SGD(groups, o["lr"], o.get("momentum", 0.0),
                           o.get("dampening", 0.0),
                           nesterov=o.get("nesterov") == "true")


# ---------------------------------------------------------------- models

def tokens(batch, model):
    shape = (batch["batch"], batch["seq"])
    return (torch.randint(model["vocab"], shape),
            torch.randint(model["vocab"], shape))


def images(batch, model):
    size = batch["image"]
    x = torch.randn(batch["batch"], model["channels"], size, size)
    return x, torch.randint(model["classes"], (batch["batch"],))


class Case:
    """A network and how it is trained; settings are Tutti's own keys."""

    def __init__(self, build, batch, model, optimizer, preset):
        self.build, self.batch, self.model = build, batch, model
        self.optimizer = dict({"clip": 0.0}, **optimizer)
        self.preset = preset

    def data(self):
        make_data = tokens if "seq" in self.batch else images
        return make_data(self.batch, self.model)

    def settings(self):
        words = ["model=" + self.preset]
        words += ["model.%s=%s" % item for item in self.model.items()]
        words += ["%s=%s" % item for item in self.batch.items()]
        words += ["optim=" + self.optimizer["name"]]
        words += ["optim.%s=%s" % item for item in self.optimizer.items()
                  if item[0] != "name"]
        return " ".join(words)


LLAMA = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "vocab": 59,
         "ff": 56, "theta": 10000, "eps": 1e-5, "tied": "false"}
LLAMA_TIED = dict(LLAMA, layers=1, width=48, heads=6, vocab=47, ff=64,
                  tied="true")
RESNET = {"classes": 7, "channels": 3, "width": 8}
VGG = {"classes": 7, "channels": 3, "width": 8, "hidden": 48, "dropout": 0}

CASES = {
    "gpt2": Case(
        lambda m, _: texts.GPT2(m["vocab"], m["context"], m["layers"],
                                m["heads"], m["width"]),
        {"batch": 3, "seq": 14},
        {"layers": 2, "width": 32, "heads": 4, "vocab": 61, "context": 16},
        ADAMW, "gpt"),
    "llama": Case(lambda m, _: texts.Llama(m), {"batch": 3, "seq": 13},
                  LLAMA, ADAM, "llama"),
    "llama-tied": Case(lambda m, _: texts.Llama(m), {"batch": 2, "seq": 12},
                       LLAMA_TIED, SGD, "llama"),
    "lstm": Case(
        lambda m, _: texts.LSTM(m["vocab"], m["embed"], m["hidden"],
                                m["layers"]),
        {"batch": 3, "seq": 11},
        {"layers": 2, "embed": 24, "hidden": 20, "vocab": 53},
        ADAGRAD, "lstm"),
    "mlp": Case(
        lambda m, b: MLP(m["channels"] * b["image"] ** 2,
                         [m["width"]] * m["layers"], m["classes"]),
        {"batch": 7, "image": 9},
        {"layers": 2, "width": 33, "classes": 5, "channels": 1},
        RMSPROP, "mlp"),
    "lenet": Case(lambda m, _: LeNet(m["classes"]),
                  {"batch": 4, "image": 28}, {"classes": 10, "channels": 1},
                  SGD, "lenet"),
    "resnet18": Case(
        lambda m, _: nets.resnet18(classes=m["classes"], width=m["width"]),
        {"batch": 4, "image": 64}, RESNET, MOMENTUM, "resnet18"),
    "resnet50": Case(
        lambda m, _: nets.resnet50(classes=m["classes"], width=m["width"]),
        {"batch": 4, "image": 64}, RESNET, NESTEROV, "resnet50"),
    "vgg11": Case(
        lambda m, _: nets.vgg11(classes=m["classes"], width=m["width"],
                                hidden=m["hidden"]),
        {"batch": 2, "image": 45}, VGG, ADAM, "vgg11"),
    "vgg11-bn": Case(
        lambda m, _: nets.vgg11_bn(classes=m["classes"], width=m["width"],
                                   hidden=m["hidden"]),
        {"batch": 3, "image": 64}, VGG, NESTEROV, "vgg11-bn"),
    "vit": Case(
        lambda m, b: nets.ViT(b["image"], m["patch"], m["layers"],
                              m["heads"], m["width"], m["ff"], m["classes"]),
        {"batch": 3, "image": 24},
        {"layers": 2, "width": 24, "heads": 3, "ff": 40, "patch": 8,
         "classes": 7, "channels": 3}, ADAMW, "vit-b16"),
}


def randomise(net):
    """Seeded weights: no bias is zero, no gain is one, nothing is alike.

    Matrices keep the width that a layer's outputs need (1 / sqrt(inputs) times
    a gain); tables and position embeddings are wide enough to matter.
    """
    generator = torch.Generator().manual_seed(SEED)
    for name, p in sorted(net.named_parameters()):
        noise = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        is_table = any(word in name for word in (
            "wte", "wpe", "embed", "encoder.weight", "class_token"))
        is_gain = p.dim() == 1 and name.endswith("weight")
        if is_table:
            noise *= 0.3
        elif is_gain:
            # Sixteen bottlenecks that add at full strength are chaotic: they
            # magnify rounding a hundredfold each step.
            noise = (1.0 + 0.1 * noise) * (0.3 if "bn3" in name else 1.0)
        elif p.dim() == 1:
            noise *= 0.1
        else:
            inputs = p.shape[0] if "c_" in name else p[0].numel()
            noise *= 1.3 / math.sqrt(inputs)
        p.data.copy_(noise)
    for name, b in sorted(net.named_buffers()):
        if name.endswith("running_mean"):
            b.copy_(0.1 * torch.randn(b.shape, generator=generator,
                                      dtype=b.dtype))
        elif name.endswith("running_var"):
            b.copy_(1.0 + 0.2 * torch.rand(b.shape, generator=generator,
                                           dtype=b.dtype))


def statistics_of(net):
    return {name: b.clone() for name, b in net.named_buffers()
            if "running" in name}


def train(net, x, y, options):
    """STEPS steps on one batch; what the file holds, by name."""
    out = {"input.x": x, "input.y": y}
    for name, p in net.named_parameters():
        out["param." + name] = p.detach().clone()
    for name, b in statistics_of(net).items():
        out["buffer." + name] = b
    optimizer = build_optimizer(net, options)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            is_lstm = isinstance(net, texts.LSTM)
            out["logits"] = (logits.transpose(0, 1) if is_lstm
                             else logits).detach()
            out["loss"] = loss.detach()
            for name, p in net.named_parameters():
                out["grad." + name] = p.grad.clone()
        if options["clip"] > 0.0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), options["clip"])
        optimizer.step()
    for name, p in net.named_parameters():
        out["after." + name] = p.detach()
    for name, b in statistics_of(net).items():
        out["after." + name] = b
    out["losses"] = torch.tensor(losses)
    return out


def make(name, folder):
    case = CASES[name]
    torch.manual_seed(SEED)
    net = case.build(case.model, case.batch)
    randomise(net)
    net.train()
    x, y = case.data()
    tensors = train(net, x, y, case.optimizer)
    write_safetensors(folder / (name + ".safetensors"), tensors, {
        "settings": case.settings(), "torch": torch.__version__})


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: models.py OUTDIR [name ...]")
    names = sys.argv[2:] or list(CASES)
    for name in names:
        if name not in CASES:
            sys.exit("models.py: unknown model '%s'; there are %s"
                     % (name, " ".join(CASES)))
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        make(name, folder)


if __name__ == "__main__":
    main()
