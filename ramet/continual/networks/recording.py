"""What one pass of a network shows: what each of its modules gives, how it flows, and what training changes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ramet.continual.networks.flow import Flow
from ramet.data import InputForm
from ramet.errors import ConfigError, told
from ramet.seeding import seeded_globally, torch_generator
from ramet.training.outputs import logits_of

BATCH = 2
"""Inputs of the pass: batch norm needs two."""


@dataclass
class Recorded:
    """What a forward pass has shown, by the names of modules.

    Attributes:
        flow: the ways from its inputs to its outputs.
        calls: how often each module was called.
        results: the tensor that each gave in its last call, if it depends on something that is trained.
        outputs: of those, the ones with a sample in each row, of modules that were called once.
        others: modules that gave something else than a tensor.
        inputs: what linear layers took in their last call.
        params: the parameters of the copy that ran.
        whole: what the network gave.
    """

    flow: Flow
    calls: dict[str, int]
    results: dict[str, Tensor]
    outputs: dict[str, Tensor]
    others: set[str]
    inputs: dict[str, Tensor]
    params: dict[str, Tensor]
    whole: Tensor


def record(network: nn.Module, form: InputForm | Sequence[int]) -> Recorded:
    """Run a copy once in evaluation mode, with gradients for everything, and note what each module gives.

    Tokens have no gradient. For texts, what the embedding makes of the tokens stands for the inputs.

    Raises:
        ConfigError: the network does not run on such inputs, or gives no logits that depend on them.
    """
    form = InputForm.of(form)
    copied = copied_network(network).eval()
    for param in copied.parameters():
        if param.is_floating_point():
            param.requires_grad_(True)
    x = form.example(BATCH, torch_generator(0, "cut"))
    leaf = (x if form.words is None else torch.zeros(BATCH, form.shape[0], 1)).requires_grad_(True)
    embedded: list[str] = []
    calls: dict[str, int] = {}
    outputs: dict[str, Tensor] = {}
    inputs: dict[str, Tensor] = {}
    results: dict[str, Tensor] = {}
    others: set[str] = set()

    def note(name: str) -> Any:
        def hook(module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
            calls[name] = calls.get(name, 0) + 1
            if not isinstance(result, Tensor):
                others.add(name)
            elif result.grad_fn is not None:
                results[name] = result
                if result.ndim > 1 and len(result) == BATCH:
                    outputs[name] = result
            if isinstance(module, nn.Linear) and arguments:
                inputs[name] = arguments[0]

        return hook

    def embed(name: str) -> Any:
        def hook(module: nn.Module, arguments: tuple[Any, ...], result: Any) -> Any:
            place = _place_in(x, arguments[0])
            if place is None:  # an embedding of positions
                return result
            embedded.append(name)
            return result + leaf[:, place]

        return hook

    for name, module in copied.named_modules():
        if name and form.words is not None and isinstance(module, nn.Embedding):
            module.register_forward_hook(embed(name))
        if name:
            module.register_forward_hook(note(name))
    with torch.enable_grad():
        given = leaf * 1.0 if form.words is None else x  # a leaf itself could not be changed in place
        whole = _called_with(copied, given, network, form)
    if form.words is not None and not embedded:
        raise ConfigError(
            f"a network of texts must have an nn.Embedding of its tokens, but {called(network)} has none."
        )
    _check_logits(whole, network, form)
    if whole.grad_fn is None:
        raise ConfigError(f"the outputs of a network must be differentiable, but those of {called(network)} are not.")
    flow = Flow(whole, leaf)
    if not flow.depends_on_inputs:
        raise ConfigError(f"the outputs of a network must depend on its inputs, but those of {called(network)} do not.")
    once = {name: tensor for name, tensor in outputs.items() if calls[name] == 1}
    return Recorded(flow, calls, results, once, others, inputs, dict(copied.named_parameters()), whole)


def _called_with(network: nn.Module, x: Tensor, shown: nn.Module, form: InputForm) -> Any:
    try:
        result = network(x)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a network of the user's own raises
        mode = " in training mode" if network.training else ""
        raise ConfigError(f"a network must run{mode} on {form}, but {called(shown)} raises {told(error)}") from error
    logits = logits_of(result)
    return result if logits is None else logits


def _place_in(x: Tensor, given: Tensor) -> slice | None:
    """Which of the tokens an embedding is given: all of a row, or those that stand together; none if others."""
    if given.dtype != x.dtype or given.ndim != 2 or len(given) != len(x):
        return None
    length = given.shape[1]
    starts = range(x.shape[1] - length + 1)
    return next((slice(at, at + length) for at in starts if torch.equal(x[:, at : at + length], given)), None)


def _check_logits(whole: Any, network: nn.Module, form: InputForm) -> None:
    axes = (2,) if form.words is None else (2, 3)
    if isinstance(whole, Tensor) and whole.ndim in axes and len(whole) == BATCH:
        return
    got = f"shape {list(whole.shape)}" if isinstance(whole, Tensor) else type(whole).__name__
    mode = " in training mode" if network.training else ""
    shapes = f"[{BATCH}, classes]" + ("" if form.words is None else f" or [{BATCH}, {form.shape[0]}, classes]")
    raise ConfigError(
        f"a network must give logits of shape {shapes} for {BATCH} {form.kind}s, but {called(network)} gives "
        f"{got}{mode}."
    )


def names_of_state(network: nn.Module, form: InputForm | Sequence[int]) -> set[str]:
    """What each task has for itself: the tensors of modules that change their buffers while they are trained."""
    form = InputForm.of(form)
    trained = copied_network(network).train()
    before = {name: buffer.clone() for name, buffer in trained.named_buffers()}
    x = form.example(BATCH, torch_generator(0, "cut"))
    for param in trained.parameters():
        param.requires_grad_(param.is_floating_point())
    with torch.enable_grad(), seeded_globally(0, "cut"):
        whole = _called_with(trained, x, network, form)
        _check_logits(whole, trained, form)
        _check_backward(whole, trained)
    changed = {
        name.rpartition(".")[0] for name, buffer in trained.named_buffers() if not torch.equal(before[name], buffer)
    }
    found = set()
    for name, module in network.named_modules():
        if name in changed or isinstance(module, _BatchNorm):
            tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            found |= {f"{name}.{each}" if name else each for each, _ in tensors}
    return found


def _check_backward(whole: Tensor, trained: nn.Module) -> None:
    """Refuse a network that is run again for its gradients.

    Tasks are learned with tensors that are put into the module for one call. What is computed again after it sees
    others, and gradients would be wrong without a word.
    """
    again: list[str] = []
    for name, module in trained.named_modules():
        module.register_forward_pre_hook(lambda module, arguments, name=name: again.append(name))
    try:
        whole.sum().backward()  # type: ignore[no-untyped-call]
    except Exception:  # of such a network no step can be taken, which the rehearsal of the recipe says
        return
    if again:
        raise ConfigError(
            f"a network must give its gradients without being run again, but {called(trained)} computes "
            f"{again[0] or 'itself'} anew: switch its gradient checkpointing off."
        )


def copied_network(network: nn.Module) -> nn.Module:
    """A copy with tensors of its own, on the CPU."""
    try:
        return copy.deepcopy(network).cpu()
    except Exception as error:  # tensors that are no leaves, locks, files: whatever a module of one's own holds
        raise ConfigError(f"a network must be one that can be copied, but {called(network)}: {told(error)}") from error


def called(network: nn.Module) -> str:
    """What a network is called in words to the user."""
    return type(network).__name__
