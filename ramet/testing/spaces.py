"""A conformance suite for spaces: what every search, sharing and ranking relies on.

For authors of a space of their own, with pytest:

    @pytest.mark.parametrize("check", SPACE_CHECKS, ids=lambda check: check.__name__)
    def test_my_space(check):
        check(MySpace(), (3, 8, 8), num_classes=4)

Each check raises an ``AssertionError`` that says what is broken. All are exact, and small enough for every commit.
"""

from __future__ import annotations

import io
import json
import pickle
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.seeding import seeded_globally, torch_generator
from ramet.spaces import Arch, Space, Supernet, make_space

NUM_SAMPLES = 8


def sample_archs(space: Space) -> list[Arch]:
    """The first and the last architecture and a few between, in no order."""
    generator = torch_generator(0, "conformance")
    drawn = [space.sample(generator) for _ in range(NUM_SAMPLES)]
    return list(dict.fromkeys([space[-1], *drawn, space[0]]))


def check_enumeration(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """A space is a sequence in lexicographic order whose ``index`` is the inverse of ``[]``."""
    places = sorted({0, space.num_archs - 1, *(space.index(arch) for arch in sample_archs(space))})
    archs = [space[place] for place in places]
    assert archs == sorted(archs), "architectures are not in lexicographic order"
    assert [space.index(arch) for arch in archs] == places, "index is not the inverse of []"
    assert all(arch in space for arch in archs), "an architecture of the space is not in it"
    if space.num_archs <= 1000:
        assert len(set(space)) == len(space) == space.num_archs, "an architecture is enumerated twice"
    for bad in ((), (*space[0], 0), tuple(space.num_options), (-1,) * len(space.num_options)):
        assert bad not in space, f"{bad} is in the space"
        _refuses(lambda bad=bad: space.check(bad), f"check({bad})")  # type: ignore[misc]


def check_names(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """``parse`` is the inverse of ``name``, and refuses everything else."""
    archs = sample_archs(space)
    names = [space.name(arch) for arch in archs]
    assert len(set(names)) == len(names), "two architectures have one name"
    assert [space.parse(name) for name in names] == archs, "parse is not the inverse of name"
    for bad in ("", names[0] + "x", names[0][:-1]):
        if bad not in names:
            _refuses(lambda bad=bad: space.parse(bad), f"parse({bad!r})")  # type: ignore[misc]


def check_description(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """``describe`` is JSON, and makes the same space again."""
    description = space.describe()
    assert json.loads(json.dumps(description, allow_nan=False)) == description, "describe() is not plain JSON"
    again = make_space(description, trusted=True)
    assert type(again) is type(space) and again.num_options == space.num_options, "the space made again is another"
    assert again.describe() == description, "the space made again describes itself otherwise"
    copy = pickle.loads(pickle.dumps(space))  # nosec B301
    assert copy.describe() == description, "the pickled space describes itself otherwise"


def check_children(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """A child gives what the supernet gives, bit for bit, after a pickle too, and holds nothing of the others."""
    net, x = _supernet(space, input_shape, num_classes)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for arch in sample_archs(space):
        expected = _logits(net, x, arch)
        places = (1, -1) if space.takes_text else (1,)  # of a text, classes may stand behind the tokens
        fits = len(expected) == len(x) and any(expected.shape[place] == num_classes for place in places)
        assert fits, f"logits have the shape {tuple(expected.shape)}"
        child = net.child(arch)
        with torch.no_grad():
            assert torch.equal(child(x), expected), f"child {space.name(arch)} differs from its supernet"
            buffer = io.BytesIO(pickle.dumps(child))
            again = pickle.load(buffer)  # nosec B301
            assert torch.equal(again(x), expected), f"child {space.name(arch)} differs after a pickle"
            for param in child.parameters():
                param.add_(1.0)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name]), f"a child shares {name} with its supernet"


def check_forward_all(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """``forward_all`` gives what one by one gives, bit for bit, in any order, and refuses training mode."""
    net, x = _supernet(space, input_shape, num_classes)
    drawn = sample_archs(space)
    archs = [*drawn, *reversed(drawn), drawn[0]]
    with torch.no_grad():
        found = list(net.forward_all(x, archs))
    assert len(found) == len(archs), f"forward_all gave {len(found)} results for {len(archs)} architectures"
    for arch, logits in zip(archs, found, strict=True):
        assert torch.equal(logits, _logits(net, x, arch)), f"forward_all differs for {space.name(arch)}"
    assert not list(net.forward_all(x, [])), "forward_all gave a result for no architecture"
    net.train()
    _refuses(lambda: list(net.forward_all(x, archs)), "forward_all in training mode")


def check_gradients(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """A step touches the path only: gradients and batch-norm statistics of all else stay as they were."""
    net, x = _supernet(space, input_shape, num_classes)
    net.train()
    for arch in sample_archs(space):
        net.zero_grad(set_to_none=True)
        child = net.child(arch)
        before = {name: tensor.clone() for name, tensor in net.named_buffers()}
        net(x, arch).square().sum().backward()
        child(x).square().sum().backward()
        touched, twins = _with_gradients(net), _with_gradients(child)
        assert touched, f"no parameter of {space.name(arch)} got a gradient"
        same = touched == twins
        assert same, f"parameters off the path of {space.name(arch)} got a gradient, or some on it got none"
        changed = sum(not torch.equal(tensor, before[name]) for name, tensor in net.named_buffers())
        assert changed <= sum(1 for _ in child.buffers()), f"statistics off the path of {space.name(arch)} changed"


def check_stages(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """``forward`` is the chain of the stages, and refuses what is not of the space."""
    net, x = _supernet(space, input_shape, num_classes)
    arch = sample_archs(space)[1 if space.num_archs > 1 else 0]
    with torch.no_grad():
        y = x
        for stage in net.stages:
            y = stage(y, arch)
        assert torch.equal(y, _logits(net, x, arch)), "forward is not the chain of the stages"
    _refuses(lambda: net(x, tuple(space.num_options)), "forward for an architecture of another space")
    _refuses(lambda: net.child(tuple(space.num_options)), "child for an architecture of another space")


def check_sizes(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """The sizes that a command asks for are arguments of the space, and without any it stays as it is."""
    assert set(space.small_sizes) <= set(space.size_names), "a small size has no name"
    assert isinstance(space.takes_text, bool) and isinstance(space.has_final_network, bool)
    description = space.describe()
    named = {name: key for name, key in space.size_names.items() if key in description}
    assert set(space.small_sizes) <= set(named), "a small size is no argument that describe() gives"
    if named or space.small_sizes:
        again = space.resized(**{name: description[key] for name, key in named.items()})
        assert again.describe() == description, "the space with its own sizes describes itself otherwise"
    _refuses(lambda: space.size_arguments(no_such_size=1), "a size that no space has")


def check_graph(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """What is drawn of an architecture is a graph: its nodes have keys of their own, and its edges join them."""
    for arch in sample_archs(space):
        for cell in space.graph(arch):
            keys = [key for key, _ in cell.nodes]
            assert cell.title and len(set(keys)) == len(keys), "a cell has no title, or two nodes have one key"
            assert all({start, end} <= set(keys) for start, end, _ in cell.edges), "an edge ends at no node"
            assert all(isinstance(part, str) for edge in cell.edges for part in edge), "an edge is not of texts"


def check_final_network(space: Space, input_shape: Sequence[int], num_classes: int) -> None:
    """A final network trains, takes the architecture as a supernet does, and has a plain twin; or there is none."""
    arch = sample_archs(space)[0]
    if not space.has_final_network:
        _refuses(lambda: space.final_network(arch, input_shape[0], num_classes), "a final network that there is not")
        return
    with seeded_globally(0, "conformance"):
        network = space.final_network(arch, input_shape[0], num_classes, auxiliary=False)
        x = space.example(4, input_shape, num_classes)
    network.set_drop_path(0.0)
    loss = network.train().loss(
        x, torch.zeros(len(x), dtype=torch.long), auxiliary_weight=0.0, of_outputs=cross_entropy
    )
    torch.autograd.backward(loss)
    assert _with_gradients(network), "no parameter of the final network got a gradient"
    network.eval()
    with torch.no_grad():
        logits = network(x, arch)
        assert logits.shape[:2] == (len(x), num_classes), f"logits have the shape {tuple(logits.shape)}"
        assert torch.equal(network.plain().eval()(x), logits), "the plain network differs from the final one"


SPACE_CHECKS: tuple[Callable[[Space, Sequence[int], int], None], ...] = tuple(
    check for name, check in globals().items() if name.startswith("check_")
)
"""Every check, each called as ``check(space, input_shape, num_classes)``."""


def _supernet(space: Space, input_shape: Sequence[int], num_classes: int) -> tuple[Supernet, Tensor]:
    """A supernet in evaluation mode whose batch norms have seen data, and a batch."""
    with seeded_globally(0, "conformance"):
        net = space.supernet(input_shape[0], num_classes)
        x = space.example(4, input_shape, num_classes)
        with torch.no_grad():
            for arch in sample_archs(space):
                net.train()(x + 1 if x.is_floating_point() else x, arch)
    return net.eval(), x


def _with_gradients(module: nn.Module) -> Counter[tuple[torch.Size, bytes]]:
    """The values of the parameters that have a gradient; a child may hold them in another order and by other names."""
    touched = (param.detach() for param in module.parameters() if param.grad is not None)
    return Counter((param.shape, param.flatten().numpy().tobytes()) for param in touched)


def _logits(net: Supernet, x: Tensor, arch: Arch) -> Tensor:
    with torch.no_grad():
        logits: Tensor = net(x, arch)
        return logits


def _refuses(action: Callable[[], object], what: str) -> None:
    try:
        action()
    except ConfigError:
        return
    raise AssertionError(f"{what} was not refused with a ConfigError")
