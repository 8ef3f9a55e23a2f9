"""Two network namespaces joined by a pair of virtual interfaces: a network of one's own, which can be cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """The names of two namespaces, and the address of each."""

    names: tuple[str, str]
    addresses: tuple[str, str]

    def inside(self, place: int, command: list[str]) -> list[str]:
        """A command that runs in one of them."""
        return ["ip", "netns", "exec", self.names[place], *command]

    def cut(self) -> None:
        """Nothing passes any more."""
        _ip("netns", "exec", self.names[1], "ip", "link", "set", "lan", "down")

    def mend(self) -> None:
        """What was cut passes again."""
        _ip("netns", "exec", self.names[1], "ip", "link", "set", "lan", "up")


def why_not() -> str:
    """Why there can be no namespaces here, or nothing."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"rc-{os.getpid()}-try"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return "this system makes no network namespaces"
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return ""


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """Two namespaces; they, and the interfaces, are gone afterwards. No interface leads out of them."""
    names = (f"rc-{os.getpid()}-a", f"rc-{os.getpid()}-b")
    made = Network(names, ("10.77.0.1", "10.77.0.2"))
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("netns", "exec", name, "ip", "link", "set", "lo", "up")
        _ip("link", "add", "lan", "netns", names[0], "type", "veth", "peer", "name", "lan", "netns", names[1])
        for name, address in zip(names, made.addresses, strict=True):
            _ip("netns", "exec", name, "ip", "address", "add", f"{address}/24", "dev", "lan")
            _ip("netns", "exec", name, "ip", "link", "set", "lan", "up")
        yield made
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
