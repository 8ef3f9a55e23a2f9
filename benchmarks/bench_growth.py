"""What a growth step costs, in CPU milliseconds: run with `python -m benchmarks.bench_growth`.

Three questions: an MLP 64-16-16-10 that gets 8 neurons (GroMo 0.1.0 takes 210 on the same machine), a growth step of a
VGG-like network against an epoch of its training, and a network of ten million parameters that grows by 30 %.
"""

import argparse
import resource
import time

import torch
from torch import nn

from ramet.growth import Budget, carry_out, find_coupling, find_sites, make_method
from ramet.growth.base import Scene
from ramet.growth.budget import Meter

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


def make_scene(network, x, y, budget, batch_size=64):
    coupling = find_coupling(network, x[:4])
    sites, _ = find_sites(network, coupling)

    def meter():
        return Meter(network, coupling, sites, budget.unit)

    return Scene(
        network=network, coupling=coupling, sites=sites, loss=nn.functional.cross_entropy, x=x, y=y, validation_x=x,
        validation_y=y, batch_size=batch_size, seed=0, allowance=budget.allowance(meter().size),
        max_layers=budget.layers, meter=meter,
        make_optimizer=lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
    )  # fmt: skip


def grow(network, x, y, budget, method):
    """One whole step, in place, as the loop does it: trace, check, propose, score, choose, write."""
    scene = make_scene(network, x, y, budget)
    proposal = method.propose(scene)
    scores = method.score(scene, proposal)
    edit = method.apply(scene, proposal, scene.choose(proposal.candidates, scores))
    carry_out(network, scene.coupling, scene.sites, edit, seed=0)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="mlp,vgg,large")
    parts = parser.parse_args().parts.split(",")
    generator = torch.Generator().manual_seed(0)
    if "mlp" in parts:
        x, y = torch.randn(512, 64, generator=generator), torch.randint(0, 10, (512,), generator=generator)
        options = {"num_new": 8, "num_steps": 8, "num_score_batches": 1}
        times = []
        for _ in range(5):
            network = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10))
            method = make_method("firefly", **options)
            ms, units = cpu_ms(lambda n=network, m=method: grow(n, x, y, Budget("neurons", 1e9, 8.0), m))
            times.append(ms)
        print(f"mlp 64-16-16-10 + {units}: {min(times):.0f} CPU-ms (best of 5)")
    if "vgg" in parts:
        x, y = torch.randn(2048, 3, 16, 16, generator=generator), torch.randint(0, 10, (2048,), generator=generator)
        network = vgg([16, 16, 32, 32, 32, 32])
        train, _ = cpu_ms(lambda: epoch(network, x, y))
        for name, options in (
            ("firefly", {"num_new": 8, "num_steps": 8, "num_score_batches": 2}),
            ("splitting", {"num_iterations": 8, "num_batches": 2}),
        ):
            fresh = vgg([16, 16, 32, 32, 32, 32])
            method = make_method(name, **options)
            ms, units = cpu_ms(lambda n=fresh, m=method: grow(n, x, y, Budget("neurons", 1e9, 0.3), m))
            print(f"vgg {name}: {ms:.0f} CPU-ms for {units} units, {ms / train:.2f} training epochs of {train:.0f}")
    if "large" in parts:
        x, y = torch.randn(16, 3, 16, 16, generator=generator), torch.randint(0, 10, (16,), generator=generator)
        network = vgg([64, 128, 256, 512, 512, 1024], size=16)
        before = sum(p.numel() for p in network.parameters())
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ms, units = cpu_ms(lambda: grow(network, x, y, Budget("params", 1e12, 0.3), make_method("net2net")))
        after = sum(p.numel() for p in network.parameters())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"large: {before / 1e6:.1f} M to {after / 1e6:.1f} M parameters, {units} units, {ms / 1000:.1f} CPU-s")
        print(f"large: peak memory {(peak - held) / 1024:.0f} MB above the {4 * before / 2**20:.0f} MB of its weights")


if __name__ == "__main__":
    main()
