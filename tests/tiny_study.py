"""A study of tens of images, as a command and from Python; also a program that joins a study when it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

OPTIONS = [
    *("--stream", "split-digits:3", "--train-size", "60", "--eval-size", "60", "--network", "mlp:8"),
    *("--epochs", "2", "--method", "bind-and-grow:num_samples=12"),
]


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """`ramet` in a process of its own."""
    root = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"} | variables
    return subprocess.Popen(
        [sys.executable, "-m", "ramet", *arguments],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def start_joining(address: str, go: Path) -> subprocess.Popen[str]:
    """A process that joins the study at an address when the file ``go`` appears, and prints the study's id."""
    root = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ADDRESS": address, "GO": str(go)}
    return subprocess.Popen(
        [sys.executable, __file__], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for(condition: Any, process: subprocess.Popen[str], seconds: float = 240) -> None:
    """Until a condition holds while a process runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.005)


def main() -> None:
    from ramet.continual.study_storage import StudyStorage, import_optuna

    import_optuna()
    import sqlalchemy  # noqa: F401 - so that all begin at the same moment

    print("ready", flush=True)
    while not Path(os.environ["GO"]).exists():
        time.sleep(0.001)
    study = StudyStorage(os.environ["ADDRESS"]).join("together", {"stream": "a"}, may_adopt=False)
    study.enqueue_trial({}, user_attrs={"by": os.getpid()})
    print(study.user_attrs["id"])


if __name__ == "__main__":
    main()
