"""What a growth step costs, in CPU milliseconds: run with `python -m benchmarks.bench_growth`.

An MLP 64-16-16-10 that gets 8 neurons; a growth step of a VGG-like network against an epoch of its training and against
steepest splitting; a network of ten million parameters that grows by 30 %; and how the memory of a Firefly step
grows with the network and with the number of candidates.
"""

import resource
import time
import weakref

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.rows import Row, as_table
from ramet.costs import count_parameters
from ramet.growth import Budget, carry_out, find_coupling, find_sites, make_method
from ramet.growth.base import GrowthContext
from ramet.growth.meter import Meter
from ramet.training import Recipe

torch.set_num_threads(1)


def vgg(channels, classes=10, size=16):
    layers, before = [], 3
    for number, width in enumerate(channels):
        layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        if number % 2:
            layers.append(nn.MaxPool2d(2))
        before = width
    side = size // 2 ** (len(channels) // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * side * side, classes))


def make_context(network, x, y, budget, batch_size=64):
    coupling = find_coupling(network, x[:4])
    sites, _ = find_sites(network, coupling)

    def meter():
        return Meter(network, coupling, sites, budget.unit)

    return GrowthContext(
        network=network, coupling=coupling, sites=sites, loss=nn.functional.cross_entropy, x=x, y=y, validation_x=x,
        validation_y=y, batch_size=batch_size, seed=0, allowance=budget.allowance(meter().size),
        max_layers=budget.layers, meter=meter,
        make_optimizer=lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
        recipe=Recipe(epochs=10),  # between two growths, as `ramet grow` has it
    )  # fmt: skip


def grow(network, x, y, budget, method):
    """One whole step, in place, as the loop does it: trace, check, propose, score, choose, write."""
    context = make_context(network, x, y, budget)
    proposal = method.propose(context)
    scores = method.score(context, proposal)
    edit = method.apply(context, proposal, context.choose(proposal.candidates, scores))
    carry_out(network, context.coupling, context.sites, edit, seed=0)
    return edit.num_units


def cpu_ms(function):
    start = time.process_time()
    result = function()
    return 1000 * (time.process_time() - start), result


def epoch(network, x, y, batch_size=64):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    network.train()
    for inputs, targets in zip(x.split(batch_size), y.split(batch_size), strict=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), targets).backward()
        optimizer.step()


def mlp_row(generator):
    x, y = torch.randn(512, 64, generator=generator), torch.randint(0, 10, (512,), generator=generator)
    best = float("inf")
    for _ in range(5):
        network = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10))
        method = make_method("firefly", num_new=8, num_steps=8, num_score_batches=1)
        ms, units = cpu_ms(lambda n=network, m=method: grow(n, x, y, Budget("neurons", 1e9, 8.0), m))
        best = min(best, ms)
    detail = f"{units} neurons, Firefly with 8 mini-batches of 64; `make bench-peers` compares it with GroMo"
    return Row(name="growth step, MLP 64-16-16-10 + 8", value=best, limit=100, unit=" ms", detail=detail)


def vgg_rows(generator):
    x, y = torch.randn(2048, 3, 16, 16, generator=generator), torch.randint(0, 10, (2048,), generator=generator)
    widths = [16, 16, 32, 32, 32, 32]
    train, _ = cpu_ms(lambda: epoch(vgg(widths), x, y))
    spent = {}
    for name, options in (
        ("firefly", {}),  # the defaults: docs/decisions/018
        ("splitting", {"num_iterations": 8, "num_batches": 4}),
    ):
        fresh, method = vgg(widths), make_method(name, **options)
        spent[name], _ = cpu_ms(lambda n=fresh, m=method: grow(n, x, y, Budget("neurons", 1e9, 0.3), m))
    detail = f"an epoch of 2,048 images takes {train:.0f} CPU-ms, steepest splitting's step {spent['splitting']:.0f}"
    return [
        Row(name="Firefly step, VGG-like, in epochs", value=spent["firefly"] / train, limit=1.5, detail=detail),
        Row(name="Firefly step over steepest splitting's", value=spent["firefly"] / spent["splitting"], limit=1 / 3),
    ]


def large_row(generator):
    x, y = torch.randn(16, 3, 16, 16, generator=generator), torch.randint(0, 10, (16,), generator=generator)
    network = vgg([64, 128, 256, 512, 768, 1024])
    before = count_parameters(network)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ms, units = cpu_ms(lambda: grow(network, x, y, Budget("params", 1e12, 0.3), make_method("net2net")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    detail = (
        f"{before / 1e6:.1f} M to {count_parameters(network) / 1e6:.1f} M by {units} units, "
        f"{(peak - held) / 1024:.0f} MB above the {4 * before / 2**20:.0f} MB of its weights"
    )
    return Row(name="growing ten million parameters by 30 %", value=ms / 1000, limit=60, unit=" s", detail=detail)


class Peak(TorchDispatchMode):
    """The largest number of bytes that tensors held at one time, of those that were made inside the block."""

    def __init__(self):
        super().__init__()
        self.held = self.peak = 0
        self.known = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self._hold(tensor.untyped_storage())
        return result

    def _hold(self, storage):
        place, size = storage.data_ptr(), storage.nbytes()
        if not size or place in self.known:
            return
        self.known.add(place)
        self.held += size
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._drop, place, size)

    def _drop(self, place, size):
        self.known.discard(place)
        self.held -= size


def step_bytes(depth, width, num_new, generator):
    """The peak of a Firefly step on an MLP of equal layers with a small batch, and the bytes of its N and of m'."""
    hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(width, width), nn.ReLU())]
    network = nn.Sequential(nn.Linear(width, width), nn.ReLU(), *hidden, nn.Linear(width, width))
    x, y = torch.randn(8, width, generator=generator), torch.randint(0, width, (8,), generator=generator)
    context = make_context(network, x, y, Budget("neurons", 1e9, 8.0), batch_size=8)
    method = make_method("firefly", num_new=num_new, num_steps=1, num_score_batches=1)
    with Peak() as peak:
        method.score(context, method.propose(context))
    own = count_parameters(network)
    new = depth * 2 * width * num_new + (depth - 1) * num_new * num_new  # candidates see each other in the layer after
    return peak.peak, 4 * own, 4 * new


def memory_rows(generator):
    """Peak bytes for each byte of N + m', as the network gets deeper or wider and as the candidates get more.

    Equal layers, because a first and a last layer hold fewer candidates a weight, which would look like a trend.
    """
    rows = []
    for name, sizes in (
        ("depth, m' = 8", [(depth, 128, 8) for depth in (4, 8, 16, 32)]),
        ("width, m' = 8", [(4, width, 8) for width in (128, 256, 512, 1024)]),
        ("candidates m', N fixed", [(4, 256, count) for count in (8, 32, 64, 128)]),
    ):
        measured = [step_bytes(*size, generator) for size in sizes]
        shares = [peak / (own + new) for peak, own, new in measured]
        detail = ", ".join(f"{peak / 2**20:.1f} MB for {(own + new) / 2**20:.2f}" for peak, own, new in measured)
        # Linear: bytes for each byte of N + m' do not rise as that grows.
        rows.append(Row(name=f"memory against {name}", value=shares[-1] / shares[0], limit=1.2, detail=detail))
    return rows


def run():
    generator = torch.Generator().manual_seed(0)
    return [mlp_row(generator), *vgg_rows(generator), large_row(generator), *memory_rows(generator)]


if __name__ == "__main__":
    print(as_table(run()))
