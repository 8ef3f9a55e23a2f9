"""The server of `ramet watch`: the page of a run, on this machine alone, and nothing else from the disk."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sample_runs import search_result, write_search

from ramet.cli.main import main
from ramet.cli.watch import LOOPBACK, make_server
from ramet.runs import Run


@pytest.fixture
def serve() -> Iterator[Callable[..., http.client.HTTPConnection]]:
    running = []

    def start(folder: Path) -> Callable[..., http.client.HTTPResponse]:
        server = make_server(folder, 0, 5.0)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))

        def ask(path: str = "/", host: str | None = None) -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection(LOOPBACK, server.server_port, timeout=300)
            connection.request("GET", path, headers={} if host is None else {"Host": host})
            return connection.getresponse()

        return ask

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_run_that_goes_on_and_ends(serve, tmp_path):
    with Run.create(tmp_path / "run", "search", {"seed": 0}) as run:
        for epoch in range(3):
            run.records.append(f"epoch/{epoch}", loss=1 / (epoch + 1))
        ask = serve(run.path)
        answer = ask()
        page = answer.read().decode()
        assert answer.status == 200 and answer.headers["Refresh"] == "5"
        assert "search: running" in page and "<svg" in page and "epoch/2" in page
        run.records.append("epoch/3", loss=0.1)
        assert "epoch/3" in ask().read().decode()
        run.records.append("result", **search_result({"a": 0.3}).to_json())
        answer = ask()
        assert "Which architecture is best?" in answer.read().decode() and answer.headers["Refresh"] is None


def test_nothing_else_is_served(serve, tmp_path):
    ask = serve(write_search(tmp_path / "run", {"a": 0.3}))
    for path in ("/config.json", "/../run/config.json", "//etc/passwd", "/?x"):
        answer = ask(path)
        assert answer.status == 404 and b"{" not in answer.read()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:80", ""])
def test_another_name_of_this_address_is_not_answered(serve, tmp_path, host):
    answer = serve(write_search(tmp_path / "run", {"a": 0.3}))("/", host)
    assert answer.status == 421 and b"architecture" not in answer.read()


def test_a_run_that_was_interrupted_says_so(serve, tmp_path):
    with Run.create(tmp_path / "run", "search", {"seed": 0}):
        pass
    assert "Nobody is working on this run." in serve(tmp_path / "run")().read().decode()


def test_damaged_records_are_one_line(serve, tmp_path):
    with Run.create(tmp_path / "run", "search", {"seed": 0}):
        pass
    (tmp_path / "run" / "records.jsonl").write_text("nothing\n")
    answer = serve(tmp_path / "run")()
    assert answer.status == 503 and b"line 1 is damaged" in answer.read()


@pytest.mark.parametrize(
    ("options", "words"),
    [([], "must exist"), (["--port", "70000"], "port must lie"), (["--every", "0"], "at least a second")],
)
def test_what_cannot_be_is_refused(tmp_path, options, words, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["watch", str(tmp_path / "run"), *options])
    assert refused.value.code == 2 and words in capsys.readouterr().err
