"""Grown: the loss for the work done, beside the final size from scratch and beside stacking.

Work is multiply-adds of training: three times those of a forward pass for each window, and for a growth all that it
computes by itself besides, as torch counts it. Validation counts for no arm.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch.utils.flop_counter import FlopCounterMode

from benchmarks.language.records import Record, Records
from benchmarks.language.scale import TUNING_SEED, Scale
from benchmarks.language.training import RECIPE, figures, new_network, read_treebank, train_by_hand, work_a_window
from ramet.costs import count_parameters
from ramet.data import DataSet
from ramet.growth import Budget, Ends, GrowRecipe
from ramet.growth.growing import Growing
from ramet.growth.methods.making import make_method

AT_ONCE = 1e9
"""A step as large as the budget."""

ARMS: dict[str, dict[str, Any]] = {
    "grown, one schedule": {"method": "net2net", "step": AT_ONCE, "layers": 2, "schedule_over": "growth"},
    "grown, a schedule a round": {"method": "net2net", "step": AT_ONCE, "layers": 2, "schedule_over": "round"},
    "stacked, one schedule": {"method": "stacking", "step": AT_ONCE, "layers": 2, "schedule_over": "growth"},
}
SCRATCH = ("scratch, same work", "scratch, same steps")
FIRST, STACKED, STACKED_LESS = "grown, one schedule", "stacked, one schedule", "stacked, same work"
ORDER = (*ARMS, STACKED_LESS, *SCRATCH)


class CountedGrowth(Growing):
    """A growth that counts what it computes besides training."""

    own_work = 0

    def grow(self) -> str:
        """One growth step, counted."""
        with FlopCounterMode(display=False) as counter:
            reason = super().grow()
        self.own_work += int(counter.get_total_flops()) // 2  # torch counts the multiplication and the addition
        return reason


def grow(
    data: DataSet, scale: Scale, rate: float, seed: int, arm: dict[str, Any], windows: int | None = None
) -> Record:
    """Train, grow, train: to the size of the large network, with all windows of the text or so many in each round."""
    width, depth, heads = scale.large
    stacks = arm["method"] == "stacking"  # only deeper, so that it begins as wide as it ends
    growing = CountedGrowth(
        network=new_network(data, (width, depth // 2, heads) if stacks else scale.small, seed),
        data=(data.train.x[:windows], data.train.y[:windows], data.validation.x, data.validation.y),
        budget=Budget("params", count_parameters(new_network(data, scale.large, seed)), arm["step"], arm["layers"]),
        method=make_method(arm["method"]),
        settings=GrowRecipe(
            epochs=1,
            batch_size=scale.batch_size,
            learning_rate=rate,
            schedule_over=arm["schedule_over"],
            **RECIPE,
        ),
        seed=seed,
    )
    growing.start()
    work, curve = 0, []
    while (step := growing.advance(Ends())) is not None:
        work += work_a_window(growing.network, data) * growing.num_updates * scale.batch_size
        assert step.score is not None
        curve.append([work + growing.own_work, -step.score])
    return {
        **figures(growing.network, data),
        "work": work + growing.own_work,
        "own_work": growing.own_work,
        "steps": growing.num_updates * len(curve),
        "curve": curve,
    }


def from_scratch(data: DataSet, scale: Scale, rate: float, seed: int, num_steps: int) -> Record:
    """The large network, trained at once."""
    network = train_by_hand(new_network(data, scale.large, seed), data, scale, rate, seed, num_steps)
    work = work_a_window(network, data) * num_steps * scale.batch_size
    return {**figures(network, data), "work": work, "steps": num_steps}


def compare(scale: Scale, records: Records) -> None:
    """Every arm with every learning rate and the tuning seed, and then by its best one with the judged seeds."""
    data = read_treebank(scale)
    for seed in (TUNING_SEED, *scale.seeds):
        for arm, options in ARMS.items():
            for rate in rates_of(scale, records, arm, seed):
                key = {"part": "grown", "arm": arm, "seed": seed, "rate": rate}
                records.once(partial(grow, data, scale, rate, seed, options), **key)
        first = records.matching(part="grown", arm=FIRST, seed=seed)[0]
        if seed != TUNING_SEED:
            stacked = records.matching(part="grown", arm=STACKED, seed=seed)[0]
            share = (first["work"] - stacked["own_work"]) / (stacked["work"] - stacked["own_work"])
            windows = max(2, round(share * scale.windows / scale.batch_size)) * scale.batch_size
            key = {"part": "grown", "arm": STACKED_LESS, "seed": seed, "rate": stacked["rate"]}
            records.once(partial(grow, data, scale, stacked["rate"], seed, ARMS[STACKED], windows), **key)
        large = work_a_window(new_network(data, scale.large, seed), data) * scale.batch_size
        for arm, num_steps in zip(SCRATCH, (round(first["work"] / large), first["steps"]), strict=True):
            if seed == TUNING_SEED and arm != SCRATCH[0]:
                continue  # both have the rate that is best for the first
            for rate in rates_of(scale, records, SCRATCH[0], seed):
                key = {"part": "grown", "arm": arm, "seed": seed, "rate": rate}
                records.once(partial(from_scratch, data, scale, rate, seed, num_steps), **key)


def rates_of(scale: Scale, records: Records, arm: str, seed: int) -> tuple[float, ...]:
    """All rates for the tuning seed, and that of the lowest validation loss for the others."""
    if seed == TUNING_SEED:
        return scale.rates
    tried = records.matching(part="grown", arm=arm, seed=TUNING_SEED)
    return (min(tried, key=lambda record: float(record["validation"]))["rate"],)
