"""The recorded scenarios of kube-controller-manager 1.36.2 come out the same.

By default they run in memory and on virtual time. ``--kubeconfig PATH`` plays
them on a real cluster, over HTTP and in real time; no other manager may run
the deployment and replica set controllers there.
"""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from controller_manager.client.builder import Connections
from controller_manager.client.credentials import load_credentials
from controller_manager.client.http import HTTPTransport
from controller_manager.client.inmemory import InMemoryTransport
from controller_manager.clock import SystemClock
from controller_manager.options.config import Config, LeaderElectionConfig
from tests.clusters import (
    TOKEN,
    WORKLOADS,
    Cluster,
    RecordingTransport,
    Write,
    make_config,
    run_manager,
)
from tests.conformance.normalise import comparable
from tests.conformance.player import Player

JSON = dict[str, Any]

DATA = Path(__file__).parent.parent / "data"
SCENARIOS = sorted(DATA.glob("*scenarios/*.json"))


def _config(scenario: JSON, **generic: Any) -> Config:
    """Return a config with the controllers that ran when it was recorded."""
    everything = ("*",) if "kinds" in scenario else WORKLOADS
    return make_config(controllers=everything, **generic)


def _expected(scenario: JSON) -> list[JSON]:
    return [
        {
            "check": each["check"],
            "state": {
                kind: entries
                for kind, entries in comparable(each["state"]).items()
                if entries
            },
        }
        for each in scenario["checkpoints"]
    ]


def _allowed(scenario: JSON) -> int:
    """Return the recorded writes plus 10 %, at least two."""
    recorded = len(scenario["writes"])
    return recorded + max(2, recorded // 10)


def _of(scenario: JSON, recording: RecordingTransport) -> list[Write]:
    """Return what was written in the scenario's namespace, or to it."""
    where = f"/namespaces/{scenario['name']}"
    return [each for each in recording.writes if where in each.path]


@pytest.fixture(params=SCENARIOS, ids=lambda path: path.stem)
def scenario(request: pytest.FixtureRequest) -> JSON:
    """Return one recording."""
    recording: JSON = json.loads(request.param.read_text())
    return recording


@pytest.mark.looptime
async def test_a_scenario_ends_as_recorded_in_memory(scenario: JSON) -> None:
    """Each checkpoint equals the recording, with no more writes than upstream."""
    cluster = Cluster()
    player = Player(
        InMemoryTransport(cluster.server, TOKEN),
        scenario["name"],
        cluster.clock,
        kinds=scenario.get("kinds", ()),
    )
    async with cluster.manager(_config(scenario)) as recording:
        checkpoints = await player.play(scenario["steps"])
    assert checkpoints == _expected(scenario)
    assert len(_of(scenario, recording)) <= _allowed(scenario)


@pytest.mark.looptime
async def test_a_scenario_ends_as_recorded_with_each_controller_in_its_role(
    scenario: JSON,
) -> None:
    """As service accounts that may do what the bootstrap roles allow, no more."""
    cluster = Cluster(rbac=True)
    player = Player(
        InMemoryTransport(cluster.server, TOKEN),
        scenario["name"],
        cluster.clock,
        kinds=scenario.get("kinds", ()),
    )
    config = _config(scenario, leader_election=LeaderElectionConfig())
    async with cluster.confined_manager(config) as recording:
        checkpoints = await player.play(scenario["steps"])
    assert checkpoints == _expected(scenario)
    assert len(_of(scenario, recording)) <= _allowed(scenario)
    assert [each for each in recording.writes if each.status in (401, 403)] == []


@pytest.mark.real_cluster
async def test_a_scenario_ends_as_recorded_on_a_real_cluster(
    scenario: JSON, request: pytest.FixtureRequest
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
            _config(scenario),
        ):
            player = Player(
                transport, scenario["name"], clock, kinds=scenario.get("kinds", ())
            )
            checkpoints = await player.play(scenario["steps"])
    finally:
        await transport.close()
        await asyncio.sleep(0.05)
    assert checkpoints == _expected(scenario)
    assert len(_of(scenario, recording)) <= _allowed(scenario)
