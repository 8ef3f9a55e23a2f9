"""The help of every command: it has examples, which the command itself takes, and headings over long lists."""

from __future__ import annotations

import re
import shlex

import pytest
from cyclopts import App

from ramet.cli.main import main, make_app
from ramet.jobs import SUMMARIES

APP = make_app(tuple(SUMMARIES))
NAMES = [name for name in APP if not name.startswith("-") and name not in ("runs", "data")]
COMMANDS = [*NAMES, "runs clean", "data list", "data fetch"]


def examples_of(command: str) -> list[str]:
    """What stands in backquotes in the list of examples, as its docstring has it."""
    app: App = APP
    for name in command.split():
        app = app[name]
    _, heading, listed = (app.help or app.default_command.__doc__).partition("For example:")
    assert heading, f"the help of {command} has no examples"
    listed = listed.split("Args:")[0]
    return [line.rpartition(" `")[2].rstrip("`") for line in listed.splitlines() if line.strip().startswith("- ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_command_are_taken_by_it(command):
    found = examples_of(command)
    assert found
    for example in found:
        if "<(" in example or "torchrun" in example:  # of a shell, and of torch
            continue
        words = shlex.split(example.split(" > ")[0])
        words = words[words.index("ramet") + 1 :]
        APP.parse_args(words, exit_on_error=False, print_error=False)  # raises what a user would be told
        assert " ".join(words).startswith(command)


def test_an_example_with_a_wrong_option_would_be_seen():
    with pytest.raises(Exception, match="--streem"):
        APP.parse_args(["learn", "--streem", "mine.json"], exit_on_error=False, print_error=False)


def headings_of(capsys, *arguments: str) -> list[str]:
    main([*arguments, "--help"])
    return re.findall(r"^╭─ (.+?) ─", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("kind", ["rank", "search", "grow", "learn", "study"])
def test_options_of_a_job_have_headings(kind, capsys):
    headings = headings_of(capsys, kind)
    assert headings == ["What it is about", "What is done", "How networks are trained", "The run"]


def test_every_command_is_shown_under_one_heading(capsys):
    headings = headings_of(capsys)
    assert len(headings) == 4 and headings[0] == "To begin with" and "Commands" not in headings
    main(["--help"])
    shown = re.findall(r"^│ ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert sorted(shown) == sorted([*NAMES, "runs", "data"])
