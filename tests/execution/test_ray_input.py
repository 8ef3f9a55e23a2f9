"""What is refused before any Ray is started, and what is said of it."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ramet.cli import main
from ramet.errors import ConfigError, MissingExtraError, RunError
from ramet.execution import Inline, Processes, Ray, make_executor
from ramet.execution.ray_cluster import _SECONDS_TO_ANSWER, _Connection, _line, _start, check_address, import_ray


def has_ray() -> bool:
    try:
        import_ray(None)
    except MissingExtraError:
        return False
    return True


needs_ray = pytest.mark.skipif(not has_ray(), reason="ray is not installed; pip install 'ramet[ray]'")


def test_the_kind_decides_where_it_is_given():
    assert isinstance(make_executor(1, "processes"), Processes)
    assert isinstance(make_executor(1, "inline"), Inline)
    with pytest.raises(ConfigError, match="inline has one worker, but got 2"):
        make_executor(2, "inline")
    with pytest.raises(ConfigError, match="must be one of inline, processes, ray, but got 'threads'"):
        make_executor(2, "threads")
    for options in ({"ray_address": "a:1"}, {"cpus": 1.0}, {"gpus": 0.0}):
        with pytest.raises(ConfigError, match="need the executor ray"):
            make_executor(2, "processes", **options)


def test_a_missing_ray_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ramet\[ray\]'"):
        make_executor(2, "ray")


@needs_ray
@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"cpus": -1}, {"gpus": 1.5}, {"cpus": float("nan")}, {"threads": 0}]
)
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(ConfigError):
        Ray(**({"workers": 2} | options))


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":1", "host:0", "host:x", "host:70000", "http://host:1", "²:²"]
)
def test_addresses_that_are_none_are_refused(address):
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        check_address(address)


def test_good_addresses_are_taken():
    for address in ("auto", "host:6379", "10.0.0.1:6379", "[::1]:6379", "ray://host:10001"):
        assert check_address(address) == address


@contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """A port at which something other than Ray answers, or nobody says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                if answer is None:
                    connection.recv(1000)  # until the other side has given up
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def refused(address: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The line that the command says, before anything is written."""
    with pytest.raises(SystemExit) as end:
        main(["rank", "--executor", "ray", "--ray-address", address, "--out", "/nonexistent/run"])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@needs_ray
def test_an_address_where_no_cluster_answers_is_one_line(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "refused" in refused(f"127.0.0.1:{port}", capsys)
    assert "name is not known" in refused("no-such-host.invalid:6379", capsys)
    for answer, words in (
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "something else"),
        (b"", "something else"),
        (None, "timed out"),
    ):
        with listening(answer) as port:
            assert words in refused(f"127.0.0.1:{port}", capsys)


def test_the_patience_is_less_than_ten_seconds():
    """For the connection and for the answer; a clock would say how busy the machine is."""
    assert 2 * _SECONDS_TO_ANSWER < 10


@needs_ray
def test_a_secret_in_an_address_is_not_repeated(capsys):
    assert "hunter2" not in refused("ray://me:hunter2@host:10001", capsys)


def test_of_a_traceback_that_ray_quotes_only_what_was_raised_is_said():
    quoted = 'Failed: Traceback (most recent call last):\n  File "node.py", line 9, in call\n    make()\n    ^^^^\n'
    assert _line(RuntimeError(quoted + "ray.AuthenticationError: a token is missing.\n")) == (
        "ray.AuthenticationError: a token is missing."
    )
    assert _line(RuntimeError("two\nlines")) == "two lines"
    assert _line(RuntimeError("Traceback (most recent call last):")) == "Traceback (most recent call last):"


def test_a_node_that_says_nothing_is_given_up_within_a_minute(monkeypatch):
    """Unless the user has said otherwise; Ray's own patience with a network that was cut is seven minutes."""
    names = [f"RAY_grpc_client_keepalive_{name}_ms" for name in ("time", "timeout")]
    monkeypatch.setenv(names[0], "7")
    monkeypatch.delenv(names[1], raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError):
        import_ray("host:1")
    assert os.environ[names[0]] == "7" and int(os.environ[names[1]]) <= 30_000
    monkeypatch.delenv(names[1])


def test_a_driver_does_not_wait_for_workers_that_have_no_task_yet(monkeypatch):
    """Of those that Ray starts ahead of tasks, one that dies on its way would be waited for without an end."""
    name = "RAY_prestart_worker_first_driver"
    monkeypatch.setenv(name, "1")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError):
        import_ray(None)
    assert os.environ[name] == "1", "unless the user has said otherwise"
    monkeypatch.delenv(name)
    with pytest.raises(MissingExtraError):
        import_ray(None)
    assert os.environ[name] == "0"


class SlowRay:
    """Stands for Ray on a machine so busy that its own processes are too slow for it, which none can be made to be."""

    def __init__(self, num_failures: int) -> None:
        self.num_failures, self.num_shutdowns = num_failures, 0

    def init(self, **options: object) -> None:
        if self.num_shutdowns < self.num_failures:
            raise RuntimeError("The current node timed out\nduring startup.")

    def shutdown(self) -> None:
        self.num_shutdowns += 1


def test_a_cluster_that_is_too_slow_is_started_again_and_again():
    _start(busy := SlowRay(3), _Connection(None, 1, 0), {})
    assert busy.num_shutdowns == 3, "what was half started is ended each time"
    with pytest.raises(RunError, match=r"must start on this machine, but did not: The .* timed out during startup\."):
        _start(SlowRay(1000), _Connection(None, 1, 0), {})
