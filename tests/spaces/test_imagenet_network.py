"""The network of Table 2 of the disturbance-immune paper: its size, its multiply-adds, its stem, a pass forward."""

import pytest
import torch
from torch import nn

from ramet.costs import count_flops, count_parameters
from ramet.errors import ConfigError
from ramet.searching import FinalNetworkOptions
from ramet.spaces import Cells64, Darts
from ramet.spaces.darts.cell import DartsCell
from ramet.spaces.darts.genotypes import DARTS_V2
from ramet.spaces.darts.imagenet_network import DartsImageNetNetwork, ImageNetStem

SPACE = Darts(channels=48, num_cells=14)


def test_the_network_of_table_2_is_mobile():
    """DARTS' own cells as the paper sizes them: 12 normal and 2 reduction cells, under 600 million multiply-adds."""
    network = DartsImageNetNetwork(SPACE, SPACE.parse(DARTS_V2), 3, 1000, auxiliary=False).eval()
    cells = [stage for stage in network.stages if isinstance(stage, DartsCell)]
    assert [place for place, cell in enumerate(cells) if cell.reduction] == [4, 9] and len(cells) == 14
    assert count_parameters(network) == 4_718_752  # 4.7 million in the DARTS paper
    by_hand = []

    def count(layer, args, output):
        weights = layer.weight[0].numel()  # each output is a sum of so many products
        by_hand.append(output.numel() * weights)

    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    with torch.no_grad():
        assert network(torch.randn(1, 3, 224, 224)).shape == (1, 1000)
    multiply_adds = sum(by_hand)
    # DARTS gives 574 million for these cells, and the paper 595, without saying whether norms and poolings count.
    assert 500e6 < multiply_adds < 600e6
    assert count_flops(network, (3, 224, 224)) == multiply_adds


def test_the_stem_makes_images_an_eighth_as_large():
    stem = ImageNetStem(3, 6, 0.1).eval()
    older, newer = stem(torch.randn(2, 3, 32, 32), ())
    assert older.shape == (2, 6, 8, 8) and newer.shape == (2, 6, 4, 4)
    first = stem.older[0](torch.zeros(1, 3, 32, 32))
    assert first.shape == (1, 3, 16, 16)


def test_in_training_it_has_an_auxiliary_head_on_seven_by_seven_pixels():
    small = Darts(channels=4, num_cells=3)
    network = DartsImageNetNetwork(small, small.parse(DARTS_V2), 3, 5).train()
    seen = []
    network.auxiliary[1].register_forward_hook(lambda module, args, output: seen.append((args[0].shape, output.shape)))
    network.loss(torch.randn(2, 3, 224, 224), torch.tensor([0, 4])).backward()
    ((before, after),) = seen
    assert before[2:] == (7, 7) and after[2:] == (2, 2)
    x = torch.randn(1, 1, 7, 7)
    pooled = network.auxiliary[1](x)
    assert float(pooled[0, 0, 0, 1]) == pytest.approx(float(x[0, 0, :5, 2:].mean()), abs=1e-6)
    plain = network.plain().eval()
    with torch.no_grad():
        assert torch.allclose(plain(x.new_ones(1, 3, 224, 224)), network.eval()(x.new_ones(1, 3, 224, 224)), atol=1e-5)


def test_a_search_can_end_with_it():
    options = FinalNetworkOptions(channels=2, cells=3, large_images=True)
    small = Darts(channels=2, num_cells=1, num_nodes=1)
    options.check(small, (3, 64, 64))
    assert isinstance(options.build(small, small[5], 3, 7), DartsImageNetNetwork)
    with pytest.raises(ConfigError, match="for spaces with a final network of their own"):
        options.check(Cells64(), (3, 64, 64))
    with pytest.raises(ConfigError, match="one of darts, but EnasMicro has none"):
        from ramet.spaces import EnasMicro

        options.build(EnasMicro(channels=2, cells_per_stage=1, num_nodes=1), (0,) * 8, 3, 7)
