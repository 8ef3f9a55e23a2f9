"""A study of tens of images as a command; also a program that joins one study several times at once."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

OPTIONS = [
    *("--stream", "split-digits:3", "--train-size", "60", "--eval-size", "60", "--network", "mlp:8"),
    *("--epochs", "2", "--method", "bind-and-grow:num_samples=12"),
]


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """`ramet` in a process of its own."""
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"} | variables
    return subprocess.Popen(
        [sys.executable, "-m", "ramet", *arguments],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def join_together(address: str, count: int) -> list[str]:
    """The id of the study at an address, as several processes see it that join it at the same moment."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, __file__, address, str(count)],
        env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def in_second_trial(folder: Path) -> bool:
    """Whether a study is in its second trial: a training of it has saved itself, and its result is not there."""
    if not list(folder.glob("checkpoints/trial-1/task-*/*/step-*")):
        return False
    return b'"key":"trial/1"' not in (folder / "records.jsonl").read_bytes()


def main() -> None:
    """Fork, so that all begin at the same moment although what they import takes seconds."""
    import sqlalchemy.dialects.sqlite  # noqa: F401

    from ramet.continual.study.storage import StudyStorage, import_optuna

    address, count = sys.argv[1], int(sys.argv[2])
    import_optuna().storages.RDBStorage  # noqa: B018 - imported late
    go = os.pipe()
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os.close(go[1])
            os.read(go[0], 1)  # ends when the parent closes its side
            try:
                study = StudyStorage(address).join("together", {"stream": "a"}, may_adopt=False)
                study.enqueue_trial({}, user_attrs={"by": os.getpid()})
                os.write(1, f"{study.user_attrs['id']}\n".encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    os.close(go[1])
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
