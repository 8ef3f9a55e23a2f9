"""The report of `ramet grow`: the curves, the network before and after, every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ramet.jobs.grow.advice import advice, attribution
from ramet.jobs.grow.result import (
    ACCURACY,
    ArmFigures,
    GrowResult,
    MethodFigures,
    StepFigures,
    StepSeconds,
    behind,
    words_of,
)
from ramet.reports.charts import Block, Line, heat_map, layer_chart, line_chart
from ramet.reports.formats import count, decimals, duration, percent, times
from ramet.reports.metric import MetricFigures
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Cell, Column, Columns, Table
from ramet.runs.encoding import Json
from ramet.runs.showing import without_folders


def table(result: GrowResult) -> Table:
    """Every method in a row: what it started from, what it ended with, and why it ended."""
    rows: list[list[Cell]] = []
    for name, method in result.methods.items():
        sizes: list[Cell] = [method.params, method.flops, method.work or None]
        rows.append([name, len(method.steps) - 1, *sizes, method.validation, method.test, method.stopped])
    for name, arm in result.against.items():
        sizes = [arm.params, arm.flops, arm.work]
        rows.append([name, None, *sizes, arm.validation, arm.test, f"{arm.num_steps:,} training steps"])
    metric = result.metric
    figures = [Column(split, metric.form, best=metric.best) for split in ("validation", "test")]
    sized = [Column("parameters", count), Column("multiply-adds", count), Column("work", count)]
    columns: Columns = ["method", "growths", *sized, *figures, "ended because"]
    caption = (
        f"All start from {count(result.params_before)} parameters{_begun(result)}. The test "
        f"{result.rows} were looked at once, with the network that each method hands back."
    )
    caption += " Multiply-adds are those of one example, work is those of all training and growing."
    if result.against:
        caption += f" {', '.join(result.against)}: other ways to a network, each with the work of {result.best}"
        caption += " and, but for start, its parameters; their multiply-adds may differ."
    if not _is_accuracy(result):
        caption += f" Validation and test are the {metric.name}: the {metric.best} is the best."
    return Table(columns, rows, title="What each method made of the same network", caption=caption)


def page(result: GrowResult, config: Json, seconds: Mapping[str, Sequence[StepSeconds]] | None = None) -> Page:
    """The whole report as a page; what steps took is read from the run, if it is not given."""
    seconds = result.seconds() if seconds is None else seconds
    page = Page(
        "Where did this network get larger?",
        f"{without_folders(result.network)} on {without_folders(result.data_name)}",
    )
    best = result.best
    taken = f"**{advice(result)}** {attribution(result)}".rstrip() if result.against else ""
    page.verdict(_verdict(result, best), f"{taken}\n\n{_because(result, best)}".strip(), tone="neutral")
    page.numbers(*_key_numbers(result, best, seconds))
    page.section(f"{result.metric.title} against size")
    _add_curves(page, result)
    page.table(table(result))
    page.section("Before and after")
    for name in result.methods:
        _add_picture(page, result, name)
    page.section("What grew where, when and why")
    for name in result.methods:
        _add_history(page, result, name, seconds.get(name, []))
    page.section("What could not grow")
    _add_refusals(page, result)
    page.section("Using the network")
    page.prose(_usage(result.methods[best] if result.taken == best else result.against[result.taken]))
    page.details("Configuration", config)
    return page


def _begun(result: GrowResult) -> str:
    """What the methods had after their first training, in words that follow the size of the network as it was given."""
    first = {name: method.steps[0] for name, method in result.methods.items()}
    plain = [step for step in first.values() if not step.widened]
    words = [f" and {_said(result, plain[0].score)}"] if plain else []
    for name, step in first.items():
        if step.widened:
            words.append(
                f"; {name} was widened to {count(step.sizes.params)} before its first training, which gave it "
                f"{_said(result, step.score)}"
            )
    return "".join(words)


def _is_accuracy(result: GrowResult) -> bool:
    return result.metric == ACCURACY


def _said(result: GrowResult, score: float) -> str:
    """A validation score in words."""
    if result.metric.is_share and result.metric.name == "accuracy":
        return f"{percent(score)} of the validation {result.rows}"
    return f"a validation {result.metric.name} of {result.metric.text(score)}"


def _verdict(result: GrowResult, best: str) -> str:
    method, metric = result.methods[best], result.metric
    first, last = method.steps[0], metric.value(method.validation)
    larger = times(method.params / result.params_before)
    if first.widened:  # nothing is known of the network as it was given, which was never trained
        way = "and the training that went with them" if result.start is None else "and more training"
        return f"{larger} the parameters {way}: {_said(result, method.end.score)}."
    if not metric.is_share:
        way = (
            f"took the {metric.name} on validation {result.rows} from {metric.text(first.score)} to {metric.text(last)}"
        )
        return f"{larger} the parameters {way}." if last > first.score else f"Growing did not help: {larger} {way}."
    gain = 100 * (last - first.score)
    if gain <= 0:
        return f"Growing did not help: {larger} the parameters gave {gain:+z.1f} points of validation {metric.name}."
    if metric.name != "accuracy":
        return (
            f"{larger} the parameters gave {gain:+z.1f} points of {metric.name}: from {percent(first.score)} to "
            f"{percent(last)} on validation {result.rows}."
        )
    return (
        f"{larger} the parameters and the training that went with them gave {gain:+z.1f} points: from "
        f"{percent(first.score)} to {percent(last)} of the validation {result.rows}."
    )


def _because(result: GrowResult, best: str) -> str:
    method = result.methods[best]
    words = f"Grown by **{best}**, in {_plural(len(method.steps) - 1, 'step')}; it ended because {method.stopped}."
    if method.kept is not None:
        words += f" The network is that of step {method.kept}, the best; later steps only made it larger."
    if len(result.methods) > 1:
        words += f" It is the best of the methods by validation {result.metric.name}."
    is_share = result.metric.is_share
    enough = _large_enough(method, is_share)
    if enough is not None:
        words += f" Step {enough.number}, with {count(enough.sizes.params)} parameters, "
        words += "was already within half a point of the best." if is_share else "already had 98 % of the gain."
    return words


def _large_enough(method: MethodFigures, is_share: bool) -> StepFigures | None:
    """The first step that is within half a point (or 2 % of the gain) of the best, unless it is the last one."""
    top = max(step.score for step in method.steps)
    margin = 0.005 if is_share else 0.02 * (top - method.steps[0].score)
    found = next(step for step in method.steps if step.score >= top - margin)
    return None if found.number == method.end.number else found


def _key_numbers(result: GrowResult, best: str, seconds: Mapping[str, Sequence[StepSeconds]]) -> list[KeyNumber]:
    method, metric = result.methods[best], result.metric
    first = method.steps[0]
    growing = sum(entry.growing for entry in seconds.get(best, []))
    training = sum(entry.training for entry in seconds.get(best, []))
    size, score = f"from {count(result.params_before)}", f"from {metric.text(first.score)}"
    if first.widened:
        size += f", by way of {count(first.sizes.params)}"
        score += f" at {count(first.sizes.params)} parameters"
    numbers = [
        KeyNumber("parameters", method.params, size, count),
        KeyNumber(f"validation {metric.name}", method.validation, score, metric.form),
        KeyNumber(f"test {metric.name}", method.test, "looked at once, at the end", metric.form),
    ]
    if training:
        numbers.append(KeyNumber("time for growing", growing, f"beside {duration(training)} of training", duration))
    return numbers


def _add_curves(page: Page, result: GrowResult) -> None:
    metric = result.metric
    lines = [
        Line(
            name,
            [step.sizes.params for step in method.steps],
            [metric.in_units(metric.value(step.score)) for step in method.steps],
        )
        for name, method in result.methods.items()
    ]
    way = "Higher" if metric.higher_is_better else "Lower"
    page.chart(
        line_chart(lines, x_label="parameters", y_label=f"validation {metric.unit}", x_log=True),
        f"Each mark is the network after a growth and the training that followed. {way} and further left is better.",
    )


def _add_picture(page: Page, result: GrowResult, name: str) -> None:
    method = result.methods[name]
    known = {layer.name: layer.units for layer in result.layers}
    reasons = {refusal.name: refusal.reason for refusal in result.refusals}
    blocks = [
        Block(
            layer.name,
            layer.kind,
            known.get(layer.name) if not layer.new else None,
            layer.units,
            f"not grown: {reasons[layer.name]}" if layer.name in reasons else "",
        )
        for layer in method.layers
    ]
    before, after = f"before: {count(result.params_before)} parameters", f"after: {count(method.params)} parameters"
    page.chart(
        layer_chart(blocks, before=before, after=after),
        f"The network from its input at the top to its output, as **{name}** left it. A block is as wide as the layer "
        "has channels; the figure is their number.",
        title=name if len(result.methods) > 1 else "",
    )


def _add_history(page: Page, result: GrowResult, name: str, seconds: Sequence[StepSeconds]) -> None:
    method = result.methods[name]
    steps = method.steps[1:]
    if not steps:
        page.prose(f"**{name}** added nothing: {method.stopped}.")
        return
    order = [layer.name for layer in result.layers]
    found = dict.fromkeys(place for step in steps for place in [*step.widened, *map(behind, step.layers)])
    places = sorted(found, key=lambda place: order.index(place) if place in order else len(order))
    added = [[_added(step, place) for step in steps] for place in places]
    if len(places) > 1 and len(steps) > 1:
        page.chart(
            heat_map(
                places,
                [str(step.number) for step in steps],
                added,
                row_label="channels of",
                column_label="growth step",
                value_label="channels added",
                centre=None,
            ),
            f"Where **{name}** put its channels in each step.",
        )
    _add_words(page, name, method.steps, result.metric)
    rows: list[list[Cell]] = [
        [
            str(step.number),
            step.num_candidates or None,
            step.best_score,
            step.loss_before,
            step.loss_after,
            step.loss,
            seconds[number].growing if number < len(seconds) and number else None,
        ]
        for number, step in enumerate(method.steps)
    ]
    losses = [Column(name, decimals(3)) for name in ("loss before", "just after", "trained")]
    chosen = [Column("candidates", count), Column("best score", lambda value: f"{value:.2g}")]
    columns: Columns = ["step", *chosen, *losses, Column("growing took", duration)]
    page.details(f"The steps of {name} in figures", Table(columns, rows))


def _add_words(page: Page, name: str, steps: Sequence[StepFigures], metric: MetricFigures) -> None:
    rows: list[list[Cell]] = [
        [
            str(step.number),
            words_of(step) if step.number else f"the network {'wider from the start' if step.widened else 'as it was'}",
            step.sizes.params,
            step.sizes.flops,
            step.growing_work + step.training_work or None,
            metric.value(step.score),
        ]
        for step in steps
    ]
    measured = Column("validation", metric.form, best=metric.best)
    sized = [Column("parameters", count), Column("multiply-adds", count), Column("work", count)]
    columns: Columns = ["step", "what grew", *sized, measured]
    caption = (
        "Split: a channel got a copy, and both share its outgoing weights. New: a channel of its own. "
        f"{_why_these(steps)} The training losses before the growth, just after it and once trained are below."
    )
    page.table(Table(columns, rows, title=f"The steps of {name}", caption=caption))


def _why_these(steps: Sequence[StepFigures]) -> str:
    if any(step.best_score for step in steps):
        return (
            "Why these: they had the best scores of all candidates that fitted the step, in the method's own measure."
        )
    return "Why these: nothing was scored; the method's own rule says where."


def _added(step: StepFigures, place: str) -> int:
    if place in step.widened:
        return len(step.widened[place].split) + step.widened[place].new
    return next((width for site, width in step.layers.items() if behind(site) == place), 0)


def _add_refusals(page: Page, result: GrowResult) -> None:
    if not result.refusals:
        page.prose("Everything in this network can grow.")
        return
    rows = [[refusal.name, refusal.reason] for refusal in result.refusals]
    caption = "In the network as it was at first. Everything else could grow."
    page.table(Table(["layer or weight", "why it is left alone"], rows, caption=caption))


def _usage(method: MethodFigures | ArmFigures) -> str:
    folder = method.network
    alone = f'- Without ramet: `torch.export.load("{folder}/network.pt2").module()` gives the network, to run.'
    if method.not_exported:
        alone = f"- Not everything could be written: {method.not_exported}"
    module = f'- As a module, to go on with: `ramet.growth.load_network("{folder}")`.'
    return f"{alone}\n{module}\n- The weights alone: `{folder}/weights.safetensors`, by the names of `state_dict()`."


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
