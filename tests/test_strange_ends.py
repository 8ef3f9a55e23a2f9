"""Code of the user's that ends in strange ways, where it is first run: one line, and no end that passes for done."""

from __future__ import annotations

import pickle
import re

import pytest
import torch
from torch import nn

from ramet.cli import main
from ramet.continual.networks.recording import names_of_state
from ramet.data.arrays import row_of
from ramet.data.iterables import read_rows
from ramet.errors import ConfigError, RunError, text_of, told
from ramet.execution.inline import Inline
from ramet.execution.tasks import WorkItem
from ramet.execution.worker import Broken, _Pulses, _run
from ramet.growth import NETWORKS
from ramet.registry import resolve_reference
from ramet.runs import read_records
from ramet.training.metrics import Metric
from ramet.training.recipes import recipe_options
from ramet.training.rehearsal import _saying


class Mute(Exception):  # noqa: N818 (it is no error of ours)
    def __str__(self) -> str:
        raise ZeroDivisionError("no words")


class Ending(BaseException):
    pass


CODE = {
    "sys.exit(0)": "SystemExit: 0",
    "raise GeneratorExit('out')": "GeneratorExit: out",
    "raise type('Ending', (BaseException,), {})('over')": "Ending: over",
    "raise type('M', (Exception,), {'__str__': lambda self: 1 / 0})": "M: (its own text raises ZeroDivisionError)",
    "raise type('Numb', (Exception,), {'__str__': lambda self: 3})": "Numb: (its own text raises TypeError)",
    "raise ValueError('two\\nlines')": "ValueError: two",
}
ERRORS = [SystemExit(0), GeneratorExit("out"), Ending("over"), Mute()]


def raising(error: BaseException):
    def function(*given, **options):
        raise error

    return function


class Strange(nn.Linear):
    """A network that raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(4, 2)
        self.forward = raising(error)

    def __deepcopy__(self, memo):
        return self


class Rows:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __iter__(self):
        raise self.error

    def __getitem__(self, index):
        raise self.error


@pytest.mark.parametrize(("code", "words"), CODE.items())
def test_a_file_and_a_function_in_it(tmp_path, code, words):
    (tmp_path / "strange_end.py").write_text(f"import sys\n{code}\n")
    with pytest.raises(ConfigError, match=rf"strange_end.py must run without an error, but: {re.escape(words)}"):
        resolve_reference(f"{tmp_path}/strange_end.py:network", trusted=True)
    (tmp_path / "strange_part.py").write_text(f"import sys\ndef network(*sizes, **options):\n    {code}\n")
    place = f"{tmp_path}/strange_part.py:network"
    with pytest.raises(ConfigError, match=f"must run, but raises {re.escape(words)}"):
        NETWORKS.make(place, 10)
    with pytest.raises(ConfigError, match=f"must run, but raises {re.escape(words)}"):
        recipe_options(place)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_is_called(error):
    words = re.escape(told(error))
    with pytest.raises(ConfigError, match=f"raises {words}"), _saying("a loss must run"):
        raising(error)()
    with pytest.raises(ConfigError, match=f"raises {words}"):
        names_of_state(Strange(error), [4])
    with pytest.raises(ConfigError, match=f"raises {words}"):
        Metric("own", raising(error)).result(torch.zeros(2, 3), torch.zeros(2))
    for read in (lambda: row_of(Rows(error), 3, "own"), lambda: read_rows(Rows(error), "own")):
        with pytest.raises(ConfigError, match=rf"raises {type(error).__name__} .*{re.escape(text_of(error))}"):
            read()


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_tasks(number):
    """It ends neither the driver nor a worker; an ordinary exception stays what it is, and so does a class of one's own
    in the driver's process, where whoever derives from BaseException means to get past everybody."""
    error, task = ERRORS[number], WorkItem("one", strange_task, {"number": number})
    expected = Mute if isinstance(error, Mute) else RunError
    inline = type(error) if isinstance(error, Mute | Ending) else RunError
    with pytest.raises(inline) as raised:
        list(Inline().run([task], label=""))
    assert told(error) in text_of(raised.value) or inline is not RunError
    broken = _run(pickle.dumps(task), None, 1, _Pulses(None))
    assert isinstance(broken, Broken)
    assert type(broken.failure.unpack("")) is expected


def strange_task(context, number):
    raise ERRORS[number]


def interrupted(context):
    raise KeyboardInterrupt


def test_an_interrupt_is_one():
    with pytest.raises(KeyboardInterrupt):
        list(Inline().run([WorkItem("one", interrupted, {})], label=""))
    with pytest.raises(KeyboardInterrupt), _saying("a loss must run"):
        raise KeyboardInterrupt


def test_a_run_that_is_ended_from_within_is_not_done(tmp_path, capsys):
    """The loss of a search, at a step behind the rehearsal."""
    (tmp_path / "ending_loss.py").write_text(
        "import sys\nfrom torch.nn.functional import cross_entropy\ncalls = []\n\n"
        "def loss(outputs, targets):\n    calls.append(1)\n    if len(calls) > 6:\n        sys.exit(0)\n"
        "    return cross_entropy(outputs, targets)\n"
    )
    options = "--channels 2 --cells 1 --train-size 40 --eval-size 16 --epochs 9 --warmup-epochs 1 --models-per-epoch 2"
    options += f" --batch-size 8 --loss {tmp_path}/ending_loss.py:loss --out {tmp_path}/run"
    with pytest.raises(SystemExit) as end:
        main(["search", *options.split()])
    assert end.value.code == 1
    assert capsys.readouterr().err == "ramet: what a run is given must not end it, but raised SystemExit: 0.\n"
    assert "result" not in {record["key"] for record in read_records(tmp_path / "run")}
