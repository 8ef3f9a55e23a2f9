"""Columns of a module's copies: each reads, behind every block, what the columns before it give there."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, fx, nn

from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.cutting import Cut, block_outputs, listening
from ramet.continual.networks.recording import BATCH, called
from ramet.costs import evaluating
from ramet.errors import ConfigError
from ramet.exporting.program import traced_program
from ramet.seeding import torch_generator
from ramet.training import output_of


class BlockLateral(nn.Module):
    """The adapter from some earlier columns behind one block, U sigma(V alpha h); it begins at nothing.

    Images have their channels behind the samples, [batch, channels, ...]; all else has its features last.
    """

    def __init__(self, shape: Sequence[int], num_columns: int) -> None:
        super().__init__()
        self.dim = 1 if len(shape) > 3 else len(shape) - 1
        width = shape[self.dim]
        self.scales = nn.Parameter(torch.full((num_columns,), 1.0))
        # V keeps the number of features of one column, however many columns there are (section 2.1, adapters).
        self.reduce = nn.Linear(width * num_columns, width)
        self.relu = nn.ReLU()
        self.expand = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.expand.weight)

    def forward(self, outputs: Sequence[Tensor]) -> Tensor:
        """What is added to what the block gives."""
        scaled = [output.movedim(self.dim, -1) * self.scales[column] for column, output in enumerate(outputs)]
        result: Tensor = self.expand(self.relu(self.reduce(torch.cat(scaled, -1))))
        return result.movedim(-1, self.dim)


class ModuleColumn(nn.Module):
    """A task's copy of a module, and the adapters from the columns before it, behind each of its blocks."""

    def __init__(self, network: nn.Module, cut: Cut, shapes: Sequence[Sequence[int]], num_columns: int) -> None:
        super().__init__()
        self.network = network
        self._cut = cut
        self.laterals = nn.ModuleList([BlockLateral(shape, num_columns) for shape in shapes if num_columns])

    def forward(self, x: Tensor, earlier: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """What each block gives, with what the adapters add, and at last the logits."""
        outputs: list[Tensor] = []

        def add(place: int, output: Tensor) -> Tensor:
            if len(self.laterals):
                output = output + self.laterals[place]([column[place] for column in earlier])
            outputs.append(output)
            return output

        with listening(self.network, self._cut, add):
            logits = output_of(self.network(x))
        return [*outputs, logits]


def make_column(backbone: Backbone, num_classes: int, num_columns: int, seed: int, device: str) -> ModuleColumn:
    """A column before which there are some; adapters are drawn from the global generator."""
    x = backbone.form.example(BATCH, torch_generator(0, "cut"))
    shapes = block_outputs(backbone.module, backbone.cut, x, lambda output: output.shape)
    network = backbone.make_network(num_classes, seed, "column", num_columns)
    return ModuleColumn(network, backbone.cut, shapes, num_columns).to(device)


def traced(columns: nn.Module, backbone: Backbone) -> nn.Module:
    """What columns compute in evaluation mode as a graph of torch's own operations.

    Raises:
        ConfigError: their code asks for batches of one size.
    """
    x = backbone.form.example(BATCH, torch_generator(0, "cut")).to(next(columns.parameters()).device)
    with evaluating(columns):
        module = traced_program(columns, x).module(check_guards=False)
    # As torch hands it out, it refuses to be put into evaluation mode, which it is in.
    plain = fx.GraphModule(module, module.graph, class_name="Columns")
    try:
        with torch.no_grad():
            plain(torch.cat([x, x[:1]]))
    except Exception as error:  # whatever torch raises where a size is fixed
        raise ConfigError(
            f"a network must take batches of any size to be written as a graph, but {called(backbone.module)} fixes "
            f"their size: {(str(error).splitlines() or [''])[0]}"
        ) from error
    return plain.eval()
