"""Images per second of training steps in PyTorch: the peer of `tutti bench step`.

  python3 bench/gpu/images_torch.py resnet50|vgg16|vit_b_16 [--batch 256] [--steps 10]
      [--eager]

torchvision's networks, bf16 autocast over f32 weights, channels last, cuDNN's own
search for the fastest kernels, SGD with momentum, random images on the device.
"""
import argparse
import time

import torch
import torch.nn.functional as F
import torchvision


def main():
    p = argparse.ArgumentParser()
    p.add_argument("net", choices=["resnet50", "vgg16", "vit_b_16"])
    for name, value in dict(batch=256, image=224, steps=10, warmup=3).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--eager", action="store_true")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    options = {"dropout": 0.0} if a.net == "vgg16" else {}
    model = getattr(torchvision.models, a.net)(**options).cuda()
    model = model.to(memory_format=torch.channels_last)
    optim = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    x = torch.randn(a.batch, 3, a.image, a.image, device="cuda")
    x = x.to(memory_format=torch.channels_last)
    y = torch.randint(1000, (a.batch,), device="cuda")
    run = model if a.eager else torch.compile(model)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(run(x), y)
        loss.backward()
        optim.step()
        optim.zero_grad(set_to_none=True)

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
    print(f"torch {torch.__version__} {'eager' if a.eager else 'compile'} {a.net}: "
          f"{median * 1e3:.2f} ms a step, {a.batch / median:.0f} images/s, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


main()
