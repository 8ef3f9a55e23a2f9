"""What earlier looks at a network found by trial, so that the next look need not try it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from ramet.tracing.coupling import Coupling, Group
from ramet.tracing.numbers import Family, Numbers

Key = tuple[str, bool, tuple[tuple[str, int, str], ...]]


@dataclass
class Memory:
    """Groups of one network that did not pass as they were: the numbers that made them pass, or why none did.

    A trial copies the whole network and runs it, and a group that cannot grow costs some twenty of them. Sizes change
    from look to look and nothing of that with them. New layers and blocks may take over the names of others: then
    everything is forgotten.
    """

    _names: tuple[str, ...] = ()
    _found: dict[Key, tuple[Family, ...] | str] = field(default_factory=dict)

    def recall(self, coupling: Coupling, numbers: Numbers) -> None:
        """Give a new look what is known: numbers go to the coupling, groups that cannot grow to its refusals."""
        if self._names != tuple(coupling.aliases):
            self._names, self._found = tuple(coupling.aliases), {}
        for group in list(coupling.groups.values()):
            known = self._found.get(_key_of(group))
            if isinstance(known, str):
                coupling.refuse(group.name, known)
            elif known is not None:
                numbers.take(group, known)

    def keep(self, group: Group, found: tuple[Family, ...] | str) -> None:
        """Note with which numbers a group passed, or why it did not."""
        self._found[_key_of(group)] = found


def _key_of(group: Group) -> Key:
    """What a group is known by: heads and the channels of each head have the same places, and not the same name."""
    return group.name, group.is_block, tuple((slot.tensor, slot.dim, slot.role) for slot in group.slots)
