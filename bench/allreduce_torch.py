"""PyTorch's side of bench/allreduce_peers: all_reduce of floats over Gloo, one thread
per rank, from memory that each rank has just written.

    allreduce_torch.py RANK RANKS FILE SECONDS BYTES...

Prints "BYTES SECONDS" per size on rank 0.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist

SMALL, IN_A_ROW = 16 << 10, 10


def measure(x, seconds):
    times, start = [], time.perf_counter()
    each = IN_A_ROW if 4 * x.numel() < SMALL else 1
    goes_on = torch.ones(1)
    while goes_on.item():
        x.fill_(1)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(each):
            dist.all_reduce(x)
        times.append((time.perf_counter() - begin) / each)
        if len(times) >= 4 and time.perf_counter() - start > seconds:
            goes_on.zero_()
        dist.broadcast(goes_on, 0)
    return statistics.median(times)


def main():
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + sys.argv[3],
                            rank=rank, world_size=ranks)
    for size in sys.argv[5:]:
        took = measure(torch.zeros(int(size) // 4), float(sys.argv[4]))
        if rank == 0:
            print(size, "%.9f" % took, flush=True)
    dist.destroy_process_group()


main()
