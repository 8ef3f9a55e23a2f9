"""A guard in Lightning's Trainer does what it does in a loop by hand, bit for bit."""

from __future__ import annotations

import copy
import logging
import warnings

import guarded_loops as by_hand
import pytest
import torch

from ramet.guards import ElasticConsolidation

pytest.importorskip("lightning", reason="the extra 'lightning' is not installed")
from lightning.pytorch import LightningModule, Trainer

from ramet.integrations.lightning import LightningGuard

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(LightningModule):
    """A network as a Lightning user has it; with ``manual`` the user steps and clips."""

    def __init__(self, network, loop, *, manual=False):
        super().__init__()
        self.network, self.loop, self.automatic_optimization = network, loop, not manual

    def training_step(self, batch, number):
        loss = self.network(**batch)["loss"]
        if self.automatic_optimization:
            return loss
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        self.clip_gradients(optimizer, self.loop.clip, "norm")
        optimizer.step()
        self.lr_schedulers().step()
        return None

    def configure_optimizers(self):
        optimizer, schedule = by_hand.optimizer_of(self.network)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def fit(module, guard, loop, rows, **others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data loaders, of loggers, and of CPUs
        trainer = Trainer(
            accelerator="cpu",
            devices=others.pop("devices", 1),
            max_epochs=others.pop("max_epochs", 1),
            accumulate_grad_batches=loop.accumulate if module.automatic_optimization else 1,
            gradient_clip_val=loop.clip if module.automatic_optimization else None,
            precision="bf16-mixed" if loop.bfloat16 else "32-true",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[LightningGuard(guard)],
            **others,
        )
        trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=by_hand.BATCH))
    return trainer


@by_hand.each_loop
@by_hand.each_guard
def test_it_equals_the_loop_by_hand(guard, loop):
    # Lightning divides by the whole number of an accumulation also where the last one is short: six mini-batches.
    start, rows = by_hand.first_task(), by_hand.samples(1, 6 * by_hand.BATCH)
    network = copy.deepcopy(start)
    module = Module(network, by_hand.LOOPS[loop])
    fit(module, by_hand.remembering(guard, module), by_hand.LOOPS[loop], rows)
    by_hand.assert_same(by_hand.values(network), by_hand.expected(start, guard, by_hand.LOOPS[loop], rows))
    free = by_hand.expected(start, "none", by_hand.LOOPS[loop], rows)
    assert not torch.equal(free["head.weight"], network.head.weight), "the guard acts"


def test_manual_optimization_equals_the_loop_by_hand():
    start, rows, loop = by_hand.first_task(), by_hand.samples(1, 5 * by_hand.BATCH), by_hand.Loop(clip=0.05)
    network = copy.deepcopy(start)
    module = Module(network, loop, manual=True)
    fit(module, by_hand.remembering("both", module), loop, rows)
    by_hand.assert_same(by_hand.values(network), by_hand.expected(start, "both", loop, rows))


def test_the_guard_hears_of_epochs_and_lets_go_at_the_end():
    class Counting(ElasticConsolidation):
        def start_epoch(self, epoch):
            heard.append(epoch)

    heard = []
    module = Module(by_hand.first_task(), by_hand.Loop())
    guard = by_hand.remembering_by(Counting(0.0), module)
    trainer = fit(module, guard, by_hand.Loop(), by_hand.samples(1, 8), max_epochs=3)
    assert heard == [0, 1, 2]
    assert not trainer.optimizers[0]._optimizer_step_pre_hooks


def test_a_failure_in_the_step_lets_the_optimizer_go_and_leaves_no_trace_in_gradients():
    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            closure()
            raise FloatingPointError

    class Fails(Module):
        def configure_optimizers(self):
            self.failing = Failing(self.network.parameters(), lr=0.1)
            return self.failing

    network, rows = by_hand.first_task(), by_hand.samples(1, by_hand.BATCH)
    module = Fails(network, by_hand.Loop())
    guard = by_hand.remembering("elastic", module)
    with torch.no_grad():
        network.head.weight.add_(0.5)  # away from the anchor, so that the penalty has a gradient
    twin = copy.deepcopy(network)
    with pytest.raises(FloatingPointError):
        fit(module, guard, by_hand.Loop(), rows)
    (batch,) = by_hand.batches(rows)
    twin(**batch)["loss"].backward()
    # The penalty's gradient is added and taken back: two roundings of a sum, of the larger of the two numbers' size.
    size = 2 * float((network.head.weight.detach() - guard.anchor["network.head.weight"]).abs().max()) * guard.alpha
    size *= float(guard.fisher["network.head.weight"].max()) / guard._scale()
    found, wanted = network.head.weight.grad, twin.head.weight.grad
    assert float((found - wanted).abs().max()) <= 2 * torch.finfo(torch.float32).eps * (
        size + float(wanted.abs().max())
    )
    assert not module.failing._optimizer_step_pre_hooks
