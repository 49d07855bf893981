#!/usr/bin/env python3
"""A parameter server by PyTorch's RPC: what bench/server.py runs beside Tutti.

    server_torch.py WORKERS LAYERS WIDTH INPUTS BATCH STEPS

One process keeps the weights of a perceptron, WORKERS others fetch them, compute the gradient of
their part of BATCH random images and push it, as PyTorch's tutorials do it: a function of the
server that returns a future, which is set when all gradients of a step are there (bsp). SGD,
one thread each. Prints steps per second without the first fifth.
"""
import os
import sys
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn


def network(layers, width, inputs):
    torch.manual_seed(1)
    rows, n = [], inputs
    for _ in range(layers):
        rows += [nn.Linear(n, width), nn.ReLU()]
        n = width
    return nn.Sequential(*rows, nn.Linear(n, 10))


class Server:
    def __init__(self, workers, shape):
        self.model = network(*shape)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.workers, self.here = workers, 0
        self.future = torch.futures.Future()
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def fetch(self):
        return [p.detach() for p in self.model.parameters()]

    @staticmethod
    @rpc.functions.async_execution
    def push(ref, gradients):
        self = ref.local_value()
        for p, g in zip(self.model.parameters(), gradients):
            p.grad += g / self.workers
        self.here += 1
        future = self.future
        if self.here == self.workers:
            self.here = 0
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)
            self.future = torch.futures.Future()
            future.set_result(self.fetch())
        return future


def train(ref, shape, batch, steps):
    torch.set_num_threads(1)
    net = network(*shape)
    x, y = torch.randn(batch, shape[2]), torch.randint(10, (batch,))
    loss_of = nn.CrossEntropyLoss()
    since, first = 0.0, steps // 5
    for step in range(steps):
        if step == first:
            since = time.perf_counter()
        net.zero_grad()
        loss_of(net(x), y).backward()
        weights = rpc.rpc_sync(ref.owner(), Server.push, args=(ref, [p.grad for p in net.parameters()]))
        with torch.no_grad():
            for p, w in zip(net.parameters(), weights):
                p.copy_(w)
    return (steps - first) / (time.perf_counter() - since)


def process(rank, workers, shape, batch, steps):
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", sys.argv[7] if len(sys.argv) > 7 else "29511"
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=workers + 2)
    rpc.init_rpc("server" if rank == 0 else "worker%d" % rank, rank=rank, world_size=workers + 1,
                 rpc_backend_options=options)
    if rank == 0:
        ref = rpc.RRef(Server(workers, shape))
        futures = [rpc.rpc_async("worker%d" % (w + 1), train, args=(ref, shape, batch // workers, steps))
                   for w in range(workers)]
        print("%.3f" % min(f.wait() for f in futures), flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    N, LAYERS, WIDTH, INPUTS, BATCH, STEPS = (int(a) for a in sys.argv[1:7])
    mp.spawn(process, args=(N, (LAYERS, WIDTH, INPUTS), BATCH, STEPS), nprocs=N + 1)
