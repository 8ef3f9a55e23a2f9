"""What is known of the papers' claims, for a terminal and as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

ANSWERS = {True: "holds", False: "does not hold", None: "is not answered"}
FORMER = {True: "held", False: "did not hold", None: "was not answered"}

PAPERS = {
    "D": "Deeper insights into weight sharing",
    "W": "Overcoming multi-model forgetting",
    "I": "Disturbance-immune weight sharing",
    "F": "Firefly neural architecture descent",
    "B": "Learn to bind and grow",
}
"""The papers by the letter that their claims begin with."""

PARTS = ("paper", "ours", "spread", "note", "command")

Entry = Mapping[str, Any]


def claims_text(claims: Sequence[Entry], width: int = 100) -> str:
    """The claims one under the other, wrapped to a width.

    Args:
        claims: the entries of ``claims.json``.
        width: of a line, in characters.
    """
    blocks = [_in_a_sentence(claims)]
    for claim in claims:
        lines = [f"{claim['id']:<4}{answer_of(claim)}: {claim['claim']}"]
        for part in PARTS:
            if claim.get(part):
                begin = f"    {part:<9}"
                lines += textwrap.wrap(claim[part], width, initial_indent=begin, subsequent_indent=" " * len(begin))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def claims_page(claims: Sequence[Entry]) -> str:
    """The claims as Markdown: a table for each paper, and what has to be known of each claim under it."""
    text = "# What the papers claim, and what we found\n\n"
    text += (
        "Written by `ramet reproduce --claims --markdown` from `results/claims.json`; each answer was written by the "
    )
    text += "command beside it, at the preset `small`, which fits a CPU. An answer is about that setting: a claim that "
    text += (
        "does not hold there may well hold at the paper's scale. A *former rule* is one without the controls, seeds or "
    )
    text += f"settings that the claim is asked with now.\n\n{_in_a_sentence(claims)}\n"
    for letter, paper in PAPERS.items():
        own = [claim for claim in claims if claim["id"].startswith(letter)]
        if not own:
            continue
        text += f"\n## {paper}\n\n| | claim | paper | ours | answer |\n|---|---|---|---|---|\n"
        for claim in own:
            cells = [claim["id"], claim["claim"], claim["paper"], claim["ours"], f"**{answer_of(claim)}**"]
            text += f"| {' | '.join(_cell(cell) for cell in cells)} |\n"
        text += "\n"
        for claim in own:
            text += f"- {claim['id']}, `{claim.get('command', '')}`, {claim.get('seeds', '?')} seeds. "
            text += " ".join(_cell(claim[part]).rstrip(".") + "." for part in ("spread", "note") if claim[part]) + "\n"
    return text


def answer_of(claim: Entry) -> str:
    """Whether a claim holds, in words; what a former rule found is no answer of today."""
    return f"{FORMER[claim['holds']]} by a former rule" if claim.get("former") else ANSWERS[claim["holds"]]


def _in_a_sentence(claims: Sequence[Entry]) -> str:
    present = [claim for claim in claims if not claim.get("former")]
    counts = {answer: sum(claim["holds"] is answer for claim in present) for answer in ANSWERS}
    missing = f", {counts[None]} are not answered" if counts[None] else ""
    former = len(claims) - len(present)
    again = f" {former} were answered by a former rule and have not been measured again since." if former else ""
    return f"Of {len(claims)} claims {counts[True]} hold and {counts[False]} do not{missing}.{again}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
