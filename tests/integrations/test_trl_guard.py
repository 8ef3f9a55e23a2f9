"""A guard in a trainer of TRL, which is a ``Trainer`` of Hugging Face: what it does in a loop by hand, bit for bit."""

from __future__ import annotations

import copy

import guarded_loops as by_hand
import pytest
import torch
from torch import nn

from ramet.guards import ElasticConsolidation, remember_batches, step_sizes
from ramet.params import named_params

trl = pytest.importorskip("trl", reason="the extra 'trl' is not installed")
transformers = pytest.importorskip("transformers", reason="the extra 'trl' is not installed")
WORDS, LENGTH, BATCH = 24, 8, 4
CLIP = 0.1


def tokenizer():
    """One word a token, because the trainer asks for a tokenizer; the rows below are numbers already."""
    from tokenizers import Tokenizer, models

    made = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="w0", pad_token="w0")


def fine_tuning(network, rows, folder, callbacks=()):
    """Supervised fine-tuning of two steps, each of two mini-batches."""
    from datasets import Dataset

    options = trl.SFTConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=BATCH,
        num_train_epochs=1,
        gradient_accumulation_steps=2,
        gradient_checkpointing=False,
        max_grad_norm=CLIP,
        save_strategy="no",
        train_sampling_strategy="sequential",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
    )
    data = Dataset.from_list([{"input_ids": row.tolist()} for row in rows])
    return trl.SFTTrainer(
        network, args=options, train_dataset=data, processing_class=tokenizer(), callbacks=list(callbacks)
    )


def remembered(network, words):
    guard = ElasticConsolidation(3.0, unit="trace")
    remember_batches(guard, network, words.split(1), lambda x: network(input_ids=x, labels=x).loss)
    return guard


def test_supervised_fine_tuning_equals_the_loop_by_hand(tmp_path):
    from ramet.integrations.transformers import TrainerGuard

    words = torch.randint(WORDS, (24, LENGTH), generator=torch.Generator().manual_seed(1))
    old, new = words[:8], words[8:]
    start = by_hand.language_model(WORDS, LENGTH, pad_token_id=0)
    theirs = copy.deepcopy(start)
    fine_tuning(theirs, new, tmp_path, [TrainerGuard(remembered(theirs, old))]).train()

    ours = copy.deepcopy(start)
    guard = remembered(ours, old)
    trainer = fine_tuning(ours, new, tmp_path)  # for its optimizer, its schedule and its loss
    optimizer, schedule = trainer.create_optimizer(), trainer.create_scheduler(2)
    params, batches = named_params(ours), iter(trainer.get_train_dataloader())
    ours.train()
    for _ in range(2):
        optimizer.zero_grad()
        together, num_words = trainer.get_batch_samples(batches, 2, torch.device("cpu"))
        for batch in together:
            trainer.compute_loss(ours, batch, num_items_in_batch=num_words).backward()
        nn.utils.clip_grad_norm_(ours.parameters(), CLIP)
        with guard.step(params, step_sizes(optimizer, params)):
            optimizer.step()
        schedule.step()
    by_hand.assert_same(by_hand.values(theirs), by_hand.values(ours))
    free = copy.deepcopy(start)
    fine_tuning(free, new, tmp_path).train()
    assert any(not torch.equal(param, theirs.get_parameter(name)) for name, param in free.named_parameters())
