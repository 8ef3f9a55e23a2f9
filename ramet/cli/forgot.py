"""`ramet forgot`: what a training of any kind has lost on old data, with an exit code for a pipeline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from ramet.cli.options import FLAG, print_json

FORGOTTEN = 3
"""The exit code if more was forgotten than may be."""


def forgot(
    before: str,
    after: str,
    *,
    labels: str | None = None,
    lower_is_better: Annotated[bool, FLAG] = False,
    tolerance: float = 0.0,
    confidence: float = 0.95,
    strict: Annotated[bool, FLAG] = False,
    report: Path | None = None,
    json: Annotated[bool, FLAG] = False,
) -> None:
    """Say what a network forgot: its predictions or scores on old examples, before and after a training of any kind.

    Save what the network gives for the same old examples, in the same order, before the training and after it. Files
    are .npy, .npz, .safetensors, .csv or .tsv; FILE:NAME names an array or a column where there are several. Each holds
    predicted classes (whole numbers or texts), scores of all classes (the highest is the prediction), right or wrong (1
    or 0), or a score an example, such as a loss. Predictions need the right classes: --labels, or an array or column
    `labels` in the file.

    More is forgotten than the tolerance if the interval of the loss lies above it, of all examples or of a class. A
    training that forgets no more is called so in at most 1 - confidence of cases, 5 % by default.

    Exit code 0: no forgetting shown. 3: forgotten (with --strict also: it may be). 2: bad input. 1: a failure.

    For example:

    - `ramet forgot before.npz after.npz`
    - `ramet forgot old.csv:prediction new.csv:prediction --labels old.csv:label --tolerance 0.01`
    - losses, and a page: `ramet forgot loss-before.npy loss-after.npy --lower-is-better --report forgot.html`

    Args:
        before: the file of what the network gave before the training.
        after: the file of what it gives now.
        labels: the file of the right classes; by default what the file before has under labels or label.
        lower_is_better: scores are losses or errors.
        tolerance: what may be lost: a share of the examples (0.01 is a point of accuracy), or of the mean score.
        confidence: of the intervals; see above for what it says about false alarms.
        strict: also exit with 3 if the interval of all examples does not rule out a loss above the tolerance.
        report: write a page of HTML there.
        json: print the result as one JSON object on standard output.
    """
    import numpy as np

    from ramet.errors import DataError
    from ramet.ranking.forgotten import forgot as compare
    from ramet.ranking.forgotten_page import class_table, page
    from ramet.ranking.prediction_files import read_predictions

    old, new = read_predictions(before), read_predictions(after)
    truth = old.labels if labels is None else read_predictions(labels).values
    both = None if labels is not None or old.labels is None or new.labels is None else (old.labels, new.labels)
    if both is not None and not np.array_equal(*both):
        raise DataError("both files must have the same labels in the same order, but they differ.")
    found = compare(
        old.values, new.values, truth, lower_is_better=lower_is_better, tolerance=tolerance, confidence=confidence
    )
    if report is not None:
        settings = {"before": before, "after": after, "labels": labels, "tolerance": tolerance}
        settings |= {"confidence": confidence, "lower_is_better": lower_is_better}
        page(found, before=old.values, after=new.values, labels=truth, settings=settings).write(report)
    if json:
        print_json(found.to_json())
    else:
        print(found.summary())
        if found.classes:
            class_table(found).print()
    if found.is_forgotten or (strict and not found.is_kept):
        sys.exit(FORGOTTEN)
