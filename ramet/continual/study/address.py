"""The address of a study's storage: checked before anything is written, and never shown with its password."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_plus

from ramet.errors import ConfigError, MissingExtraError

MASK = "***"
_SECRET = re.compile(r"([?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=)([^&]*)", re.IGNORECASE)


def masked(address: str) -> str:
    """An address without its password, fit for records and messages.

    >>> masked("postgresql://ann:s3cret@db.example/lab")
    'postgresql://ann:***@db.example/lab'
    >>> masked("postgresql://db.example/lab?user=ann&password=s3cret")
    'postgresql://db.example/lab?user=ann&password=***'
    >>> masked("sqlite:///study.db")
    'sqlite:///study.db'
    """
    shown = address
    for secret, replacement in _parts(address):
        shown = shown.replace(secret, replacement)
    return shown


def is_masked(address: str) -> bool:
    """Whether a password was taken out of an address, so that it cannot be used as it is."""
    return masked(address) == address and MASK in address


def scrubbed(text: str, address: str) -> str:
    """A text of other people's making, such as a driver's message, without the address's password.

    >>> scrubbed("no entry for s3cret", "postgresql://ann:s3cret@db.example/lab")
    'no entry for ***'
    """
    for secret in _secrets(address):
        text = text.replace(secret, MASK)
    return text


def engine_address(address: str) -> Any:
    """The address as SQLAlchemy's own object, a SQLite file named from the root."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    # SQLAlchemy 2.0 and 2.1 mean different drivers by the bare name.
    text = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", address)
    rule = "a storage must be an address such as sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
    try:
        url = make_url(text)
        dialect = url.get_dialect()
    except NoSuchModuleError:
        scheme = address.partition(":")[0]
        raise ConfigError(f"{rule}; SQLAlchemy knows no database {scheme!r}: {masked(address)!r}.") from None
    except (ArgumentError, ValueError):
        raise ConfigError(f"{rule}, but got {masked(address)!r}.") from None
    try:
        dialect.import_dbapi()
    except ImportError as error:
        if url.get_backend_name() == "postgresql" and url.get_driver_name() == "psycopg":
            raise MissingExtraError("psycopg", "postgres") from None
        raise ConfigError(
            f"the driver of a storage must be installed, but {error.name or url.get_driver_name()} is not; "
            f"install it with: pip install {error.name or url.get_driver_name()}."
        ) from None
    if url.get_backend_name() == "sqlite":
        name = url.database or ""
        if name in ("", ":memory:") or name.startswith("file:"):
            raise ConfigError(f"a SQLite storage must be a file, sqlite:///FILE, but got {masked(address)!r}.")
        file = Path(name).absolute()
        if not file.parent.is_dir() or file.is_dir():
            raise ConfigError(f"a SQLite storage must be a file in a folder that exists, but {file} is not.")
        url = url.set(database=str(file))
    return url


def anchored_address(address: str) -> str:
    """The address with a SQLite file named from the root, so that it is found again from any other folder."""
    relative = re.fullmatch(r"(sqlite[^:/]*:///)([^/?:][^?]*)(.*)", address)
    return address if relative is None else f"{relative[1]}{Path(relative[2]).absolute()}{relative[3]}"


def plain_address(url: Any) -> str:
    """SQLAlchemy's object as text again, password included; Optuna fills in braces, so these are escaped."""
    text: str = url.render_as_string(hide_password=False)
    return text.replace("{", "%7B").replace("}", "%7D")


def _parts(address: str) -> list[tuple[str, str]]:
    """Pieces of an address that hold a secret, with their replacements."""
    found = []
    scheme, separator, rest = address.partition("://")
    # Up to the last @, because people forget to escape the @, / and ? of a password.
    credentials, at, _ = rest.rpartition("@")
    user, colon, password = credentials.partition(":")
    if separator and at and colon and password:
        found.append((f"{scheme}://{user}:{password}@", f"{scheme}://{user}:{MASK}@"))
    found += [(match[0], f"{match[1]}{MASK}") for match in _SECRET.finditer(address) if match[2]]
    return found


def _secrets(address: str) -> list[str]:
    """The passwords in an address, as written and as meant, the longest first."""
    _, _, rest = address.partition("://")
    written = [rest.rpartition("@")[0].partition(":")[2], *(match[2] for match in _SECRET.finditer(address))]
    meant = [form for secret in written for form in (secret, unquote(secret), unquote_plus(secret))]
    return sorted({secret for secret in meant if secret and secret != MASK}, key=len, reverse=True)
