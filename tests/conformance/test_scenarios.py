"""The recorded scenarios of kube-controller-manager 1.36.2 come out the same.

By default they run in memory and on virtual time. ``--kubeconfig PATH`` plays
them on a real cluster, over HTTP and in real time; no other manager may run
the same controllers there.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from controller_manager.client.builder import Connections
from controller_manager.client.identity.credentials import load_credentials
from controller_manager.client.rest.transport import Request, Transport
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.version import COMPONENT
from tests.clusters import (
    ROOT_CA,
    TOKEN,
    RecordingTransport,
    run_manager,
)
from tests.conformance.access import own_name
from tests.conformance.managers import SwitchedManager
from tests.conformance.recordings import RECORDINGS, Recording, most
from tests.conformance.whole import WholeForm
from tests.conformance.writes import field_managers, normalised, unknown_kinds

EACH = [
    name if number % 12 == 0 else pytest.param(name, marks=pytest.mark.slow)
    for number, name in enumerate(RECORDINGS)
]
"""All recordings, by area.

The quick run plays every twelfth one, the slow run the rest.
"""

FIELD_MANAGERS = {
    COMPONENT,
    "ResourceClaimController",
    "clusterrole-aggregation-controller",
    "service-cidr-controller",
    "before-first-apply",
}
"""The managers of fields of upstream's writes: by User-Agent, or of server-side apply.

The last is the API server's, for what an object had before the first apply.
"""


@pytest.fixture(params=RECORDINGS)
def scenario(request: pytest.FixtureRequest) -> Recording:
    return RECORDINGS[request.param]


@pytest.mark.looptime
@pytest.mark.parametrize("scenario", EACH, indirect=True)
async def test_a_scenario_ends_as_recorded_in_memory(scenario: Recording) -> None:
    """Each checkpoint equals the recording, with no more writes than upstream.

    New and deleted objects are among upstream's, word by word.
    """
    cluster = scenario.cluster()
    transport = InMemoryTransport(cluster.server, TOKEN)
    config = scenario.config()
    async with SwitchedManager(lambda: cluster.manager(config)) as manager:
        form = scenario.form()
        player = scenario.player(transport, cluster.clock, manager, form)
        checkpoints = await player.play(scenario.steps)
    assert checkpoints == scenario.expected()
    sent = scenario.writes_of(manager.writes)
    assert len(sent) <= scenario.most_writes()
    assert field_managers(manager.writes) <= FIELD_MANAGERS
    if isinstance(form, WholeForm):
        recorded = scenario.compared(scenario.writes)
        ours = scenario.compared(normalised(sent, form.aliases))
        assert unknown_kinds(ours, recorded) == []
        assert len(ours) <= most(len(recorded))


@pytest.mark.nightly
@pytest.mark.looptime
async def test_a_scenario_ends_as_recorded_with_each_controller_in_its_role(
    scenario: Recording,
) -> None:
    """As service accounts with the permissions of the bootstrap roles only.

    All controllers are enabled. Those that the scenario is not about change nothing of
    it: they share its caches, and read other fields of the same objects.
    """
    cluster = scenario.cluster(rbac=True)
    transport = InMemoryTransport(cluster.server, TOKEN)
    config = scenario.config_of_all(leader_election=LeaderElectionConfig())
    async with SwitchedManager(lambda: cluster.confined_manager(config)) as manager:
        form = scenario.form()
        player = scenario.player(transport, cluster.clock, manager, form)
        checkpoints = await player.play(scenario.steps)
    assert checkpoints == scenario.expected()
    refused = [each for each in manager.writes if each.status in (401, 403)]
    if isinstance(form, WholeForm):
        # Admission refused these to upstream, too.
        expected = [each for each in scenario.writes if each["code"] == 403]
        assert unknown_kinds(normalised(refused, form.aliases), expected) == []
    else:
        assert refused == []


@pytest.mark.real_cluster
async def test_a_scenario_ends_as_recorded_on_a_real_cluster(
    scenario: Recording,
    request: pytest.FixtureRequest,
) -> None:
    """The same against the cluster of ``--kubeconfig``, over HTTP.

    Chance decides there which of two controllers that write one object at a time is
    refused: the writes that the API server accepts are counted, and all of them may
    only be twice as many as recorded.
    """
    kubeconfig = request.config.getoption("--kubeconfig")
    clock = SystemClock()
    transport = HTTPTransport(load_credentials(kubeconfig, "", clock), "conformance")

    @asynccontextmanager
    async def run() -> AsyncGenerator[RecordingTransport, None]:
        recording = RecordingTransport(transport)
        connections = Connections(recording, root_ca=ROOT_CA)
        async with run_manager(connections, clock, random.Random(), scenario.config()):
            yield recording

    try:
        if any("metrics" in step for step in scenario.steps):
            await _check_metrics(transport)
        form = scenario.form()
        if isinstance(form, WholeForm):
            form.user = await own_name(transport)
        async with SwitchedManager(run) as manager:
            player = scenario.player(transport, clock, manager, form)
            checkpoints = await player.play(scenario.steps)
    finally:
        await transport.close()
        await asyncio.sleep(0.05)
    assert checkpoints == scenario.expected()
    sent = scenario.writes_of(manager.writes)
    accepted = [each for each in sent if each.status < HTTPStatus.BAD_REQUEST]
    assert len(accepted) <= scenario.most_accepted()
    assert len(sent) <= 2 * scenario.most_writes()


async def _check_metrics(transport: Transport) -> None:
    """Skip a scenario whose metrics only a development cluster answers."""
    version = await transport.request(Request("GET", "/version"))
    if json.loads(version.body)["compiler"] != "python":
        pytest.skip("only a development cluster answers these metrics")
