"""Deeper by copies of blocks: where a network holds blocks one after another, and a copy of one put behind another.

A residual block gives ``x + branch(x)``. A copy of it whose branch ends in zeros gives ``x``, so that a network with it
computes what it did; it learns at once, because all its other weights are those of a block that was trained. A plain
copy changes the function: that is stacking (Gong et al., *Efficient training of BERT by progressively stacking*, 2019;
Du et al., *Stacking your transformers*, 2024).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from ramet.tracing.blocks import LISTS, is_wrapper


@dataclass(frozen=True)
class BlockSite:
    """A block that a copy can be made of.

    Attributes:
        name: of the block, for example ``model.layers.3``.
        ends: the tensors in it, by their names within it, that a silent copy has as zeros.
        counted: whether the network's configuration says how many blocks run, so that it has to be told.
    """

    name: str
    ends: tuple[str, ...]
    counted: bool = False

    def copied(self, behind: str | None = None, silent: bool = True) -> BlockCopy:
        """A copy of it, behind itself or another block of its list."""
        return BlockCopy(self.name, behind or self.name, silent, self.counted)


@dataclass(frozen=True)
class BlockCopy:
    """A copy of a block to be put behind a block of the same list; with ``silent`` the function stays."""

    source: str
    behind: str
    silent: bool = True
    counted: bool = False

    @property
    def holder(self) -> str:
        """The list that it comes into."""
        return self.behind.rpartition(".")[0]


def copy_blocks(
    network: nn.Module,
    blocks: Sequence[BlockSite],
    copies: Sequence[BlockCopy],
    *,
    optimizer: torch.optim.Optimizer | None = None,
    averages: Iterable[nn.Module] = (),
) -> list[str]:
    """Put copies of blocks into a network, in place, those behind one block in the order given; gives their names.

    An optimizer gets the new parameters in the groups of those that they are copies of. The state of these is copied
    for a plain copy; a silent one starts without, because its gradients are others. Averages get the same copies.
    """
    ends = {block.name: block.ends for block in blocks}
    averages = [average.module if isinstance(average, AveragedModel) else average for average in averages]
    names: list[str] = []
    for module in [network, *averages]:
        names = _insert(module, ends, copies, optimizer if module is network else None)
    return names


def _insert(
    network: nn.Module,
    ends: Mapping[str, Sequence[str]],
    copies: Sequence[BlockCopy],
    optimizer: torch.optim.Optimizer | None,
) -> list[str]:
    made = []
    for wanted in copies:
        silenced = ends.get(wanted.source, ()) if wanted.silent else ()
        made.append((wanted, _copied(network.get_submodule(wanted.source), silenced, wanted.silent, optimizer)))
    names = []
    for parent in dict.fromkeys(wanted.holder for wanted in copies):
        holder = network.get_submodule(parent)
        assert isinstance(holder, LISTS)
        old = list(holder)
        numbered = _numbers(old)
        own = [pair for pair in made if pair[0].holder == parent]
        new: list[nn.Module] = []
        sources: list[int] = []
        for number, block in enumerate(old):
            new.append(block)
            sources.append(number)
            for wanted, duplicate in own:
                if _number(wanted.behind) == number:
                    names.append(f"{parent}.{len(new)}".lstrip("."))
                    new.append(duplicate)
                    sources.append(_number(wanted.source))
        holder._modules.clear()
        holder._modules.update({str(number): block for number, block in enumerate(new)})
        for path, attribute in numbered:
            for number, block in enumerate(new):
                setattr(block.get_submodule(path), attribute, number)
        if any(wanted.counted for wanted, _ in own):
            _recount(network, parent, len(old), sources)
    return names


def _number(name: str) -> int:
    return int(name.rpartition(".")[2])


def _copied(source: nn.Module, ends: Sequence[str], silent: bool, optimizer: torch.optim.Optimizer | None) -> nn.Module:
    """A copy of a block, which shares its configuration with it, if it has one, and has zeros at its ends."""
    shared: dict[int, Any] = {}
    for module in source.modules():
        for value in vars(module).values():
            if hasattr(value, "to_dict") and not isinstance(value, nn.Module | Tensor):
                shared[id(value)] = value
    duplicate = copy.deepcopy(source, shared)
    with torch.no_grad():
        for end in ends:
            _tensor(duplicate, end).zero_()
    if optimizer is not None:
        for old, new in zip(source.parameters(), duplicate.parameters(), strict=True):
            for group in optimizer.param_groups:
                if any(parameter is old for parameter in group["params"]):
                    group["params"].append(new)
            if not silent and old in optimizer.state:
                optimizer.state[new] = copy.deepcopy(optimizer.state[old])
    return duplicate


def _tensor(block: nn.Module, name: str) -> Tensor:
    """A tensor by its name within a block, also where a new layer was put behind its module since."""
    module = block
    *path, leaf = name.split(".")
    for part in path:
        module = module[0] if is_wrapper(module) else module  # type: ignore[index]
        module = module.get_submodule(part)
    module = module[0] if is_wrapper(module) else module  # type: ignore[index]
    tensor = getattr(module, leaf)
    assert isinstance(tensor, Tensor)
    return tensor


def _numbers(blocks: Sequence[nn.Module]) -> list[tuple[str, str]]:
    """Attributes in which each block holds its own number, by the module within it: a cache is addressed by it."""
    found = []
    for path, module in blocks[0].named_modules():
        for name, value in vars(module).items():
            if type(value) is int and value == 0 and any(word in name for word in ("layer", "block", "idx", "index")):
                others = [_attribute(block, path, name) for block in blocks]
                if others == list(range(len(blocks))):
                    found.append((path, name))
    return found


def _attribute(block: nn.Module, path: str, name: str) -> Any:
    try:
        return getattr(block.get_submodule(path), name, None)
    except AttributeError:
        return None


def _recount(network: nn.Module, parent: str, before: int, sources: Sequence[int]) -> None:
    """Tell the configuration of the modules around a list how many blocks there are, and what is said of each."""
    path = parent.split(".") if parent else []
    around = [network.get_submodule(".".join(path[:depth])) for depth in range(len(path) + 1)]
    configurations = {id(c): c for m in around if (c := vars(m).get("config")) is not None and hasattr(c, "to_dict")}
    for configuration in configurations.values():
        for name, value in list(vars(configuration).items()):
            if "layer" not in name:
                continue
            if type(value) is int and value == before:
                setattr(configuration, name, len(sources))
            elif isinstance(value, list) and len(value) == before:
                setattr(configuration, name, [value[source] for source in sources])
