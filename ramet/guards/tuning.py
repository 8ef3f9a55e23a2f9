"""A guard's strength for a wanted trade-off, found on validation data, and the frontier of kept against learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.making import make_guard


@dataclass(frozen=True)
class Trade:
    """What one strength came to: how much of A was ``kept``, and how much of B was ``learned``, on validation data."""

    strength: float
    kept: float
    learned: float


@dataclass(frozen=True)
class Tuning:
    """All strengths that were tried, the weakest number first, and the one to take.

    Attributes:
        rows: what each came to.
        chosen: of those that meet the goal and are a margin away from all that do not, the one that gives most of the
            other; the one that is furthest from these if none is; the one that comes nearest if none meets it.
        is_met: whether it meets the goal.
        margin: by what factor it differs from the nearest strength that does not; infinite if all do, 1 if it does not.
    """

    rows: tuple[Trade, ...]
    chosen: Trade
    is_met: bool
    margin: float = math.inf

    @property
    def frontier(self) -> tuple[Trade, ...]:
        """The rows of which no other keeps more and learns more, by what they keep, the least first."""
        best = [row for row in self.rows if not any(_beats(other, row) for other in self.rows)]
        return tuple(sorted(best, key=lambda row: (row.kept, row.learned)))

    def to_rows(self) -> list[dict[str, Any]]:
        """For a table or a picture: strength, kept, learned, whether a row is on the frontier, and the chosen one."""
        best = self.frontier
        return [{**asdict(row), "on_frontier": row in best, "chosen": row == self.chosen} for row in self.rows]

    def __str__(self) -> str:
        lines = [f"{'strength':>12} {'A kept':>9} {'B learned':>9}"]
        for row in self.to_rows():
            mark = " chosen" if row["chosen"] else " on the frontier" if row["on_frontier"] else ""
            lines.append(f"{row['strength']:>12.4g} {row['kept']:>9.4g} {row['learned']:>9.4g}{mark}")
        return "\n".join(lines)


def _beats(one: Trade, other: Trade) -> bool:
    at_least = one.kept >= other.kept and one.learned >= other.learned
    return at_least and (one.kept > other.kept or one.learned > other.learned)


def tune(
    guard: str | Callable[[float], Guard],
    trial: Callable[[Guard], tuple[float, float]],
    *,
    keep: float | None = None,
    learn: float | None = None,
    between: tuple[float, float] = (1e-2, 1e8),
    num_trials: int = 12,
    margin: float = 10.0,
) -> Tuning:
    """Find the strength with which A is kept, or B is learned, as far as is wanted, and the most of the other.

    Half of the trials lie evenly between the ends, on a scale of magnitudes; the rest halve, again and again, the gap
    beside the best strength so far in which the goal ceases to be met. That needs no rule for what is stronger: a
    larger lambda of a projection is weaker. Nothing is chosen on test data as long as ``trial`` looks at none.

    The last trial steps back from that edge by ``margin``, and a strength nearer to the edge is not taken: with other
    seeds or other data the edge lies elsewhere. In docs/guards.md a strength at the edge, where 99.65 % of A were kept
    in the worst of three seeds, kept 75 % in one of the next five.

    Args:
        guard: makes the guard of a strength; or its name, such as ``plasticity`` or ``projection:unit=energy``, which
            is given the strength as its first value.
        trial: trains B from the state after A under a guard, which has seen nothing yet, and gives two scores on
            validation data, the higher the better: that of A afterwards, and that of B.
        keep: the least score of A that is wanted; or
        learn: the least score of B.
        between: the smallest and the largest strength; shares of the unit ``hold`` lie between 0 and 1.
        num_trials: how many strengths are tried, at least 3.
        margin: by what factor the chosen strength differs from every one that was seen to miss the goal, where the
            range allows it. 1 takes the edge itself, which suits a trial that is what will be run to the last bit.

    Raises:
        ConfigError: unless one of ``keep`` and ``learn`` is given; for values outside their range.

    >>> def trial(guard):  # a stronger guard keeps more, and learns less
    ...     share = guard.strength / (1 + guard.strength)
    ...     return 0.5 + 0.5 * share, 1.0 - 0.5 * share
    >>> tuning = tune("plasticity", trial, keep=0.9, num_trials=20)
    >>> tuning.is_met, round(tuning.margin), round(tuning.chosen.kept, 2), len(tuning.frontier)
    (True, 10, 0.99, 20)
    >>> round(tune("plasticity", trial, keep=0.9, num_trials=20, margin=1).chosen.kept, 2)
    0.9
    """
    low, high = between
    if (keep is None) == (learn is None):
        raise ConfigError(f"one of keep and learn must be given, but got {keep} and {learn}.")
    if not 0.0 < low < high < math.inf:
        raise ConfigError(f"strengths must lie between two numbers above 0, the smaller first, but got {between}.")
    if num_trials < 3:
        raise ConfigError(f"num_trials must be at least 3, but got {num_trials}.")
    if not 1.0 <= margin < math.inf:
        raise ConfigError(f"margin must be a factor of at least 1, but got {margin}.")

    def meets(row: Trade) -> bool:
        return row.kept >= keep if keep is not None else row.learned >= (learn or 0.0)

    def worth(row: Trade) -> tuple[bool, float, float]:
        wanted, other = (row.kept, row.learned) if keep is not None else (row.learned, row.kept)
        return (True, other, wanted) if meets(row) else (False, wanted, other)

    def tried(strength: float) -> Trade:
        made = _made(guard, strength) if isinstance(guard, str) else guard(strength)
        kept, learned = trial(made)
        return Trade(strength, float(kept), float(learned))

    def safe(row: Trade) -> tuple[float, tuple[bool, float, float]]:
        return min(_distance(row, rows, meets), margin * (1 - 1e-9)), worth(row)  # rounding is no lack of margin

    num_even = max(3, num_trials // 2)
    steps = [place / (num_even - 1) for place in range(num_even)]
    rows = [tried(math.exp((1 - step) * math.log(low) + step * math.log(high))) for step in steps]
    while len(rows) < num_trials:
        is_last = len(rows) == num_trials - 1
        stepped = _stepped_back(max(rows, key=worth), rows, meets, margin) if is_last and margin > 1.0 else None
        rows.append(tried(_next_strength(rows, meets, worth) if stepped is None else min(max(stepped, low), high)))
        rows.sort(key=lambda row: row.strength)
    chosen = max(rows, key=safe)
    return Tuning(tuple(rows), chosen, meets(chosen), _distance(chosen, rows, meets))


def _made(text: str, strength: float) -> Guard:
    name, _, options = text.partition(":")
    return make_guard(":".join(part for part in (name, repr(strength), options) if part))


def _next_strength(rows: Sequence[Trade], meets: Callable[[Trade], bool], worth: Callable[[Trade], Any]) -> float:
    """The middle of the widest gap beside the best row in which the goal ceases to be met, or of the widest at all."""
    best = rows.index(max(rows, key=worth))
    gaps = [(rows[place], rows[place + 1]) for place in range(len(rows) - 1)]
    beside = [gap for place, gap in enumerate(gaps) if place in (best - 1, best) and meets(gap[0]) != meets(gap[1])]
    low, high = max(beside or gaps, key=lambda gap: gap[1].strength / gap[0].strength)
    return math.sqrt(low.strength * high.strength)


def _distance(row: Trade, rows: Sequence[Trade], meets: Callable[[Trade], bool]) -> float:
    """The factor between a strength and the nearest that misses the goal: 1 for one that misses it itself."""
    return min((_factor(row, other) for other in rows if not meets(other)), default=math.inf)


def _factor(one: Trade, other: Trade) -> float:
    return max(one.strength / other.strength, other.strength / one.strength)


def _stepped_back(best: Trade, rows: Sequence[Trade], meets: Callable[[Trade], bool], margin: float) -> float | None:
    """The strength a margin away from the edges that the best lies between, or midway between two that are too near.

    None if the goal is met nowhere, or everywhere.
    """
    missing = [row.strength for row in rows if not meets(row)]
    if not meets(best) or not missing:
        return None
    below = max((strength for strength in missing if strength < best.strength), default=None)
    above = min((strength for strength in missing if strength > best.strength), default=None)
    if below is None or above is None:
        return above / margin if above is not None else (below or 0.0) * margin
    if above / below < margin**2:
        return math.sqrt(below * above)
    return min(max(best.strength, below * margin), above / margin)
