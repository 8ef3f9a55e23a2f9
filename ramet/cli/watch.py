"""`ramet watch`: a run's page in the browser while the run goes on, on this machine alone."""

from __future__ import annotations

import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

from ramet.cli.options import WHOLE
from ramet.errors import ConfigError, RametError

LOOPBACK = "127.0.0.1"


def watch(directory: Path, *, port: Annotated[int, WHOLE] = 0, every: float = 5.0) -> None:
    """Show a run in the browser while it goes on: its state, and the course of every number in its records.

    The page is made anew at each visit and visits itself every few seconds. Once the run is finished it is the run's
    report. It is served on the loopback address, so that only this machine sees it; through ssh, forward the port: `ssh
    -L 8000:127.0.0.1:8000 HOST`. The run is only read. Ctrl-C ends it.

    For example:

    - `ramet watch runs/first`
    - `ramet watch runs/first --port 8000`

    Args:
        directory: the run directory.
        port: the port; by default one that is free.
        every: seconds between two visits.
    """
    from ramet.runs import read_config

    if not 0 <= port <= 65535:
        raise ConfigError(f"port must lie between 0 and 65535, but got {port}.")
    if not every >= 1:
        raise ConfigError(f"every must be at least a second, but got {every}.")
    read_config(directory)  # a folder that is no run is refused now
    with make_server(directory, port, every) as server:
        print(f"http://{LOOPBACK}:{server.server_port}/", flush=True)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print("The watching ended; the run was not touched.", flush=True)


def make_server(directory: Path, port: int, every: float) -> ThreadingHTTPServer:
    """The server, which does nothing before it is told to serve; it has one page."""

    class Handler(BaseHTTPRequestHandler):
        """Answers with the run's page, and with nothing else from the disk."""

        server_version = "ramet"
        sys_version = ""

        def do_GET(self) -> None:
            """The page."""
            # A page elsewhere may have given its own name this address; what it asks for must not be answered.
            if (self.headers.get("Host") or "").rpartition(":")[0] not in (LOOPBACK, "localhost"):
                self._answer(HTTPStatus.MISDIRECTED_REQUEST, "the host must be this machine.", refresh=False)
            elif self.path != "/":
                self._answer(HTTPStatus.NOT_FOUND, "there is one page, /.", refresh=False)
            else:
                try:
                    text, is_finished = page_of(directory)
                    self._answer(HTTPStatus.OK, text, refresh=not is_finished, kind="text/html")
                except (RametError, OSError) as error:
                    self._answer(HTTPStatus.SERVICE_UNAVAILABLE, str(error), refresh=True)
                except Exception as error:  # a result that somebody has edited
                    words = f"reading the run ended in {type(error).__name__}."
                    self._answer(HTTPStatus.SERVICE_UNAVAILABLE, words, refresh=False)

        def _answer(self, status: HTTPStatus, text: str, *, refresh: bool, kind: str = "text/plain") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            if refresh:
                self.send_header("Refresh", f"{every:g}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Visits are not written on the terminal."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        raise ConfigError(f"port must be free, but {port} is not: {error.strerror or error}.") from None
    server.daemon_threads = True
    assert server.socket.family == socket.AF_INET  # the loopback address above, and no other
    return server


def page_of(directory: Path) -> tuple[str, bool]:
    """The page of a run as it is now, and whether it is the last one."""
    from ramet.jobs.live import live_page
    from ramet.jobs.runner import read_result
    from ramet.runs import read_config, read_records
    from ramet.runs.showing import without_folders

    config = read_config(directory)
    if (directory / "records.jsonl").exists() and any(r["key"] == "result" for r in read_records(directory)):
        return read_result(directory).page(without_folders(config)).html(), True
    return live_page(directory).html(), False
