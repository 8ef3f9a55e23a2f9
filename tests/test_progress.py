"""Progress without a terminal: a line a minute, and nothing that was not asked for."""

from __future__ import annotations

import threading

import pytest

from ramet import progress


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.delenv("RAMET_PROGRESS", raising=False)
    monkeypatch.delenv("RANK", raising=False)


def test_the_line_says_what_is_done_and_what_is_left(asked):
    with progress.progress("training", total=4) as outer, progress.progress("task 2", total=2):
        assert progress._log.line() == "training: 0 %; task 2: 0 %"
        outer.advance(3)
        outer.started_at -= 30  # as if the three had taken half a minute
        assert progress._log.line() == "training: 75 %, 0:00:10 left; task 2: 0 %"
    assert progress._log.line() == "" and progress._log._timer is None


def test_lines_come_by_themselves(asked, monkeypatch, capfd):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)
    printed = threading.Event()
    told = progress._log._tell

    def tell():
        told()
        printed.set()

    monkeypatch.setattr(progress._log, "_tell", tell)
    with progress.progress("training", total=1):
        assert printed.wait(300)
    assert capfd.readouterr().err.startswith("ramet: training: 0 %\n")


@pytest.mark.parametrize(("name", "value"), [("RAMET_PROGRESS", "0"), ("RANK", "1")])
def test_who_does_not_speak(asked, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with progress.progress("training", total=1):
        assert progress._log._timer is None


def test_a_minute_goes_on_from_one_piece_of_work_to_the_next(asked, monkeypatch):
    """Pieces of forty seconds, one after the other, say something in every minute all the same."""
    now, waits = [1000.0], []

    class Clock:
        daemon = False

        def __init__(self, seconds, tell):
            waits.append(seconds)

        def start(self):
            pass

        def cancel(self):
            pass

    monkeypatch.setattr(progress, "_log", progress._Log())
    monkeypatch.setattr(progress.threading, "Timer", Clock)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    for _ in range(3):
        with progress.progress("training", total=1):
            now[0] += 40
    assert waits == [60, 20, 0]
    progress._log._tell()  # nothing is under way: nothing is said
    now[0] += 3600
    with progress.progress("another job, later", total=1):
        assert waits[-1] == 60
