#!/usr/bin/env python3
"""As step_bench, by PyTorch's gloo, as DistributedDataParallel sums its buckets.

    gloo_peer.py RANK WORLD_SIZE STORE_HOST BUCKETS MB_OF_A_BUCKET COMPUTE_MS STEPS
"""
import json
import sys
import time

import torch
import torch.distributed as dist


def main():
    rank, world_size, store, buckets, megabytes, compute_ms, steps = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{store}:29500", rank=int(rank), world_size=int(world_size))
    compute = float(compute_ms) / 1e3
    gradients = [torch.ones(int(float(megabytes) * 1e6 / 4)) for _ in range(int(buckets))]
    exposed = []
    for step in range(int(steps) + 1):
        dist.barrier()
        start = time.monotonic()
        works = []
        for i, bucket in enumerate(gradients):
            time.sleep(max(0, start + compute * (i + 1) / len(gradients) - time.monotonic()))
            works.append(dist.all_reduce(bucket, async_op=True))
        for work in works:
            work.wait()
        if step > 0:  # the first one warms up
            exposed.append(1e3 * (time.monotonic() - start - compute))
    if rank == "0":
        print(json.dumps({"exposed": exposed}))
    dist.destroy_process_group()


main()
