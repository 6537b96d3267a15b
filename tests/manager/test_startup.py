"""A manager starts, and says how it is."""

import asyncio
import io
import re
from typing import Any

import pytest

from controller_manager import upstream
from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.registry.apps import DEPLOYMENTS as DEPLOYMENT
from controller_manager.manager.manager import ControllerManager
from controller_manager.manager.startup import StartError
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.registry import registry
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry
from controller_manager.serving.health import probe
from tests.clusters import Cluster, make_config, manager_of, running_manager
from tests.controllers.builders import deployment_json, replica_set_json
from tests.controllers.user import User, settle
from tests.manager.daemons import Daemon, now

pytestmark = pytest.mark.looptime


def impatient(cluster: Cluster, log: io.StringIO | None = None) -> ControllerManager:
    logger = make_logger(verbosity=2, stream=log) if log else silent_logger()
    return manager_of(cluster, make_config(api_server_timeout=10.0), logger=logger)


async def test_an_unhealthy_api_server_is_reported(cluster: Cluster) -> None:
    async def refuse(request: Request) -> Response:
        msg = f"{request.method} {request.path}: cannot connect: Connection refused"
        raise TransportError(msg)

    cluster.server.handle = refuse  # type: ignore[method-assign]
    problem = (
        "failed to wait for apiserver being healthy within 10 s: "
        "GET /healthz: cannot connect: Connection refused"
    )
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match=problem)):
        await impatient(cluster).run(asyncio.Event())
    assert asyncio.get_running_loop().time() == pytest.approx(9, abs=1.1)


async def test_a_login_page_for_an_api_server_is_reported(cluster: Cluster) -> None:
    async def redirect(_: Request) -> Response:
        return Response(302, {"location": "https://login.test/?key=secret"})

    cluster.server.handle = redirect  # type: ignore[method-assign,assignment]
    problem = (
        "failed to wait for apiserver being healthy within 10 s: /healthz: the server "
        "answered HTTP 302: it redirects to login.test, and redirects are not followed"
    )
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match=problem)):
        await impatient(cluster).run(asyncio.Event())


async def test_an_api_server_that_comes_late_is_waited_for(cluster: Cluster) -> None:
    handle = cluster.server.handle

    async def late(request: Request) -> Any:
        if cluster.clock.monotonic() < 5:
            return Response(500, {}, b"[-]etcd failed")
        return await handle(request)

    cluster.server.handle = late  # type: ignore[method-assign]
    async with cluster.manager(make_config(api_server_timeout=10.0)):
        user = User(cluster)
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle()
        assert len(await user.pods()) == 2


async def test_missing_resources_delay_no_other_controller(cluster: Cluster) -> None:
    cluster.server.catalogue.remove(DEPLOYMENT)
    log = io.StringIO()
    async with cluster.manager(logger=make_logger(stream=log)):
        await User(cluster).create(REPLICASETS, replica_set_json())
        await settle()
        assert len(await User(cluster).pods()) == 3
    assert (
        'Controller waits for resources that the API server lacks" '
        'controller="deployment-controller" missing="apps/v1/deployments"'
    ) in log.getvalue()


async def test_a_controller_with_its_gate_off_is_left_out(cluster: Cluster) -> None:
    log = io.StringIO()
    name = "podcertificaterequest-cleaner-controller"
    config = make_config(controllers=("deployment", name))
    async with cluster.manager(config, logger=make_logger(stream=log)):
        await settle(1)
    lines = [line for line in log.getvalue().splitlines() if name in line]
    assert len(lines) == 1
    assert lines[0].endswith(
        f'"Controller is disabled by a feature gate" controller="{name}" '
        'requiredFeatureGates="PodCertificateRequest"'
    )


BEHIND_GATES = {
    each.name
    for each in registry().descriptors
    if not all(gate.default for gate in each.requires_gates)
}
NEED_FLAGS = {
    "certificatesigningrequest-signing-controller",
    "node-ipam-controller",
    "serviceaccount-token-controller",
}
"""They need files or ranges, which only flags can give them."""

BY_DEFAULT = set(registry().names) - BEHIND_GATES - NEED_FLAGS - upstream.OFF_BY_DEFAULT
"""The controllers that run if no other flag is given."""


@pytest.mark.parametrize(
    ("selection", "started"),
    [
        (("*",), BY_DEFAULT),
        (("*", "-deployment"), BY_DEFAULT - {"deployment-controller"}),
        (("deployment",), {"deployment-controller"}),
        (("replicaset-controller",), {"replicaset-controller"}),
    ],
)
async def test_only_the_selected_controllers_run(
    cluster: Cluster, selection: tuple[str, ...], started: set[str]
) -> None:
    log = io.StringIO()
    config = make_config(controllers=selection)
    async with cluster.manager(config, logger=make_logger(stream=log)):
        await settle(1)
    names = {
        line.partition('controller="')[2].partition('"')[0]
        for line in log.getvalue().splitlines()
        if "Starting controller" in line
    }
    assert names == started


ABSENT = "service-lb-controller"
"""A controller of upstream that this build does not have."""


@pytest.mark.parametrize(
    "selection", [(), (ABSENT,), ("-*",), ("podcertificaterequest-cleaner-controller",)]
)
async def test_a_daemon_without_a_controller_leads_and_answers(
    cluster: Cluster, selection: tuple[str, ...]
) -> None:
    """As upstream: with an empty selection, or if gates disable all of it."""
    log = io.StringIO()
    manager = manager_of(
        cluster,
        make_config(controllers=selection, leader_election=LeaderElectionConfig()),
        logger=make_logger(stream=log),
    )
    async with running_manager(manager):
        health = {name: check() for name, check in manager.healthz().items()}
        ready = {name: check() for name, check in manager.readyz().items()}
        lease = await cluster.client.get(
            LEASES, "kube-system", "kube-controller-manager"
        )
    assert health == {"leaderElection": None}
    assert set(ready.values()) == {None}
    assert manager.elector is not None
    assert lease.spec.holder_identity == manager.elector.identity
    assert "Starting controller" not in log.getvalue()
    assert (
        '"No controller is selected, only the endpoints are served" '
        f'controllers="{",".join(selection)}"'
    ) in log.getvalue()


async def test_a_controller_that_cannot_be_made_is_named(cluster: Cluster) -> None:
    broken = Descriptor("broken-controller", "json:nothing", package="somebody.elses")
    manager = manager_of(
        cluster, make_config(controllers=("*",)), build=Registry([broken])
    )
    problem = re.escape(
        "broken-controller of somebody.elses cannot be made: AttributeError: module "
        "'json' has no attribute 'nothing'; repair it, or disable it with "
        "--controllers=*,-broken-controller"
    )
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match=problem)):
        await manager.run(asyncio.Event())


async def test_a_daemon_waits_for_its_server(cluster: Cluster) -> None:
    """Without a limit; it is healthy but not ready, and names the cause of the wait."""
    handle = cluster.server.handle

    async def absent(request: Request) -> Any:
        if now() < 3600:
            msg = f"{request.path}: cannot connect"
            raise TransportError(msg)
        return await handle(request)

    cluster.server.handle = absent  # type: ignore[method-assign]
    daemon = Daemon(cluster, "early")
    await asyncio.sleep(1800)
    checks = daemon.manager.healthz()
    assert probe("healthz", checks, verbose=False).text == "ok"
    ready = probe("readyz", daemon.manager.readyz(), verbose=False)
    assert ready.text.splitlines()[0] == (
        "[-]apiserver failed: waiting for the API server: /healthz: cannot connect"
    )
    await daemon.manager.started.wait()
    assert 3600 <= now() < 3605
    await daemon.stopped()


async def test_the_checks_come_in_their_order(cluster: Cluster) -> None:
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    health = daemon.manager
    assert list(health.healthz()) == [
        "leaderElection",
        "deployment-controller",
        "replicaset-controller",
    ]
    assert list(health.readyz()) == [
        "apiserver",
        "shutdown",
        "informer-deployments.apps",
        "informer-replicasets.apps",
        "informer-pods",
    ]
    await daemon.stopped()


async def test_a_daemon_that_ends_is_alive_and_not_ready(cluster: Cluster) -> None:
    """Clients should stop to send requests, and nothing should restart it."""
    handle = cluster.server.handle

    async def slow(request: Request) -> Any:
        if request.method == "POST" and request.path.endswith("/pods"):
            await asyncio.sleep(5)
        return await handle(request)

    cluster.server.handle = slow  # type: ignore[method-assign]
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=1))
    await asyncio.sleep(1)
    daemon.stop.set()
    await asyncio.sleep(1)
    health = daemon.manager
    assert probe("healthz", health.healthz(), verbose=False).text == "ok"
    ready = probe("readyz", health.readyz(), verbose=False)
    assert ready.text.splitlines()[1] == "[-]shutdown failed: shutting down"
    await daemon.running
    assert len(await User(cluster).pods()) == 1
