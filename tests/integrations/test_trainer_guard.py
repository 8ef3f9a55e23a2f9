"""A guard in Hugging Face's Trainer does what it does in a loop by hand, bit for bit."""

from __future__ import annotations

import copy

import guarded_loops as by_hand
import pytest
import torch
from torch import nn

from ramet.guards import ElasticConsolidation, attach, remember_batches, step_sizes
from ramet.guards.turns import VoidGuardWarning
from ramet.params import named_params

transformers = pytest.importorskip("transformers", reason="the extra 'trainer' is not installed")
pytest.importorskip("accelerate", reason="the extra 'trainer' is not installed")


def arguments(folder, loop, **others):
    return transformers.TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=by_hand.BATCH,
        num_train_epochs=others.pop("num_train_epochs", 1),
        gradient_accumulation_steps=loop.accumulate,
        max_grad_norm=loop.clip or 0.0,
        bf16=loop.bfloat16,
        save_strategy=others.pop("save_strategy", "no"),
        train_sampling_strategy="sequential",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        **others,
    )


def trained(network, guard, folder, loop, rows, **others):
    from ramet.integrations.transformers import TrainerGuard

    trainer = transformers.Trainer(
        network,
        arguments(folder, loop, **others),
        train_dataset=rows,
        optimizers=by_hand.optimizer_of(network),
        callbacks=[TrainerGuard(guard)],
    )
    trainer.train()
    return trainer


@by_hand.each_loop
@by_hand.each_guard
def test_it_equals_the_loop_by_hand(guard, loop, tmp_path):
    start, rows = (
        by_hand.first_task(),
        by_hand.samples(1, 7 * by_hand.BATCH),
    )  # seven mini-batches: the last accumulation is a short one
    network = copy.deepcopy(start)
    trained(network, by_hand.remembering(guard, network), tmp_path, by_hand.LOOPS[loop], rows)
    by_hand.assert_same(by_hand.values(network), by_hand.expected(start, guard, by_hand.LOOPS[loop], rows))
    free = by_hand.expected(start, "none", by_hand.LOOPS[loop], rows)
    assert not torch.equal(free["head.weight"], network.head.weight), "the guard acts"


def test_a_language_model_of_transformers_with_its_own_loss(tmp_path):
    """The Trainer divides by the words of all mini-batches of a step, and makes its optimizer itself."""
    start = by_hand.language_model(24, 8)
    words = torch.randint(24, (24, 8), generator=torch.Generator().manual_seed(1))
    rows = [{"input_ids": row, "labels": row} for row in words[8:]]
    networks = [copy.deepcopy(start), copy.deepcopy(start)]
    guards = [ElasticConsolidation(3.0, unit="trace"), ElasticConsolidation(3.0, unit="trace")]
    for network, guard in zip(networks, guards, strict=True):
        remember_batches(guard, network, words[:8].split(1), lambda x, net=network: net(input_ids=x, labels=x).loss)
    from ramet.integrations.transformers import TrainerGuard

    loop = by_hand.Loop(accumulate=2, clip=0.1)
    callbacks = [TrainerGuard(guards[0])]
    trainer = transformers.Trainer(networks[0], arguments(tmp_path, loop), train_dataset=rows, callbacks=callbacks)
    trainer.train()

    network, guard = networks[1], guards[1]
    other = transformers.Trainer(network, arguments(tmp_path, loop), train_dataset=rows)
    optimizer, schedule = other.create_optimizer(), other.create_scheduler(2)
    params, parts = named_params(network), by_hand.batches([{"x": row["labels"]} for row in rows])
    network.train()
    for first in (0, 2):
        optimizer.zero_grad()
        together = [part["x"] for part in parts[first : first + 2]]
        count = sum((part != -100).sum() for part in together)  # as the Trainer counts
        for part in together:
            network(input_ids=part, labels=part, num_items_in_batch=count).loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.1)
        with guard.step(params, step_sizes(optimizer, params)):
            optimizer.step()
        schedule.step()
    by_hand.assert_same(by_hand.values(networks[0]), by_hand.values(network))


def test_a_resumed_training_ends_with_the_same_bits(tmp_path):
    start, rows, loop = by_hand.first_task(), by_hand.samples(1, 4 * by_hand.BATCH), by_hand.Loop(clip=0.05)
    options = {"save_strategy": "steps", "save_steps": 3, "num_train_epochs": 2}
    whole, resumed = copy.deepcopy(start), copy.deepcopy(start)
    guard = by_hand.remembering("projection", whole)
    trained(whole, guard, tmp_path, loop, rows, **options)

    from ramet.integrations.transformers import TrainerGuard

    again = by_hand.remembering("projection", resumed)  # of the network that was begun with
    trainer = transformers.Trainer(
        resumed,
        arguments(tmp_path, loop, **options),
        train_dataset=rows,
        optimizers=by_hand.optimizer_of(resumed),
        callbacks=[TrainerGuard(again)],
    )
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    by_hand.assert_same(by_hand.values(resumed), by_hand.values(whole))


def test_the_guard_hears_of_epochs_and_lets_go_at_the_end(tmp_path):
    network = by_hand.first_task()

    class Counting(ElasticConsolidation):
        def start_epoch(self, epoch):
            heard.append(epoch)

    heard = []
    guard = by_hand.remembering_by(Counting(0.0), network)
    trainer = trained(network, guard, tmp_path, by_hand.Loop(), by_hand.samples(1, 8), num_train_epochs=3)
    assert heard == [0, 1, 2]
    assert not trainer.optimizer.optimizer._optimizer_step_pre_hooks
    assert not trainer.optimizer.optimizer._optimizer_step_post_hooks
    with attach(Counting(0.0), network, trainer.optimizer):  # what accelerate has wrapped is taken off
        assert trainer.optimizer.optimizer._optimizer_step_pre_hooks


class Endless(torch.utils.data.IterableDataset):
    """Eight samples, of which the ``Trainer`` does not know that they are eight."""

    def __iter__(self):
        return iter(by_hand.samples(1, 8))


def test_passes_over_data_without_a_length_are_epochs(tmp_path):
    heard = []

    class Counting(ElasticConsolidation):
        def start_epoch(self, epoch):
            heard.append(epoch)

    network = by_hand.first_task()
    guard = by_hand.remembering_by(Counting(0.0), network)
    trained(network, guard, tmp_path, by_hand.Loop(), Endless(), max_steps=7)  # two mini-batches a pass
    assert heard == [0, 1, 2, 3]


def test_a_guard_that_remembers_nothing_is_told(tmp_path):
    from ramet.integrations.transformers import TrainerGuard

    network = by_hand.first_task()
    guard = TrainerGuard(ElasticConsolidation(1.0))
    optimizer, _ = by_hand.optimizer_of(network)
    with pytest.warns(VoidGuardWarning, match="ElasticConsolidation remembers nothing"):
        guard.on_train_begin(None, None, None, model=network, optimizer=optimizer)
    guard.on_train_end(None, None, None)
