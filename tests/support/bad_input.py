"""Bad input to the command line, one row each: a name, what makes the arguments, and a phrase of the refusal.

``make`` writes under the folder that it is given, which is also where the command runs, and returns the arguments.
The rows of ``bad_data.py`` that a command line can express are here as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import bad_data
import numpy as np

from ramet.jobs.rank import RankJob
from ramet.ranking.plan import Plan
from ramet.runs import Run
from ramet.training import Settings
from ramet_papers.claims import Claim

Maker = Callable[[Path], list[str]]


class BadInput(NamedTuple):
    name: str
    make: Maker
    phrase: str


ROWS: list[BadInput] = []


def row(name: str, phrase: str) -> Callable[[Maker], Maker]:
    def keep(make: Maker) -> Maker:
        ROWS.append(BadInput(name, make, phrase))
        return make

    return keep


def plain(name: str, phrase: str, *arguments: str) -> None:
    """A row of arguments alone."""
    ROWS.append(BadInput(name, lambda folder: list(arguments), phrase))


def rank(phrase: str, *arguments: str) -> None:
    """A row of arguments of ``ramet rank``, named by them."""
    plain(" ".join(arguments), phrase, "rank", *arguments)


# Names

plain("unknown command", "rnak", "rnak")
plain("unknown command of data", "get", "data", "get")
plain("unknown option", "--epoch-count", "rank", "--epoch-count", "3")
plain("stray argument", "cells64", "rank", "cells64")
plain("option without its value", "--epochs", "rank", "--epochs")
plain("option twice", "--epochs", "rank", "--epochs", "1", "--epochs", "2")
plain("unknown preset", "--preset", "reproduce", "deeper-insights/table-1", "--preset", "large")
plain("unknown table", "must be one of `ramet reproduce --list`", "reproduce", "deeper-insights/table-99")
plain("no table", "reproduce needs a target", "reproduce")
plain("nothing to resume", "needs DIRECTORY", "resume")
plain("nothing to report", "needs DIRECTORY", "report")
plain("nothing to fetch", "needs NAME", "data", "fetch")
plain("fetching an unknown set", "must be one of", "data", "fetch", "qqqqqqqq")
rank("or FILE.py:Name, but got 'cells65'", "--space", "cells65")
rank("--order", "--order", "random")
rank("--varied", "--varied", "nothing")
rank("truth must be train, none or table:FILE", "--truth", "oracle")
rank("truth must be train, none or table:FILE", "--truth", "table:")
for text in ("halves", "groups", "groups:x:similar", "groups:4:alike", "groups:0:similar", "prefix:-1", "prefix:"):
    phrase = {"groups:4:alike": "grouping is one of", "groups:x:similar": "num_groups of groups must be a whole number"}
    rank(phrase.get(text, "sharing"), "--sharing", text)
for text in ("momentum", "speed=3", "momentum=fast", "=1"):
    rank("also must be NAME=VALUE with one of momentum", "--also", text)

# Numbers

for option in ("instances", "epochs", "supernet-epochs", "last-epochs", "last-steps", "truth-seeds"):
    rank(f"{option.replace('-', '_')} must be at least 1, but got 0", f"--{option}", "0")
    rank(f"{option.replace('-', '_')} must be at least 1, but got -2", f"--{option}", "-2")
for option, name in (("channels", "channels"), ("cells", "num_cells")):
    rank(f"{name} must be", f"--{option}", "0")
    rank(f"{name} must be", f"--{option}", "-2")
for option in ("train-size", "eval-size", "image-size"):
    rank("must be a whole number of at least 1", f"--{option}", "0")
    rank("must be a whole number of at least 1", f"--{option}", "-2")
for text in ("-1", "0", "1"):
    rank("children must be at least 2, because one child has no rank", "--children", text)
    rank("batch_size must be at least 2, because batch norm needs two samples", "--batch-size", text)
for text in ("0", "-1"):
    rank("the number of workers must be at least 1", "--workers", text)
rank("fine_tune_steps must not be negative, but got -1", "--fine-tune-steps", "-1")
for option in ("epochs", "workers", "seed", "children", "fine-tune-steps"):
    rank(f"--{option}", f"--{option}", "ten")
    rank(f"--{option}", f"--{option}", "1.5")
for option in ("learning-rate", "momentum", "validation-fraction", "bn-momentum", "checkpoint-every"):
    rank(f"--{option}", f"--{option}", "fast")
for text in ("0", "-0.1", "nan", "inf"):
    rank("learning_rate must be positive and finite", "--learning-rate", text)
    if text != "0":  # which leaves weights as they are
        rank("fine_tune_learning_rate must be finite and not negative", "--fine-tune-learning-rate", text)
for text in ("-0.1", "1", "nan", "inf"):
    rank("momentum must lie in [0, 1)", "--momentum", text)
    rank("momentum must lie in [0, 1)", "--also", f"momentum={text}")
for text in ("-1", "nan", "inf"):
    rank("weight_decay must not be negative", "--weight-decay", text)
    rank("weight_decay must not be negative", "--also", f"weight-decay={text}")
for text in ("-0.1", "nan", "1"):
    rank("final_learning_rate must lie between 0 and learning_rate", "--final-learning-rate", text)
for text in ("0", "2", "nan"):
    rank("bn_momentum must be above 0 and at most 1", "--bn-momentum", text)
    rank("bn-momentum must be above 0 and at most 1", "--also", f"bn-momentum={text}")
for text in ("-1", "nan"):
    rank("seconds_between_checkpoints must not be negative", "--checkpoint-every", text)
rank("learning_rate must be positive and finite", "--also", "learning-rate=nan")
rank("epochs must be at least 1", "--also", "epochs=0")
rank("epochs must be a whole number", "--also", "epochs=1.5")
rank("epochs must be a whole number", "--also", "epochs=inf")

# Options that contradict each other or the space

rank("also must name each variation once", "--also", "momentum=0", "--also", "momentum=0")
rank("needs all children to be scored", "--children", "8", "--sharing", "prefix:1")
rank("children must be at most the 64 of the space, but got 65", "--children", "65")
rank("num_groups must be between 1 and the 64 children of the space, but got 65", "--sharing", "groups:65:random")
rank("prefix must share between 0 and 2 cells, but got 3", "--sharing", "prefix:3")
rank("too large to score whole; give --children", "--space", "nasbench201")
rank("fine-tuning needs a positive learning rate", "--final-learning-rate", "0")
rank("device must be one that torch can use here", "--device", "toaster")
rank("device must be one that torch can use here", "--device", "cuda:99")
rank("device must be one that torch can use here", "--device", "meta")
rank("at most the 8 x 8 of the images", "--image-size", "9")
rank("train_size must be at least the 10 classes", "--train-size", "9")

# Tables of the truth

CHILDREN = [f"{a}{b}{c}" for a in "1234" for b in "1234" for c in "1234"]


def table_row(name: str, phrase: str, text: str | bytes, column: str = "") -> None:
    def make(folder: Path) -> list[str]:
        (folder / "truth.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return ["rank", "--truth", f"table:{folder / 'truth.csv'}{column}"]

    ROWS.append(BadInput(f"table: {name}", make, phrase))


def npz_row(name: str, phrase: str, column: str = "", **arrays: Any) -> None:
    def make(folder: Path) -> list[str]:
        np.savez(folder / "truth.npz", **arrays)
        return ["rank", "--truth", f"table:{folder / 'truth.npz'}{column}"]

    ROWS.append(BadInput(f"table: {name}", make, phrase))


def csv_text(values: dict[str, str], header: str = "arch,score") -> str:
    return "\n".join([header, *(f"{child},{values.get(child, '0.5')}" for child in CHILDREN), ""])


rank("a table of scores must be a file", "--truth", "table:nowhere.csv")
rank("a table of scores must be a file", "--truth", "table:nowhere.csv:score")
table_row("empty", "must have a header with a column named arch", "")
table_row("header alone", "and at least one row", "arch,score\n")
table_row("no column arch", "must have a header with a column named arch", "child,score\n111,0.5\n")
table_row("no scores", "must have a column of numbers beside arch", "arch,remark\n111,good\n")
table_row("no such column", "no column of numbers 'accuracy'; it has score", csv_text({}), ":accuracy")
table_row("a word among numbers", "finite scores, but column score has 'good' in row 65", csv_text({"444": "good"}))
table_row("column of words", "must have a column of numbers", csv_text({c: "good" for c in CHILDREN}))
table_row("all the same", "must order the children, but scores all 64 the same", csv_text({}))
table_row("commas without quotes", "but row 3 has 3: put what contains commas in quotes", "arch,score\n111,1\n1,1,2\n")
table_row("two rows of a seed", "with seed 0 again in row 3", "arch,seed,score\n111,0,1\n111,0,2\n")
table_row("negative deviation", "a deviation must not be negative", "arch,mean,std\n111,1,-1\n")
table_row(
    "several columns",
    "name one column of truth.csv as FILE:COLUMN, or those that are seeds as FILE:COLUMN,COLUMN; it has a, b",
    csv_text({c: "1,2" for c in CHILDREN}, "arch,a,b"),
)
table_row("unknown child", "must name architectures of the space; row 66: a child", csv_text({}) + "555,0.5\n")
table_row("child without a name", "must name architectures of the space", "score,arch\n0.5\n")
table_row("missing child", "must score every ranked child, but lacks 444", csv_text({}).replace("444,0.5\n", ""))
table_row(
    "child twice",
    "equally often, once for each seed, but has 2 rows of some and 1 of 111 (row 2)",
    csv_text({}) + "434,0.5\n",
)
table_row("NaN score", "finite scores, but column score has 'nan' in row 8", csv_text({"123": "nan"}))
table_row("infinite score", "must have finite scores", csv_text({"123": "inf"}))
table_row("not text", "must be a CSV file in UTF-8", b"\xff\xfe\x00arch")
npz_row("pickled npz", "holds Python objects", arch=np.array(CHILDREN, dtype=object), score=np.ones(64))
npz_row("npz without arch", "must have an array named arch", score=np.ones(64))
npz_row("npz of unequal lengths", "has 64 architectures, but 63 values of score", arch=CHILDREN, score=np.ones(63))


@row("table: npz that is text", "must be a whole .npz file")
def _(folder: Path) -> list[str]:
    (folder / "truth.npz").write_text("arch,score\n")
    return ["rank", "--truth", f"table:{folder / 'truth.npz'}"]


@row("table: a folder", "must be a file")
def _(folder: Path) -> list[str]:
    (folder / "truth.csv").mkdir()
    return ["rank", "--truth", f"table:{folder / 'truth.csv'}"]


@row("truth cache that is a file", "truth_cache must be a folder")
def _(folder: Path) -> list[str]:
    (folder / "cache").write_text("")
    return ["rank", "--truth-cache", str(folder / "cache" / "truth")]


# A space of the user's own

GOOD_CODE = """
from torch import nn
from ramet.spaces import Choice

def network(in_channels, num_classes):
    body = Choice({"wide": nn.Conv2d(in_channels, 4, 3), "slim": nn.Conv2d(in_channels, 4, 3, bias=False)})
    return nn.Sequential(nn.Identity(), body, nn.Flatten(), nn.Linear(4 * 36, num_classes))
"""


def code_row(name: str, phrase: str, code: str, function: str = "network", *arguments: str) -> None:
    def make(folder: Path) -> list[str]:
        # A file is imported under its own name, and stays imported in this process.
        path = folder / f"bad_code_{abs(hash(name))}.py"
        path.write_text(code)
        return ["rank", "--space", f"{path}:{function}", *arguments]

    ROWS.append(BadInput(f"code: {name}", make, phrase))


def changed(old: str, new: str) -> str:
    assert old in GOOD_CODE
    return GOOD_CODE.replace(old, new)


rank("there is no", "--space", "nowhere.py:network")
code_row("no function name", "or FILE.py:Name, but got", GOOD_CODE, "")
code_row("no such function", "must define other", GOOD_CODE, "other")
code_row("syntax error", "must run without an error, but: SyntaxError", "def network(:")
code_row("raises when imported", "must run without an error, but: ZeroDivisionError", "1 / 0")
code_row("imports what is not there", "No module named 'nowhere'", "import nowhere")
code_row("raises when called", "must run, but raises KeyError", changed("    body", "    {}['width']\n    body"))
code_row(
    "ends the program",
    "must run, but raises SystemExit: 3",
    changed("    body", "    import sys; sys.exit(3)\n    body"),
)
code_row("takes other arguments", "must get the arguments it knows", "def network(width): pass")
code_row("is a number", "is made by a class or a function", "network = 7")
code_row("is a class of something else", "but", "class network: pass")
code_row("gives no module", "a factory must return an nn.Module, but got NoneType", "def network(a, b): pass")
code_row(
    "no choice", "a space needs at least one Choice", "from torch import nn\ndef network(a, b): return nn.Flatten()"
)
code_row(
    "choice of nothing",
    "at least one option",
    changed('{"wide": nn.Conv2d(in_channels, 4, 3), "slim": nn.Conv2d(in_channels, 4, 3, bias=False)}', "[]"),
)
code_row(
    "choice of one",
    "a ranking needs at least 2 children",
    changed(', "slim": nn.Conv2d(in_channels, 4, 3, bias=False)', ""),
)
code_row("choice of no modules", "must be an nn.Module, but got int", changed("nn.Conv2d(in_channels, 4, 3)", "7"))
code_row(
    "choice in a choice",
    "must not lie inside an option of another",
    changed("nn.Conv2d(in_channels, 4, 3)", "Choice([nn.Flatten()])"),
)
code_row("name with a comma", "without comma", changed('"wide"', '"wi,de"'))
code_row("too few logits", "no logit for each of the 10 classes", changed("36, num_classes", "36, num_classes - 1"))
code_row("flat output forgotten", "does not: RuntimeError", changed("nn.Flatten(), ", ""))
code_row("an option that does not fit", "does not: RuntimeError", changed("4, 3, bias=False", "5, 3, bias=False"))
code_row(
    "an option for other images",
    "does not: RuntimeError",
    changed("in_channels, 4, 3, bias=False", "3, 4, 3, bias=False"),
)
code_row(
    "nothing to train",
    "does not: RuntimeError",
    changed("nn.Flatten(), nn.Linear(4 * 36, num_classes)", "nn.Flatten(), nn.AdaptiveAvgPool1d(10)")
    .replace("nn.Conv2d(in_channels, 4, 3", "nn.Dropout(0.1")
    .replace(", bias=False", ""),
)
code_row("width of a space that has none", "must get the arguments it knows", GOOD_CODE, "network", "--channels", "8")
code_row(
    "prefix longer than the network",
    "prefix must share between 0 and 2 cells, but got 3",
    GOOD_CODE,
    "network",
    "--sharing",
    "prefix:3",
)
code_row(
    "prefix with a choice in the stem",
    "needs a first stage that all children share",
    changed("nn.Identity(), ", ""),
    "network",
    "--sharing",
    "prefix:0",
)
code_row(
    "prefix of a single stage",
    "needs a first stage that all children share",
    changed("return nn.Sequential(", "return Whole(").replace(
        "def network", "class Whole(nn.Sequential): pass\n\ndef network"
    ),
    "network",
    "--sharing",
    "prefix:0",
)


# Run directories


def make_run(folder: Path, kind: str = "rank", **changes: Any) -> Path:
    """A run that was interrupted at once; ``changes`` are made to its config.json."""
    job = RankJob(
        space="cells64:channels=2,num_cells=1",
        recipe=Settings(epochs=1),
        plan=Plan(instances=1),
        truth_cache=str(folder / "truth"),
    )
    with Run.create(folder / "run", kind, job.to_json()):
        pass
    path = folder / "run" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder / "run"


def config_of(run: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((run / "config.json").read_text())["config"]
    return config


for command in ("resume", "report"):

    @row(f"{command}: nothing there", "a run directory must exist, but")
    def _(folder: Path, command: str = command) -> list[str]:
        return [command, str(folder / "nowhere")]

    @row(f"{command}: a file", "a run directory must exist, but")
    def _(folder: Path, command: str = command) -> list[str]:
        (folder / "run").write_text("")
        return [command, str(folder / "run")]

    @row(f"{command}: a folder that is no run", "a run directory must contain config.json")
    def _(folder: Path, command: str = command) -> list[str]:
        (folder / "run").mkdir()
        return [command, str(folder / "run")]

    @row(f"{command}: another version's run", "this ramet reads run directories of the formats 1 and 2, but")
    def _(folder: Path, command: str = command) -> list[str]:
        return [command, str(make_run(folder, format=99))]

    @row(f"{command}: a run without a version", "this ramet reads run directories of the formats 1 and 2, but")
    def _(folder: Path, command: str = command) -> list[str]:
        return [command, str(make_run(folder, format=None))]

    @row(f"{command}: another kind of run", "must be of one of the kinds rank")
    def _(folder: Path, command: str = command) -> list[str]:
        return [command, str(make_run(folder, kind="knit"))]

    @row(f"{command}: damaged configuration", "config.json must be JSON, but")
    def _(folder: Path, command: str = command) -> list[str]:
        run = make_run(folder)
        (run / "config.json").write_text('{"format": 1, "kin')
        return [command, str(run)]

    @row(
        f"{command}: a configuration of another program", "this ramet reads run directories of the formats 1 and 2, but"
    )
    def _(folder: Path, command: str = command) -> list[str]:
        (folder / "run").mkdir()
        (folder / "run" / "config.json").write_text('{"theme": "dark"}')
        return [command, str(folder / "run")]


@row("report: unfinished", "a run must be finished before its report")
def _(folder: Path) -> list[str]:
    return ["report", str(make_run(folder))]


@row("report: no records", "must contain records.jsonl")
def _(folder: Path) -> list[str]:
    run = make_run(folder)
    (run / "records.jsonl").unlink()
    return ["report", str(run)]


@row("resume: no plan", "config.json must describe a job of kind rank")
def _(folder: Path) -> list[str]:
    return ["resume", str(make_run(folder, config={}))]


@row("resume: a plan with an unknown entry", "plan must hold fields of Plan")
def _(folder: Path) -> list[str]:
    run = make_run(folder)
    config = config_of(run)
    config["plan"]["speed"] = 3
    return ["resume", str(make_run(folder / "again", config=config))]


@row("resume: a plan out of range", "instances must be at least 1")
def _(folder: Path) -> list[str]:
    config = config_of(make_run(folder))
    config["plan"]["instances"] = 0
    return ["resume", str(make_run(folder / "again", config=config))]


@row("resume: an unknown option of the data", "data_options must hold fields of NumericOptions")
def _(folder: Path) -> list[str]:
    config = config_of(make_run(folder)) | {"data_options": {"colour": "green"}}
    return ["resume", str(make_run(folder / "again", config=config))]


@row("resume: data that is gone", "there is no file or folder")
def _(folder: Path) -> list[str]:
    config = config_of(make_run(folder)) | {"data": str(folder / "gone.npz")}
    return ["resume", str(make_run(folder / "again", config=config))]


@row("resume: data that has changed", "a run goes on with what it began with, but the data of")
def _(folder: Path) -> list[str]:
    run = make_run(folder)
    job = RankJob.from_json(config_of(run))
    with Run.open(run) as opened:
        opened.records.append("setting", **job.build().describe() | {"data": "another digest"})
    return ["resume", str(run)]


@row("out: a run that is there", "a new run needs a new or empty directory, but")
def _(folder: Path) -> list[str]:
    return ["rank", "--out", str(make_run(folder))]


@row("out: a folder with something in it", "a new run needs a new or empty directory, but")
def _(folder: Path) -> list[str]:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("years of work")
    return ["rank", "--out", str(folder / "mine")]


@row("out: a file", "is a file")
def _(folder: Path) -> list[str]:
    (folder / "mine").write_text("years of work")
    return ["rank", "--out", str(folder / "mine")]


@row("out: under a file", "is a file")
def _(folder: Path) -> list[str]:
    (folder / "mine").write_text("years of work")
    return ["rank", "--out", str(folder / "mine" / "run")]


@row("overwrite: a folder that is no run", "only a run directory can be overwritten")
def _(folder: Path) -> list[str]:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("years of work")
    return ["rank", "--overwrite", "--out", str(folder / "mine")]


@row("overwrite: another program's folder with a config.json", "only a run directory can be overwritten")
def _(folder: Path) -> list[str]:
    (folder / "mine").mkdir()
    (folder / "mine" / "config.json").write_text('{"model": "years of work"}')
    return ["rank", "--overwrite", "--out", str(folder / "mine")]


@row("overwrite: a file", "only a run directory can be overwritten")
def _(folder: Path) -> list[str]:
    (folder / "mine").write_text("years of work")
    return ["rank", "--overwrite", "--out", str(folder / "mine")]


@row("overwrite: a good run, for a bad diagnosis", "a table of scores must be a file")
def _(folder: Path) -> list[str]:
    return ["rank", "--overwrite", "--out", str(make_run(folder)), "--truth", "table:nowhere.csv"]


@row("overwrite: a good run, for a prefix of too many cells", "prefix must share between")
def _(folder: Path) -> list[str]:
    return ["rank", "--overwrite", "--out", str(make_run(folder)), "--sharing", "prefix:9"]


# Claims

CLAIM = asdict(
    Claim(id="D1", claim="c", paper="p", ours="o", spread="s", seeds=1, holds=None, command="ramet", note="n")
)
CLAIM_FILES = {
    "cut short": '{"claims": [',
    "a list": "[]",
    "no list": '{"claims": 7}',
    "no objects": '{"claims": [7]}',
    "an entry without its figure": json.dumps({"claims": [{k: v for k, v in CLAIM.items() if k != "ours"}]}),
}
for fault, content in CLAIM_FILES.items():
    for arguments in (["--claims"], ["--claims", "--json"], ["deeper-insights/table-1"]):

        @row(f"claims.json, {' '.join(arguments)}: {fault}", "must be a list of claims, but is damaged")
        def _(folder: Path, content: str = content, arguments: list[str] = arguments) -> list[str]:
            (folder / "results").mkdir()
            (folder / "results" / "claims.json").write_text(content)
            return ["reproduce", *arguments, "--results", str(folder / "results")]


# Data

OPTIONS = ("source", "data_dir", "image_size", "train_size", "eval_size", "validation_fraction")
# The command line refuses these when it reads the number, in words of its own.
OWN_WORDS = {"image_size fractional": "--image-size", "validation_fraction text": "--validation-fraction"}


def data_row(bad: bad_data.BadData) -> BadInput:
    def make(folder: Path) -> list[str]:
        given = bad.make(folder)
        names = {"source": "data"} | {name: name.replace("_", "-") for name in OPTIONS[1:]}
        return ["rank", *(f"--{names[name]}={value}" for name, value in given.items())]

    return BadInput(f"data: {bad.name}", make, OWN_WORDS.get(bad.name, bad.phrase))


def fits_a_command_line(bad: bad_data.BadData, folder: Path) -> bool:
    given = bad.make(folder)
    return (
        isinstance(given["source"], str)
        and set(given) <= set(OPTIONS)
        and not isinstance(given.get("image_size"), tuple)
    )
