"""The choices of a module's blocks: earlier blocks reused or adapted, or new ones, each run from the same input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from ramet.continual.methods.learn_to_grow.layer_choices import ChoiceMixture, LayerChoice
from ramet.continual.networks.block_graph import BlockGraph
from ramet.continual.networks.block_weights import BlockAdapter, BlockWeights
from ramet.continual.networks.cutting import listening
from ramet.continual.networks.graph import PathStep
from ramet.continual.networks.recording import copied_network
from ramet.seeding import torch_generator


def list_block_choices(graph: BlockGraph, rank: int) -> list[list[LayerChoice]]:
    """What each block may become: any earlier block of its place reused or adapted, or a new one.

    ``rank`` is that of the maps beside linear layers and attention, 0 for no adapted blocks at all; beside a
    convolution it is a 1 x 1 convolution. Batch norms are the task's own in any case.
    """
    choices = []
    values = {"rank": rank, "pointwise": True}
    new_sizes = graph.backbone.layer_sizes()
    for place, size in enumerate(new_sizes):
        steps: dict[tuple[str, str | None], PathStep] = {}
        for path in graph.paths.values():
            steps.setdefault((path.steps[place].node, path.steps[place].patch), path.steps[place])
        options = [
            LayerChoice("reuse", step, None, graph.sizes(step, values | {"rank": 1})[0]) for step in steps.values()
        ]
        if rank:
            for step in {step.node: step for step in reversed(steps.values())}.values():
                source = PathStep(step.node, None, step.norms)
                options.append(LayerChoice("adapt", source, values, graph.sizes(source, values)[1]))
        choices.append([*options, LayerChoice("new", None, None, size)])
    return choices


class BlockChoices(ChoiceMixture):
    """All choices of all blocks at once; a block of a module is run by running the module, and stopped where it ends.

    What lies between blocks is code of the module's ``forward``, so that each choice of a block runs the module from
    the images on; where the block begins, the mixture of the choices before is put in the place of what comes. That
    costs as much as there are blocks before it, without gradients.
    """

    def __init__(
        self, graph: BlockGraph, choices: Sequence[Sequence[LayerChoice]], num_classes: int, seed: int
    ) -> None:
        super().__init__(graph.backbone, choices, num_classes, seed)
        drawn = graph.backbone.make_network(num_classes, seed, "new")
        for place, options in enumerate(choices):
            for index, choice in enumerate(options):
                key = f"{place}-{index}"
                if choice.source is None:
                    self.fresh[key] = graph.block_of(drawn, place)
                    norms = graph.norms_of(drawn, place)
                else:
                    source = PathStep(choice.source.node, choice.source.patch)
                    self.old[key] = graph.block(source).requires_grad_(False)
                    norms = None if choice.source.norms is None else graph.norms_at(choice.source).copied()
                if choice.patch is not None:
                    generator = torch_generator(seed, "patch", place, index)
                    self.fresh[key] = graph.adapter(self.old[key], choice.patch, generator)
                if norms is not None:
                    self.fresh[f"{key}-norms"] = norms
        # The module's own tensors are never trained: it lends its code, and is no part of what is.
        self._carrier = (copied_network(graph.backbone.module),)
        self._cut = graph.backbone.cut

    def _take(self, place: int, index: int, choice: LayerChoice, x: Tensor) -> Tensor:
        key = f"{place}-{index}"
        held = self.fresh[key] if choice.source is None else self.old[key]
        assert isinstance(held, BlockWeights)
        tensors = held.tensors()
        if choice.patch is not None:
            adapter = self.fresh[key]
            assert isinstance(adapter, BlockAdapter)
            tensors |= adapter.vectors.tensors()
            tensors |= {name: made(tensors[name]) for name, made in adapter.maps_by_name().items()}
        if f"{key}-norms" in self.fresh:
            norms = self.fresh[f"{key}-norms"]
            assert isinstance(norms, BlockWeights)
            tensors |= norms.tensors()
        return self._run(place, tensors, x)

    def _run(self, place: int, tensors: dict[str, Tensor], x: Tensor) -> Tensor:
        """What a block of some tensors gives for what comes out of the block before it."""
        (carrier,) = self._carrier
        carrier.to(x.device).train(self.training)
        wants_gradient = torch.is_grad_enabled()

        def tell(at: int, output: Tensor) -> Tensor | None:
            if at == place:
                raise _BlockEndError(output)
            torch.set_grad_enabled(wants_gradient and at == place - 1)
            return x if at == place - 1 else None

        with listening(carrier, self._cut, tell), torch.set_grad_enabled(wants_gradient and place == 0):
            try:
                functional_call(carrier, tensors, (x if place == 0 else self._images,))
            except _BlockEndError as end:
                return end.output
        raise AssertionError("a block must end")


class _BlockEndError(Exception):
    """Carries what a block gives out of the module that it is in."""

    def __init__(self, output: Tensor) -> None:
        super().__init__("the block has ended")
        self.output = output
