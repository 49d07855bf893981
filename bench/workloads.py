"""What `make bench` measures: each workload once for Tutti and once for PyTorch.

`tutti` is the command line of `tutti bench step`; `torch` is what peer_torch.py
builds from: the same network, AdamW, no clipping, no dropout. `aim` is the wanted
ratio of PyTorch's time to Tutti's; language
models may reach GEMM_AIM of the measured GEMM rate instead.
"""

GEMM_AIM = 0.85        # of the rate of the model's own matrix products
BF16_AIM = 1.8         # bf16 against Tutti's own fp32
OVERHEAD_AIM = 0.02    # wall time outside kernels
TEXT_AIM = 1.5
IMAGE_AIM = 1.2


def gpt(name, batch, seq, layers, heads, width, vocab, precisions):
    is_gpt2 = vocab == 50257
    if is_gpt2:
        tutti = ["model=gpt2-124m"]
    else:
        tutti = ["model=gpt", "model.layers=%d" % layers,
                 "model.width=%d" % width, "model.heads=%d" % heads,
                 "model.vocab=%d" % vocab, "model.context=%d" % seq]
    return {
        "name": name, "precisions": precisions, "aim": TEXT_AIM,
        "is_image": False,
        "tutti": tutti + ["batch=%d" % batch, "seq=%d" % seq,
                          "optim.clip=0"],
        "torch": {"net": "gpt", "batch": batch, "seq": seq, "layers": layers,
                  "heads": heads, "width": width, "vocab": vocab,
                  "positions": 1024 if is_gpt2 else seq},
    }


def image(name, net, batch, size, precisions):
    return {
        "name": name, "precisions": precisions, "aim": IMAGE_AIM,
        "is_image": True,
        "tutti": ["model=%s" % net, "batch=%d" % batch, "image=%d" % size,
                  "optim.clip=0"] + (["model.dropout=0"] if net == "vgg11"
                                     else []),
        "torch": {"net": net, "batch": batch, "image": size},
    }


BOTH = ["fp32", "bf16"]

WORKLOADS = [
    gpt("gpt2-124m-t64", 4, 64, 12, 12, 768, 50257, BOTH),
    gpt("gpt2-124m-t512", 2, 512, 12, 12, 768, 50257, BOTH),
    gpt("gpt-6x384", 16, 256, 6, 6, 384, 65, BOTH),
    gpt("gpt-nano", 12, 64, 4, 4, 128, 65, ["fp32"]),
    image("resnet50", "resnet50", 8, 224, BOTH),
    image("resnet18-32", "resnet18", 64, 32, ["fp32"]),
    image("vgg11", "vgg11", 8, 224, ["fp32"]),
    image("vit-b16", "vit-b16", 4, 224, BOTH),
]
