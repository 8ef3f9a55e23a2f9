"""`ramet reproduce`: a paper's table or figure, ours beside theirs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ramet.cli.options import WHOLE, Common, print_json
from ramet.errors import ConfigError, hint_at


def reproduce(
    target: str | None = None,
    *,
    preset: Literal["small", "paper"] = "small",
    list_targets: Annotated[bool, Parameter(name="--list", negative=())] = False,
    claims: Annotated[bool, Parameter(negative=())] = False,
    markdown: Annotated[bool, Parameter(negative=())] = False,
    results: Path = Path("results"),
    data_dir: Path | None = None,
    seed: Annotated[int, WHOLE] = 0,
    device: str = "cpu",
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Reproduce a table or figure of one of the papers, and say for each of its claims whether it holds.

    What is trained is kept: the truth under results/, runs under --out, so that a second table trains nothing twice
    and an interrupted one goes on where it was.

    For example:

    - what there is: `ramet reproduce --list`
    - what is known already: `ramet reproduce --claims`
    - at the scale of this machine: `ramet reproduce deeper-insights/table-1 --workers 2`


    Args:
        target: PAPER/TABLE, for example deeper-insights/table-1.
        preset: small (this CPU) or paper (the paper's own setting, for a GPU).
        list_targets: name every table and figure, and stop.
        claims: print what is known of each claim, and stop; without a claims.json in results, as ramet was published.
        markdown: with --claims, print it as a page.
        results: where the truth and claims.json are kept.
        data_dir: where named data sets are; by default the environment variable RAMET_DATA.
        seed: the seed that all randomness follows from.
        device: where tensors are, for example cpu or cuda.
        common: where and how it is done.
    """
    papers = _reproductions()
    if list_targets:
        for name, entry in papers.TARGETS.items():
            print(f"{name:<36}{entry.summary}")
        return
    if claims:
        known = papers.read_claims(results)
        if not (results / "claims.json").exists():
            known = papers.read_claims(papers.PUBLISHED)
            print(f"{results} holds no claims.json: these are the claims as ramet was published.", file=sys.stderr)
        _print_claims(papers, known, markdown, common.json)
        return
    if target is None:
        raise ConfigError(
            "reproduce needs a target such as deeper-insights/table-1; `ramet reproduce --list` names all."
        )
    if target not in papers.TARGETS:
        hint = hint_at(target, papers.TARGETS)
        raise ConfigError(f"a target must be one of `ramet reproduce --list`, but got {target!r}{hint}")
    papers.read_claims(results)  # a damaged list is refused now, and not after hours when claims are added to it
    workspace = papers.Workspace(
        runs=common.out or Path("runs") / "reproduce",
        results=results,
        executor=common.executor(),
        data_dir=data_dir,
        seed=seed,
        device=device,
    )
    try:
        outcome = papers.TARGETS[target].run(workspace, preset)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; what is done is in {workspace.runs}, and the same command goes on."
        ) from None
    if common.json:
        print_json(outcome.to_json())
    else:
        print(outcome.to_text())


def _reproductions() -> Any:
    """The package of the papers' tables and figures, as its entry point names it: the library does not know it."""
    from importlib.metadata import entry_points  # late, as all that --help need not wait for

    found = list(entry_points(group="ramet.reproductions"))
    if not found:
        raise ConfigError("reproduce needs a package with the entry point ramet.reproductions, but none is installed.")
    return found[0].load()


def _print_claims(papers: Any, claims: list[dict[str, Any]], markdown: bool, as_json: bool) -> None:
    if as_json:
        print_json({"claims": claims})
    elif markdown:
        print(papers.claims_page(claims), end="")
    else:
        print(papers.claims_text(claims, min(shutil.get_terminal_size().columns, 120)))
