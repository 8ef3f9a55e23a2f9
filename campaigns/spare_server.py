"""A server of worker processes that need not import anything: forked by the driver before all else, used when asked.

Starting an interpreter and importing torch takes 4 of the 5 to 7 CPU seconds of a tiny run with workers, every time
that its driver is killed and another begins. What is forked here is the driver's own child in its session, runs the
same code of Python's, forks real workers, and ends as the real one does; only its imports are done already.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
from collections.abc import Sequence
from multiprocessing import util

_ABOVE_ALL = 200
"""Numbers of descriptors that nothing else here has."""


def offer() -> None:
    """Fork a process that waits; it becomes the server when this process starts one. Not after threads were started."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        try:
            _serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    real, waiting = util.spawnv_passfds, [ours]

    def spawn(path: bytes, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
        code = arguments[-1]
        if not waiting or not isinstance(code, str) or "multiprocessing.forkserver" not in code:
            return real(path, arguments, descriptors)
        with waiting.pop() as asked:  # one that was killed is replaced by a real one
            message = json.dumps({"code": code, "descriptors": list(descriptors)}).encode()
            socket.send_fds(asked, [message], list(descriptors))
        return pid

    util.spawnv_passfds = spawn


def _serve(asked: socket.socket) -> None:
    """Wait to be asked, and do what a new interpreter would be told to; end if nobody asks."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as a server is started
    message, received, _, _ = socket.recv_fds(asked, 1 << 16, 8)
    asked.close()
    if not message:
        return  # the driver has ended
    wanted = json.loads(message)
    aside = [fcntl.fcntl(number, fcntl.F_DUPFD, _ABOVE_ALL) for number in received]
    for number in received:
        os.close(number)
    for number, place in zip(aside, wanted["descriptors"], strict=True):
        os.dup2(number, place)
        os.close(number)
    exec(wanted["code"], {})
