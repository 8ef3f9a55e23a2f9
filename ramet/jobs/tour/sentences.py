"""One sentence a part of the tour: pure functions of what was measured, whichever way it came out.

Each gives the outcome as a word or two, which does not change with the figures' last digits, and the sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from ramet.jobs.tour.figures import FoundFigures, GrownFigures, GuardedFigures, JudgedFigures, LearnedFigures
from ramet.reports.formats import count, percent
from ramet.reports.page import Tone

RELIABLE = 0.7
"""The correlation between halves of its seeds from which on a truth is good enough for a verdict."""
ONE_POINT = 0.01
"""Accuracies that differ by less, on a few hundred test images, are called level."""
KEPT = 0.05
"""A task of which less than this was lost counts as kept."""


@dataclass(frozen=True)
class Told:
    """An outcome, the sentence that says it with its figures, and how that looks."""

    outcome: str
    words: str
    tone: Tone


def judged(figures: JudgedFigures) -> Told:
    """Whether shared weights rank children better than counting does; nothing firm by an unreliable truth."""
    reliability = figures.reliability
    if reliability is None or not reliability >= RELIABLE:
        known = "has a single seed" if reliability is None else f"agrees with itself at {reliability:z.2f} only"
        return Told(
            "truth too noisy", f"Nothing firm can be said: the truth {known} between halves of its seeds.", "caution"
        )
    last, best, trivial = map(figures.ranking, (figures.last, figures.best, figures.trivial))
    begin = f"The supernet's order of its {figures.children} children correlates with the truth at {last.value:z.2f}"
    if figures.best != figures.last:
        begin += f", and at {best.value:z.2f} when it is asked better ({best.name})"
    beside = f"the {trivial.name} alone has {trivial.value:z.2f}"
    if figures.gain_low > 0:
        return Told("beats size", f"{begin}: it knows more than a child's size does, since {beside}.", "good")
    if figures.gain > 0:
        return Told("not clearly better", f"{begin}: trust it with care, since {beside}.", "caution")
    return Told("no better than size", f"{begin}: do not trust it, since {beside}.", "bad")


def found(figures: FoundFigures) -> Told:
    """Whether the search found a better child than the largest, and how good it is among all."""
    child, largest = figures.child(figures.found), figures.child(figures.largest)
    name = figures.found.replace(",", ", ")
    work = f"with {percent(figures.work, 0)} of the work of training every child once"
    if child is None or largest is None:
        return Told("truth not known", f"The search found {name} {work}; its true rank is not known.", "neutral")
    place = f"number {figures.rank(figures.found)} of {len(figures.children)} by the truth, {percent(child.truth)}"
    begin = f"{work[0].upper()}{work[1:]}, the search found {name}, {place}"
    if child.name == largest.name:
        return Told("found the largest", f"{begin}, which is the largest of all: no search was needed.", "neutral")
    others = f"the largest ({percent(largest.truth)})"
    random = f"a random choice gives {percent(figures.mean)} on average"
    gain = child.truth - largest.truth
    if gain > figures.noise:
        return Told("beats the largest", f"{begin}, better than {others}; {random}.", "good")
    if gain >= -figures.noise:
        return Told(
            "level with the largest", f"{begin}, no better than {others} within the noise; {random}.", "caution"
        )
    return Told("worse than the largest", f"{begin}, worse than {others}; {random}.", "bad")


def grown(figures: GrownFigures) -> Told:
    """Whether growing beats a plain network of the same size and the same work: on average, and with every seed."""
    pairs = figures.pairs
    gains = [pair.test - pair.plain.test for pair in pairs]
    gain, times = fmean(gains), "once" if len(pairs) == 1 else f"the mean of {len(pairs)} seeds"
    before = count(round(fmean(pair.start.parameters for pair in pairs)))
    after = count(round(fmean(pair.parameters[-1] for pair in pairs)))
    ends = f"Grown from {before} to {after} parameters, the network has {percent(fmean(p.test for p in pairs))}"
    begin = f"{ends}, where as small as it was it has {percent(fmean(p.start.test for p in pairs))} after the same work"
    beside = f"a plain one of the final size has {percent(fmean(p.plain.test for p in pairs))} for it ({times})"
    if gain > ONE_POINT and min(gains) > 0:
        return Told("growing wins", f"{begin}: growing wins, since {beside}.", "good")
    if gain < -ONE_POINT and max(gains) < 0:
        return Told("plain training wins", f"{begin}: plain training wins, since {beside}.", "bad")
    return Told("level", f"{begin}; growing and plain training are level, since {beside}.", "neutral")


def learned(figures: LearnedFigures) -> Told:
    """Whether growing kept all tasks, and what naive training lost of them."""
    growing, naive, apart = figures.growing, figures.naive, figures.apart
    number = len(figures.tasks)
    growing_ends = f"growing ends with {percent(growing.kept[-1])} over all {number} tasks"
    naive_lost = (
        f"naive training forgets {100 * naive.forgetting:z.1f} points of a task and ends with {percent(naive.kept[-1])}"
    )
    parameters = count(round(growing.parameters))
    size = f"{parameters} parameters, where a network for each task takes {count(round(apart.parameters))}"
    if growing.forgetting > 0:
        lost = f"forgets {100 * growing.forgetting:z.1f} points of a task"
        return Told("growing forgets, too", f"It {lost}: {growing_ends}, in {size}; {naive_lost}.", "bad")
    if naive.forgetting > ONE_POINT:
        return Told("nothing forgotten", f"Nothing was forgotten: {growing_ends}, in {size}; {naive_lost}.", "good")
    return Told("nothing to forget", f"Nothing was forgotten, but {naive_lost}: {growing_ends}, in {size}.", "caution")


def guarded(figures: GuardedFigures) -> Told:
    """Whether three lines in a plain loop kept the old task and left the new one its accuracy."""
    lost = figures.learned - figures.end(guarded=True, old=True)
    lost_free = figures.learned - figures.end(guarded=False, old=True)
    new, new_free = (figures.end(guarded=each, old=False) for each in (True, False))
    kept = f"the old task keeps {percent(figures.learned - lost)} of its {percent(figures.learned)}"
    free = f"without them {percent(figures.learned - lost_free)} are left"
    price = f"the new one is learned to {percent(new)} instead of {percent(new_free)}"
    if lost_free <= KEPT:
        return Told(
            "nothing to keep", f"The loop forgets little by itself: {free}, and with the guard {kept}.", "caution"
        )
    if lost > KEPT:
        return Told("not kept", f"Three lines are not enough here: {kept}, {free}; {price}.", "bad")
    if new_free - new > KEPT:
        return Told("kept at a price", f"With three lines more {kept}, {free}; but {price}.", "caution")
    return Told("kept", f"With three lines more {kept}, {free}; {price}.", "good")
