"""Fetching a named data set: download what is missing, check it, unpack it."""

from __future__ import annotations

import os
import shutil
import tarfile
import urllib.parse
import zlib
from pathlib import Path

from ramet.data.downloads import Progress, download, is_whole
from ramet.data.named import data_folder
from ramet.data.sources import SourceFile, find_source
from ramet.errors import DataError, RunError


def fetch(
    name: str,
    data_dir: str | Path | None = None,
    *,
    base_url: str | None = None,
    progress: Progress | None = None,
    attempts: int = 5,
    pause: float = 1.0,
) -> tuple[Path, ...]:
    """Bring a named data set into the data folder; what is there and whole is not fetched again.

    Gives the files that make up the data set; none for a set that comes with a library.

    Args:
        name: One of ``ramet.data.SOURCES``.
        data_dir: The data folder; by default ``RAMET_DATA``, or a folder in the user's cache.
        base_url: The address of a mirror: a folder that holds the files under their names.
        progress: Called with a file's name, the bytes that are there, and the bytes in all.
        attempts: How often in a row a connection may fail without bringing a byte.
        pause: Seconds to wait after a failure.

    Raises:
        DataError: If there is no such set, or no public address and no ``base_url`` either.
        RunError: If a download fails or has a wrong checksum. Files that were there before stay as they were.
    """
    source = find_source(name)
    if not source.files:
        return ()
    addresses = source.addresses if base_url is None else (base_url,)
    if not addresses:
        wanted = ", ".join(file.path for file in source.files)
        raise DataError(
            f"{name} has no public address in the form that is read here: give base_url, the address of a mirror, "
            f"or put {wanted} into {data_folder(data_dir)}."
        )
    for address in addresses:
        if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
            raise DataError(f"base_url must begin with http:// or https://, but got {address!r}.")

    folder = data_folder(data_dir)
    paths: list[Path] = []
    for file in source.files:
        paths += [folder / member for member in file.members] or [folder / file.path]
        try:
            _bring(file, folder, addresses, progress, attempts, pause)
        except OSError as error:
            raise RunError(f"{name} cannot be kept in {folder}: {error.strerror or error}.") from error
    return tuple(paths)


def unpack(archive: Path, folder: Path, file: SourceFile) -> None:
    """Take the wanted files out of a tar archive, and nothing else.

    Only regular files of the expected names and sizes are copied, to paths that we chose and not the archive, so that
    no link and no path in it can lead elsewhere.

    Raises:
        RunError: If the archive cannot be read, or a file is missing from it or has another size.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for name, size in file.members.items():
                try:
                    member = tar.getmember(name)
                except KeyError as error:
                    raise RunError(f"{archive} must hold {name}, but does not.") from error
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or member.size != size:
                    raise RunError(f"{name} in {archive} must be a file of {size} bytes, but is not.")
                target = folder / name
                part = target.with_name(target.name + ".part")
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    with content, part.open("wb") as out:
                        shutil.copyfileobj(content, out)
                        out.flush()
                        os.fsync(out.fileno())
                    os.replace(part, target)
                finally:
                    part.unlink(missing_ok=True)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise RunError(f"{archive} must be a whole tar archive, but is damaged: {error}.") from error


def _is_there(file: SourceFile, folder: Path) -> bool:
    if not file.members:
        return is_whole(folder / file.path, file.size, file.sha256)
    sizes = {folder / name: size for name, size in file.members.items()}
    return all(path.is_file() and path.stat().st_size == size for path, size in sizes.items())


def _bring(
    file: SourceFile, folder: Path, addresses: tuple[str, ...], progress: Progress | None, attempts: int, pause: float
) -> None:
    if _is_there(file, folder):
        return
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    if not is_whole(target, file.size, file.sha256):
        failures = []
        for address in addresses:
            url = f"{address.rstrip('/')}/{file.file_name}"
            try:
                download(url, target, file.size, file.sha256, progress=progress, attempts=attempts, pause=pause)
                break
            except RunError as error:
                failures.append(str(error))
        else:
            raise RunError(" ".join(failures))
    if file.members:
        unpack(target, folder, file)
        target.unlink()
