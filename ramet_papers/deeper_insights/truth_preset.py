"""A truth that carries information: children trained alone in a setting of their own, once, as a table of seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ramet.ranking.setup import SupernetSetup
from ramet.runs.atomic import write_atomically, writing
from ramet.spaces import Cells64
from ramet.training import Settings
from ramet_papers.recorded import digest_of
from ramet_papers.truth import cached_truth
from ramet_papers.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class TruthPreset:
    """How the children of the truth are trained, where that is not how supernets are.

    At 8x8 with 8 channels children differ by little more than their seeds do, so that no ranking can agree with them;
    a larger setting, trained once and kept, tells them apart.
    """

    space_options: Mapping[str, Any]  # of ``Cells64``
    data_options: Mapping[str, Any]  # of ``ramet.data.load``
    settings: Settings  # of a child alone
    seeds: int  # trainings of each child

    def table(self, workspace: Workspace, data: str) -> Path:
        """The file of its scores, a column a seed; what is not in the cache beside it is trained first."""
        asked = {**asdict(self), "settings": self.settings.to_json(), "data": data, "seed": workspace.seed}
        path = workspace.results / "truth" / f"cells64-{digest_of(asked)}.csv"
        if not path.exists():
            space = Cells64(**self.space_options)
            loaded = workspace.load(data, self.data_options)
            scores = cached_truth(workspace, SupernetSetup(space, loaded, self.settings), self.seeds)
            header = ["arch", *(f"seed{seed}" for seed in range(self.seeds))]
            lines = [
                [space.name(arch), *map(repr, column.tolist())] for arch, column in zip(space, scores.T, strict=True)
            ]
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, "".join(",".join(line) + "\n" for line in [header, *lines]).encode())
        return path
