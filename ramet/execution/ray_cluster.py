"""Getting hold of Ray: the library, and a cluster that exists already or one of our own on this machine."""

from __future__ import annotations

import logging
import math
import os
import socket
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ramet.errors import ConfigError, MissingExtraError, RunError

_SECONDS_TO_ANSWER = 4.0
_NUM_STARTS = 4
"""Ray gives its own processes 30 seconds, by no setting; eight processes for each core made two starts too few."""
_MILLISECONDS_OF_SILENCE = 30_000
_AUTO = "auto"
_CLIENT = "ray://"

# What every client of HTTP/2 says first, and the head of what every server says first: an empty SETTINGS frame.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME_HEAD_BYTES, _FRAME_KIND, _SETTINGS_FRAME = 9, 3, 4


@dataclass(frozen=True)
class _Connection:
    """The connection that this process has opened itself, and may therefore close."""

    address: str | None
    cpus: int
    gpus: int


_ours: _Connection | None = None


def check_address(address: str) -> str:
    """The address of a cluster, or a ``ConfigError``: it is ``HOST:PORT``, ``ray://HOST:PORT`` or ``auto``.

    What stands before an @ may be a secret, and is not repeated.
    """
    rule = "the address of a Ray cluster must be HOST:PORT, ray://HOST:PORT or auto"
    if "@" in address:
        raise ConfigError(f"{rule}, but got one with an @, which Ray does not know.")
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
    if address != _AUTO and not (host and "/" not in host and is_port):
        raise ConfigError(f"{rule}, but got {address!r}.")
    return address


def connect(address: str | None, *, cpus: float, gpus: float) -> ModuleType:
    """Ray, connected: to the cluster at an address, or to one of this machine that ends with this process.

    A process has one connection. If the caller has opened it with ``ray.init``, it is used as it is; if an earlier call
    has, it is used again where it serves. Our own cluster, reachable from this machine only, has so many CPUs and GPUs,
    all tasks together.
    """
    global _ours
    wanted = _Connection(address, math.ceil(cpus), math.ceil(gpus))
    ray = import_ray(address)
    if ray.is_initialized():
        if _ours is None or _serves(_ours, wanted):
            return ray
        ray.shutdown()
    options: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    if address is None:
        _start(ray, wanted, options)
    else:
        _join(ray, address, options)
    _ours = wanted
    return ray


def disconnect() -> None:
    """Close the connection that ``connect`` opened, and end our own cluster; so does the end of the process."""
    global _ours
    if _ours is not None:
        import ray

        ray.shutdown()
        _ours = None


def _serves(there: _Connection, wanted: _Connection) -> bool:
    if wanted.address is not None:
        return there.address == wanted.address
    return there.address is None and there.cpus >= wanted.cpus and there.gpus >= wanted.gpus


def import_ray(address: str | None) -> ModuleType:
    """The library, not connected, for an address. It reads some settings from the environment when it is imported."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Nothing is reported to anybody.
    # A task that asks for no GPU sees those that the driver sees, as in a worker process; and no warning about it.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A busy machine needs more than the usual 60; a worker that dies while it starts is missed only after as long.
    os.environ.setdefault("RAY_worker_register_timeout_seconds", "120")
    if address is None:
        # Despite its name it holds everywhere: without clusters, Ray listens on the loopback interface only.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        # A driver would wait for the workers that Ray starts ahead of tasks: for ever, if one dies on its way.
        os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # Not 15: beside any other work, trainings would starve.
    else:
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # It would try for ten minutes.
        # A node behind a network that was cut says nothing, and Ray would ask after its task only after five minutes.
        for name in ("time", "timeout"):
            os.environ.setdefault(f"RAY_grpc_client_keepalive_{name}_ms", str(_MILLISECONDS_OF_SILENCE))
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        if error.name != "ray":
            raise ConfigError(f"ray must be importable, but is not: {error}.") from error
        raise MissingExtraError("ray", "ray") from None
    return ray


def _start(ray: ModuleType, wanted: _Connection, options: dict[str, Any]) -> None:
    for attempt in range(_NUM_STARTS):
        try:
            ray.init(
                address="local",
                num_cpus=max(wanted.cpus, 1),
                num_gpus=wanted.gpus,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **options,
            )
            return
        except Exception as error:
            ray.shutdown()
            # On a busy machine Ray's own processes may be too slow for Ray; the next time they are in memory.
            if attempt == _NUM_STARTS - 1:
                raise RunError(f"a Ray cluster must start on this machine, but did not: {_line(error)}") from error


def _join(ray: ModuleType, address: str, options: dict[str, Any]) -> None:
    if address != _AUTO:
        _knock(ray, address)
    try:
        ray.init(address=address, **options)
    except Exception as error:
        ray.shutdown()
        if "ersion mismatch" in str(error) + str(error.__cause__):
            raise ConfigError(
                "a Ray cluster must have the driver's versions of Ray and Python, but the one at "
                f"{address} has others: {_line(error)}"
            ) from error
        raise ConfigError(f"a Ray cluster must answer at {address}, but: {_line(error)}") from error


def _knock(ray: ModuleType, address: str) -> None:
    """Ask whether a server like Ray's, which speaks HTTP/2, listens; Ray itself waits long for one that does not."""
    name, _, port = address.removeprefix(_CLIENT).rpartition(":")
    host = name = name.strip("[]")
    if host in ("localhost", "127.0.0.1", "::1"):
        host = ray.util.get_node_ip_address()  # So does Ray, which takes a machine by the name that others know.
    tried = "" if host == name else f" (for Ray, {host}:{port})"
    refusal = f"a Ray cluster must answer at {address}{tried}, but: "
    try:
        with socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return  # It would not answer a greeting in clear.
            connection.sendall(_GREETING)
            answer = connection.recv(_FRAME_HEAD_BYTES)
    except (OSError, UnicodeError) as error:
        if isinstance(error, (socket.gaierror, UnicodeError)):
            raise ConfigError(f"{refusal}the name is not known.") from error
        raise ConfigError(f"{refusal}{(error.strerror or _line(error)).lower()}.") from error
    if len(answer) <= _FRAME_KIND or answer[_FRAME_KIND] != _SETTINGS_FRAME:
        raise ConfigError(f"{refusal}something else answers.")


def _line(error: BaseException) -> str:
    """What an exception of Ray's says, on one line; its first cause says more than the last of the chain."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error) or type(error).__name__
    _, traceback, within = text.partition("Traceback (most recent call last):")
    if traceback:  # Ray quotes one whole; what was raised is the last line that is not indented
        text = next((line for line in reversed(within.splitlines()) if line.strip() and line[0] != " "), text)
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:300] + " ..."
