"""What becomes of the tasks that a network knew before it went on: compared, and measured where there are data."""

from __future__ import annotations

import torch
from torch import Tensor

from ramet.continual.joint import JointNetwork
from ramet.continual.streams.stream import Stream, Task
from ramet.errors import ConfigError
from ramet.runs.encoding import Json
from ramet.training import Metric, measure


class EarlierTasks:
    """The tasks of a network before it goes on: their weights, and how good they are on the data that there are.

    A task whose network has the same weights afterwards, bit for bit, has forgotten nothing, whatever the data.

    Args:
        network: as it is before.
        stream: tasks of the same names, as far as their data are there.
        metric: what they are measured by, on their test data.
        device: where that is done.
    """

    def __init__(self, network: JointNetwork, stream: Stream | None, metric: Metric, device: str) -> None:
        self._metric, self._device = metric, device
        self._data = {} if stream is None else {task.name: task for task in stream if task.name in network.names}
        self._weights = {name: _weights(network, name) for name in network.names}
        self._before = {name: self._measured(network, task) for name, task in self._data.items()}

    def _measured(self, network: JointNetwork, task: Task) -> float:
        split = task.dataset.test
        return measure(network.task(task.name), split.x.to(self._device), split.y.to(self._device), self._metric)

    def compare(self, network: JointNetwork) -> list[Json]:
        """For each task its ``name``, whether its weights are ``unchanged``, the metric ``before`` and ``after``."""
        found: list[Json] = []
        for name, weights in self._weights.items():
            now = _weights(network, name)
            same = now.keys() == weights.keys() and all(torch.equal(now[each], weights[each]) for each in weights)
            after = self._measured(network, self._data[name]) if name in self._data else None
            found.append({"name": name, "unchanged": same, "before": self._before.get(name), "after": after})
        return found


def check_earlier(stream: Stream, network: JointNetwork, source: object) -> None:
    """Refuse data of earlier tasks that are of none that the network knows, or of another form."""
    known = [task for task in stream if task.name in network.names]
    if not known:
        names = ", ".join(network.names)
        raise ConfigError(f"earlier must be a stream with tasks that the network knows ({names}), but got {source}.")
    for task in known:
        network.method.template.check(task.info)


def _weights(network: JointNetwork, name: str) -> dict[str, Tensor]:
    return {key: value.detach().clone() for key, value in network.task(name).state_dict().items()}
