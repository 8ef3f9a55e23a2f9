"""What is done so far and the time left, on standard error: a bar on a terminal, elsewhere a line a minute."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

_SECONDS_BEFORE_SHOWN = 2.0
_SECONDS_BETWEEN_LINES = 60.0


class Bar:
    """How far one piece of work is; made by ``progress``."""

    def __init__(self, label: str, total: float, completed: float) -> None:
        self.label = label
        self.total = total
        self.start = completed
        self.completed = completed
        self.started_at = time.monotonic()
        self.line: TaskID | None = None

    def advance(self, amount: float = 1.0) -> None:
        """Say that more is done."""
        self.set(self.completed + amount)

    def set(self, completed: float) -> None:
        """Say how much is done in all."""
        self.completed = min(completed, self.total)
        _screen.refresh(self)

    def time_left(self) -> str:
        """The time left as text, from the mean pace since the start of the bar; what was done before does not count."""
        done = self.completed - self.start
        if done <= 0:
            return "-:--:--"
        return format_seconds((time.monotonic() - self.started_at) * (self.total - self.completed) / done)


@contextlib.contextmanager
def progress(label: str, total: float, completed: float = 0.0) -> Iterator[Bar]:
    """Show how far a block is while it runs: a bar on a terminal, from its third second on; elsewhere a line a minute.

    Bars may be nested; each has a line. They vanish when they are done. The lines of a log stay; the environment
    variable ``RAMET_PROGRESS=0`` keeps them away.

    Args:
        label: What is being done, such as ``"training children"``; an empty label shows nothing.
        total: How much there is to do, in any unit.
        completed: How much of it an earlier, interrupted run has done already.

    >>> with progress("counting", total=3) as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    >>> bar.completed
    3.0
    """
    bar = Bar(label, total, completed)
    if not label or not is_leader():
        yield bar
        return
    shown: _Screen | _Log = _screen if sys.stderr.isatty() else _log
    shown.add(bar)
    try:
        yield bar
    finally:
        shown.remove(bar)


def is_leader() -> bool:
    """Whether this process is the one of a launch that speaks."""
    return os.environ.get("RANK", "0") == "0"


def format_seconds(seconds: float) -> str:
    """A duration as hours, minutes and seconds.

    >>> format_seconds(3725.4)
    '1:02:05'
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"


class _Screen:
    """The lines of all bars on the terminal; the terminal has room for one display at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bars: list[Bar] = []
        self._display: Progress | None = None

    def add(self, bar: Bar) -> None:
        with self._lock:
            self._bars.append(bar)
        # A thread, because a block that says nothing for its first minute is to have its bar all the same.
        timer = threading.Timer(_SECONDS_BEFORE_SHOWN, self._show, [bar])
        timer.daemon = True
        timer.start()

    def remove(self, bar: Bar) -> None:
        with self._lock:
            self._bars.remove(bar)
            if self._display is not None and bar.line is not None:
                self._display.remove_task(bar.line)
                bar.line = None
            if self._display is not None and not any(other.line is not None for other in self._bars):
                self._display.stop()
                self._display = None

    def refresh(self, bar: Bar) -> None:
        with self._lock:
            if self._display is not None and bar.line is not None:
                self._display.update(bar.line, completed=bar.completed, description=bar.label)

    def _show(self, bar: Bar) -> None:
        with self._lock:
            if bar not in self._bars:
                return
            if self._display is None:
                self._display = _make_display()
                self._display.start()
            bar.line = self._display.add_task(bar.label, total=bar.total, completed=bar.completed, bar=bar)  # type: ignore[arg-type]


class _Log:
    """A line a minute about all bars, where nothing can be drawn over."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bars: list[Bar] = []
        self._timer: threading.Timer | None = None
        self._quiet_since = -math.inf
        self._idle_since = -math.inf

    def add(self, bar: Bar) -> None:
        with self._lock:
            self._bars.append(bar)
            if self._timer is None and os.environ.get("RAMET_PROGRESS") != "0":
                # The minute goes on from bar to bar: work in pieces of less than one would say nothing for hours.
                now = time.monotonic()
                if now - self._idle_since > _SECONDS_BETWEEN_LINES:
                    self._quiet_since = now
                self._wait(self._quiet_since + _SECONDS_BETWEEN_LINES - now)

    def remove(self, bar: Bar) -> None:
        with self._lock:
            self._bars.remove(bar)
            if self._timer is not None and not self._bars:
                self._timer.cancel()
                self._timer = None
                self._idle_since = time.monotonic()

    def line(self) -> str:
        """What is done so far, from the outermost piece of work inwards."""
        with self._lock:
            return "; ".join(map(_in_words, self._bars))

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(max(0.0, seconds), self._tell)
        self._timer.daemon = True
        self._timer.start()

    def _tell(self) -> None:
        with self._lock:
            if self._timer is None or not self._bars:
                return
            with contextlib.suppress(OSError, ValueError):  # nobody reads standard error any more
                print(f"ramet: {self.line()}", file=sys.stderr, flush=True)
            self._quiet_since = time.monotonic()
            self._wait(_SECONDS_BETWEEN_LINES)


def _in_words(bar: Bar) -> str:
    share = bar.completed / bar.total if bar.total > 0 else 1.0
    left = "" if bar.completed <= bar.start else f", {bar.time_left()} left"
    return f"{bar.label}: {100 * share:.0f} %{left}"


def _make_display() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """The time left; rich's own column forgets what is older than half a minute, which is one task of ours."""

        def render(self, task: Task) -> Text:
            bar: Bar = task.fields["bar"]
            return Text(f"{bar.time_left()} left", style="progress.remaining")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeLeft(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,  # Standard output carries results, and must not be drawn on standard error.
    )


_screen = _Screen()
_log = _Log()
