"""The mean of what a convolution gives follows from the mean of what it sees: whoever is next need not look at it."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from torch import Tensor

from ramet.guards.meetings import Arrangement, Meeting


class _Output(NamedTuple):
    """What a convolution gave, as it was then, and what its mean follows from."""

    output: weakref.ref[Tensor]
    version: int
    weight: Tensor
    weight_version: int
    bias: Tensor | None
    arrangement: Arrangement
    column: Tensor  # [groups, width, 1]


class PassedMeans:
    """Means of the outputs of convolutions whose mean inputs are known.

    A convolution is linear, so that the mean of its outputs over samples and positions is W x + b for its mean patch x.
    A 1 x 1 convolution that is given these very outputs, as in every depthwise-separable pair, has that mean for its
    input. To look for it in the images takes longer than all else that such a layer's projection costs.
    """

    def __init__(self) -> None:
        self._given: dict[int, _Output] = {}

    def note(self, meeting: Meeting, column: Tensor, output: Any) -> None:
        """A convolution with a mean patch, [groups, width, 1], gave an output."""
        weight, bias, arrangement = meeting.weight, meeting.bias, meeting.arrangement
        if not isinstance(output, Tensor) or arrangement is None or output.is_inference() or weight.is_inference():
            return  # tensors of inference do not know whether they were changed
        if any(each is not None and each.dtype != column.dtype for each in (output, weight, bias)):
            return  # under autocast an output is not what the weight would give
        # By a weak reference: another tensor may have the same id once this one is gone.
        self._given[id(output)] = _Output(
            weakref.ref(output), output._version, weight, weight._version, bias, arrangement, column
        )

    def column(self, meeting: Meeting) -> Tensor | None:
        """The mean over samples and positions of what a product meets, [groups, width, 1]; none if it is not known."""
        pixels = meeting.pixels
        given = None if pixels is None else self._given.get(id(pixels))
        if given is None or pixels is None or meeting.arrangement is None:
            return None
        is_as_it_was = given.output() is pixels and pixels._version == given.version
        if not is_as_it_was or given.weight._version != given.weight_version:
            return None
        mean = (given.arrangement(given.weight.detach()) @ given.column).reshape(-1)  # [outputs]
        mean = mean if given.bias is None else mean + given.bias.detach()
        return mean.reshape(meeting.arrangement.last[0], -1, 1)
