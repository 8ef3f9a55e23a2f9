"""The table of how short trainings rank, beside correlations worked out by hand."""

from __future__ import annotations

from benchmarks.short_trainings import ARMS, table_of


def line(loss: float, true: float, top: float, test_loss: float) -> dict:
    known = {"cifar10": true, "cifar10_top": top, "loss": loss, "test_loss": test_loss}
    return {"arm": next(iter(ARMS)), "arch": str(true), "seconds": 4.0, **known}


def test_the_table_has_correlations_of_all_and_of_the_best() -> None:
    lines = [
        line(1.0, 94.0, 0.002, 4.0),
        line(1.1, 94.2, 0.001, 3.0),
        line(2.0, 93.0, 0.3, 2.0),
        line(3.0, 92, 0.4, 1.0),
    ]
    rows = table_of(lines).splitlines()
    # Of six pairs the losses have one the wrong way round, the only one of the best; those on test images have five.
    assert rows[2:] == [f"| {next(iter(ARMS))} | 4 | 0.67 | -1.00 | -0.67 | 0.20, 0.10, 30.00, 40.00 | 4 |"]
