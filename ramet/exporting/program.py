"""A network as a file that torch alone runs, with its weights and nothing else.

``torch.export`` keeps the example that a network was traced with, and stores whole storages: of a view, everything that
lies behind it. An example cut from a data set would therefore take the data set along. So what is exported is told the
*shape* of an input and never sees one, and every tensor goes into the file alone.

The same network gives the same bytes, in any process, with the same version of torch.
"""

from __future__ import annotations

import builtins
import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ramet.costs import evaluating, zeros_for
from ramet.training import output_of


def export(network: nn.Module, input_shape: Sequence[int], dtype: torch.dtype = torch.float32) -> bytes:
    """A network in evaluation mode as ``torch.export`` saves it, for batches of any size where it can have that.

    Args:
        network: any module; it is run on zeros, and left as it was. Of one that returns more than a tensor, the file
            gives what a loss is taken of (``ramet.training.output_of``), such as the logits.
        input_shape: the shape of one input without its batch, such as (3, 32, 32).
        dtype: of an input; ``torch.int64`` for words.

    Returns:
        The bytes of a ``.pt2`` file: ``torch.export.load(path).module()(inputs)`` runs it.

    Raises:
        ConfigError: ``input_shape`` is not made of positive numbers, or the network gives several tensors.
        Exception: whatever ``torch.export`` raises, where a module cannot be exported.

    Example:
        >>> program = export(nn.Linear(3, 2), (3,))
        >>> torch.export.load(io.BytesIO(program)).module()(torch.ones(5, 3)).shape
        torch.Size([5, 2])
    """
    return export_for_batches(network, input_shape, dtype)[0]


def export_for_batches(
    network: nn.Module, input_shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> tuple[bytes, int | None]:
    """What ``export`` gives, and the only size of a batch that it runs on: nothing, where any will do.

    A forward may hold the size of a batch as a plain number, such as ``range(len(x))``: then the file takes one input.
    """
    buffer = io.BytesIO()
    with evaluating(network), _without_warnings():
        only: int | None = None
        example = zeros_for(network, input_shape, 2, dtype)  # one input would be taken for a batch of one for ever
        program = traced_program(giving_a_tensor(network, example), example)
        if not _runs_on(program, zeros_for(network, input_shape, 3, dtype)):
            only, example = 1, example[:1].clone()
            program = traced_program(giving_a_tensor(network, example), example)
        _put_apart(program.state_dict, program.constants)
        _forget_how_it_was_traced(program.graph_module)
        torch.export.save(program, buffer)
    return buffer.getvalue(), only


def _runs_on(program: torch.export.ExportedProgram, inputs: Tensor) -> bool:
    try:
        program.module()(inputs)
    except Exception:  # torch's guards are of many kinds
        return False
    return True


def traced_program(network: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """What a network in evaluation mode computes, by ``torch.export``, for batches of any size where that can be.

    An example of one input alone gives a program for one input.
    """
    shapes = ({0: torch.export.Dim.AUTO},) if len(example) > 1 else None
    with _without_warnings(), symbolic_lengths():
        # Without dynamo, as by default in newer versions of torch: 2.6 would refuse what it cannot trace.
        return torch.export.export(network, (example,), dynamic_shapes=shapes, strict=False)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Torch warns of parts of itself, and of weights in channels_last memory, where it traces and where it saves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def symbolic_lengths() -> Iterator[None]:
    """Within it, ``len`` of a tensor is its first size, whatever that is.

    Python makes a plain number of what ``__len__`` gives, so that ``self.token.expand(len(x), -1, -1)`` would fix the
    size of the batches for ever.
    """
    plain = builtins.len

    def length(value: Any) -> Any:
        return value.shape[0] if isinstance(value, Tensor) and value.ndim else plain(value)

    builtins.len = length
    try:
        yield
    finally:
        builtins.len = plain


def _forget_how_it_was_traced(graph_module: nn.Module) -> None:
    """Drop what torch notes of each operation for whoever mends a tracer: addresses in memory, files and their lines.

    With them no file is the same twice, and it names folders of the machine that it was made on.
    """
    for module in graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            for name in ("from_node", "stack_trace"):
                node.meta.pop(name, None)


def giving_a_tensor(network: nn.Module, example: Tensor) -> nn.Module:
    """The network, without what it may return beside its output, such as a cache, which no file can hold."""
    return network if isinstance(network(example), Tensor) else _OutputAlone(network)


class _OutputAlone(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return output_of(self.network(x))


def _put_apart(*holders: dict[str, Any]) -> None:
    """Give every tensor that is part of a larger storage one of its own; one tensor under two names stays one."""
    alone: dict[int, tuple[Tensor, Tensor]] = {}  # the first is kept only so that no other tensor gets its id
    for holder in holders:
        for name, tensor in holder.items():
            if isinstance(tensor, Tensor) and tensor.untyped_storage().nbytes() > tensor.nbytes:
                if id(tensor) not in alone:
                    copy = tensor.detach().clone()
                    is_parameter = isinstance(tensor, nn.Parameter)
                    own = nn.Parameter(copy, requires_grad=tensor.requires_grad) if is_parameter else copy
                    alone[id(tensor)] = tensor, own
                holder[name] = alone[id(tensor)][1]
