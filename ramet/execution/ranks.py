"""The ranks of one training that torchrun started: who takes which samples, what is summed, who speaks.

Everything here is a no-op for one process, so that a loop is written once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous

from ramet.errors import ConfigError, RametError, RunError
from ramet.execution.launch import is_launched
from ramet.execution.lost_ranks import ending_together

TIMEOUT_SECONDS = 300.0
"""How long a rank waits for the others. One that dies is noticed at once; this is for one that hangs or is cut off."""

BUCKET_BYTES = 25 * 2**20
"""Tensors are summed in flat pieces of about this size: many small messages would each pay the network's latency."""

T = TypeVar("T")


@dataclass(frozen=True)
class BatchPart:
    """What one rank takes of a mini-batch.

    A mean over its rows counts by ``weight`` in that over the mini-batch; the ranks' weights add up to 1. It is
    ``repeated`` if every rank takes all samples, because there are fewer of them than ranks.
    """

    rows: slice
    weight: float
    repeated: bool = False


class Ranks:
    """This process among the ranks of a training; ``ALONE`` for one process, ``joined`` for those of torchrun.

    ``local_rank`` is its number on its machine, which is the number of its GPU; ``group`` is torch's process group.

    >>> Ranks(rank=1, size=3).part(10)
    BatchPart(rows=slice(3, 6, None), weight=0.3, repeated=False)
    """

    def __init__(self, rank: int = 0, size: int = 1, *, local_rank: int = 0, group: Any | None = None) -> None:
        self.rank, self.size, self.local_rank, self.group = rank, size, local_rank, group
        self.current: BatchPart | None = None
        """The part of the mini-batch that is under way."""

    @property
    def is_leader(self) -> bool:
        """Whether this rank writes the run directory and speaks to the user."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """The device of this rank: each has a GPU of its own; a ``ConfigError`` if this machine has too few."""
        if self.size == 1 or name != "cuda":
            return name
        if self.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"each rank needs a GPU of its own, but this machine has {torch.cuda.device_count()}; "
                "lower --nproc-per-node."
            )
        return f"cuda:{self.local_rank}"

    def part(self, count: int) -> BatchPart:
        """This rank's part of ``count`` samples; parts are neighbours and differ by at most one sample."""
        if 0 < count < self.size:
            return BatchPart(slice(0, count), 1 / self.size, repeated=True)
        first, last = (count * (self.rank + offset) // self.size for offset in (0, 1))
        return BatchPart(slice(first, last), (last - first) / count if count else 0.0)

    @contextmanager
    def taking(self, part: BatchPart) -> Iterator[None]:
        """A block in which a part is under way; guards ask for it."""
        before, self.current = self.current, part
        try:
            yield
        finally:
            self.current = before

    # Collectives: each rank calls the same ones, in the same order.

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over the ranks, in place. All ranks end with the same bits."""
        if self.size == 1:
            return
        under_way = []
        for bucket in buckets(tensors, BUCKET_BYTES):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            under_way.append((bucket, flat, distributed.all_reduce(flat, group=self.group, async_op=True)))
        for bucket, flat, handle in under_way:
            handle.wait()
            parts = torch.split(flat, [tensor.numel() for tensor in bucket])
            torch._foreach_copy_(bucket, [part.view(t.shape) for part, t in zip(parts, bucket, strict=True)])

    def tell(self, message: bytes, *, source: int = 0) -> bytes:
        """The message of one rank, on every rank; what the others give is not used."""
        if self.size == 1:
            return message
        length = torch.tensor([len(message)])
        distributed.broadcast(length, source, group=self.group)
        if not int(length):
            return b""
        content = torch.empty(int(length), dtype=torch.uint8)
        if self.rank == source:
            content.copy_(torch.frombuffer(bytearray(message), dtype=torch.uint8))
        distributed.broadcast(content, source, group=self.group)
        return content.numpy().tobytes()

    def agree(self, action: Callable[[], T]) -> T:
        """Do something that some rank may refuse: every rank then raises the ``RametError`` of the first that did."""
        if self.size == 1:
            return action()
        codes, refusal, result = torch.zeros(self.size, dtype=torch.int64), "", None
        try:
            result = action()
        except RametError as error:
            codes[self.rank], refusal = error.exit_code, str(error)
        self.sum_([codes])
        if not codes.any():
            return result  # type: ignore[return-value]
        first = int(codes.nonzero()[0])
        text = self.tell(refusal.encode(), source=first).decode()
        where = "" if first == 0 else f"on rank {first}: "
        raise (ConfigError if codes[first] == ConfigError.exit_code else RunError)(where + text)

    def check_same(self, number: int, rule: str) -> None:
        """Compare a number of at most 62 bits over the ranks; a ``RunError`` with the rule if it differs."""
        if self.size == 1:
            return
        extremes = torch.tensor([number, -number])
        distributed.all_reduce(extremes, distributed.ReduceOp.MAX, group=self.group)
        if int(extremes[0]) != -int(extremes[1]):
            raise RunError(f"{rule}, but on rank {self.rank} it is another than elsewhere.")

    # What guards ask.

    def adopt(self, network: nn.Module) -> None:
        """Note that the ranks train a network together, for ``ranks_of``."""
        if self.size > 1:
            _together[network] = self

    def leave(self) -> None:
        """Part from the other ranks; from here on each is alone."""
        if self.group is not None:
            distributed.destroy_process_group()
            self.group = None


ALONE = Ranks()
"""One process."""

_together: WeakKeyDictionary[nn.Module, Ranks] = WeakKeyDictionary()


def ranks_of(network: nn.Module) -> Ranks | None:
    """The ranks that train a network together, or None for a network of one process."""
    return _together.get(network)


def buckets(tensors: Sequence[Tensor], num_bytes: int) -> list[list[Tensor]]:
    """Tensors in their order, in lists of one dtype and device that hold about ``num_bytes`` each.

    >>> [len(bucket) for bucket in buckets([torch.zeros(2), torch.zeros(2), torch.zeros(9), torch.ones(1)], 16)]
    [2, 1, 1]
    """
    found: list[list[Tensor]] = []
    filled: dict[tuple[Any, ...], int] = {}  # bytes in the last bucket of a kind
    last: dict[tuple[Any, ...], list[Tensor]] = {}
    for tensor in tensors:
        kind, size = (tensor.dtype, tensor.device), tensor.numel() * tensor.element_size()
        if kind not in last or filled[kind] + size > num_bytes:
            last[kind], filled[kind] = [], 0
            found.append(last[kind])
        last[kind].append(tensor)
        filled[kind] += size
    return found


@contextmanager
def joined(*, timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[Ranks]:
    """The ranks that torchrun started, for as long as the block runs; ``ALONE`` without torchrun.

    Messages go by gloo between CPUs and by nccl between GPUs. A rank that dies, or hangs for longer than the timeout,
    ends the block on every other rank, with one line from one of them.
    """
    if not is_launched():
        yield ALONE
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank, timeout = int(os.environ["LOCAL_RANK"]), timedelta(seconds=timeout_seconds)
    backend = "gloo"
    if torch.cuda.is_available() and distributed.is_nccl_available():
        torch.cuda.set_device(min(local_rank, torch.cuda.device_count() - 1))
        backend = "cpu:gloo,cuda:nccl"
    try:
        store, _, _ = next(rendezvous("env://", timeout=timeout))
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        line = str(error).splitlines()[0]
        raise RunError(f"all {size} ranks must find each other within {timeout_seconds:g} s, but: {line}") from error
    ranks = Ranks(rank, size, local_rank=local_rank, group=distributed.group.WORLD)
    with ending_together(store, is_leader=ranks.is_leader):
        yield ranks
    ranks.leave()
