"""One file over HTTP: checked, resumable, and never half there under its final name.

Bytes go to ``NAME.part``. Only when their checksum is right is the part renamed, so a file under its final name is
always whole, and what was there before stays until then.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias

from ramet.errors import RunError

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a file's name, the bytes that are there, and the bytes in all."""

_BLOCK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


class _TransferError(Exception):
    """The transfer stopped before its end; what has arrived is kept."""


def file_sha256(path: Path) -> str:
    """The checksum of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_whole(path: Path, size: int, sha256: str) -> bool:
    """Whether a file is there with the right length and checksum."""
    return path.is_file() and path.stat().st_size == size and file_sha256(path) == sha256


def download(
    url: str,
    target: Path,
    size: int,
    sha256: str,
    *,
    progress: Progress | None = None,
    attempts: int = 5,
    pause: float = 1.0,
) -> None:
    """Fetch one file over http or https, going on from the part that an earlier attempt left; its folder must exist.

    ``progress`` is told about every block. A connection may fail ``attempts`` times in a row without bringing a byte,
    with a ``pause`` of seconds after each.

    Raises:
        RunError: If the server cannot be reached or lacks the file, if the checksum is wrong (both are named), if
            another process fetches the same file, or if the disk refuses.
    """
    part = target.with_name(target.name + ".part")
    try:
        with part.open("ab") as file:
            _lock(file, part)
            try:
                resumed = _length(file) > 0
                _transfer(url, file, size, target.name, progress, attempts, pause)
                if resumed and file_sha256(part) != sha256:
                    # The part may stem from another version of the file, or be too long: once more, from the start.
                    file.truncate(0)
                    _transfer(url, file, size, target.name, progress, attempts, pause)
                found = file_sha256(part)
                if found != sha256:
                    file.truncate(0)
                    raise RunError(f"{url} must have the sha256 {sha256}, but the {size} bytes it sent have {found}.")
                os.fsync(file.fileno())
                os.replace(part, target)
            finally:
                if _length(file) == 0:
                    part.unlink()
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error.strerror or error}.") from error


def _transfer(
    url: str, file: IO[bytes], size: int, name: str, progress: Progress | None, attempts: int, pause: float
) -> None:
    """Append to the file until it has its size."""
    failures = 0
    while (start := _length(file)) < size:
        try:
            _receive(url, file, size, name, progress)
        except _TransferError as reason:
            failures = 1 if _length(file) > start else failures + 1
            if failures >= attempts:
                raise RunError(f"{url} cannot be fetched: {reason}; what has arrived is kept.") from reason
            time.sleep(pause)


class _HttpOnly(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to http and https alone; Python's own goes to ftp as well."""

    def redirect_request(self, req: urllib.request.Request, *others: Any) -> urllib.request.Request | None:
        """The request of the new address, which is the last argument."""
        if urllib.parse.urlsplit(others[-1]).scheme not in ("http", "https"):
            raise RunError(f"{req.full_url} must lead to http or https, but leads to {others[-1]:.200}.")
        return super().redirect_request(req, *others)


_opener = urllib.request.build_opener(_HttpOnly)


def _receive(url: str, file: IO[bytes], size: int, name: str, progress: Progress | None) -> None:
    start = _length(file)
    headers = {"Accept-Encoding": "identity", "User-Agent": "ramet"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = _opener.open(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:
            file.truncate(0)  # the server has fewer bytes than the part: start over
            raise _TransferError("the server refused to go on from the part") from error
        if error.code in _RETRIED:
            raise _TransferError(f"the server answered {error.code}") from error
        raise RunError(f"{url} cannot be fetched: the server answered {error.code} {error.reason}.") from error
    except (OSError, http.client.HTTPException) as error:
        raise _TransferError(str(getattr(error, "reason", "") or error or type(error).__name__)) from error
    with response:
        if start and not (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
            file.truncate(0)  # the server does not resume and sends the whole
        announced = response.headers.get("Content-Length") or ""
        if announced.isdigit() and (found := _length(file) + int(announced)) != size:
            raise RunError(f"{url} must be {size} bytes long, but the server announces {found}.")
        while _length(file) < size:
            try:
                block = response.read(min(_BLOCK, size - _length(file)))
            except (OSError, http.client.HTTPException) as error:
                raise _TransferError(str(error) or type(error).__name__) from error
            if not block:
                raise _TransferError(f"the connection ended after {_length(file)} of {size} bytes")
            file.write(block)
            if progress is not None:
                progress(name, _length(file), size)
        if response.read(1):
            file.truncate(0)
            raise RunError(f"{url} must be {size} bytes long, but the server sends more.")


def _length(file: IO[bytes]) -> int:
    file.flush()
    return os.fstat(file.fileno()).st_size


def _lock(file: IO[bytes], part: Path) -> None:
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not on Windows, where two fetches at once end in a wrong checksum
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunError(f"only one process may fetch a file, but another writes {part}.") from error
