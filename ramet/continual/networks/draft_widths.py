"""A draft with more units, or with fewer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from ramet.continual.networks.master import Draft
from ramet.growth.surgery.writing import read_tensor


@torch.no_grad()
def with_new(draft: Draft, counts: Sequence[int]) -> Draft:
    """A draft with new units at the end of each place, which at first changes nothing; the old one stays as it is.

    A new unit has first weights for all that it reads as ``make_of_widths`` draws them from the global generator (see
    ``seeded_globally``); what older units, the head and all that is fixed read of it is zero.
    """
    wiring, old_sizes = draft.wiring, draft.widths
    sizes = [width + count for width, count in zip(old_sizes, counts, strict=True)]
    wide = draft.made_of_widths(sizes)
    old_units = [torch.arange(size) for size in old_sizes]
    is_old = [torch.arange(size) < old for size, old in zip(sizes, old_sizes, strict=True)]
    for name, old, new in _pairs(draft, wide):
        silent = wiring.reading(name, is_old, new.device) & wiring.made(name, is_old, new.device)
        new.masked_fill_(silent, 0)
        wiring.put(name, new, sizes, old_units, old)
    new_origins = [torch.full((count,), -1) for count in counts]
    origins = [torch.cat(pair) for pair in zip(draft.origins, new_origins, strict=True)]
    return Draft(draft.skeleton, wide, origins, is_first=draft.is_first)


@torch.no_grad()
def with_only(draft: Draft, keep: Sequence[Tensor]) -> Draft:
    """A draft with some of its units, given by booleans for each place; the old one stays as it is."""
    kept = [mask.nonzero()[:, 0] for mask in keep]
    less = draft.made_of_widths([len(units) for units in kept])
    for name, old, new in _pairs(draft, less):
        new.copy_(draft.wiring.take(name, old, draft.widths, kept))
    origins = [origin[units] for origin, units in zip(draft.origins, kept, strict=True)]
    return Draft(draft.skeleton, less, origins, is_first=draft.is_first)


def _pairs(draft: Draft, other: nn.Module) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The tensors of a draft and of a network of other widths, by name."""
    for name in draft.wiring.layouts:
        yield name, read_tensor(draft.network, name), read_tensor(other, name)
