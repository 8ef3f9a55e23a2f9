"""What grew in a step, in words, and a step as a line of the curve."""

from __future__ import annotations

from ramet.jobs.grow.result import StepFigures
from ramet.reports.formats import count, percent


def words_of(step: StepFigures, most: int = 99) -> str:
    """What grew in a step, in words.

    >>> from ramet.jobs.grow.result import GroupFigures, SizeFigures
    >>> sizes = SizeFigures(neurons=9, params=99, flops=99.0)
    >>> widened = {"conv1": GroupFigures(units=4, split=[3, 5], new=1)}
    >>> words_of(StepFigures(number=1, widened=widened, layers={"conv2": 4}, sizes=sizes, score=0.5))
    'conv1 +3 (2 split, 1 new), a new layer behind conv2 with 4'
    """
    parts = []
    for place, group in step.widened.items():
        split, new = len(group.split), group.new
        kinds = [f"{split} split"] * bool(split) + [f"{new} new"] * bool(new)
        parts.append(f"{place} +{split + new} ({', '.join(kinds)})")
    parts += [f"{behind(site)} with {width}" for site, width in step.layers.items()]
    hidden = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def behind(site: str) -> str:
    """What a new layer is called."""
    return f"a new layer behind {site}"


def step_line(method: str, step: StepFigures) -> str:
    """A step in a line: its size, its accuracy as a figure and a bar, and what grew."""
    bar = "█" * round(20 * max(step.score, 0.0))
    grew = words_of(step, most=3) if step.number else "as it was"
    size = count(step.sizes.params)
    return f"{method:<10}{step.number:>3}  {size:>8} parameters  {percent(step.score):>7}  {bar:<20}  {grew}"
