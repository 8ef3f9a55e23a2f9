"""SIGKILL at random moments: the whole group, the driver, or a worker; the run goes on and ends as if undisturbed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from campaigns.drivers import Driver, alive, command, own_folder, preload, wait_until_gone
from campaigns.findings import Finding, Wants
from campaigns.tiny_jobs import JOBS, beginning, differences, going_on, left_behind, outcome

MODES = {
    "inline, 1 worker": ["--executor", "inline"],
    "processes, 1 worker": ["--executor", "processes", "--workers", "1"],
    "processes, 2 workers": ["--executor", "processes", "--workers", "2"],
    "Ray, 1 worker": ["--executor", "ray", "--workers", "1"],
    "Ray, 2 workers": ["--executor", "ray", "--workers", "2"],
}
ON_RAY = ("rank", "grow")
"""The jobs that the short campaign kills on Ray: a cluster takes ten seconds to start, and there are four in a line."""
VICTIMS = ("group", "driver", "worker")
_SECONDS_TO_FIND_A_WORKER = 60.0


@dataclass
class Tally:
    """What became of the kills of one job in one mode."""

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VICTIMS, 0))
    lost: list[str] = field(default_factory=list)
    runs: int = 0
    pids: set[int] = field(default_factory=set)
    """The processes that were there when somebody was killed."""

    @property
    def num_kills(self) -> int:
        return sum(self.kills.values())


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Every job in every mode, 21 kills each; in the short campaign three kills, and two jobs alone on Ray.

    A line that is asked for by its name is tried in the short one, too.
    """
    preload()
    with own_folder() as place:
        for kind in JOBS:
            lines = {mode: f"kills: {kind}, {mode}" for mode in MODES}
            is_named = not all(map(wants, lines.values()))
            modes = MODES if is_long or is_named else _short(kind)
            wanted = {mode: MODES[mode] for mode in modes if wants(lines[mode])}
            if not wanted:
                continue
            expected, _ = undisturbed(kind, MODES["inline, 1 worker"], place / f"{kind[:2]}")
            for mode, options in wanted.items():
                folder = place / f"{kind[:2]}{list(MODES).index(mode)}"
                tally = kill_often(
                    kind, options, folder, expected, 21 if is_long else 3, random.Random(f"{seed}/{kind}/{mode}")
                )
                shares = ", ".join(f"{count} {victim}" for victim, count in tally.kills.items() if count)
                yield Finding(
                    what=f"kills: {kind}, {mode}",
                    tried=tally.num_kills,
                    lost=tally.lost,
                    detail=f"{shares}; {tally.runs} runs",
                )


def _short(kind: str) -> list[str]:
    """The modes of a job in the short campaign."""
    return ["inline, 1 worker", "processes, 2 workers", *(["Ray, 2 workers"] if kind in ON_RAY else [])]


def undisturbed(
    kind: str, options: list[str], folder: Path, *, has_spare_server: bool = False
) -> tuple[dict[str, str], float]:
    """What a job gives that nobody disturbs, and the seconds that it takes."""
    folder.mkdir()
    started = time.monotonic()
    arguments = [*beginning(kind, folder / "run"), *options]
    driver = command(arguments, folder / "errors", folder, has_spare_server=has_spare_server)
    code = driver.wait()
    if code:
        raise RuntimeError(f"an undisturbed run must end well, but {kind} had exit code {code}: {driver.errors()}")
    seconds = time.monotonic() - started
    wait_until_gone({driver.pid})
    return outcome(folder / "run"), seconds


def kill_often(
    kind: str, options: list[str], folder: Path, expected: dict[str, str], num_kills: int, rng: random.Random
) -> Tally:
    """Runs of one job in one mode, one after the other, until there were so many kills.

    The run without a kill, and the first that is killed, start the server of their workers as a user's do; from the
    second on it is a fork, which begins at once, because nearly all of a kill's cost was that start.
    """
    tally = Tally()
    is_inline = "inline" in options
    found, seconds = _tried(kind, options, folder, tally, expected, has_spare_server=False)
    while found and tally.num_kills < num_kills and len(tally.lost) < 10:
        tally.runs += 1
        has_spare_server = "processes" in options and tally.runs > 1
        if has_spare_server and tally.runs == 2:
            found, seconds = _tried(kind, options, folder / "forked", tally, expected, has_spare_server=True)
        place = folder / f"killed-{tally.runs}"
        place.mkdir()
        start = partial(_go_on, kind, options, place, has_spare_server=has_spare_server)
        drivers = _one_run(start, kind, is_inline, min(3, num_kills - tally.num_kills), seconds, tally, rng)
        tally.lost += [f"{kind}: a process was left: {each:.80}" for each in wait_until_gone(drivers)]
        try:
            tally.lost += [f"{kind}: {each}" for each in differences(expected, outcome(place / "run"))]
            tally.lost += [f"{kind}: {each}" for each in left_behind(place / "run")]
        except Exception as error:
            tally.lost.append(f"{kind}: there is no result: {error}")
        tally.lost += [f"{kind}: {each}" for each in _left_in_folders(place, tally.pids)]
    return tally


def _tried(
    kind: str, options: list[str], folder: Path, tally: Tally, expected: dict[str, str], *, has_spare_server: bool
) -> tuple[bool, float]:
    """Whether a run without a kill ends, and its seconds; what differs then is lost."""
    try:
        found, seconds = undisturbed(kind, options, folder, has_spare_server=has_spare_server)
    except (RuntimeError, TimeoutError) as error:
        tally.lost.append(f"{kind}, without a kill: {error}")
        return False, 0.0
    tally.lost += [f"{kind}, without a kill: {each}" for each in differences(expected, found)]
    return True, seconds


def _go_on(kind: str, options: list[str], place: Path, number: int, *, has_spare_server: bool) -> Driver:
    arguments = [*going_on(kind, place / "run"), *options]
    return command(arguments, place / f"errors-{number}", place, has_spare_server=has_spare_server)


def _one_run(
    start: Callable[[int], Driver],
    kind: str,
    is_inline: bool,
    num_kills: int,
    seconds: float,
    tally: Tally,
    rng: random.Random,
) -> set[int]:
    """Begin a run, kill and go on, until it ends by itself; gives the sessions that there were."""
    sessions, kills = set[int](), 0
    while True:
        driver = start(len(sessions))
        sessions.add(driver.pid)
        if kills < num_kills:
            victim = VICTIMS[tally.num_kills % len(VICTIMS)]
            if is_inline and victim == "worker":
                victim = rng.choice(VICTIMS[:2])
            was_killed = _kill(driver, victim, rng.uniform(0.02, 1.0) * seconds, tally.pids)
            kills += 1  # also of one that came too late, so that there is an end
            if was_killed:
                tally.kills[victim] += 1
            if was_killed and victim != "worker":
                os.waitpid(driver.pid, 0)
                continue  # at once, while workers of the dead driver may still be ending
        try:
            code = driver.wait()
        except TimeoutError as error:
            tally.lost.append(f"{kind}: {error}")
            return sessions
        errors = driver.errors()
        if code == 0:
            return sessions
        # A task whose worker died three times counts as failed, and the run ends with a line that says so.
        if not (code == 1 and len(errors) == 1 and tally.kills["worker"] >= 3):
            tally.lost.append(f"{kind}: exit code {code}, and {len(errors)} lines: {errors[-1] if errors else ''}")
            return sessions


def _kill(driver: Driver, victim: str, delay: float, pids: set[int]) -> bool:
    """Kill somebody after a while, and note who was there; False if all was over by then."""
    deadline = time.monotonic() + delay
    while time.monotonic() < deadline:
        if _has_ended(driver):
            return False
        time.sleep(0.002)
    pids |= alive({driver.pid}).keys()
    if victim == "worker":
        return _kill_worker(driver)
    if _has_ended(driver):
        return False
    os.kill(driver.pid, signal.SIGKILL) if victim == "driver" else driver.kill_group()
    return True


def _kill_worker(driver: Driver) -> bool:
    deadline = time.monotonic() + _SECONDS_TO_FIND_A_WORKER
    while not _has_ended(driver) and time.monotonic() < deadline:
        for pid in workers_of(driver.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.005)
    return False


def _has_ended(driver: Driver) -> bool:
    """Whether it is a zombie that waits for its exit code to be read."""
    return driver.pid not in alive({driver.pid})


def workers_of(driver: int) -> list[int]:
    """The processes that do a driver's tasks: forked by its server, or Ray's."""
    processes = alive({driver})
    parents = {}
    for pid in processes:
        with contextlib.suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    forked = [  # a fork has the command line of the server that made it, which is the driver's child
        pid for pid, parent in parents.items() if parents.get(parent) == driver and processes[pid] == processes[parent]
    ]
    # Ray's own agents have such names, too; a node without them ends itself.
    tasks = [pid for pid, line in processes.items() if line.startswith("ray::") and "Agent" not in line]
    return forked + tasks


def _left_in_folders(place: Path, pids: set[int]) -> list[str]:
    """What is left in the folder of temporary files and in shared memory.

    A killed process cannot remove the folder of its workers' sockets: the next one does, once it is a minute old.
    """
    from ramet.execution.socket_folder import sweep

    temporary = place / "tmp"
    for folder in temporary.glob("ramet-workers-*"):
        os.utime(folder, (0, 0))
    sweep(temporary)
    left = [f"{path.name} was left in the folder of temporary files" for path in temporary.glob("*")]
    # torch names a piece of shared memory by the process that made it; those of other programs are none of ours.
    memory = [path.name for pid in pids for path in Path("/dev/shm").glob(f"torch_{pid}_*")]
    return left + [f"{name} was left in shared memory" for name in memory]
