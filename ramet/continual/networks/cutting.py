"""A network of the user's own as a chain of named blocks and a head, found from one forward pass.

A block ends where all that the network computes goes through the output of one of its modules, called once: behind a
residual block, a layer of a transformer, a convolution of a plain chain. A block has at least one layer with weights;
norms, activations and pooling belong to the block before them. Parameters that no layer holds, such as a class token,
belong to the block that uses them. A weight that is used in two places holds them together in one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from ramet.continual.networks.recording import Recorded, called, names_of_state, record
from ramet.data import InputForm
from ramet.errors import ConfigError


@dataclass(frozen=True)
class NetworkBlock:
    """A part of a network that tasks share, adapt or have for themselves.

    Attributes:
        name: the module that it is, or its first layer where it is no module by itself.
        weights: the names of its parameters and of its constant buffers, in the network.
        norms: the names of what every task has for itself: parameters and statistics of batch norms, and of whatever
            else changes its buffers while it is trained.
        end: the module whose output is the block's; empty where that is the input of the head.
    """

    name: str
    weights: tuple[str, ...]
    norms: tuple[str, ...]
    end: str


@dataclass(frozen=True)
class Cut:
    """How a network is cut: its blocks in order, the name of its head, and what made the cut coarser than it could be.

    ``aliases`` has the other names of tensors that a network knows by several, by the first.
    """

    blocks: tuple[NetworkBlock, ...]
    head: str
    aliases: dict[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()


def cut_network(network: nn.Module, form: InputForm | Sequence[int], head: str | None = None) -> Cut:
    """Cut a network; it is copied, and left as it was.

    Args:
        network: any module that gives logits (or numbers) for a batch of inputs; for a text, also for each token.
        form: what an input is; or the shape of one, such as (3, 32, 32) of an image.
        head: the name of the linear layer that gives the logits; the last that was called if none.

    Raises:
        ConfigError: the network does not run on such inputs, gives no logits, has no linear head, or nothing below it.

    Example:
        >>> layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 3)]
        >>> cut = cut_network(nn.Sequential(*layers), (1, 8, 8))
        >>> [block.name for block in cut.blocks], cut.head
        (['0', '3'], '5')
    """
    run = record(network, form)
    found = _find_head(network, run, head)
    owned = names_of_state(network, form)
    params = {name: param for name, param in run.params.items() if not name.startswith(f"{found}.")}
    if not params:
        raise ConfigError(
            f"a network must have parameters below its head, but all of {called(network)} are in {found}."
        )
    ends = _ends(network, run, found)
    segments = run.flow.segments([tensor for _, tensor in ends], params)
    carriers = {name for name in params if name not in owned and _carries(network, name)}
    joined, notes = _joined(len(ends), segments, carriers)
    return _made(network, found, ends, joined, segments, carriers, owned, notes)


def _find_head(network: nn.Module, run: Recorded, head: str | None) -> str:
    """The linear layer whose result is what the network gives."""
    linear = [name for name in run.results if isinstance(network.get_submodule(name), nn.Linear)]
    if head is not None:
        if not isinstance(dict(network.named_modules()).get(head), nn.Linear):
            raise ConfigError(f"the head of a network must be one of its linear layers, but got {head!r}.")
        linear = [name for name in linear if name == head]
    giving = [name for name in linear if run.results[name].grad_fn is run.whole.grad_fn]
    if not giving:
        last = f", while {linear[-1]!r} is not the last operation" if linear else ""
        raise ConfigError(
            f"what a network gives must be what its head gives, a linear layer, but {called(network)} ends with "
            f"{type(run.whole.grad_fn).__name__.removesuffix('0').removesuffix('Backward')}{last}."
        )
    found = giving[-1]
    if run.calls[found] > 1:
        raise ConfigError(
            f"the head of a network must be called once, but {found!r} is called {run.calls[found]} times."
        )
    if run.inputs[found].ndim != run.whole.ndim or not run.flow.is_cut(run.inputs[found]):
        raise ConfigError(
            f"the head of a network must take all its features as [batch, features], but {found!r} does not."
        )
    own = {id(param) for param in network.get_submodule(found).parameters()}
    others = [
        name
        for name, param in network.named_parameters(remove_duplicate=False)
        if id(param) in own and not name.startswith(f"{found}.")
    ]
    if others:
        raise ConfigError(
            f"the head of a network must have weights of its own, but {found!r} shares them with {others[0]!r}."
        )
    return found


def _ends(network: nn.Module, run: Recorded, head: str) -> list[tuple[str, Tensor]]:
    """Where blocks may end, in order: outputs of modules that everything goes through, and at last the head's input."""
    last = run.inputs[head]
    found: dict[Any, tuple[str, Tensor]] = {}
    whole = tuple(f"{name}." for name in _whole(network, run))
    for name, tensor in run.outputs.items():
        is_around_head = head == name or head.startswith(f"{name}.")
        if is_around_head or name.startswith(whole):
            continue
        if run.flow.is_cut(tensor) and run.flow.place(tensor) < run.flow.place(last):
            # Several modules may give one tensor: the outermost says best what it is.
            known = found.get(tensor.grad_fn)
            if known is None or name.count(".") < known[0].count("."):
                found[tensor.grad_fn] = name, tensor
    ordered = sorted(found.values(), key=lambda end: run.flow.place(end[1]))
    return [*ordered, ("", last)]


def _whole(network: nn.Module, run: Recorded) -> set[str]:
    """The modules that are not opened: blocks around one of whose layers the data find another way.

    A residual block, or a layer of a transformer whose norms come last, has places inside through which everything
    goes; yet it is one thing. A module that holds such blocks is opened, whatever else it does.
    """
    cuts = {name for name, tensor in run.results.items() if run.calls[name] == 1 and run.flow.is_cut(tensor)}
    used = {name for name, tensor in run.results.items() if run.flow.is_on_a_way(tensor)}
    bypassed = (used - cuts) | run.others
    blocks = {
        name
        for name in cuts
        if any(True for _ in network.get_submodule(name).children())
        and any(param.ndim > 1 for param in network.get_submodule(name).parameters())
    }
    return {
        name
        for name in run.calls
        if any(each.startswith(f"{name}.") for each in bypassed)
        and not any(each.startswith(f"{name}.") for each in blocks)
    }


def _carries(network: nn.Module, name: str) -> bool:
    """Whether a parameter makes a block of its own: a matrix of a layer, and not a class token or a table."""
    owner, _, _ = name.rpartition(".")
    layer = network.get_submodule(owner)
    is_layer = isinstance(layer, nn.MultiheadAttention) or not any(True for _ in layer.children())
    return bool(owner) and is_layer and network.get_parameter(name).ndim > 1


def _joined(count: int, segments: dict[str, tuple[int, int]], carriers: set[str]) -> tuple[list[int], list[str]]:
    """For each segment the block that it belongs to, and what holds several together that could be apart."""
    starts = [True] * count  # whether a segment begins a block
    notes = []
    carrying = {place for name in carriers for place in segments.get(name, ())}
    for place in range(1, count):
        starts[place] = place in carrying and any(earlier in carrying for earlier in range(place))
    for name, (first, last) in segments.items():
        if any(starts[first + 1 : last + 1]):
            notes.append(f"Blocks are one where they could be several, because {name} is used in each of them.")
            starts[first + 1 : last + 1] = [False] * (last - first)
    blocks, number = [], -1
    for start in starts:
        number += start
        blocks.append(number)
    return blocks, notes


def _made(
    network: nn.Module,
    head: str,
    ends: Sequence[tuple[str, Tensor]],
    joined: Sequence[int],
    segments: dict[str, tuple[int, int]],
    carriers: set[str],
    owned: set[str],
    notes: list[str],
) -> Cut:
    count = joined[-1] + 1
    placed = {name: joined[min(span[0], len(joined) - 1)] for name, span in segments.items()}
    first_names, aliases = _tensor_names(network)
    weights: list[list[str]] = [[] for _ in range(count)]
    norms: list[list[str]] = [[] for _ in range(count)]
    for name in first_names:
        if not name.startswith(f"{head}."):
            block = placed[name] if name in placed else _nearest(name, placed)
            (norms if name in owned else weights)[block].append(name)
    others = [{name for name in carriers if placed.get(name) != block} | {f"{head}."} for block in range(count)]
    modules = [_name(carriers - others[block], others[block]) for block in range(count)]
    firsts = [next((name for name in weights[block] if name in carriers), "") for block in range(count)]
    blocks = []
    for block in range(count):
        name = modules[block]
        if not name or modules.count(name) > 1 or network.get_submodule(name) is network:
            name = firsts[block].rpartition(".")[0] or "body"
        end = ends[max(place for place in range(len(joined)) if joined[place] == block)][0]
        blocks.append(NetworkBlock(name, tuple(weights[block]), tuple(norms[block]), end))
    if count == 1:
        notes = [*notes, f"{called(network)} is one block: no module's output holds all that the next need."]
    return Cut(tuple(blocks), head, aliases, tuple(notes))


def _name(names: set[str], others: set[str]) -> str:
    """The outermost module that all these parameters are of, and none of the others."""
    found = _common([name.split(".")[:-1] for name in names]) if names else []
    while len(found) > 1 and not any(name.startswith(".".join((*found[:-1], ""))) for name in others):
        found.pop()
    return ".".join(found)


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """What lists of words begin with, all of them."""
    return [words[0] for words in takewhile(lambda words: len(set(words)) == 1, zip(*lists, strict=False))]


def _nearest(name: str, placed: dict[str, int]) -> int:
    """The block of a tensor that no gradient reaches: that of the parameters whose names are most like its own."""
    shared = {other: len(_common([name.split("."), other.split(".")])) for other in placed}
    return placed[max(shared, key=shared.__getitem__)] if shared and max(shared.values()) else 0


def _tensor_names(network: nn.Module) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Parameters and buffers by the first of their names, and the further names of each."""
    names: dict[int, list[str]] = {}
    for name, tensor in (
        *network.named_parameters(remove_duplicate=False),
        *network.named_buffers(remove_duplicate=False),
    ):
        names.setdefault(id(tensor), []).append(name)
    return [each[0] for each in names.values()], {each[0]: tuple(each[1:]) for each in names.values() if each[1:]}


def block_outputs(
    network: nn.Module,
    cut: Cut,
    x: Tensor,
    reduce: Callable[[Tensor], Any],
    run: Callable[[Tensor], Any] | None = None,
) -> list[Any]:
    """What a function makes of each block's output, from one pass; the outputs themselves are not kept.

    ``run`` calls the network, where that is not done by ``network(x)``.
    """
    found: dict[int, Any] = {}
    with listening(network, cut, lambda place, tensor: found.__setitem__(place, reduce(tensor))), torch.no_grad():
        (network if run is None else run)(x)
    return [found[place] for place in range(len(cut.blocks))]


@contextmanager
def listening(network: nn.Module, cut: Cut, tell: Callable[[int, Tensor], Any]) -> Iterator[None]:
    """Within it, ``tell`` is called with each block's place and output; what it gives, unless None, goes on instead."""
    handles = []
    for place, block in enumerate(cut.blocks):
        if block.end:
            module = network.get_submodule(block.end)
            handles.append(module.register_forward_hook(lambda _, __, out, place=place: tell(place, out)))
        else:
            module = network.get_submodule(cut.head)
            handles.append(module.register_forward_pre_hook(lambda _, given, place=place: tell(place, given[0])))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
