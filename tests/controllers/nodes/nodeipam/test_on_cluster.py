"""Nodes get their ranges on a cluster in memory, on virtual time."""

import asyncio
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import EVENTS, NODES
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.nodes.nodeipam import NodeIPAMOptions
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.manager import ControllerManager
from controller_manager.manager.startup import StartError
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import Config, PodRangesConfig
from controller_manager.registry import registry as this_build
from tests.clusters import TOKEN, make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime


def config(
    cluster: str = "10.0.0.0/22", *, services: str = "", **generic: Any
) -> Config:
    return replace(
        make_config(controllers=("nodeipam",), **generic),
        pod_ranges=PodRangesConfig(allocate=True, cluster=cluster),
        controllers={NodeIPAMOptions: NodeIPAMOptions(service_ranges=services)},
    )


class Ranges(Hands):
    def node(self, name: str, *held: str) -> None:
        self.put(NODES, name, spec={"podCIDRs": list(held)} if held else {})

    def ranges(self) -> dict[str, list[str]]:
        """Return the ranges of all nodes, without those that have none."""
        return {
            each["metadata"]["name"]: each["spec"]["podCIDRs"]
            for each in self.all(NODES)
            if each["spec"].get("podCIDRs")
        }


@pytest.fixture
async def cluster() -> Ranges:
    return Ranges()


@scenarios("nodes/nodeipam")
async def test_nodes_get_ranges(scenario: Scenario) -> None:
    await scenario.play(Ranges, config)


async def test_a_metric_says_that_the_allocator_runs(cluster: Ranges) -> None:
    """The process must lead; upstream's manager shows this controller only."""
    registry = CollectorRegistry()
    labels = {"name": "nodeipam", "manager": "kube-controller-manager"}
    manager = ControllerManager(
        config(),
        Connections(cluster.transport),
        clock=cluster.clock,
        rng=cluster.rng,
        logger=silent_logger(),
        registry=registry,
        build=this_build(),
    )
    assert registry.get_sample_value("running_managed_controllers", labels) is None
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    await asyncio.wait_for(manager.started.wait(), 10)
    await asyncio.sleep(1)
    assert registry.get_sample_value("running_managed_controllers", labels) == 1
    stop.set()
    await running


class Failing(InMemoryTransport):
    """Answers each request with the response of `fails`, if it returns one."""

    def __init__(
        self, cluster: Ranges, fails: Callable[[Request], Response | Exception | None]
    ) -> None:
        super().__init__(cluster.server, TOKEN)
        self._fails = fails

    async def request(self, request: Request) -> Response:
        found = self._fails(request)
        if isinstance(found, Exception):
            # The server has carried out the request, and its response is lost.
            await super().request(request)
            raise found
        return found or await super().request(request)


async def test_nothing_runs_unless_ranges_are_to_be_allocated(cluster: Ranges) -> None:
    off = replace(
        make_config(controllers=("nodeipam", "ttl")),
        pod_ranges=PodRangesConfig(cluster="nonsense"),
    )
    cluster.node("a")
    async with cluster.manager(off) as recording:
        await asyncio.sleep(5)
    assert [each.path for each in recording.writes] == ["/api/v1/nodes/a"]
    assert cluster.ranges() == {}


async def test_flags_that_are_refused_end_the_start(cluster: Ranges) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(
            StartError, match=r"^--cluster-cidr=10\.0\.0\.0/30: nodes get "
        )
    ):
        async with cluster.manager(config("10.0.0.0/30")):
            pass


async def test_a_node_outside_the_cluster_is_reported(cluster: Ranges) -> None:
    """Upstream does not start in that case."""
    cluster.node("strange", "192.168.0.0/24")
    cluster.node("two", "10.0.0.0/24", "fd00::/64")
    cluster.node("new")
    log = io.StringIO()
    async with cluster.manager(config(), logger=make_logger(stream=log)):
        await asyncio.sleep(60)
    assert cluster.ranges()["new"] == ["10.0.1.0/24"]
    reports = [each for each in log.getvalue().splitlines() if "outside" in each]
    assert [each.partition('podCIDRs="')[2].strip('"') for each in reports] == [
        "192.168.0.0/24",
        "fd00::/64",
    ]


async def test_a_range_of_two_nodes_is_free_after_both(cluster: Ranges) -> None:
    """Upstream gives it away when the first node is gone."""
    for name in ("a", "b"):
        cluster.node(name, "10.0.0.0/24")
    cluster.node("large", "10.0.2.0/23")
    log = io.StringIO()
    async with cluster.manager(config(), logger=make_logger(stream=log)):
        cluster.remove(NODES, "a")
        await asyncio.sleep(1)
        cluster.node("c")
        cluster.node("d")
        await asyncio.sleep(1)
        kept = {"b": ["10.0.0.0/24"], "large": ["10.0.2.0/23"]}
        assert cluster.ranges() == {**kept, "c": ["10.0.1.0/24"]}
        cluster.remove(NODES, "b")
        await asyncio.sleep(1)
        assert cluster.ranges()["d"] == ["10.0.0.0/24"]
    assert "in use elsewhere" in log.getvalue()


def _answer(status: int, reason: str) -> Response:
    body = f'{{"kind": "Status", "code": {status}, "reason": "{reason}"}}'
    return Response(status, {"content-type": "application/json"}, body.encode())


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (_answer(500, "InternalError"), True),
        (_answer(422, "Invalid"), True),
        (_answer(403, "Forbidden"), True),
        (_answer(504, "Timeout"), True),
        (TransportError("reset"), False),
    ],
)
async def test_a_node_is_offered_the_same_range_until_it_has_it(
    cluster: Ranges, failure: Response | Exception, *, told: bool
) -> None:
    """The server may have carried out a patch that failed.

    Upstream may take another range then, and reports that the assignment failed.
    """
    tries = 0

    def fails(request: Request) -> Response | Exception | None:
        nonlocal tries
        if (request.method, request.path) != ("PATCH", "/api/v1/nodes/a"):
            return None
        tries += 1
        return failure if tries <= 4 else None

    cluster.node("a")
    async with cluster.manager(config(), transport=Failing(cluster, fails)):
        await asyncio.sleep(0.5)
        cluster.node("b")
        await asyncio.sleep(30)
    assert cluster.ranges() == {"a": ["10.0.0.0/24"], "b": ["10.0.1.0/24"]}
    found = [each["reason"] for each in cluster.all(EVENTS)]
    assert found == (["CIDRAssignmentFailed"] if told else [])


async def test_it_waits_until_it_has_read_all_nodes(cluster: Ranges) -> None:
    """A cache may be older than what a former manager has given away."""
    failures = iter([_answer(500, "InternalError")] * 3)

    def fails(request: Request) -> Response | None:
        is_list = request.path == "/api/v1/nodes" and "watch" not in dict(request.query)
        is_quorum = "resourceVersion" not in dict(request.query)
        return next(failures, None) if is_list and is_quorum else None

    cluster.node("a")
    async with cluster.manager(config(), transport=Failing(cluster, fails)):
        await asyncio.sleep(1)
        assert cluster.ranges() == {}
        await asyncio.sleep(10)
    assert cluster.ranges() == {"a": ["10.0.0.0/24"]}
