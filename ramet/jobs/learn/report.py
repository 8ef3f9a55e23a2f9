"""The report of `ramet learn`: a table, a page, and words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ramet.jobs.learn.advice import advise, in_words
from ramet.jobs.learn.networks import add_conflicts, add_networks, drawn_places, left_out
from ramet.jobs.learn.result import ONTO, LearnResult, MethodOutcome, SeedSpread, StreamFigures
from ramet.reports.charts import Line, Points, heat_map, line_chart, scatter_chart
from ramet.reports.formats import Number, count, decimals, duration, in_points, significant, size
from ramet.reports.metric import MetricFigures
from ramet.reports.page import KeyNumber, Page, Tone
from ramet.reports.tables import Cell, Column, Columns, Table
from ramet.runs.encoding import Json
from ramet.runs.showing import without_folders

MAX_MAPS, MAX_LINES = 12, 8
"""How many methods are shown at most in heat maps and as lines."""

MAX_CLASSES = 6
"""How many classes of a task are named."""


Figure = tuple[Column, Callable[[str, StreamFigures], Number]]
"""A column of the tables of methods, and how it is read from a method's name and figures."""


def _transfers(metric: MetricFigures) -> list[Figure]:
    """Differences of the metric, all with the sign that they have for accuracies."""
    units, form = metric.in_units, decimals(1) if metric.is_share else significant
    return [
        (Column("backward", form, best="highest"), lambda name, of: units(_looking_back(name, of.backward_transfer))),
        (Column("forgetting", form, best="lowest"), lambda name, of: units(_looking_back(name, of.forgetting))),
        (Column("forward", form, best="highest"), lambda name, of: units(of.forward_transfer.mean)),
        (Column("gain", form, best="highest"), lambda name, of: units(of.average_gain.mean)),
    ]


_COSTS: list[Figure] = [
    (Column("parameters", count, best="lowest"), lambda name, of: of.parameters.mean),
    (Column("stored", size, best="lowest"), lambda name, of: of.stored_bytes.mean),
    (Column("multiply-adds", count, best="lowest"), lambda name, of: of.flops.mean),
    (Column("work", count), lambda name, of: None if of.work is None else of.work.mean),
    (Column("time", duration), lambda name, of: of.seconds.mean),
]
_PAPERS_GAIN: Figure = (
    Column("paper's gain", lambda value: f"{value:+.2f}", best="lowest"),
    lambda name, of: of.paper_gain.mean,
)
_PAPERS_GAIN_IS = (
    "The paper's gain is a loss in spite of its name: the sum over tasks of (E - E') / E', where E is a task's error "
    "and E' that of its individual network. 0 is level with individual networks, a positive figure is worse and a "
    "negative one better; where individual networks hardly err it becomes large: an error of 17 % "
    "beside one of 0.1 % adds +169."
)

_WORK_IS = "Work: the multiply-adds of all trainings of the stream, probes and growths included."


def _controls_are(result: LearnResult) -> str:
    """A sentence on the rows that are controls, if there are any."""
    if not result.controls:
        return ""
    return (
        " Rows with an *as* are networks for each task alone: individual ones that were given the work of that method, "
        "and separate ones that have its parameters in all, too."
    )


def table(result: LearnResult) -> Table:
    """Every method in a row: how accurate, how forgetful, how large."""
    metric = result.metric
    measured: list[Figure] = [
        (Column(metric.name, metric.form, best=metric.best), lambda name, of: of.average_accuracy.mean),
        (Column("+-", metric.form), lambda name, of: of.average_accuracy.deviation),
    ]
    caption = (
        f"Test {metric.name} over the {len(result.tasks)} tasks of {without_folders(result.stream)} at the end, mean "
        f"of {len(result.seeds)} seed{'s' if len(result.seeds) > 1 else ''} and its deviation. Backward and forward "
        f"transfer, forgetting and the gain over individual networks {_units(metric)}. {_PAPERS_GAIN_IS} "
        f"Stored: weights, masks and memories. {_WORK_IS}{_controls_are(result)}"
    )
    figures = [*measured, *_transfers(metric), _PAPERS_GAIN, *_COSTS]
    return _table(result, figures, "Task after task", caption + _unmeasured(result))


def _units(metric: MetricFigures) -> str:
    """What differences are counted in."""
    if metric.is_share:
        return f"in points of {metric.name}"
    return f"in units of {metric.name}" + ("" if metric.higher_is_better else ", a positive gain being a lower one")


def page(result: LearnResult, config: Json) -> Page:
    """The whole report as a page."""
    page = Page("Task after task in one network", f"{without_folders(result.stream)}, {len(result.tasks)} tasks")
    words, because, tone = _verdict(result)
    for advice in advise(result)[:1]:
        because, tone = f"{because} {in_words(advice, result)}", "bad" if advice.choice == "separate" else tone
    page.verdict(words, because, tone=tone)
    page.numbers(*_key_numbers(result))
    page.section("Every method")
    page.table(_accuracy_table(result))
    _add_earlier(page, result)
    page.table(_cost_table(result))
    _add_tasks(page, result)
    _add_front(page, result)
    _add_growth(page, result)
    add_networks(page, result)
    add_conflicts(page, result)
    _add_matrices(page, result)
    _add_explanations(page, result)
    _add_files(page, result)
    page.section("How this was made")
    page.details("Configuration", config)
    return page


def _table(result: LearnResult, figures: Sequence[Figure], title: str, caption: str) -> Table:
    rows = [[name, *[read(name, entry.figures) for _, read in figures]] for name, entry in _rows(result).items()]
    return Table(["method", *[column for column, _ in figures]], rows, title=title, caption=caption)


def _rows(result: LearnResult) -> dict[str, MethodOutcome]:
    """The methods, and after them their controls."""
    return {**result.methods, **result.controls}


def _accuracy_table(result: LearnResult) -> Table:
    """How accurate and how forgetful each method is."""
    has_seeds, metric = len(result.seeds) > 1, result.metric
    units, form = metric.in_units, metric.number
    measured: list[Figure] = [
        (Column(metric.unit, form, best=metric.best), lambda name, of: units(of.average_accuracy.mean)),
        (Column("±", form), lambda name, of: units(of.average_accuracy.deviation)),
    ]
    seeds = f"the mean of {len(result.seeds)} seeds and its deviation" if has_seeds else "of one seed"
    caption = (
        f"Test {metric.name} over all {len(result.tasks)} tasks at the end, {seeds}; the others are "
        f"{_units(metric)}. Backward: how much tasks changed since they were learned. Forward: how much better a new "
        f"task was learned than alone. Gain: the final {metric.name} over that of individual networks."
    )
    figures = [*measured[: 1 + has_seeds], *_transfers(metric)]
    return _table(result, figures, "What it knows", caption + _unmeasured(result))


def _cost_table(result: LearnResult) -> Table:
    """What each method costs."""
    caption = (
        f"Stored: weights, masks and memories. Multiply-adds of one {result.input} through one task's network. "
        f"{_WORK_IS}{_controls_are(result)} {_PAPERS_GAIN_IS}"
    )
    return _table(result, [*_COSTS, _PAPERS_GAIN], "What it costs", caption)


def _add_tasks(page: Page, result: LearnResult) -> None:
    """The numbers that stand for tasks in this report, and what each method knows of each task at the end."""
    page.section("Every task")
    methods = result.methods
    shown = dict.fromkeys([next(iter(methods)), _best(result)])
    metric = result.metric
    classes = result.named_classes()
    columns: Columns = ["task", *(["classes"] if classes else []), *[Column(name, metric.number) for name in shown]]
    rows: list[list[Cell]] = [
        [
            f"{place + 1} {task}",
            *([_few(classes[place])] if classes else []),
            *[metric.in_units(methods[name].matrix[-1][place]) for name in shown],
        ]
        for place, task in enumerate(result.tasks)
    ]
    unit = ", in per cent" if metric.is_share else ""
    caption = f"Test {metric.name} at the end{unit}. The numbers stand for the tasks from here on."
    page.table(Table(columns, rows, caption=caption))
    if len(methods) > len(shown):
        page.chart(
            heat_map(
                list(methods)[:MAX_MAPS],
                [str(place) for place in range(1, len(rows) + 1)],
                [[metric.in_units(value) for value in entry.matrix[-1]] for entry in list(methods.values())[:MAX_MAPS]],
                row_label="method",
                column_label="task",
                value_label=metric.unit,
                centre=None,
                form=metric.number,
            ),
            f"Test {metric.name} of every method on each task at the end.",
        )


def _few(names: Sequence[str]) -> str:
    """Names of classes, the first of them where they are many.

    >>> _few(["cats", "dogs"]), _few(list("abcdefgh"))
    ('cats, dogs', 'a, b, c, d, e, f and 2 more')
    """
    more = len(names) - MAX_CLASSES
    return ", ".join(names[:MAX_CLASSES]) + (f" and {more} more" if more > 0 else "")


def _others(result: LearnResult) -> dict[str, MethodOutcome]:
    """The methods that share anything; individual networks are their reference."""
    return {name: entry for name, entry in result.methods.items() if name != "individual"}


def _best(result: LearnResult) -> str:
    """The most accurate of the methods that share anything, or individual networks if there is none."""
    others = _others(result) or result.methods
    return max(others, key=lambda name: result.metric.value(others[name].figures.average_accuracy.known))


def _looking_back(name: str, figure: SeedSpread) -> float | None:
    """The mean of forgetting or backward transfer, or nothing where it would speak for tasks that were not measured."""
    return None if name == ONTO else figure.mean


def _earlier_tasks(result: LearnResult) -> str:
    """What was not measured, as the subject of a sentence; nothing if all was."""
    if ONTO not in result.methods:
        return ""
    names = result.methods[ONTO].unmeasured  # runs of earlier versions have none
    if result.methods[ONTO].earlier and not names:
        return ""
    return f"The {len(names)} tasks" if len(names) > 1 else "The one task" if names else "Tasks"


def _unmeasured(result: LearnResult) -> str:
    """Sentences for the end of a caption: a figure that is left out must not be taken for a zero."""
    tasks, known = _earlier_tasks(result), _what_became(result)
    if not tasks:
        return known
    verb = "was" if tasks == "The one task" else "were"
    return (
        f"{known} {tasks} that {ONTO} knew before {verb} not measured: its forgetting and backward transfer are not "
        "known. Data of earlier tasks are measured with --earlier."
    )


def _what_became(result: LearnResult) -> str:
    """What is known of the tasks that a network knew before it went on."""
    if ONTO not in result.methods:
        return ""
    earlier, metric = result.methods[ONTO].earlier, result.metric
    kept = sum(task.unchanged for task in earlier)
    kept_words = f" Of {len(earlier)} tasks that {ONTO} knew before, {kept} stayed as they were, bit for bit."
    words = kept_words if kept else ""
    losses = {
        task.name: (metric.value(task.before) - metric.value(task.after), task.before, task.after)
        for task in earlier
        if not task.unchanged and task.before is not None and task.after is not None
    }
    if losses:
        name = max(losses, key=lambda name: losses[name][0])
        _, before, after = losses[name]
        what = f"went from a {metric.name} of {metric.form(before)} to {metric.form(after)}"
        words += f" {len(losses)} that {ONTO} knew before changed and were measured: {name} {what}, the worst of them."
    return words


def _add_earlier(page: Page, result: LearnResult) -> None:
    """The tasks that a network knew before it went on, one by one."""
    earlier = result.methods[ONTO].earlier if ONTO in result.methods else []
    if not earlier:
        return
    rows: list[list[Cell]] = [
        [task.name, "the same" if task.unchanged else "changed", task.before, task.after] for task in earlier
    ]
    figures = [Column(f"{result.metric.name} {when}", result.metric.form) for when in ("before", "after")]
    caption = (
        "Where the weights of a task's network are the same, bit for bit, nothing is forgotten, whatever the data. The "
        "others are measured on the test data that --earlier gives; without them it is not known what they lost."
    )
    page.table(Table(["task", "weights", *figures], rows, title=f"What {ONTO} knew before", caption=caption))


def _verdict(result: LearnResult) -> tuple[str, str, Tone]:
    others = _others(result)
    if not others:
        return "Individual networks alone: there is nothing to compare them with.", "", "neutral"
    best = _best(result)
    entry, alone = others[best], result.methods["individual"]
    if not result.metric.is_share:
        return _verdict_in_units(result, best)
    gain = 100 * entry.figures.average_gain.known
    forgotten = in_points(_looking_back(best, entry.figures.forgetting))
    share = entry.figures.parameters.known / alone.figures.parameters.known
    level = f"{abs(gain):.1f} points {'above' if gain > 0 else 'below'}" if abs(gain) >= 0.05 else "level with"
    because = f"It ends {level} individual networks on average, with {share:.0%} of their parameters"
    if forgotten is None:
        because += f", on these tasks.{_unmeasured(result)}"
    else:
        because += f", and forgets {f'{forgotten:.1f} points' if forgotten >= 0.05 else 'nothing'}."
    tone: Tone = "good" if gain > -0.5 and share < 1 else "caution" if gain > -3 else "bad"
    return f"{best} is the most accurate of the methods that share weights.", because, tone


def _verdict_in_units(result: LearnResult, best: str) -> tuple[str, str, Tone]:
    """The verdict by a metric that is no share, in its own units."""
    metric, figures, alone = result.metric, result.methods[best].figures, result.methods["individual"].figures
    ours, theirs = figures.average_accuracy.known, alone.average_accuracy.known
    share = figures.parameters.known / alone.parameters.known
    because = (
        f"It ends with {metric.form(ours)} on average, individual networks with {metric.form(theirs)}; it has "
        f"{share:.0%} of their parameters"
    )
    forgotten = _looking_back(best, figures.forgetting)
    if forgotten is None:
        because += f", on these tasks.{_unmeasured(result)}"
    else:
        is_nothing = forgotten <= 1e-3 * max(abs(ours), abs(theirs))
        because += f", and forgets {'nothing' if is_nothing else metric.form(forgotten)}."
    is_level = metric.value(ours) >= metric.value(theirs) - 0.01 * abs(theirs)
    tone: Tone = "good" if is_level and share < 1 else "caution"
    return f"{best} has the best {metric.name} of the methods that share weights.", because, tone


def _key_numbers(result: LearnResult) -> list[KeyNumber]:
    best, metric = _best(result), result.metric
    figures = result.methods[best].figures
    forgotten = metric.in_units(_looking_back(best, figures.forgetting))
    label = "forgetting, points" if metric.is_share else "forgetting"
    return [
        KeyNumber(f"average {metric.name}", figures.average_accuracy.mean, best, metric.form),
        KeyNumber(label, forgotten, best, metric.number),
        KeyNumber("parameters", figures.parameters.mean, best, count),
    ]


def _add_front(page: Page, result: LearnResult) -> None:
    """Accuracy against size: what there is to choose from."""
    rows = _rows(result)
    names, entries = list(rows), list(rows.values())
    metric = result.metric
    page.section(f"{metric.title} against size and work")
    sizes = [entry.figures.parameters.known for entry in entries]
    values = [metric.in_units(entry.figures.average_accuracy.known) for entry in entries]
    methods = Points("methods", sizes, values, names=names, labelled=list(range(len(names))))
    page.chart(
        scatter_chart([methods], x_label="parameters", y_label=f"average {metric.unit}"),
        f"{'Up' if metric.higher_is_better else 'Down'} and to the left is better.",
    )
    works = [None if entry.figures.work is None else entry.figures.work.mean for entry in entries]
    known = [work / 1e9 for work in works if work is not None]
    if len(known) < len(works):  # runs of earlier versions do not know it
        return
    spent = Points("methods", known, values, names=names, labelled=list(range(len(names))))
    page.chart(
        scatter_chart([spent], x_label="work, thousand million multiply-adds", y_label=f"average {metric.unit}"),
        f"The same against all that learning took. {_WORK_IS}",
    )


def _add_growth(page: Page, result: LearnResult) -> None:
    if len(result.tasks) < 2:
        return
    page.section("Growth")
    shown = list(result.methods.items())[:MAX_LINES]
    _add_lines(
        page,
        {name: entry.growth for name, entry in shown},
        "parameters",
        "Parameters",
        "The parameters of the whole network after each task.",
    )
    if all(entry.stored for _, entry in shown):  # runs of earlier versions have none
        stored = {name: [value / 1000 for value in entry.stored] for name, entry in shown}
        words = "What must be kept to use all tasks and to go on: weights, masks and memories, in thousands of bytes."
        _add_lines(page, stored, "stored, kB", "Stored bytes", words)


def _add_lines(page: Page, values: dict[str, list[float]], y_label: str, title: str, caption: str) -> None:
    lines = [Line(name, list(range(1, len(own) + 1)), own) for name, own in values.items()]
    page.chart(line_chart(lines, x_label="tasks learned", y_label=y_label, include=[0.0]), caption, title=title)


def _add_matrices(page: Page, result: LearnResult) -> None:
    metric = result.metric
    page.section(f"{metric.title} on each task, after each task")
    shown = list(result.methods.items())[:MAX_MAPS]
    held = [value for _, entry in shown for row in entry.matrix for value in row if value is not None]
    known = [metric.in_units(value) for value in held]
    places = drawn_places(len(result.tasks))
    for name, entry in shown:
        page.chart(
            heat_map(
                [f"{place + 1} {result.tasks[place]}" for place in places],
                [str(place + 1) for place in places],
                [[metric.in_units(entry.matrix[after][on]) for on in places] for after in places],
                row_label="after learning",
                column_label=f"{metric.name} on",
                value_label=metric.unit,
                span=(min(known), max(known)),
                form=metric.number,
            ),
            f"A column that {'fades' if metric.higher_is_better else 'darkens'} from its diagonal downwards is a task "
            f"that is being forgotten. All maps have one scale.{left_out(len(result.tasks))}",
            title=name,
        )


def _add_explanations(page: Page, result: LearnResult) -> None:
    said = {name: entry.explanation for name, entry in result.methods.items() if entry.explanation}
    if not said:
        return
    page.section("Why")
    for name, lines in said.items():
        graph = result.methods[name].graph
        tasks = list(graph.paths) if graph else result.tasks
        page.prose(f"**{name}**\n\n" + "\n".join(f"- {words}" for words in by_task(lines, tasks)))


def _add_files(page: Page, result: LearnResult) -> None:
    """Where the tasks' networks are, and what of them could not be written."""
    found = {name: entry for name, entry in result.methods.items() if entry.exported is not None}
    if not found:
        return
    page.section("The networks")
    lines = [f"- {name}: `{entry.exported}/`, a file and a card for each task" for name, entry in found.items()]
    lines += [
        f"- not written, {name}, {task}: {problem}"
        for name, entry in found.items()
        for task, problem in entry.not_exported.items()
    ]
    page.prose(
        "`torch.export.load(FILE).module()` gives a task's network, to run without ramet.\n\n" + "\n".join(lines)
    )


def by_task(lines: Sequence[str], tasks: Sequence[str]) -> list[str]:
    """An explanation with all that is said of one task in one piece: a line that names a task begins a new one.

    >>> by_task(["'a' came first.", "'b' was bound to 'a'.", "Shared: all."], ["a", "b"])
    ["'a' came first.", "'b' was bound to 'a'. Shared: all."]
    """
    pieces: list[str] = []
    openings = tuple(opening for task in tasks for opening in (task, repr(task)))
    for line in lines:
        if pieces and not line.startswith(openings):
            pieces[-1] += f" {line}"
        else:
            pieces.append(line)
    return pieces
