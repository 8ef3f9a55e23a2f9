"""One training step of child 434: on the path of a supernet, alone, and in the authors' memory layout."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.authors_network import AuthorsChild434
from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds
from ramet.spaces import Cells64, trace_child
from ramet.training import Settings, make_optimizer

CHANNELS, NUM_CELLS, IMAGE, BATCH, CHILD = 16, 4, 32, 64, "434"


def run() -> list[Row]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    space = Cells64(CHANNELS, NUM_CELLS)
    arch = space.parse(CHILD)
    supernet = space.supernet(in_channels=3, num_classes=10)
    alone = trace_child(supernet.stages, arch, plain=False)  # keeps ramet's layers: the fastest child there is
    authors = AuthorsChild434(CHANNELS, NUM_CELLS, in_channels=3, num_classes=10)
    authors.take_weights(alone)
    x, y = torch.randn(BATCH, 3, IMAGE, IMAGE), torch.randint(10, (BATCH,))
    torch.testing.assert_close(authors(x), alone(x), rtol=1e-3, atol=1e-3)  # or the times would mean nothing
    on_path, by_itself, as_authors = cpu_milliseconds(
        stepper(supernet, x, y, arch), stepper(alone, x, y), stepper(authors, x, y)
    )
    setting = f"CPU-ms a step, child {CHILD}, C {CHANNELS}, {NUM_CELLS} cells, {IMAGE}x{IMAGE}, batch {BATCH}"
    return [
        Row(
            name="supernet step / child alone",
            value=on_path / by_itself,
            limit=1.05,
            detail=f"{on_path:.0f} / {by_itself:.0f} {setting}",
        ),
        Row(
            name="supernet step / authors' layout",
            value=on_path / as_authors,
            limit=0.6,
            detail=f"{on_path:.0f} / {as_authors:.0f} {setting}",
        ),
    ]


def stepper(network: nn.Module, x: Tensor, y: Tensor, *arguments: object) -> Callable[[], None]:
    """A function that trains the network for one step, as ``ramet.training.fit`` does it."""
    optimizer = make_optimizer(network, Settings())
    network.train()

    def step() -> None:
        loss = cross_entropy(network(x, *arguments), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
