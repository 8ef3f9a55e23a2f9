"""Tasks on a real Ray cluster of two nodes, started and stopped here, on the loopback interface."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ramet.errors import MissingExtraError
from ramet.execution import Executor, Ray
from ramet.execution.ray_cluster import disconnect, import_ray
from ramet.testing.executors import WorkerSuite

try:
    import_ray(None)  # Before anybody else does, because it sets the environment that keeps Ray on this machine.
except MissingExtraError:
    pytest.skip("ray is not installed; pip install 'ramet[ray]'", allow_module_level=True)

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a CPU each; the first one is the driver's."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 * MEGABYTE}
    quick = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    cluster = Cluster(True, head_node_args={**node, "include_dashboard": False, "_system_config": quick})
    try:
        cluster.add_node(**node)
        yield cluster
    finally:
        disconnect()
        cluster.shutdown()


class TestRay(WorkerSuite):
    seconds_to_end = 30.0

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Any) -> None:
        self._address = cluster.address

    def make(self) -> Executor:
        return Ray(2, address=self._address)
