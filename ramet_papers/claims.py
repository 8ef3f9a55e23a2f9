"""What the papers claim, and what we measured: kept in ``results/claims.json``, written by the commands alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from ramet.errors import ConfigError, RunError
from ramet.runs import describe_environment
from ramet.runs.atomic import write_atomically, writing
from ramet_papers.rules import is_former, rule_of
from ramet_papers.verdicts import conclude

NO_RULES: Mapping[str, bool] = {}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a paper, and whether it holds at the scale of the preset."""

    id: str  # its name in the list of claims, for example D1
    claim: str  # what the paper says, in a sentence
    paper: str  # the paper's figure
    ours: str  # our figure
    spread: str  # how far ours varies, for example an interval or a deviation
    seeds: int  # over how many seeds
    holds: bool | None  # whether it holds; none if it was not measured, or if nothing could be concluded
    command: str  # what was run
    note: str  # the setting, and why it does not hold if it does not
    rule: int = 1  # the number of the rule that answered it


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured for a claim: all that its judge is given.

    Each claim has a class of its own, with what its verdict depends on: figures a seed, and settings.
    """

    command: str  # what was run
    setting: str  # what a reader should know of it

    def answer(
        self,
        claim: str,
        *,
        paper: str,
        ours: str,
        spread: str,
        seeds: int,
        parts: Mapping[str, bool | None],
        rules: Mapping[str, bool] = NO_RULES,
        note: str | None = None,
        remark: str = "",
    ) -> Claim:
        """The claim, answered from its parts as ``conclude`` does it.

        ``claim`` is its name and its sentence; ``paper``, ``ours``, ``spread`` and ``seeds`` are fields of ``Claim``.
        ``rules`` says whether a rule of measuring was kept, by what is said where it was not. ``note``, by default the
        setting, comes before the sentence on what the claim fails in, and ``remark`` after it.
        """
        holds, reason = conclude(parts, [words for words, kept in rules.items() if not kept])
        said = (self.setting if note is None else note) + reason + remark
        id, _, sentence = claim.partition(": ")
        text = {"paper": paper, "ours": ours, "spread": spread, "command": self.command, "note": said}
        return Claim(id=id, claim=sentence, seeds=seeds, holds=holds, rule=rule_of(id), **text)


def write_claims(results: Path, claims: list[Claim]) -> None:
    """Keep the claims, each in place of the older entry of the same id; the environment stands beside them.

    A claim that is a part, such as D9a, takes the place of the whole, D9, from when it was judged in one.
    """
    with writing(results):
        results.mkdir(parents=True, exist_ok=True)
    with FileLock(results / "claims.lock"):  # two reproductions may end at the same moment
        known = {entry["id"]: entry for entry in _entries(results)}
        for claim in claims:
            known.pop(claim.id.rstrip("ab"), None)
        known |= {claim.id: asdict(claim) for claim in claims}
        entries = [known[key] for key in sorted(known, key=_order)]
        text = json.dumps({"environment": describe_environment(), "claims": entries}, indent=1) + "\n"
        write_atomically(results / "claims.json", text.encode())


PUBLISHED = Path(__file__).parent
"""The folder of the ``claims.json`` that travels with the package; in the repository it is a link to ``results/``."""


def read_claims(results: Path) -> list[dict[str, Any]]:
    """What is known of the claims in a folder; ``PUBLISHED`` is that of the package's own.

    Each entry says with ``former`` whether it was answered by a rule that is no longer the claim's.
    """
    return [entry | {"former": is_former(entry)} for entry in _entries(results)]


def _entries(results: Path) -> list[dict[str, Any]]:
    path = results / "claims.json"
    if not path.exists():
        return []
    try:
        claims: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["claims"]
        if not all({"id", "claim", "paper", "ours", "spread", "holds", "note"} <= set(entry) for entry in claims):
            raise ValueError("an entry lacks a field")
        if not all(isinstance(entry.get("rule", 1), int) for entry in claims):
            raise ValueError("a rule is no number")
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} must be a list of claims, but is damaged: {error}.") from None
    return claims


def _order(key: str) -> tuple[str, int, str]:
    """By the letter, the number, and the letter of a part: D2, D9a, D9b, D10."""
    found = re.fullmatch(r"(\D*)(\d*)(\D*)", key)
    return (found[1], int(found[2] or 0), found[3]) if found else (key, 0, "")
