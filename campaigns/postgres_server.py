"""A PostgreSQL server of one's own: on loopback, in a temporary folder, with a password, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER = "ann"


@dataclass(frozen=True)
class Server:
    port: int
    password: str
    kill: Callable[[], None]
    """Ends it as a power cut would."""
    start: Callable[[], None]
    """Starts it again, with what it held."""

    def address(self, database: str = "postgres", password: str | None = None) -> str:
        return f"postgresql+psycopg://{USER}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def fresh(self) -> str:
        """The address of a new, empty database."""
        import psycopg

        name = f"lab_{secrets.token_hex(4)}"
        options = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": self.password}
        with psycopg.connect(dbname="postgres", autocommit=True, **options) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)


def programs(name: str) -> str:
    """Where Debian keeps what is not meant for users' paths: the newest version's."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else name


@contextlib.contextmanager
def serving(find: Callable[[str], str]) -> Iterator[Server]:
    initdb, postgres = find(programs("initdb")), find(programs("postgres"))
    folder = Path(tempfile.mkdtemp(prefix="ramet-postgres-"))
    options: dict[str, Any] = {"cwd": folder, "stdin": subprocess.DEVNULL}
    if os.geteuid() == 0:  # which PostgreSQL refuses to run as
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    password = secrets.token_hex(8)
    secret, data, log = folder / "password", folder / "data", folder / "log"
    secret.write_text(password)
    log.touch()
    if "user" in options:
        for path in (secret, log):
            os.chown(path, options["user"], options["group"])
    servers: list[subprocess.Popen[bytes]] = []
    try:
        command = [initdb, "-D", str(data), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(secret), "--no-sync"]
        made = subprocess.run(
            [*command, "--locale=C", "-E", "UTF8"], capture_output=True, text=True, timeout=600, **options
        )
        assert made.returncode == 0, made.stderr
        for is_last in [False] * 9 + [True]:  # somebody may take the free port before the server does
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            settings: dict[str, Any] = {
                "listen_addresses": "127.0.0.1",
                "port": port,
                "unix_socket_directories": "",
                "fsync": "off",
            }
            arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
            command = [postgres, "-D", str(data), *arguments]

            def launch(command: list[str] = command) -> subprocess.Popen[bytes]:
                with log.open("w") as output:
                    servers.append(subprocess.Popen(command, stdout=output, stderr=output, **options))
                return servers[-1]

            if _answers(launch(), port, password, log):
                break
            assert not is_last, log.read_text()

        def kill() -> None:
            servers[-1].kill()
            servers[-1].wait(timeout=300)

        def start() -> None:
            for is_last in [False] * 29 + [True]:  # the processes of the killed one take a moment to end
                if _answers(launch(), port, password, log):
                    return
                assert not is_last, log.read_text()
                time.sleep(1)

        yield Server(port, password, kill, start)
    finally:
        for server in servers:
            if server.poll() is None:
                server.send_signal(signal.SIGQUIT)  # at once, without waiting for clients
                server.wait(timeout=300)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(server: subprocess.Popen[bytes], port: int, password: str, log: Path) -> bool:
    """Wait until a server takes connections, or has ended."""
    import psycopg

    deadline = time.monotonic() + 300
    while server.poll() is None:
        assert time.monotonic() < deadline, log.read_text()
        try:
            psycopg.connect(
                host="127.0.0.1", port=port, user=USER, password=password, dbname="postgres", connect_timeout=5
            ).close()
            return True
        except psycopg.OperationalError:
            time.sleep(0.1)
    return False
