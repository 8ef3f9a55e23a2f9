"""Processes that are caught in the middle of their work, however busy the machine is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def caught(
    begin: Callable[[Path], subprocess.Popen[Any]], folder: Path, is_half_done: Callable[[Path], bool]
) -> subprocess.Popen[Any]:
    """A process that stands still, by SIGSTOP, while what it has written says that it is half done.

    On a busy machine a look may come late, and the work goes on meanwhile. So the process is stopped before it is
    looked at for good, and where the moment has passed, the folder is removed and another process begins.

    Args:
        begin: starts a process that writes into a folder.
        folder: which does not exist.
        is_half_done: whether the moment is now.
    """
    for _ in range(50):
        process = begin(folder)
        while process.poll() is None:
            if is_half_done(folder):
                process.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                if process.poll() is None and is_half_done(folder):
                    return process
                process.send_signal(signal.SIGCONT)
            time.sleep(0.001)
        assert process.returncode == 0, process.communicate()
        process.communicate()
        shutil.rmtree(folder)
    raise AssertionError("a process must be caught half done in 50 attempts, but each was too quick.")
