"""A user's own space: what Choice decides, what is refused, and the example of docs/spaces.md."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces import Choice, ModuleSpace, make_space, space_of
from ramet.spaces.kernels.depthwise import DepthwiseConv2d
from ramet.testing.spaces import SPACE_CHECKS

ROOT = Path(__file__).parents[2]


class Block(nn.Module):
    """Two places that decide together, one that decides alone, and a forward of its own."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.first = Choice(
            {"conv": nn.Conv2d(in_channels, 4, 3, padding=1), "point": nn.Conv2d(in_channels, 4, 1)}, name="kind"
        )
        self.norm = nn.BatchNorm2d(4)
        self.second = Choice({"conv": nn.Conv2d(4, 4, 3, padding=1), "point": nn.Conv2d(4, 4, 1)}, name="kind")
        self.act = Choice([nn.ReLU(), nn.Tanh(), nn.Identity()])
        self.head = nn.Linear(4, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x))
        x = x + self.act(self.second(x))
        logits: Tensor = self.head(x.flatten(2).mean(-1))
        return logits


def make_chain(in_channels: int, num_classes: int) -> nn.Module:
    """A Sequential, with a layer that works in place right after a stage whose output is held."""
    return nn.Sequential(
        Choice({"three": nn.Conv2d(in_channels, 4, 3), "five": nn.Conv2d(in_channels, 4, 5, padding=1)}),
        nn.BatchNorm2d(4),
        nn.Hardswish(inplace=True),
        Choice([nn.Identity(), nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))]),
        nn.Flatten(),
        Choice([nn.Linear(4 * 36, num_classes), nn.Sequential(nn.Linear(4 * 36, 5), nn.Linear(5, num_classes))]),
    )


@pytest.mark.parametrize("factory", [Block, make_chain])
@pytest.mark.parametrize("check", SPACE_CHECKS, ids=lambda check: check.__name__)
def test_own_spaces_conform(check: object, factory: object) -> None:
    check(ModuleSpace(factory), (2, 8, 8), 3)  # type: ignore[operator]


def test_names_and_decisions() -> None:
    space = ModuleSpace(Block)
    assert [(d.name, d.options) for d in space.decisions] == [("kind", ("conv", "point")), ("act", ("0", "1", "2"))]
    assert len(space) == 6
    assert space.name((1, 2)) == "kind=point,act=2"
    assert ModuleSpace(make_chain).name((1, 0, 1)) == "0=five,3=0,5=1"


def test_a_shared_name_decides_all_its_places() -> None:
    net = ModuleSpace(Block).supernet(2, 3)
    child = net.child((1, 2))
    assert isinstance(child, Block)
    assert (child.first.kernel_size, child.second.kernel_size) == ((1, 1), (1, 1))
    assert isinstance(child.act, nn.Identity)
    assert not any(isinstance(module, Choice) for module in child.modules())


def test_a_sequential_gives_a_stage_for_each_item_and_any_other_module_is_one() -> None:
    assert len(ModuleSpace(make_chain).supernet(2, 3).stages) == 6
    assert len(ModuleSpace(Block).supernet(2, 3).stages) == 1
    assert type(ModuleSpace(make_chain).supernet(2, 3).child((0, 1, 0))) is nn.Sequential


def test_forward_all_runs_each_common_stage_once() -> None:
    space = ModuleSpace(make_chain)
    net = space.supernet(2, 3).eval()
    calls: list[int] = []
    for number, stage in enumerate(net.stages):
        stage.register_forward_hook(lambda *_, number=number: calls.append(number))
    with torch.no_grad():
        list(net.forward_all(torch.randn(2, 2, 8, 8), list(space)))
    # Stage 1 is changed in place by stage 2, whose own output is held.
    assert [calls.count(number) for number in range(6)] == [2, 2, 2, 4, 4, 8]


def test_inference_mode_is_exact_although_changes_in_place_cannot_be_seen() -> None:
    space = ModuleSpace(make_chain)
    net = space.supernet(2, 3).eval()
    x = torch.randn(2, 2, 8, 8)
    with torch.inference_mode():
        for arch, logits in zip(space, net.forward_all(x, list(space)), strict=True):
            assert torch.equal(logits, net(x, arch))


def test_only_the_chosen_option_is_touched() -> None:
    class Trap(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError("an option that was not chosen ran")

    net = space_of(nn.Sequential(Choice([nn.Linear(2, 2), Trap()]))).supernet(2, 2)
    assert net(torch.ones(1, 2), (0,)).shape == (1, 2)


def test_threads_do_not_meet() -> None:
    """Two threads inside one supernet at the same moment: each waits in the first choice until both are there."""
    barrier = threading.Barrier(2, timeout=300)

    class Meet(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            barrier.wait()
            return x

    class Add(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def forward(self, x: Tensor) -> Tensor:
            return x + self.value

    net = space_of(nn.Sequential(Meet(), Choice([Add(1.0), Add(2.0)]))).supernet(1, 1)
    results: dict[int, float] = {}

    def work(option: int) -> None:
        results[option] = float(net(torch.zeros(1), (option,)))

    threads = [threading.Thread(target=work, args=(option,)) for option in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: 1.0, 1: 2.0}


def test_a_choice_by_itself_is_refused_also_after_a_supernets_call() -> None:
    choice = Choice([nn.Identity()])
    with pytest.raises(ConfigError, match="inside supernet"):
        choice(torch.ones(1))
    net = space_of(choice).supernet(1, 1)
    net(torch.ones(1), (0,))
    with pytest.raises(ConfigError, match="inside supernet"):
        net.stages[0].module(torch.ones(1))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choice([]), "at least one option"),
        (lambda: Choice([lambda x: x]), "nn.Module"),
        (lambda: Choice({"a,b": nn.Identity()}), "comma"),
        (lambda: Choice([nn.Identity()], name="a b"), "space"),
        (lambda: space_of(nn.Linear(1, 1)), "at least one Choice"),
        (lambda: space_of(Choice([nn.Sequential(Choice([nn.Identity()]))])), "inside an option"),
        (
            lambda: space_of(nn.Sequential(Choice([nn.ReLU()], name="a"), Choice([nn.ReLU(), nn.Tanh()], name="a"))),
            "the same options",
        ),
        (
            lambda: space_of(nn.Sequential(Choice([nn.ReLU()], name="1"), Choice([nn.ReLU()]))),
            "place of another",
        ),
        (lambda: ModuleSpace(lambda c, n: 3), "nn.Module"),
        (lambda: ModuleSpace("no_such_module_of_mine:make"), "imported"),
        (lambda: ModuleSpace("no_such_file.py:make"), "there is no"),
        (lambda: ModuleSpace("math:no_such_name"), "must define"),
        (lambda: ModuleSpace("math"), "a reference reads"),
        (lambda: make_space("cells65"), "cells64"),
        (lambda: make_space("cells64", chanels=3), "chanels"),
        (lambda: make_space("fractions:Fraction"), "neither"),
        (lambda: make_space(ModuleSpace(lambda c, n: make_chain(c, n)).describe()), "can be imported"),
    ],
)
def test_bad_input_is_refused(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_a_factory_must_make_the_same_choices_for_all_data() -> None:
    space = ModuleSpace(lambda c, n: nn.Sequential(*[Choice([nn.ReLU(), nn.Tanh()]) for _ in range(c)]))
    with pytest.raises(ConfigError, match="same choices"):
        space.supernet(2, 10)


def test_a_factory_may_refuse_what_it_has_no_network_for() -> None:
    def factory(in_channels: int, num_classes: int) -> nn.Module:
        if in_channels != 1:
            raise ConfigError(f"this network reads grey images, but got {in_channels} channels.")
        return make_chain(in_channels, num_classes)

    with pytest.raises(ConfigError, match="grey"):
        ModuleSpace(factory)
    space = ModuleSpace(factory, in_channels=1)
    with pytest.raises(ConfigError, match="grey"):
        space.supernet(3, 10)


def test_making_a_space_draws_nothing() -> None:
    state = torch.random.get_rng_state()
    ModuleSpace(Block)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_shared_modules_stay_shared_in_the_child() -> None:
    shared = nn.Linear(2, 2)
    module = nn.Sequential(Choice([shared, nn.Identity()]), nn.ReLU(), shared)
    child = space_of(module).supernet(1, 1).child((0,))
    assert isinstance(child, nn.Sequential) and child[0] is child[2]
    assert child[0] is not shared


def test_a_factory_in_a_file_is_found_again_by_another_process(tmp_path: Path) -> None:
    """The pickled space travels by its reference, and a changed file is noticed."""
    file = tmp_path / "nets_of_mine.py"
    code = (
        "from torch import nn\nfrom ramet.spaces import Choice\n"
        "def make(c, n):\n    return nn.Sequential(Choice([nn.Flatten(), nn.Flatten(1)]), nn.Linear(c * 4, n))\n"
    )
    file.write_text(code)
    space = make_space(f"{file}:make")
    description = space.describe()
    (tmp_path / "space.pickle").write_bytes(pickle.dumps(space))
    script = "import pickle, sys; print(len(pickle.load(open(sys.argv[1], 'rb'))))"
    command = [sys.executable, "-c", script, str(tmp_path / "space.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "2"
    del sys.modules["nets_of_mine"]
    file.write_text(code.replace("c * 4", "c * 8"))
    with pytest.raises(ConfigError, match=r"would run .*nets_of_mine.py:make"):
        make_space(description)  # a description is data
    with pytest.raises(ConfigError, match="has changed"):
        make_space(description, trusted=True)
    del sys.modules["nets_of_mine"]


def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its Python blocks in order, as one program, from a folder of its own."""
    text = (ROOT / "docs" / "spaces.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 3
    program = tmp_path / "example.py"
    program.write_text("\n".join(blocks))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    assert done.stdout == "".join(shown)


def test_fast_depthwise_layers_become_torchs_own_in_a_child() -> None:
    module = nn.Sequential(Choice([DepthwiseConv2d(2, 2, 5, dilation=2), nn.Identity()]), DepthwiseConv2d(2, 2, 3))
    net = space_of(module).supernet(2, 2)
    child = net.child((0,))
    assert [type(layer) for layer in child] == [nn.Conv2d, nn.Conv2d]  # type: ignore[attr-defined]
    own = {id(param) for param in net.parameters()}
    assert not any(id(param) in own for param in child.parameters())


def test_of_a_module_that_gives_more_its_logits_count():
    class Rich(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Choice([nn.Linear(3, 2), nn.Linear(3, 2)])

        def forward(self, x):
            return {"loss": x.sum(), "logits": self.body(x)}

    net, x = space_of(Rich()).supernet(1, 2), torch.randn(4, 3)
    for arch in net.space:
        assert torch.equal(net(x, arch), net.child(arch)(x)["logits"])
