"""The network that a stream is learned with, from a name, a file, a function or a module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from ramet.continual.networks import SKELETONS
from ramet.continual.networks.backbone import NetworkSource, make_backbone
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.data import InputForm
from ramet.errors import ConfigError

TemplateSource = str | Template | nn.Module | Callable[..., Any]
"""What names a network: a text, a template, a module, or a function that makes a skeleton or a module."""


def make_template(
    network: TemplateSource = "mlp",
    *,
    num_classes: int,
    form: InputForm | None = None,
    in_channels: int | None = None,
    image_size: tuple[int, int] | None = None,
    batch_norm: bool = False,
    head: str = "own",
    start: str | None = None,
    classifier: str | None = None,
    seed: int = 0,
    trusted: bool = True,
) -> Template:
    """What every task's network is made from.

    Args:
        network: ``mlp``, ``conv`` (``make_skeleton``), another name of ``ramet list skeleton``, ``FILE.py:function``, a
            function that takes any of ``in_channels``, ``image_size`` and ``num_classes`` (``num_features`` of vectors,
            ``length`` and ``words`` of texts), or a module, which counts as trained.
        num_classes: What a function is told; heads are made for each task.
        form: What an input is; or, of an image,
        in_channels: its channels, and
        image_size: its height and width.
        batch_norm: Whether the layers of ``mlp`` and ``conv`` have batch norm.
        head: ``own``, one for each task, or ``shared``.
        start: A file of trained weights for the body; those of its head are left out.
        classifier: The name of a module's head; its last linear layer if none.
        seed: Of the weights that a function draws.
        trusted: Whether code that a text names may run.

    Raises:
        ConfigError: There is no such network, it cannot be learned with, or the weights do not fit.
    """
    if head not in ("own", "shared"):
        raise ConfigError(f"head must be own or shared, but got {head!r}.")
    if isinstance(network, Template):
        if start is not None or classifier is not None:
            raise ConfigError("start and classifier are for a network that is made here, but got a template.")
        return network
    form = form or InputForm.given(in_channels=in_channels, image_size=image_size)
    shared = head == "shared"
    if isinstance(network, nn.Module):
        return make_backbone(network, form, start=start, head=classifier, shared_head=shared)
    if form.kind in ("text", "array") and isinstance(network, str) and SKELETONS.is_built_in(network):
        raise ConfigError(f"a network for {form} must be your own, such as FILE.py:function, but got {network!r}.")
    source = NetworkSource(network, form, num_classes, batch_norm, trusted)
    made = source.make(seed, "template")
    if isinstance(made, Skeleton) and start is None:
        if classifier is not None:
            raise ConfigError(f"classifier names the head of a module, but {network} is a chain that has none yet.")
        return replace(made, shared_head=shared or made.shared_head)
    return make_backbone(source, form, start=start, head=classifier, shared_head=shared, seed=seed)
