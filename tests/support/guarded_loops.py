"""A small transformer, two tasks, and the loop that a person would write: what the trainers of others must equal."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.guards import (
    ElasticConsolidation,
    Guard,
    NoGuard,
    OrthogonalProjection,
    WeightPlasticity,
    chain,
    remember_batches,
    step_sizes,
)
from ramet.params import Params, named_params

WORDS, LENGTH, SIZE, BATCH = 16, 6, 16, 4
Batch = dict[str, Tensor]

GUARDS = {
    "elastic": lambda: ElasticConsolidation(3.0, unit="trace"),  # adds to gradients before the step
    "plasticity": lambda: WeightPlasticity(3.0, unit="trace"),  # pulls by Adam's step sizes after it
    "projection": lambda: OrthogonalProjection(0.1, unit="energy"),  # replaces the update after it
    "both": lambda: chain(ElasticConsolidation(3.0, unit="trace"), OrthogonalProjection(0.1, unit="energy")),
}


class Reader(nn.Module):
    """Says a class of a sentence; a model as Hugging Face's ``Trainer`` wants it, which gives its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, SIZE)
        self.layer = nn.TransformerEncoderLayer(SIZE, 2, 2 * SIZE, dropout=0.0, batch_first=True)
        self.head = nn.Linear(SIZE, 4)

    def forward(self, words: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The mean loss of sentences, [batch, length], and their logits."""
        logits = self.head(self.layer(self.words(words)).mean(1))
        return {"loss": cross_entropy(logits, labels), "logits": logits}


@dataclass(frozen=True)
class Loop:
    """What a loop does between two optimizer steps."""

    accumulate: int = 1
    clip: float | None = None
    bfloat16: bool = False


LOOPS = {
    "plain": Loop(),
    "accumulated and clipped": Loop(accumulate=3, clip=0.05),
    "bfloat16": Loop(accumulate=2, clip=0.05, bfloat16=True),
}
each_loop = pytest.mark.parametrize(
    "loop", [pytest.param(loop, marks=[pytest.mark.slow] * (loop == "plain")) for loop in LOOPS]
)
each_guard = pytest.mark.parametrize("guard", GUARDS)


def language_model(words: int, length: int, **others: int) -> nn.Module:
    """A small GPT-2 without dropout, so that two loops can be compared."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": words, "n_positions": length, "n_embd": 16, "n_layer": 2, "n_head": 2}
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0, **sizes, **off, **others))


def samples(task: int, number: int) -> list[Batch]:
    """Sentences in the words of a task, and the class of one of their words."""
    words = torch.randint(WORDS // 2, (number, LENGTH), generator=torch.Generator().manual_seed(task))
    return [{"words": row + task * WORDS // 2, "labels": row[task] % 4} for row in words]


def batches(rows: Sequence[Batch], size: int = BATCH) -> list[Batch]:
    """Mini-batches in the order of the samples."""
    parts = [rows[first : first + size] for first in range(0, len(rows), size)]
    return [{key: torch.stack([row[key] for row in part]) for key in part[0]} for part in parts]


def first_task() -> Reader:
    """A network that has learned the first task."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = Reader()
    by_hand(network, NoGuard(), batches(samples(0, 40)), Loop())
    return network


def remembering(name: str, network: nn.Module) -> Guard:
    """A guard that remembers the first task of a reader, or of a module that holds one as ``network``."""
    return remembering_by(GUARDS[name](), network)


def remembering_by(guard: Guard, network: nn.Module) -> Guard:
    """The same of a guard that is there."""
    reader = getattr(network, "network", network)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        remember_batches(guard, network, batches(samples(0, 16), 1), lambda batch: reader(**batch)["loss"])
    return guard


def optimizer_of(network: nn.Module) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """Adam, so that step sizes differ for each value, and a schedule, so that they change."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.1)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))


def by_hand(network: nn.Module, guard: Guard, parts: Sequence[Batch], loop: Loop) -> None:
    """One epoch, as a person would write it."""
    optimizer, schedule = optimizer_of(network)
    params = named_params(network)
    sizes = step_sizes(optimizer, params)
    for first in range(0, len(parts), loop.accumulate):
        together = parts[first : first + loop.accumulate]
        optimizer.zero_grad()
        for number, batch in enumerate(together):
            last = number == len(together) - 1
            with _without_averaging(network) if not last else contextlib.nullcontext():
                with torch.autocast("cpu", torch.bfloat16, enabled=loop.bfloat16):
                    loss = network(**batch)["loss"]
                (loss.float() / len(together)).backward()
        if loop.clip is not None:
            nn.utils.clip_grad_norm_(network.parameters(), loop.clip)
        with guard.step(params, sizes):
            optimizer.step()
        schedule.step()


def _without_averaging(network: nn.Module) -> contextlib.AbstractContextManager[None]:
    is_wrapped = isinstance(network, nn.parallel.DistributedDataParallel)
    return network.no_sync() if is_wrapped else contextlib.nullcontext()


def values(network: nn.Module) -> Params:
    """A copy of the parameters by name."""
    return {name: param.detach().clone() for name, param in network.named_parameters()}


def expected(start: Reader, guard: str, loop: Loop, rows: Sequence[Batch]) -> Params:
    """What the loop by hand ends with."""
    network = copy.deepcopy(start)
    by_hand(network, remembering(guard, network) if guard != "none" else NoGuard(), batches(rows), loop)
    return values(network)


def assert_same(found: Params, wanted: Params) -> None:
    """Bit for bit."""
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []
