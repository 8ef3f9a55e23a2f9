"""Cells that grow into an architecture."""

import pytest
import torch

from ramet.errors import ConfigError
from ramet.growth.surgery.widening import Widening
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing.checking import find_coupling
from ramet.training import Settings
from ramet_papers.firefly.cell_growth import (
    OPERATIONS,
    CellSearch,
    derive_genotypes,
    edges_of,
    final_network,
    grow_cells,
    search_network,
    widths_of,
)

SMALL = CellSearch(widths=(2, 2, 2), channels=(3, 4, 4), reductions=(1,), num_nodes=1, rounds=1, num_new=(1, 1, 1))


def small_network():
    torch.manual_seed(0)
    return search_network(SMALL, in_channels=1, num_classes=2)


def test_the_last_convolution_of_every_operation_can_grow():
    network = small_network()
    groups = find_coupling(network, torch.randn(2, 1, 8, 8)).groups
    for cell in range(3):
        for edge in range(2):
            for op in range(4):
                assert groups[f"cells.{cell}.edges.{edge}.{op}.last"].size == 2


@pytest.mark.slow
def test_growth_stays_in_its_cell_and_within_its_share():
    x = torch.randn(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    y = torch.randint(0, 2, (16,), generator=torch.Generator().manual_seed(1))
    network = small_network()
    grown, histories = grow_cells(
        network, (x, y, x, y), SMALL, settings=Settings(epochs=1, batch_size=8), num_steps=1, seed=0
    )
    assert len(histories) == 3
    for cell, history in enumerate(histories):
        widened = history.steps[1].widened
        assert widened and all(name.startswith(f"cells.{cell}.") for name in widened)
        assert sum(len(g.split) + g.new for g in widened.values()) == 4  # a quarter of 2 edges x 4 operations x 2
    assert sum(sum(edge.values()) for cell in widths_of(grown) for edge in cell) == 3 * 16 + 3 * 4


@pytest.mark.parametrize(
    ("options", "epochs", "steps"), [({}, 5, None), ({"num_epochs": 1}, 1, None), ({"num_steps": 3}, 5, 3)]
)
def test_candidates_are_trained_for_whole_epochs(monkeypatch, options, epochs, steps):
    """The paper's five by default, not the eighth of one that is Firefly's own default."""
    asked = []

    def grow(network, data, budget, method, **others):
        asked.append((method.num_epochs, method.num_steps))
        return network, None

    monkeypatch.setattr("ramet_papers.firefly.cell_growth.grow", grow)
    grow_cells(small_network(), None, SMALL, **options)
    assert asked == [(epochs, steps)] * 3


def test_the_widest_operation_wins_and_an_idle_edge_becomes_the_identity():
    network = small_network()
    inputs = torch.randn(2, 1, 8, 8)
    widen(network, find_coupling(network, inputs), {"cells.1.edges.0.2.last": Widening(num_new=1)})
    genotypes = derive_genotypes(network, SMALL)
    assert genotypes == [("identity", "identity"), (OPERATIONS[2], "identity"), ("identity", "identity")]
    final = final_network(genotypes, in_channels=1, num_classes=2, channels=4, num_cells=5)
    assert final(inputs).shape == (2, 2)


def test_the_final_stack_is_that_of_the_paper():
    genotypes = [tuple([OPERATIONS[0]] * i + ["identity"] * (14 - i)) for i in range(1, 6)]
    network = final_network(genotypes, in_channels=3, num_classes=10, channels=4)
    kinds = [sum(type(op).__name__ == "Operation" for edge in cell.edges for op in edge) for cell in network.cells]
    assert kinds == [1] * 6 + [2] + [3] * 6 + [4] + [5] * 6
    assert [cell.norm.num_features for cell in network.cells] == [4] * 6 + [8] * 7 + [16] * 7
    assert len(edges_of(4)) == 14
    assert network.eval()(torch.randn(1, 3, 8, 8)).shape == (1, 10)


def test_bad_stacks_are_refused():
    with pytest.raises(ConfigError, match="odd in number"):
        final_network([("identity", "identity")] * 2, in_channels=1, num_classes=2)
