"""A guard in a loop with accelerate does what it does in a loop without, bit for bit."""

from __future__ import annotations

import copy

import guarded_loops as by_hand
import pytest
import torch

from ramet.errors import RunError
from ramet.guards import OrthogonalProjection

pytest.importorskip("accelerate", reason="the extra 'accelerate' is not installed")
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

from ramet.integrations.accelerate import prepare_guard


@pytest.fixture
def fresh():
    """Accelerate keeps its settings for the whole process, and takes others only when these are gone."""
    _forget()  # what other tests of this process left
    yield
    _forget()


def _forget():
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


def train(start, guard, loop, rows):
    """The loop of accelerate's documentation, and the line that the guard needs."""
    precision = "bf16" if loop.bfloat16 else "no"
    accelerator = Accelerator(cpu=True, mixed_precision=precision, gradient_accumulation_steps=loop.accumulate)
    loader = torch.utils.data.DataLoader(rows, batch_size=by_hand.BATCH)
    optimizer, schedule = by_hand.optimizer_of(start)
    model, optimizer, loader = accelerator.prepare(start, optimizer, loader)
    prepare_guard(accelerator, guard, model, optimizer)
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch)["loss"])
            if accelerator.sync_gradients and loop.clip is not None:
                accelerator.clip_grad_norm_(model.parameters(), loop.clip)
            optimizer.step()
            if accelerator.sync_gradients:
                schedule.step()
            optimizer.zero_grad()
    return accelerator


@by_hand.each_loop
@by_hand.each_guard
def test_it_equals_the_loop_by_hand(guard, loop, fresh):
    start, rows = by_hand.first_task(), by_hand.samples(1, 6 * by_hand.BATCH)
    network = copy.deepcopy(start)
    train(network, by_hand.remembering(guard, network), by_hand.LOOPS[loop], rows)
    by_hand.assert_same(by_hand.values(network), by_hand.expected(start, guard, by_hand.LOOPS[loop], rows))
    free = by_hand.expected(start, "none", by_hand.LOOPS[loop], rows)
    assert not torch.equal(free["head.weight"], network.head.weight), "the guard acts"


def test_saved_states_keep_what_the_guard_remembers(tmp_path, fresh):
    network = by_hand.first_task()
    guard = by_hand.remembering("projection", network)
    accelerator = train(network, guard, by_hand.Loop(), by_hand.samples(1, by_hand.BATCH))
    kept = {name: tensor.clone() for name, tensor in guard.state_dict().items()}
    accelerator.save_state(str(tmp_path / "state"))
    assert (tmp_path / "state" / "guard.safetensors").exists()
    guard.forget()
    assert guard.state_dict().keys() != kept.keys()
    accelerator.load_state(str(tmp_path / "state"))
    by_hand.assert_same(guard.state_dict(), kept)


def test_a_state_without_a_guard_is_refused(tmp_path, fresh):
    accelerator = train(by_hand.first_task(), OrthogonalProjection(), by_hand.Loop(), by_hand.samples(1, by_hand.BATCH))
    accelerator.save_state(str(tmp_path / "state"))
    (tmp_path / "state" / "guard.safetensors").unlink()
    with pytest.raises(RunError, match=r"has no guard\.safetensors"):
        accelerator.load_state(str(tmp_path / "state"))
