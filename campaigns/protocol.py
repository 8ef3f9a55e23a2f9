"""The run directory against a model of it: create, write, save, die, open, report, a second writer, overwrite.

A state machine of hypothesis draws the order of events. Each happens in a process of its own, which may end, as by a
kill, at any of its operations on the disk. The model knows what was acknowledged; nothing of that may be missing, and
nothing may be there that was never written.
"""

from __future__ import annotations

import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from campaigns.drivers import own_folder, preload
from campaigns.failing_disk import FailingDisk
from campaigns.findings import Finding, Wants

STEPS = 20
"""The events of one story."""


class Story:
    """One run directory, and what a reader must find in it.

    Attributes:
        acknowledged: keys of records whose ``append`` returned, with their values.
        begun: those that may be there besides, because a process ended in the middle.
        saved: the last step whose ``save`` returned; ``saving``, those that were begun after it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = 0
        self.forget()

    def forget(self) -> None:
        self.exists: bool | None = False  # None: it may be a run or not
        self.acknowledged: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.saved = 0
        self.saving: set[int] = set()

    def create(self, end_at: int | None) -> None:
        from ramet.errors import ConfigError
        from ramet.runs import Run

        before = self.exists
        answers = self._apart(lambda say: self._say_and_close(say, Run.create(self.folder, "model", {"a": 1})), end_at)
        if before:
            was_killed = end_at is not None and not answers
            assert was_killed or answers == [ConfigError.__name__], f"a run was created over another: {answers}"
        elif answers == ["done"]:
            self.exists = True
        elif answers == [ConfigError.__name__]:
            assert before is None, "an empty place was refused"
            self.exists = True  # the creation that was killed had come to its end
        else:
            assert not answers, f"creating ended in {answers}"
            self.exists = None if before is None else self._became_a_run()

    def write(self, count: int, save: bool, end_at: int | None) -> None:
        from ramet.runs import Run

        if not self._check_open():
            return
        number = len(self.acknowledged) + len(self.begun)
        keys = {f"record/{number + place}": number + place for place in range(count)}
        step = max([self.saved, *self.saving]) + 1

        def work(say: Callable[[Any], None]) -> None:
            import torch

            with Run.open(self.folder) as run:
                for key, value in keys.items():
                    run.records.append(key, value=value)
                    say(key)
                if save:
                    run.checkpoints("part").save(step, {"weight": torch.full((3,), float(step))}, {"step": step})
                    say(step)

        answers = self._apart(work, end_at)
        for key, value in keys.items():
            (self.acknowledged if key in answers else self.begun)[key] = value
        if save and step in answers:
            self.saved, self.saving = step, set()
        elif save:
            self.saving.add(step)

    def second_writer(self) -> None:
        """While one holds the run another is refused, and reading goes on."""
        from ramet.errors import RunError
        from ramet.runs import Run

        if not self._check_open():
            return
        with Run.open(self.folder):
            answers = self._apart(lambda say: self._say_and_close(say, Run.open(self.folder)), None)
            assert answers == [RunError.__name__], f"a second writer got {answers}"
            self.report()

    def overwrite(self, end_at: int | None) -> None:
        from ramet.runs import remove_run

        if not self.exists:
            return

        def work(say: Callable[[Any], None]) -> None:
            remove_run(self.folder)
            say("done")

        answers = self._apart(work, end_at)
        if answers == ["done"]:
            assert not self.folder.exists(), "a removed run is there"
            self.forget()
        elif not (self.folder / "config.json").exists():
            self.forget()
            self.exists = None if self.folder.exists() else False

    def report(self) -> None:
        """What anybody reads, without a lock, is what was acknowledged, and of the rest only what was begun."""
        from ramet.runs import Checkpoints, read_records

        if not self.exists:
            return
        found = {record["key"]: record["value"] for record in read_records(self.folder)}
        missing = self.acknowledged.keys() - found.keys()
        assert not missing, f"lost records: {sorted(missing)}"
        assert all(value == {**self.acknowledged, **self.begun}.get(key) for key, value in found.items()), "new records"
        checkpoint = Checkpoints(self.folder / "checkpoints" / "part").load()
        step = 0 if checkpoint is None else checkpoint.step
        assert step == self.saved or step in self.saving, f"checkpoint {step}, but {self.saved} was saved"
        if checkpoint is not None:
            assert checkpoint.state == {"step": step} and checkpoint.tensors["weight"].tolist() == [float(step)] * 3

    def _check_open(self) -> bool:
        """Whether there is a run; one that is found half made is no run, and is made by the next creation."""
        if self.exists is None:
            self.exists = (self.folder / "config.json").exists()
        return bool(self.exists)

    def _became_a_run(self) -> bool | None:
        return True if (self.folder / "config.json").exists() else False if not self.folder.exists() else None

    @staticmethod
    def _say_and_close(say: Callable[[Any], None], run: Any) -> None:
        run.close()
        say("done")

    def _apart(self, work: Callable[[Callable[[Any], None]], None], end_at: int | None) -> list[Any]:
        """Do something in a process that may end at an operation; gives what it said before that."""
        self.events += 1
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 0
            real_write = os.write

            def say(answer: Any) -> None:
                real_write(writer, (json.dumps(answer) + "\n").encode())

            try:
                FailingDisk(self.folder, end_at, "end").put_in_place()
                work(say)
            except Exception as error:
                say(type(error).__name__)
                if type(error).__name__ not in ("ConfigError", "RunError"):
                    traceback.print_exc()
                    code = 1
            os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as said:
            answers = [json.loads(line) for line in said]
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, 137), f"a process ended with {code}: {answers}"
        return answers


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Stories of twenty events, some of which die on the way."""
    if not wants("protocol: "):
        return
    preload()
    num_stories = 1000 if is_long else 60
    with own_folder() as place:
        events, lost = tell_stories(place, num_stories, seed)
    detail = f"{num_stories} stories of up to {STEPS} events; kills at any operation on the disk"
    yield Finding(what="protocol: run directory against its model", tried=events, lost=lost, detail=detail)


def tell_stories(place: Path, count: int, seed: int) -> tuple[int, list[str]]:
    """So many stories; the events that happened, and what was wrong, with the shortest story that shows it."""
    import hypothesis
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

    events = [0]
    moments = st.none() | st.integers(0, 60)

    class Directory(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            shutil.rmtree(place / "run", ignore_errors=True)
            for left in place.glob(".run.*"):
                shutil.rmtree(left, ignore_errors=True)
            self.story = Story(place / "run")

        @rule(end_at=moments)
        def create(self, end_at: int | None) -> None:
            self.story.create(end_at)

        @precondition(lambda self: self.story.exists is not False)
        @rule(count=st.integers(0, 3), save=st.booleans(), end_at=moments)
        def write(self, count: int, save: bool, end_at: int | None) -> None:
            self.story.write(count, save, end_at)

        @precondition(lambda self: self.story.exists is not False)
        @rule()
        def second_writer(self) -> None:
            self.story.second_writer()

        @precondition(lambda self: self.story.exists is not False)
        @rule(end_at=moments)
        def overwrite(self, end_at: int | None) -> None:
            self.story.overwrite(end_at)

        @invariant()
        def report(self) -> None:
            self.story.report()

        def teardown(self) -> None:
            events[0] += self.story.events

    settings = hypothesis.settings(
        max_examples=count, stateful_step_count=STEPS, deadline=None, database=None, derandomize=False,
        suppress_health_check=list(hypothesis.HealthCheck), print_blob=False,
    )  # fmt: skip
    try:
        run_state_machine_as_test(hypothesis.seed(seed)(Directory), settings=settings)
    except Exception as error:
        notes = " / ".join(getattr(error, "__notes__", []))
        return events[0], [f"{type(error).__name__}: {error} {notes}"]
    return events[0], []
