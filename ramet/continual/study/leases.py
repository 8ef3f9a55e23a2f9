"""Whose turn a trial is: runs that share a study take trials, say that they live, and take over those of the dead."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ramet.continual.study.storage import StudyStorage, import_optuna

if TYPE_CHECKING:
    import optuna

OWNER, BEAT, SILENCE, END, AGAIN, ERROR = "owner", "beat", "silence", "batch_end", "again", "error"
"""What is kept with a trial: who runs it, how often it has said that it lives, after how many seconds without a word it
counts as dead, the number after the last of its batch, the trial that it repeats, why it failed."""


SUPERFLUOUS = "superfluous"


@contextlib.contextmanager
def finished_elsewhere() -> Iterator[None]:
    """Another run may have taken a trial over: what it finds is then what counts."""
    with contextlib.suppress(import_optuna().exceptions.UpdateFinishedTrialError):
        yield


@dataclass
class TrialLeases:
    """The trials of one run among those of a study.

    A running trial counts up its ``beat``. Every run watches the beats of the others by its own clock, so that clocks
    need not agree: a beat that stands still for as long as its owner promised to be heard of means a dead owner. Its
    trial is then failed, which one run alone can do, and put in the queue again with the same parameters. A run that
    was only asleep finds its trial failed when it wants to tell the result, and drops it.

    Attributes:
        member: the name of this run, unlike any other's.
        silence: seconds without a beat after which others may take this run's trials over.
        clock: the time in seconds, from anywhere.
    """

    study: optuna.Study
    storage: StudyStorage
    member: str
    silence: float
    clock: Callable[[], float] = time.monotonic
    _heard: dict[int, tuple[Any, float]] = field(default_factory=dict)

    def known(self) -> list[Any]:
        """All trials of the study, the queue included."""
        return list(self.study.get_trials(deepcopy=False))

    def left(self, known: Sequence[Any]) -> list[Any]:
        """The trials that this run left when it was killed: it is locked, and evaluates none of them now."""
        running = import_optuna().trial.TrialState.RUNNING
        return [trial for trial in known if trial.state == running and trial.user_attrs.get(OWNER) == self.member]

    def ask(self, end: int, given: Callable[[Sequence[Any]], Mapping[str, Any]] | None = None) -> Any:
        """The next trial of the queue, or a new one, for this run.

        ``end`` is the number after the batch's last. ``given`` makes, from all trials so far, those parameters of a new
        one that are not left to the sampler.
        """
        waiting = import_optuna().trial.TrialState.WAITING
        with self.storage.exclusively():
            known = self.known()
            if not any(trial.state == waiting for trial in known):
                # Through the queue, so that a trial has its owner from its first moment: a kill leaves none without.
                self.study.enqueue_trial(dict(given(known)) if given else {}, user_attrs=self._marks(end))
            trial = self.study.ask()
        self._mark(trial, end)
        return trial

    def take_up(self, trial: Any) -> Any:
        """A trial of this run that was left, to go on with."""
        taken = import_optuna().Trial(self.study, trial._trial_id)
        self._mark(taken, int(trial.user_attrs[END]))
        return taken

    def give_back_superfluous(self, trials: Sequence[Any], num_trials: int) -> list[Any]:
        """Give back trials that others made superfluous by asking at the same moment; gives those that stay."""
        failed = import_optuna().trial.TrialState.FAIL
        alive = [trial.number for trial in self.known() if trial.state != failed]
        kept = []
        for trial in trials:
            if sum(number < trial.number for number in alive) < num_trials:
                kept.append(trial)
            else:
                self.fail(trial, SUPERFLUOUS)
        return kept

    def fail(self, trial: Any, reason: str) -> None:
        """End a trial of this run without a result, unless others ended it already."""
        with finished_elsewhere():
            self.study._storage.set_trial_user_attr(trial._trial_id, ERROR, reason)
            self._set_failed(trial._trial_id)

    def tell(self, trial: Any, values: Sequence[float]) -> bool:
        """Give a result; False if others took the trial over meanwhile, so that theirs counts."""
        optuna = import_optuna()
        with self.storage.exclusively():
            if self.study._storage.get_trial(trial._trial_id).state != optuna.trial.TrialState.RUNNING:
                return False
            try:
                self.study.tell(trial.number, list(values))
            except (optuna.exceptions.UpdateFinishedTrialError, ValueError):
                return False
        return True

    def requeue_dead(self) -> list[int]:
        """Put the trials of dead runs in the queue again, each once; gives their numbers."""
        running = import_optuna().trial.TrialState.RUNNING
        others = [trial for trial in self.known() if trial.state == running]
        requeued = []
        for trial in others:
            marks = trial.user_attrs
            if marks.get(OWNER) == self.member:
                continue
            word = (marks.get(OWNER), marks.get(BEAT))
            before = self._heard.get(trial.number)
            if before is None or before[0] != word:
                self._heard[trial.number] = (word, self.clock())
            elif self.clock() - before[1] > float(marks.get(SILENCE, self.silence)) and self._requeue(trial, word):
                requeued.append(trial.number)
        return requeued

    @contextlib.contextmanager
    def beating(self, trials: Sequence[Any]) -> Iterator[None]:
        """Within the block, the trials say from time to time that they live."""
        over = threading.Event()

        def beat() -> None:
            count = 0
            while not over.wait(self.silence / 6):
                count += 1
                for trial in trials:
                    # A storage that is out of reach for a moment must not end the work; the next beat may reach it.
                    with contextlib.suppress(Exception):
                        self.study._storage.set_trial_user_attr(trial._trial_id, BEAT, [self.member, count])

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _marks(self, end: int) -> dict[str, Any]:
        return {OWNER: self.member, SILENCE: self.silence, END: end, BEAT: [self.member, time.time()]}

    def _mark(self, trial: Any, end: int) -> None:
        for name, value in self._marks(end).items():
            trial.set_user_attr(name, value)

    def _requeue(self, trial: Any, word: object) -> bool:
        with self.storage.exclusively():
            now = self.study._storage.get_trial(trial._trial_id)
            if (now.user_attrs.get(OWNER), now.user_attrs.get(BEAT)) != word:
                return False
            # First failed, which only one can do, and queued afterwards: never twice. Killed in between, the trial is
            # lost and a new one takes its place.
            if not self._set_failed(trial._trial_id):
                return False
            self.study.enqueue_trial(dict(now.params), user_attrs={AGAIN: trial.number})
            return True

    def _set_failed(self, trial_id: int) -> bool:
        optuna = import_optuna()
        state = self.study._storage.get_trial(trial_id).state
        if state.is_finished():
            return False
        try:
            return bool(self.study._storage.set_trial_state_values(trial_id, optuna.trial.TrialState.FAIL))
        except optuna.exceptions.UpdateFinishedTrialError:
            return False
