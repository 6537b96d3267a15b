"""Slices follow pods on a cluster in memory, on virtual time."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace as replace_struct

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES
from controller_manager.controllers.network.endpointslice import EndpointSliceOptions
from controller_manager.controllers.network.endpointslice.controller import (
    EndpointSliceReconciler,
)
from controller_manager.options.config import Config
from controller_manager.runtime.outcome import Outcome
from tests.clusters import make_config
from tests.controllers.network.backends import Services, pod_status
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime


def config(*, use_service_account_credentials: bool = False, **options: Any) -> Config:
    made = make_config(
        controllers=("endpointslice",),
        use_service_account_credentials=use_service_account_credentials,
    )
    chosen = EndpointSliceOptions(**options)
    return replace(made, controllers={EndpointSliceOptions: chosen})


NOW = "2026-01-01T00:00:00Z"


class Slices(Services):
    """A cluster with the node "n"."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_node()

    async def swap(self) -> None:
        """Write the endpoints and the ports of the slice in another order."""
        (found,) = self.slices()
        swapped = replace_struct(
            found,
            endpoints=tuple(reversed(found.endpoints or ())),
            ports=tuple(reversed(found.ports or ())),
        )
        await self.client.update(ENDPOINT_SLICES, swapped)

    def set_zone(self, node: str, zone: str | None = None) -> None:
        labels = {"topology.kubernetes.io/zone": zone}
        self.edit(NODES, node, metadata={"labels": labels})

    def zones(self) -> dict[str | None, str | None]:
        every = [one for each in self.slices() for one in each.endpoints or ()]
        return {each.node_name: each.zone for each in every}

    def hints(self) -> Counter[str]:
        every = [one for each in self.slices() for one in each.endpoints or ()]
        hints = [each.hints.for_zones for each in every if each.hints is not None]
        return Counter(zone.name for each in hints for zone in each or ())


@scenarios("network/endpointslice")
async def test_slices_follow_pods(scenario: Scenario) -> None:
    await scenario.play(Slices, config)


async def test_heartbeats_and_other_conditions_cause_no_sync() -> None:
    cluster = Slices()
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    with _counting_syncs() as syncs:
        async with cluster.manager(config()) as recording:
            await asyncio.sleep(10)
            syncs.clear()
            other = {"type": "Other", "status": "True"}
            conditions = [*pod_status("10.1.0.1")["conditions"], other]
            cluster.edit(PODS, "a", status={"conditions": conditions})
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}
            cluster.edit(NODES, "n", status={"conditions": [ready]})
            await asyncio.sleep(10)
    assert (syncs, len(recording.writes)) == ({}, 1)


async def test_the_controllers_own_writes_cause_no_sync() -> None:
    cluster = Slices()
    cluster.add_service()
    with _counting_syncs() as syncs:
        async with cluster.manager(config()):
            await asyncio.sleep(10)
            syncs.clear()
            cluster.add_pod("a", "10.1.0.1")
            await asyncio.sleep(10)
    assert syncs == {"web": 1}


@contextmanager
def _counting_syncs() -> Iterator[Counter[str]]:
    syncs: Counter[str] = Counter()
    reconcile = EndpointSliceReconciler.reconcile

    async def counted(self: EndpointSliceReconciler, service: Service) -> Outcome:
        syncs[service.metadata.name] += 1
        return await reconcile(self, service)

    with mock.patch.object(EndpointSliceReconciler, "reconcile", counted):
        yield syncs
