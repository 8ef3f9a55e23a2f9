"""What torchrun starts: a guard in a library's loop on two processes, beside the loop by hand on the same two.

``guarded_ranks.py KIND FOLDER`` writes the parameters that each process ends with.
"""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path

import torch
from guarded_loops import BATCH, Loop, batches, by_hand, first_task, remembering, samples, values
from safetensors.torch import save_file
from torch import nn

LOOP = Loop(accumulate=2, clip=0.05)
NUM_BATCHES = 4


def rows():
    """The whole data; each process takes every other mini-batch."""
    return samples(1, 2 * NUM_BATCHES * BATCH)


def hand(rank, network):
    """DDP, by hand."""
    wrapped = nn.parallel.DistributedDataParallel(network)
    by_hand(wrapped, remembering("both", network), batches(rows())[rank::2], LOOP)


def trainer(rank, network):
    """Hugging Face's Trainer."""
    import test_trainer_guard

    test_trainer_guard.trained(network, remembering("both", network), Path(sys.argv[2]) / "trainer", LOOP, rows())


def accelerate(rank, network):
    """A loop with accelerate."""
    import test_accelerate_guard

    test_accelerate_guard.train(network, remembering("both", network), LOOP, rows())


def lightning(rank, network):
    """Lightning's Trainer."""
    import test_lightning_guard

    module = test_lightning_guard.Module(network, LOOP)
    guard, whole = remembering("both", module), rows()
    own = [row for first in range(rank * BATCH, len(whole), 2 * BATCH) for row in whole[first : first + BATCH]]
    # Lightning would deal out samples, and shuffle them; here each process has the mini-batches of the loop by hand.
    test_lightning_guard.fit(module, guard, LOOP, own, devices=2, strategy="ddp", use_distributed_sampler=False)


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    rank = int(os.environ["RANK"])
    start = first_task()
    network = copy.deepcopy(start)
    if kind == "hand":
        torch.distributed.init_process_group("gloo")
    globals()[kind](rank, network)
    save_file(values(network), folder / f"{kind}-{rank}.safetensors")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
