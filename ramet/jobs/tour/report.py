"""The tour's page: five pictures, a sentence each, and what to try next."""

from __future__ import annotations

import inspect
import re
from statistics import fmean

from ramet.jobs.tour import loop
from ramet.jobs.tour.figures import FoundFigures, GrownFigures, GuardedFigures, JudgedFigures, LearnedFigures
from ramet.jobs.tour.result import QUICK_WORDS, TourResult
from ramet.reports.charts import Chart, Line, Points, dot_chart, line_chart, scatter_chart
from ramet.reports.formats import Estimate, count, decimals, percent
from ramet.reports.page import Page
from ramet.reports.tables import Cell, Table
from ramet.runs.encoding import Json

TITLE = "Many networks on one set of weights"
INTRODUCTION = (
    "**ramet** is a library and a command line on PyTorch. It trains many networks on one set of weights, and keeps "
    "them from forgetting each other: to find a good one among many, to let one grow, to teach one task after task."
)
ABOUT_THE_PAGE = (
    "What it does is told here in five short stories on 1,797 scanned digits of 8 x 8 pixels, which are inside "
    "scikit-learn: no download, no GPU. `ramet tour` did all of it in minutes on two cores and wrote this page. Every "
    "sentence in a box was made from the figures of this run; where something does not work, it says so."
)
NEXT = {
    "rank": (
        "ramet rank --space space.py:network --data my.npz",
        "Trust the order of your own choices? (ramet init space writes space.py)",
    ),
    "search": ("ramet search --minutes 10 --cells 2 --data class/folders", "The best architecture for your images"),
    "grow": (
        "ramet grow --network network.py:network --data my.npz",
        "Where should your network get larger? (ramet init network)",
    ),
    "learn": ("ramet learn --stream stream.json", "Your tasks, one after the other (ramet init stream)"),
    "forgot": ("ramet forgot before.npz after.npz", "What did your own training forget?"),
}
"""What to try next with one's own data: a command, and what it answers."""


def table(result: TourResult) -> Table:
    """A part in a row: how it came out, its figure, and what stands beside it."""
    judged, grown, learned, guarded = result.judged, result.grown, result.learned, result.guarded
    best, trivial = judged.ranking(judged.best), judged.ranking(judged.trivial)
    found = result.found.child(result.found.found)
    plain = fmean(pair.plain.test for pair in grown.pairs)
    beside = [
        (f"{best.value:z.2f}", f"{trivial.value:z.2f} {trivial.name}"),
        ("–" if found is None else percent(found.truth), f"{percent(result.found.mean)} a random choice"),
        (percent(fmean(pair.test for pair in grown.pairs)), f"{percent(plain)} plain, the same work"),
        (percent(learned.growing.kept[-1]), f"{percent(learned.naive.kept[-1])} naive training"),
        (percent(guarded.end(guarded=True, old=True)), f"{percent(guarded.end(guarded=False, old=True))} no guard"),
    ]
    rows: list[list[Cell]] = [
        [title, told.outcome, figure, other]
        for (title, told), (figure, other) in zip(result.told.items(), beside, strict=True)
    ]
    caption = "The first figure is a correlation with the truth, the others are test accuracies."
    return Table(["part", "outcome", "with ramet", "beside it"], rows, title="The tour in five lines", caption=caption)


def page(result: TourResult, config: Json) -> Page:
    """The whole report as a page."""
    made = Page(TITLE, f"The tour of ramet, seed {result.seed}")
    made.prose(INTRODUCTION)
    made.prose(ABOUT_THE_PAGE)
    if result.quick:
        made.verdict(QUICK_WORDS, "`ramet tour` without `--quick` takes minutes.", tone="caution")
    drawn = [
        (_ABOUT_JUDGED, judged_chart(result.judged), _CAPTION_JUDGED),
        (_ABOUT_FOUND, found_chart(result.found), _CAPTION_FOUND),
        (_ABOUT_GROWN, grown_chart(result.grown), _CAPTION_GROWN),
        (_ABOUT_LEARNED, learned_chart(result.learned), _CAPTION_LEARNED),
        (_ABOUT_GUARDED, guarded_chart(result.guarded), _CAPTION_GUARDED.format(result.guarded)),
    ]
    for number, ((title, told), (about, chart, caption)) in enumerate(
        zip(result.told.items(), drawn, strict=True), start=1
    ):
        made.section(f"{number}. {title}")
        made.prose(about)
        made.verdict(unbroken(told.words), tone=told.tone, heading=told.outcome)
        made.chart(chart, caption)
        if number == len(drawn):
            made.code(re.sub(r" +# type: ignore.*", "", inspect.getsource(loop.train)))
    made.section("Now with your own data")
    made.prose(
        "Three of these take a file of yours: `ramet init` writes one that runs as it is, on the digits, until you put "
        "in your own. An `.npz` file has arrays `x` and `y`; a folder has a folder of images for each class. Every "
        "command has a `--help` with examples."
    )
    made.code("\n\n".join(f"# {about}\n{command}" for command, about in NEXT.values()))
    made.table(table(result))
    made.prose("Each part is a run with a report of its own, in `parts/` beside this page.")
    made.details("All children by the truth", _children(result.found))
    made.details("Configuration", config)
    return made


_ABOUT_JUDGED = (
    "A **supernet** holds all networks of a space on one set of weights, so that 64 can be compared for the price of "
    "one training. But is the order that it gives the true one? Here each of the 64 was also trained alone, several "
    "times: that is the truth. Counting parameters costs nothing, and is what a ranking has to beat."
)
_CAPTION_JUDGED = (
    "Each ranking's agreement with the truth (1 is the same order, 0 is none), with its 95 % interval. Grey: rankings "
    "that need no training; the line is the better one's. `ramet rank` says such things about your own supernet, and "
    "what would make it better."
)
_ABOUT_FOUND = (
    "To have one good child, nobody needs to train all 64. The search goes in stages: scores of untrained networks, "
    "weights shared by the best, short trainings, longer ones for the better. It never sees the truth that it is "
    "judged by."
)
_CAPTION_FOUND = (
    "Every point is a child: what it costs, and how good it is when trained alone. The space is built so that size "
    "misleads: 1x1 convolutions cost much and see one pixel."
)
_ABOUT_GROWN = (
    "A network begins at half of the size that it may have, where training is cheap, then gets wider without a change "
    "of what it computes, and is trained on. Two questions are fair: what is the size worth, beside the small network "
    "trained for the same work? And would a plain network of the final size be as good for that work?"
)
_CAPTION_GROWN = (
    "Test accuracies after the same work, multiply-adds of training and growing together: the mean over seeds, and "
    "their range. The line is the plain network. `ramet grow` trains it, too, and hands over the better one."
)
_ABOUT_LEARNED = (
    "Five tasks arrive one after the other, and the data of a finished one are gone: the digits, then four times with "
    "their pixels permuted. A network that is simply trained on forgets. One that grows new units for each task, and "
    "leaves the old ones alone, cannot."
)
_CAPTION_LEARNED = "Test accuracy over all tasks learned so far. A line that falls is forgetting."
_ABOUT_GUARDED = (
    "No framework is needed: a guard is three lines in a loop of your own. Here it is asked to keep the digits while "
    "the same network learns them with permuted pixels, in the same weights, without growing."
)
_CAPTION_GUARDED = (
    "Test accuracies while a plain loop learns the new task after the old one, the mean over seeds. The guard is "
    "`{0.guard}`; the loop below is all there is."
)


def unbroken(words: str) -> str:
    """A sentence whose percent signs stay with their numbers, wherever a line ends."""
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def judged_chart(figures: JudgedFigures) -> Chart:
    """Every ranking's correlation with the truth."""
    return dot_chart(
        [ranking.name for ranking in figures.rankings],
        [Estimate(ranking.value, ranking.low, ranking.high) for ranking in figures.rankings],
        x_label="correlation with the truth (Kendall's tau-b)",
        reference=figures.ranking(figures.trivial).value,
        muted=[place for place, ranking in enumerate(figures.rankings) if ranking.trivial],
        include=[0.0, 1.0],
    )


def found_chart(figures: FoundFigures) -> Chart:
    """All children by cost and truth, with those that are compared named."""
    named = {figures.found: "found", figures.largest: "the largest"}
    others = [child for child in figures.children if child.name not in named]
    kinds = []
    for name, words in named.items():
        child = figures.child(name)
        if child is not None:
            kinds.append(Points(words, [child.flops / 1000], [100 * child.truth], [words]))
    kinds.append(
        Points(
            "all others",
            [child.flops / 1000 for child in others],
            [100 * child.truth for child in others],
            [child.name for child in others],
            labelled=(),
            muted=True,
        )
    )
    return scatter_chart(kinds, x_label="thousand multiply-adds", y_label="true accuracy, %")


def grown_chart(figures: GrownFigures) -> Chart:
    """What networks reach for the same work: grown, plain, and as small as they were."""
    ways = {
        "grown": [(pair.parameters[-1], pair.test) for pair in figures.pairs],
        "plain": [(pair.plain.parameters, pair.plain.test) for pair in figures.pairs],
        "as small as it was": [(pair.start.parameters, pair.start.test) for pair in figures.pairs],
    }
    names = [f"{name}, {count(round(fmean(size for size, _ in tried)))} parameters" for name, tried in ways.items()]
    accuracies = [[100 * test for _, test in tried] for tried in ways.values()]
    return dot_chart(
        names,
        [Estimate(fmean(each), min(each), max(each)) for each in accuracies],
        x_label="test accuracy, %",
        reference=fmean(accuracies[1]),
        muted=[1, 2],
        form=decimals(1),
    )


def learned_chart(figures: LearnedFigures) -> Chart:
    """The accuracy over the tasks so far, after each task, by method."""
    after = list(range(1, len(figures.tasks) + 1))
    lines = {"growing": figures.growing, "naive training": figures.naive, "a network for each task": figures.apart}
    return line_chart(
        [Line(name, after, [100 * value for value in method.kept]) for name, method in lines.items()],
        x_label="tasks learned",
        y_label="accuracy over all of them, %",
    )


def guarded_chart(figures: GuardedFigures) -> Chart:
    """Accuracies on both tasks while the new one is learned, with the guard and without."""
    lines = []
    for task in ("old", "new"):
        for name, loops in (("with the guard", figures.guarded), ("without", figures.free)):
            curves = [loop.old if task == "old" else loop.new for loop in loops]
            means = [100 * fmean(values) for values in zip(*curves, strict=True)]
            start = figures.epochs - (task == "old")  # the old task's last epoch is where both lines begin
            epochs = list(range(start - figures.epochs + 1, figures.epochs + 1))
            lines.append(Line(f"{task} task, {name}", epochs, means[start:]))
    return line_chart(lines, x_label="epochs of the new task", y_label="test accuracy, %")


def _children(figures: FoundFigures) -> Table:
    ordered = sorted(figures.children, key=lambda child: -child.truth)
    rows: list[list[Cell]] = [
        [child.name, count(child.parameters), count(child.flops), percent(child.truth)] for child in ordered
    ]
    return Table(["child", "parameters", "multiply-adds", "true accuracy"], rows)
