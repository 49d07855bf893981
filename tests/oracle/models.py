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

def build_optimizer(net, settings):
    """The optimiser that the settings (all text in the file) describe."""
    name = settings["optimizer"]
    lr = settings["lr"]
    decay = settings["weight_decay"]
    if settings["decay"] == "matrices":
        groups = [
            {"params": [p for p in net.parameters() if p.dim() >= 2]},
            {"params": [p for p in net.parameters() if p.dim() < 2],
             "weight_decay": 0.0}]
    else:
        groups = [{"params": list(net.parameters())}]
    adam = {"betas": (settings.get("beta1"), settings.get("beta2")),
            "eps": settings.get("eps")}
    if name == "adamw":
        return torch.optim.AdamW(groups, lr, weight_decay=decay, **adam)
    if name == "adam":
        return torch.optim.Adam(groups, lr, weight_decay=decay, **adam)
    if name == "rmsprop":
        return torch.optim.RMSprop(groups, lr, alpha=settings["alpha"],
                                   eps=settings["eps"], weight_decay=decay,
                                   momentum=settings["momentum"])
    if name == "adagrad":
        return torch.optim.Adagrad(groups, lr, eps=settings["eps"],
                                   weight_decay=decay)
    return torch.optim.SGD(groups, lr, weight_decay=decay,
                           momentum=settings.get("momentum", 0.0),
                           dampening=settings.get("dampening", 0.0),
                           nesterov=name == "nesterov")


# Learning rates at which the loss falls, so that rounding is not magnified; an
# eps that swallows the rounding of gradients that are mathematically zero (the
# bias of keys), which Adam would else scale up to the size of a step.
SGD = {"optimizer": "sgd", "lr": 0.01, "weight_decay": 0.001}
MOMENTUM = {"optimizer": "momentum", "lr": 0.02, "momentum": 0.9,
            "dampening": 0.1, "weight_decay": 0.0001}
NESTEROV = {"optimizer": "nesterov", "lr": 0.002, "momentum": 0.9,
            "dampening": 0.0, "weight_decay": 0.0001}
ADAGRAD = {"optimizer": "adagrad", "lr": 0.01, "eps": 1e-10,
           "weight_decay": 0.0}
RMSPROP = {"optimizer": "rmsprop", "lr": 0.001, "alpha": 0.99, "eps": 1e-8,
           "momentum": 0.0, "weight_decay": 0.01}
ADAM = {"optimizer": "adam", "lr": 0.0005, "beta1": 0.9, "beta2": 0.999,
        "eps": 1e-8, "weight_decay": 0.01}
ADAMW = {"optimizer": "adamw", "lr": 0.003, "beta1": 0.9, "beta2": 0.95,
         "eps": 1e-6, "weight_decay": 0.1, "decay": "matrices", "clip": 1.0}


# ---------------------------------------------------------------- models

def tokens(config):
    shape = (config["batch"], config["seq"])
    return (torch.randint(config["vocab"], shape),
            torch.randint(config["vocab"], shape))


def images(config):
    size = config["image"]
    x = torch.randn(config["batch"], config["channels"], size, size)
    return x, torch.randint(config["classes"], (config["batch"],))


def pick(config, *keys):
    return {key: config[key] for key in keys}


# name: (network from config, batch from config, config, optimiser)
MODELS = {
    "gpt2": (
        lambda c: texts.GPT2(**pick(c, "vocab", "positions", "layers",
                                    "heads", "width")),
        tokens,
        {"batch": 3, "seq": 14, "vocab": 61, "positions": 16, "layers": 2,
         "heads": 4, "width": 32}, ADAMW),
    "llama": (
        lambda c: texts.Llama(**pick(c, "vocab", "layers", "heads",
                                     "kv_heads", "width", "hidden", "tied")),
        tokens,
        {"batch": 3, "seq": 13, "vocab": 59, "layers": 2, "heads": 4,
         "kv_heads": 2, "width": 32, "hidden": 56, "theta": 10000,
         "norm_eps": 1e-5, "tied": 0}, ADAM),
    "llama-tied": (
        lambda c: texts.Llama(**pick(c, "vocab", "layers", "heads",
                                     "kv_heads", "width", "hidden", "tied")),
        tokens,
        {"batch": 2, "seq": 12, "vocab": 47, "layers": 1, "heads": 6,
         "kv_heads": 2, "width": 48, "hidden": 64, "theta": 10000,
         "norm_eps": 1e-5, "tied": 1}, SGD),
    "lstm": (
        lambda c: texts.LSTM(**pick(c, "vocab", "width", "hidden",
                                    "layers")),
        tokens,
        {"batch": 3, "seq": 11, "vocab": 53, "width": 24, "hidden": 20,
         "layers": 2}, ADAGRAD),
    "mlp": (
        lambda c: MLP(c["channels"] * c["image"] ** 2, [c["width"]] *
                      c["layers"], c["classes"]),
        images,
        {"batch": 7, "image": 9, "channels": 1, "classes": 5, "layers": 2,
         "width": 33}, RMSPROP),
    "lenet": (
        lambda c: LeNet(c["classes"]), images,
        {"batch": 4, "image": 28, "channels": 1, "classes": 10}, SGD),
    "resnet18": (
        lambda c: nets.resnet18(**pick(c, "classes", "width")), images,
        {"batch": 4, "image": 64, "channels": 3, "classes": 7, "width": 8},
        MOMENTUM),
    "resnet50": (
        lambda c: nets.resnet50(**pick(c, "classes", "width")), images,
        {"batch": 4, "image": 64, "channels": 3, "classes": 7, "width": 8},
        NESTEROV),
    "vgg11": (
        lambda c: nets.vgg11(**pick(c, "classes", "width", "hidden")), images,
        {"batch": 2, "image": 45, "channels": 3, "classes": 7, "width": 8,
         "hidden": 48}, ADAM),
    "vgg11-bn": (
        lambda c: nets.vgg11_bn(**pick(c, "classes", "width", "hidden")),
        images,
        {"batch": 3, "image": 64, "channels": 3, "classes": 7, "width": 8,
         "hidden": 48}, NESTEROV),
    "vit": (
        lambda c: nets.ViT(**pick(c, "image", "patch", "layers", "heads",
                                  "width", "hidden", "classes")),
        images,
        {"batch": 3, "image": 24, "channels": 3, "patch": 8, "layers": 2,
         "heads": 3, "width": 24, "hidden": 40, "classes": 7}, ADAMW),
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


def train(net, x, y, settings):
    """STEPS steps on one batch; what the file holds, by name."""
    out = {"input.x": x, "input.y": y}
    for name, p in net.named_parameters():
        out["param." + name] = p.detach().clone()
    for name, b in statistics_of(net).items():
        out["buffer." + name] = b
    optimizer = build_optimizer(net, settings)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out["logits"] = logits.detach()
            out["loss"] = loss.detach()
            for name, p in net.named_parameters():
                out["grad." + name] = p.grad.clone()
        if settings["clip"] > 0.0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), settings["clip"])
        optimizer.step()
    for name, p in net.named_parameters():
        out["after." + name] = p.detach()
    for name, b in statistics_of(net).items():
        out["after." + name] = b
    out["losses"] = torch.tensor(losses)
    return out


def make(name, folder):
    build, batch, config, optimizer = MODELS[name]
    settings = {"decay": "all", "clip": 0.0}
    settings.update(optimizer)
    torch.manual_seed(SEED)
    net = build(config)
    randomise(net)
    net.train()
    x, y = batch(config)
    tensors = train(net, x, y, settings)
    metadata = {"model": name, "steps": STEPS, "torch": torch.__version__}
    metadata.update(config)
    metadata.update(settings)
    write_safetensors(folder / (name + ".safetensors"), tensors,
                      {key: str(value) for key, value in metadata.items()})


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: models.py OUTDIR [name ...]")
    names = sys.argv[2:] or list(MODELS)
    for name in names:
        if name not in MODELS:
            sys.exit("models.py: unknown model '%s'; there are %s"
                     % (name, " ".join(MODELS)))
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        make(name, folder)


if __name__ == "__main__":
    main()
