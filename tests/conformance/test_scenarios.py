"""The recorded scenarios of kube-controller-manager 1.36.2 come out the same.

By default they run in memory and on virtual time. ``--kubeconfig PATH`` plays
them on a real cluster, over HTTP and in real time; no other manager may run
the deployment and replica set controllers there.
"""

import asyncio
import random

import pytest

from controller_manager.client.builder import Connections
from controller_manager.client.credentials import load_credentials
from controller_manager.client.http import HTTPTransport
from controller_manager.client.inmemory import InMemoryTransport
from controller_manager.clock import SystemClock
from controller_manager.options.config import LeaderElectionConfig
from tests.clusters import (
    TOKEN,
    Cluster,
    RecordingTransport,
    run_manager,
)
from tests.conformance.recordings import RECORDINGS, Recording


@pytest.fixture(params=RECORDINGS)
def scenario(request: pytest.FixtureRequest) -> Recording:
    """Return one recording."""
    return RECORDINGS[request.param]


@pytest.mark.looptime
async def test_a_scenario_ends_as_recorded_in_memory(scenario: Recording) -> None:
    """Each checkpoint equals the recording, with no more writes than upstream."""
    cluster = Cluster()
    player = scenario.player(InMemoryTransport(cluster.server, TOKEN), cluster.clock)
    async with cluster.manager(scenario.config()) as recording:
        checkpoints = await player.play(scenario.steps)
    assert checkpoints == scenario.expected()
    assert len(scenario.writes_of(recording)) <= scenario.most_writes()


@pytest.mark.looptime
async def test_a_scenario_ends_as_recorded_with_each_controller_in_its_role(
    scenario: Recording,
) -> None:
    """As service accounts with the permissions of the bootstrap roles only."""
    cluster = Cluster(rbac=True)
    player = scenario.player(InMemoryTransport(cluster.server, TOKEN), cluster.clock)
    config = scenario.config(leader_election=LeaderElectionConfig())
    async with cluster.confined_manager(config) as recording:
        checkpoints = await player.play(scenario.steps)
    assert checkpoints == scenario.expected()
    assert len(scenario.writes_of(recording)) <= scenario.most_writes()
    assert [each for each in recording.writes if each.status in (401, 403)] == []


@pytest.mark.real_cluster
async def test_a_scenario_ends_as_recorded_on_a_real_cluster(
    scenario: Recording, request: pytest.FixtureRequest
) -> None:
    """The same against the cluster of ``--kubeconfig``, over HTTP."""
    kubeconfig = request.config.getoption("--kubeconfig")
    clock = SystemClock()
    transport = HTTPTransport(load_credentials(kubeconfig, "", clock), "conformance")
    recording = RecordingTransport(transport)
    try:
        async with run_manager(
            Connections(recording, root_ca="PEM"),
            clock,
            random.Random(),
            scenario.config(),
        ):
            player = scenario.player(transport, clock)
            checkpoints = await player.play(scenario.steps)
    finally:
        await transport.close()
        await asyncio.sleep(0.05)
    assert checkpoints == scenario.expected()
    assert len(scenario.writes_of(recording)) <= scenario.most_writes()
