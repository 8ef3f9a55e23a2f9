"""The searches of *Overcoming multi-model forgetting*, sections 4.2 and 4.3: the paper's own, and small ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ramet.jobs.data_options import TextOptions
from ramet.jobs.search import SearchJob
from ramet.searching import FinalNetworkOptions, SearchPlan
from ramet.training import Recipe
from ramet_papers.searches import GuardedSearches, enas

DROPOUTS = (0.0, 0.25, 0.5, 0.75)
"""Output dropout of Figure 5."""

PATH_DROPOUT = 0.5
"""Path dropping beside Figure 5's searches; the paper gives no rate, and calls the one it used aggressive."""

PATH_DROPPING_SEEDS = 4
"""Searches with path dropping: they are shown beside the others, and no claim is judged by them."""

FALLING = "plasticity:fall_from=0.5,fall_to=1"
"""In a short run, alpha is whole after the warm-up and falls in the second half; the paper's falls from a tenth on."""

# fmt: off
# The numbers of a plan are grouped by their subject: the supernet's training, the controller's, what is measured.
_RECURRENT_SMALL = SearchJob(
    space="recurrent:hidden_size=48,num_nodes=6,input_dropout=0.1,output_dropout=0.1,word_dropout=0.0", data="ptb",
    data_options=TextOptions(window=16, vocabulary=500, train_size=1500, eval_size=300),
    # Hardly annealed, as in ENAS' first epochs: with a small learning rate children do not disturb each other.
    recipe=Recipe(
        batch_size=20, learning_rate=10.0, final_learning_rate=5.0, momentum=0.0, weight_decay=1e-7, clip_norm=0.25
    ),
    plan=SearchPlan(
        without_baselines=True,
        epochs=12, warmup_epochs=5, models_per_epoch=10, batches_per_model=7,
        strategy=enas("recurrent", learning_rate=5e-3), strategy_steps=15, archs_per_step=4,
        reward_samples=40, error_samples=100, num_candidates=10, num_final=0,
    ),
)
_CONVOLUTIONAL_SMALL = SearchJob(
    space="enas-micro:channels=6,cells_per_stage=1,num_nodes=3",
    # A supernet that has learned little has nothing to forget: on CIFAR-10 at 8x8 rewards stay near 0.2.
    data="fashion-mnist", data_options=TextOptions(image_size=7, train_size=4000, eval_size=2000),
    recipe=Recipe(batch_size=64, learning_rate=0.1, final_learning_rate=0.05, weight_decay=3e-4, clip_norm=5.0),
    plan=SearchPlan(
        without_baselines=True,
        epochs=10, warmup_epochs=3, models_per_epoch=10, batches_per_model=7,
        strategy=enas("micro"), strategy_steps=15, archs_per_step=4,
        reward_samples=128, error_samples=2000, num_candidates=10, num_final=0,
    ),
)
# The space whose truth is known: what is found needs no training of its own.
_CELLS_SMALL = SearchJob(
    space="cells64:channels=8,num_cells=2", data="cifar10",
    # Of 10,000 images, 2,000 or more must validate.
    data_options=TextOptions(image_size=8, train_size=7500, eval_size=2000, validation_fraction=0.25),
    recipe=Recipe(batch_size=64, learning_rate=0.05, final_learning_rate=0.01, weight_decay=1e-3),
    plan=SearchPlan(
        epochs=8, warmup_epochs=2, models_per_epoch=16, batches_per_model=7,
        strategy=enas("micro", learning_rate=1e-2), strategy_steps=10, archs_per_step=4,
        reward_samples=128, error_samples=2000, measured_models=0, num_candidates=10, num_final=0,
    ),
)
_NAO_SMALL = replace(
    _RECURRENT_SMALL,
    plan=replace(
        _RECURRENT_SMALL.plan,
        strategy="nao:num_seeds=60,num_starts=20,epochs=30,train_every=60,predictor_layers=4",
    ),
)
_RECURRENT_PAPER = SearchJob(
    space="recurrent:hidden_size=1000,weight_drop=0.5", data="ptb", data_options=TextOptions(),
    recipe=Recipe(
        batch_size=64, learning_rate=20.0, schedule="exponential:factor=0.96,start=15", momentum=0.0, weight_decay=1e-7,
        clip_norm=0.25,
    ),
    plan=SearchPlan(
        without_baselines=True,
        epochs=150, warmup_epochs=0, guard_warmup_epochs=5, models_per_epoch=65, batches_per_model=7,
        strategy=enas("recurrent"), strategy_steps=100, archs_per_step=10,
        reward_samples=64, error_samples=500, num_candidates=100, final_epochs=150,
    ),
)
_CONVOLUTIONAL_PAPER = SearchJob(
    space="enas-micro:channels=20,cells_per_stage=2", data="cifar10", data_options=TextOptions(),
    recipe=Recipe(
        batch_size=128, learning_rate=0.05, final_learning_rate=0.0005, schedule="restarts:first=10,longer=2",
        weight_decay=1e-4, clip_norm=5.0, augment="crop:4+flip", auxiliary_weight=0.4, drop_path=0.2,
    ),
    plan=SearchPlan(
        without_baselines=True,
        epochs=150, warmup_epochs=0, guard_warmup_epochs=3, models_per_epoch=60, batches_per_model=7,
        strategy=enas("micro"), strategy_steps=30, archs_per_step=10,
        reward_samples=128, error_samples=1000, num_candidates=100, final_epochs=310,
        final_network=FinalNetworkOptions(channels=36, cells=5, cutout=16),
    ),
)
_NAO_PAPER = replace(
    _RECURRENT_PAPER,
    plan=replace(_RECURRENT_PAPER.plan, strategy="nao:num_seeds=1000,predictor_layers=4", num_final=0),
)
# fmt: on

SEARCHES: Mapping[str, Mapping[str, GuardedSearches]] = {
    "small": {
        # Error differences of small recurrent searches vary between seeds by more than their mean.
        "recurrent": GuardedSearches(
            name="mmf-rnn",
            job=_RECURRENT_SMALL,
            strengths=(60.0, 1e3, 1e4, 1e5, 1e6),
            seeds=24,
            guard=FALLING,
            remark=" The answer was looked at with 3 and with 12 seeds first (lower by 0.30 [-0.06, 0.65]).",
        ),
        # Figure 4d needs a run that is long enough for alpha to be large in one half and to fall to 0 in the other.
        "rewards": GuardedSearches(
            name="mmf-rnn-rewards",
            job=replace(
                _RECURRENT_SMALL,
                plan=replace(
                    _RECURRENT_SMALL.plan, epochs=40, warmup_epochs=0, guard_warmup_epochs=5, measured_models=0
                ),
            ),
            guard="plasticity:fall_from=0.25,fall_to=0.75",  # over epochs 10 to 30
            strengths=(1e5,),
            seeds=12,
        ),
        "convolutional": GuardedSearches(
            name="mmf-cnn", job=_CONVOLUTIONAL_SMALL, guard=FALLING, strengths=(60.0, 1e4, 1e6), seeds=5
        ),
        "cells64": GuardedSearches(
            name="mmf-cells64", job=_CELLS_SMALL, guard=FALLING, strengths=(60.0, 1e4, 1e6), seeds=12
        ),
        # The strength that the ENAS search of the same cells chose: the supernet is trained in the same way.
        "nao": GuardedSearches(name="mmf-nao", job=_NAO_SMALL, guard=FALLING, strengths=(1e5,), seeds=8),
    },
    "paper": {
        "recurrent": GuardedSearches(name="mmf-rnn-paper", job=_RECURRENT_PAPER, strengths=(60.0,)),
        "convolutional": GuardedSearches(name="mmf-cnn-paper", job=_CONVOLUTIONAL_PAPER, strengths=(60.0,)),
        "nao": GuardedSearches(name="mmf-nao-paper", job=_NAO_PAPER, strengths=(60.0,)),
    },
}
"""The studies by preset and name; the released code's strength is 60, and the first that is tried."""
