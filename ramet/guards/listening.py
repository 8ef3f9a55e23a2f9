"""Listening to a module's layers for as long as a block runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ramet.guards.layers import Product, input_columns, products_of
from ramet.guards.names import unwrapped

Watched = list[tuple[nn.Module, list[Product]]]


@contextmanager
def listening(
    module: nn.Module,
    layers: Watched,
    on_inputs: Callable[[Product, Tensor], None],
    *,
    mean: bool,
    on_output_gradient: Callable[[nn.Module, list[Product], Tensor], None] | None = None,
) -> Iterator[None]:
    """Report the inputs of layers as they run: of the layers on the current path, then, and of no other.

    The hooks are there only while the block runs. A hook that stays would be copied by ``copy.deepcopy`` together with
    all that it refers to, and would listen to evaluations too. A compiled module runs uncompiled inside the block,
    since compiled code ignores hooks that it was not compiled with.

    ``on_inputs`` is called with each product of a layer that runs and its inputs, or their ``mean``, as
    ``input_columns`` gives them; ``on_output_gradient`` in the backward pass with a layer, its products, and the
    gradient of its output.
    """
    products_by_layer = {id(layer): products for layer, products in layers}

    def before(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        products = products_by_layer[id(layer)]
        device = getattr(layer, products[0].local).device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            columns = input_columns(layer, args, kwargs, products, mean=mean)
        for product in products:
            on_inputs(product, columns[product.key])

    def after(layer: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if on_output_gradient is not None and output.requires_grad:
            products = products_by_layer[id(layer)]
            output.register_hook(  # type: ignore[no-untyped-call]
                lambda gradient: on_output_gradient(layer, products, gradient)
            )

    with ExitStack() as stack:
        if any(_is_compiled(part) for part in module.modules()):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        for layer, _ in layers:
            handle = layer.register_forward_pre_hook(before, with_kwargs=True)
            stack.callback(handle.remove)
            if on_output_gradient is not None:
                stack.callback(layer.register_forward_hook(after).remove)
        yield


def _is_compiled(module: nn.Module) -> bool:
    return "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None


def watched_layers(module: nn.Module, wanted: Callable[[Product], bool]) -> Watched:
    """The layers of a module with the products that are wanted; layers without any are left out."""
    found = [(layer, [p for p in products if wanted(p)]) for layer, products in products_of(unwrapped(module))]
    return [(layer, products) for layer, products in found if products]
