"""Fetching, against a server on this machine that resumes, drops connections and lies as it is told."""

from __future__ import annotations

import hashlib
import http.client
import io
import tarfile
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bad_data
import numpy as np
import pytest

from ramet.data import SOURCES, Source, SourceFile, downloads, fetch, load
from ramet.errors import DataError, RunError

CONTENT = np.random.default_rng(0).bytes(300_000)


@dataclass
class Server:
    """What the server does, and what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    drop_after: list[int] = field(default_factory=list)  # for each next answer, the bytes after which it hangs up
    statuses: list[int] = field(default_factory=list)  # for each next answer, an error instead
    announce: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.requests.append((self.path, wanted))
            if state.statuses:
                self.send_error(state.statuses.pop(0))
                return
            content = state.files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if state.announce:
                self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = start + state.drop_after.pop(0) if state.drop_after else len(content)
            self.wfile.write(content[start:end])

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


def name_source(monkeypatch: pytest.MonkeyPatch, *files: SourceFile, addresses: tuple[str, ...] = ()) -> None:
    source = Source("toy", "A toy", 2, (1, 4, 4), licence="none", citation="nobody", files=files, addresses=addresses)
    monkeypatch.setitem(SOURCES, "toy", source)


def describe_file(path: str, content: bytes, members: dict[str, int] | None = None) -> SourceFile:
    return SourceFile(path, len(content), hashlib.sha256(content).hexdigest(), members or {})


@pytest.fixture
def toy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    server.files["toy.bin"] = CONTENT
    name_source(monkeypatch, describe_file("sub/toy.bin", CONTENT))
    return server


def fetch_toy(folder: Path, server: Server, **options: object) -> tuple[Path, ...]:
    return fetch("toy", folder, base_url=server.url, pause=0.0, **options)  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_fetched_once(toy: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    paths = fetch_toy(tmp_path, toy, progress=lambda *news: seen.append(news))
    assert paths == (tmp_path / "sub/toy.bin",)
    assert paths[0].read_bytes() == CONTENT
    assert names(tmp_path) == ["sub/toy.bin"]
    assert seen[-1] == ("toy.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert fetch_toy(tmp_path, toy) == paths
    assert len(toy.requests) == 1


def test_dropped_connections_are_resumed_where_they_stopped(toy: Server, tmp_path: Path) -> None:
    toy.drop_after = [100_000, 50_000]
    fetch_toy(tmp_path, toy)
    assert (tmp_path / "sub/toy.bin").read_bytes() == CONTENT
    assert [wanted for _, wanted in toy.requests] == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_fetch_goes_on_from_the_part_of_an_earlier_one(toy: Server, tmp_path: Path) -> None:
    toy.drop_after = [100_000]
    with pytest.raises(RunError, match="ended after 100000 of 300000 bytes; what has arrived is kept"):
        fetch_toy(tmp_path, toy, attempts=1)
    assert names(tmp_path) == ["sub/toy.bin.part"]
    fetch_toy(tmp_path, toy)
    assert [wanted for _, wanted in toy.requests] == [None, "bytes=100000-"]
    assert (tmp_path / "sub/toy.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["sub/toy.bin"]


def test_a_server_that_cannot_resume_sends_the_whole_again(toy: Server, tmp_path: Path) -> None:
    toy.ranges = False
    toy.drop_after = [100_000]
    fetch_toy(tmp_path, toy)
    assert (tmp_path / "sub/toy.bin").read_bytes() == CONTENT


def test_a_connection_that_always_drops_ends(toy: Server, tmp_path: Path) -> None:
    toy.ranges = False
    toy.drop_after = [10] * 20
    with pytest.raises(RunError, match="cannot be fetched"):
        fetch_toy(tmp_path, toy, attempts=3)
    assert len(toy.requests) == 3


def test_a_busy_server_is_asked_again(toy: Server, tmp_path: Path) -> None:
    toy.statuses = [503, 429]
    fetch_toy(tmp_path, toy)
    assert (tmp_path / "sub/toy.bin").read_bytes() == CONTENT


def test_a_missing_file_is_not_asked_for_again(toy: Server, tmp_path: Path) -> None:
    toy.files.clear()
    with pytest.raises(RunError, match="the server answered 404"):
        fetch_toy(tmp_path, toy)
    assert len(toy.requests) == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize("before", [None, b"an older version"])
def test_a_wrong_checksum_names_both_and_leaves_what_was_there(
    toy: Server, tmp_path: Path, before: bytes | None
) -> None:
    target = tmp_path / "sub" / "toy.bin"
    if before is not None:
        target.parent.mkdir()
        target.write_bytes(before)
    wrong = bytes(len(CONTENT))
    toy.files["toy.bin"] = wrong
    with pytest.raises(RunError) as caught:
        fetch_toy(tmp_path, toy)
    assert hashlib.sha256(wrong).hexdigest() in str(caught.value)
    assert hashlib.sha256(CONTENT).hexdigest() in str(caught.value)
    assert names(tmp_path) == ([] if before is None else ["sub/toy.bin"])
    assert before is None or target.read_bytes() == before


def test_a_damaged_file_is_replaced_by_a_good_one(toy: Server, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "toy.bin").write_bytes(bytes(len(CONTENT)))
    fetch_toy(tmp_path, toy)
    assert (tmp_path / "sub" / "toy.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [bytes(1000), bytes(len(CONTENT)), bytes(len(CONTENT) + 1)])
def test_a_part_of_something_else_is_started_over(toy: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "toy.bin.part").write_bytes(part)
    fetch_toy(tmp_path, toy)
    assert (tmp_path / "sub" / "toy.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["sub/toy.bin"]


@pytest.mark.parametrize("announce", [True, False])
def test_a_file_that_is_too_long_is_refused(toy: Server, tmp_path: Path, announce: bool) -> None:
    toy.announce = announce
    toy.files["toy.bin"] = CONTENT + b"more"
    with pytest.raises(RunError, match="must be 300000 bytes long"):
        fetch_toy(tmp_path, toy)
    assert names(tmp_path) == []


def test_an_error_page_in_place_of_the_file_is_refused(toy: Server, tmp_path: Path) -> None:
    toy.files["toy.bin"] = b"<html>please log in</html>"
    with pytest.raises(RunError, match="must be 300000 bytes long, but the server announces 26"):
        fetch_toy(tmp_path, toy)
    assert len(toy.requests) == 1
    assert names(tmp_path) == []


def test_the_next_address_is_tried(toy: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.files = {"good/toy.bin": CONTENT}
    file = describe_file("toy.bin", CONTENT)
    name_source(monkeypatch, file, addresses=(f"{toy.url}/bad/", f"{toy.url}/good/"))
    fetch("toy", tmp_path, pause=0.0)
    assert [path for path, _ in toy.requests] == ["/bad/toy.bin", "/good/toy.bin"]
    assert (tmp_path / "toy.bin").read_bytes() == CONTENT


def test_an_unreachable_server_is_named(toy: Server, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"127\.0\.0\.1:1/toy\.bin cannot be fetched"):
        fetch("toy", tmp_path, base_url="http://127.0.0.1:1", pause=0.0, attempts=2)


@pytest.mark.parametrize("half", [b"", b"half"])
def test_two_fetches_of_one_file_do_not_mix(toy: Server, tmp_path: Path, half: bytes) -> None:
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "sub").mkdir()
    with (tmp_path / "sub" / "toy.bin.part").open("wb") as other:
        other.write(half)
        other.flush()
        fcntl.flock(other.fileno(), fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another writes"):
            fetch_toy(tmp_path, toy)
    assert (tmp_path / "sub" / "toy.bin.part").read_bytes() == half


def test_a_data_folder_that_is_a_file_ends_in_one_line(toy: Server, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(RunError, match="cannot be kept in"):
        fetch_toy(tmp_path / "data", toy)


# Archives


def pack(members: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def serve_archive(server: Server, monkeypatch: pytest.MonkeyPatch, archive: bytes, wanted: dict[str, int]) -> None:
    server.files["toy.tar.gz"] = archive
    name_source(monkeypatch, describe_file("toy.tar.gz", archive, wanted))


def test_an_archive_gives_only_what_is_wanted(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = pack({"d/a.bin": b"aaa", "../evil.bin": b"evil", "d/other.bin": b"other", "d/b.bin": b"bb"})
    serve_archive(server, monkeypatch, archive, {"d/a.bin": 3, "d/b.bin": 2})
    data = tmp_path / "data"
    assert fetch_toy(data, server) == (data / "d/a.bin", data / "d/b.bin")
    assert names(tmp_path) == ["data/d/a.bin", "data/d/b.bin"]
    assert (data / "d/a.bin").read_bytes() == b"aaa"
    fetch_toy(data, server)
    assert len(server.requests) == 1
    (data / "d/b.bin").unlink()
    fetch_toy(data, server)
    assert (data / "d/b.bin").read_bytes() == b"bb"


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.mark.parametrize(
    ("members", "phrase"),
    [
        ({"d/a.bin": link("d/a.bin", "/etc/hostname")}, "must be a file of 3 bytes"),
        ({"d/a.bin": b"aaaa"}, "must be a file of 3 bytes"),
        ({"d/b.bin": b"bbb"}, "must hold d/a.bin"),
    ],
)
def test_an_archive_of_something_else_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes], phrase: str
) -> None:
    serve_archive(server, monkeypatch, pack(members), {"d/a.bin": 3})
    with pytest.raises(RunError, match=phrase):
        fetch_toy(tmp_path, server)
    assert not (tmp_path / "d" / "a.bin").exists()


@pytest.mark.parametrize("archive", [b"no archive", pack({"d/a.bin": CONTENT})[:1000]])
def test_a_damaged_archive_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: bytes
) -> None:
    serve_archive(server, monkeypatch, archive, {"d/a.bin": len(CONTENT)})
    with pytest.raises(RunError, match="whole tar archive"):
        fetch_toy(tmp_path, server)
    assert names(tmp_path) == ["toy.tar.gz"]


# The registry


def test_digits_need_no_fetching(tmp_path: Path) -> None:
    assert fetch("digits", tmp_path) == ()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "base_url", "phrase"),
    [
        ("usps", None, "has no public address"),
        ("minst", None, "did you mean mnist"),
        ("mnist", "ftp://example.org", "must begin with http"),
        ("mnist", "/some/folder", "must begin with http"),
    ],
)
def test_what_cannot_be_fetched_is_refused(tmp_path: Path, name: str, base_url: str | None, phrase: str) -> None:
    with pytest.raises(DataError, match=phrase):
        fetch(name, tmp_path, base_url=base_url)
    assert names(tmp_path) == []


def test_mnist_is_fetched_and_loaded(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    bad_data.write_idx(tmp_path / "there")
    contents = {path.name: path.read_bytes() for path in (tmp_path / "there" / "mnist").iterdir()}
    server.files.update(contents)
    files = tuple(describe_file(f"mnist/{name}", content) for name, content in contents.items())
    monkeypatch.setitem(SOURCES, "mnist", Source("mnist", "", 10, (1, 28, 28), licence="", citation="", files=files))
    fetch("mnist", tmp_path / "here", base_url=server.url + "/", pause=0.0)
    here, there = load("mnist", data_dir=tmp_path / "here"), load("mnist", data_dir=tmp_path / "there")
    assert here.fingerprint() == there.fingerprint()


@pytest.mark.realdata
@pytest.mark.parametrize("name", [name for name in SOURCES if not name.startswith("cifar")])
def test_checksums_of_the_registry(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from ramet.data.downloads import is_whole

    if not os.environ.get("RAMET_DATA"):
        pytest.skip("RAMET_DATA is not set")
    folder = Path(os.environ["RAMET_DATA"])
    for file in SOURCES[name].files:
        if not (folder / file.path).exists():
            pytest.skip(f"{file.path} is not in {folder}")
        assert is_whole(folder / file.path, file.size, file.sha256)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/file", "file:///etc/passwd", "gopher://127.0.0.1"])
def test_a_redirect_leads_to_http_alone(address: str) -> None:
    handler, request = downloads._HttpOnly(), urllib.request.Request("http://127.0.0.1/file")
    arguments = (None, 302, "Found", http.client.HTTPMessage())
    assert handler.redirect_request(request, *arguments, "https://127.0.0.1/other").full_url.endswith("/other")
    with pytest.raises(RunError, match="must lead to http or https, but leads to"):
        handler.redirect_request(request, *arguments, address)
    assert any(isinstance(each, downloads._HttpOnly) for each in downloads._opener.handlers)
