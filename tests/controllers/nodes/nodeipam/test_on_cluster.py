"""Nodes get their ranges on a cluster in memory, on virtual time."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

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

pytestmark = pytest.mark.looptime

NAME: Final = "node-ipam-controller"


def config(
    cluster: str = "10.0.0.0/22", *, services: str = "", **generic: Any
) -> Config:
    return replace(
        make_config(controllers=("nodeipam",), **generic),
        pod_ranges=PodRangesConfig(allocate=True, cluster=cluster),
        controllers={NodeIPAMOptions: NodeIPAMOptions(service_ranges=services)},
    )


async def ranges(cluster: Hands) -> dict[str, list[str]]:
    """Return the ranges of all nodes, without those that have none."""
    page = await cluster.client.list_page(NODES)
    return {
        each.metadata.name: list(each.spec.pod_cidrs)
        for each in page.items
        if each.spec.pod_cidrs
    }


async def events(cluster: Hands) -> set[tuple[str, str, str, str]]:
    """Return type, reason, node and message of all events of the controller."""
    page = await cluster.client.list_page(EVENTS, "default")
    return {
        (each.type, each.reason, each.involved_object.name, each.message)
        for each in page.items
        if each.source.component == "cidrAllocator"
    }


def add(cluster: Hands, name: str, *held: str) -> None:
    cluster.add("Node", name, spec={"podCIDRs": list(held)} if held else {})


async def test_a_metric_says_that_the_allocator_runs(cluster: Hands) -> None:
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
        self, cluster: Hands, fails: Callable[[Request], Response | Exception | None]
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


async def test_nothing_runs_unless_ranges_are_to_be_allocated(cluster: Hands) -> None:
    off = replace(
        make_config(controllers=("nodeipam", "ttl")),
        pod_ranges=PodRangesConfig(cluster="nonsense"),
    )
    add(cluster, "a")
    async with cluster.manager(off) as recording:
        await asyncio.sleep(5)
    assert [each.path for each in recording.writes] == ["/api/v1/nodes/a"]
    assert await ranges(cluster) == {}


async def test_flags_that_are_refused_end_the_start(cluster: Hands) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(
            StartError, match=r"^--cluster-cidr=10\.0\.0\.0/30: nodes get "
        )
    ):
        async with cluster.manager(config("10.0.0.0/30")):
            pass


async def test_both_families_are_given_by_one_patch_within_the_role(
    cluster: Hands,
) -> None:
    cluster = Hands(rbac=True)
    add(cluster, "a")
    dual = config(
        "fd00::/60,10.0.0.0/22",
        services="10.0.0.0/24,fd00::/112",
        use_service_account_credentials=True,
    )
    async with cluster.confined_manager(dual) as recording:
        await asyncio.sleep(1)
        add(cluster, "b")
        await asyncio.sleep(1)
    assert await ranges(cluster) == {
        "a": ["fd00:0:0:1::/64", "10.0.1.0/24"],
        "b": ["fd00:0:0:2::/64", "10.0.2.0/24"],
    }
    assert [(each.method, each.status) for each in recording.writes] == [
        ("PATCH", 200),
        ("PATCH", 200),
    ]


async def test_a_node_outside_the_cluster_is_reported_and_others_get_ranges(
    cluster: Hands,
) -> None:
    """Upstream does not start in that case."""
    add(cluster, "strange", "192.168.0.0/24")
    add(cluster, "two", "10.0.0.0/24", "fd00::/64")
    add(cluster, "new")
    log = io.StringIO()
    async with cluster.manager(config(), logger=make_logger(stream=log)):
        await asyncio.sleep(60)
    assert (await ranges(cluster))["new"] == ["10.0.1.0/24"]
    reports = [each for each in log.getvalue().splitlines() if "outside" in each]
    assert [each.partition('podCIDRs="')[2].strip('"') for each in reports] == [
        "192.168.0.0/24",
        "fd00::/64",
    ]


async def test_a_range_of_two_nodes_is_free_once_both_are_gone(
    cluster: Hands,
) -> None:
    """Upstream gives it away when the first node is gone."""
    for name in ("a", "b"):
        add(cluster, name, "10.0.0.0/24")
    add(cluster, "large", "10.0.2.0/23")
    log = io.StringIO()
    async with cluster.manager(config(), logger=make_logger(stream=log)):
        cluster.remove(NODES, "a")
        await asyncio.sleep(1)
        add(cluster, "c")
        add(cluster, "d")
        await asyncio.sleep(1)
        kept = {"b": ["10.0.0.0/24"], "large": ["10.0.2.0/23"]}
        assert await ranges(cluster) == {**kept, "c": ["10.0.1.0/24"]}
        cluster.remove(NODES, "b")
        await asyncio.sleep(1)
        assert (await ranges(cluster))["d"] == ["10.0.0.0/24"]
    assert "in use elsewhere" in log.getvalue()


async def test_nodes_that_wait_get_ranges_in_the_order_in_which_they_came(
    cluster: Hands,
) -> None:
    async with cluster.manager(config("10.0.0.0/24")):
        for name in ("a", "b", "c", "d"):
            add(cluster, name)
            await asyncio.sleep(1)
        await asyncio.sleep(3600)
        for gone, next_one in (("a", "b"), ("c", "b"), ("b", "d")):
            cluster.remove(NODES, gone)
            await asyncio.sleep(0.5)
            assert await ranges(cluster) == {next_one: ["10.0.0.0/24"]}
    assert await events(cluster) == {
        (
            "Normal",
            "CIDRNotAvailable",
            name,
            f"Node {name} status is now: CIDRNotAvailable",
        )
        for name in ("b", "c", "d")
    }


async def test_a_node_that_cannot_be_written_does_not_keep_others_waiting(
    cluster: Hands,
) -> None:
    def fails(request: Request) -> Response | None:
        is_of_c = (request.method, request.path) == ("PATCH", "/api/v1/nodes/c")
        return _answer(403, "Forbidden") if is_of_c else None

    transport = Failing(cluster, fails)
    async with cluster.manager(config("10.0.0.0/23"), transport=transport):
        for name in ("a", "b", "c", "d"):
            add(cluster, name)
            await asyncio.sleep(1)
        await asyncio.sleep(3600)
        for name in ("a", "b"):
            cluster.remove(NODES, name)
        await asyncio.sleep(0.5)
        assert await ranges(cluster) == {"d": ["10.0.1.0/24"]}


async def test_no_range_is_lost_when_the_second_family_has_none(
    cluster: Hands,
) -> None:
    """Upstream loses a range of the first family at each try."""
    async with cluster.manager(config("10.0.0.0/22,fd00::/64")):
        for name in ("a", "b"):
            add(cluster, name)
            await asyncio.sleep(600)
        cluster.remove(NODES, "a")
        await asyncio.sleep(1)
    assert await ranges(cluster) == {"b": ["10.0.1.0/24", "fd00::/64"]}


async def test_a_node_that_is_being_deleted_gets_no_range(cluster: Hands) -> None:
    """As upstream; it waits for a finalizer, and the next node gets the range."""
    cluster.add("Node", "a", metadata={"name": "a", "finalizers": ["example.com/x"]})
    cluster.remove(NODES, "a")
    async with cluster.manager(config("10.0.0.0/24")):
        await asyncio.sleep(10)
        add(cluster, "b")
        await asyncio.sleep(10)
    assert await ranges(cluster) == {"b": ["10.0.0.0/24"]}


async def test_a_patch_is_for_one_node_and_no_namesake(cluster: Hands) -> None:
    add(cluster, "a")
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
        node = await cluster.client.get(NODES, "", "a")
    (patch,) = recording.writes
    assert json.loads(patch.body) == {
        "metadata": {"uid": node.metadata.uid},
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]},
    }


async def test_a_node_keeps_its_range_until_it_is_gone(cluster: Hands) -> None:
    """Upstream gives it away while the node waits for a finalizer, and its pods run."""
    cluster.add("Node", "a", metadata={"name": "a", "finalizers": ["example.com/x"]})
    async with cluster.manager(config("10.0.0.0/24")):
        await asyncio.sleep(1)
        cluster.remove(NODES, "a")
        add(cluster, "b")
        await asyncio.sleep(60)
        assert await ranges(cluster) == {"a": ["10.0.0.0/24"]}
        patch = {"metadata": {"finalizers": None}}
        await cluster.client.patch(NODES, "", "a", patch)
        await asyncio.sleep(1)
    assert await ranges(cluster) == {"b": ["10.0.0.0/24"]}


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
    cluster: Hands, failure: Response | Exception, *, told: bool
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

    add(cluster, "a")
    async with cluster.manager(config(), transport=Failing(cluster, fails)):
        await asyncio.sleep(0.5)
        add(cluster, "b")
        await asyncio.sleep(30)
    assert await ranges(cluster) == {"a": ["10.0.0.0/24"], "b": ["10.0.1.0/24"]}
    found = {(each[1], each[2]) for each in await events(cluster)}
    assert found == ({("CIDRAssignmentFailed", "a")} if told else set())


async def test_ranges_that_another_client_has_given_are_kept(cluster: Hands) -> None:
    spec = {"podCIDR": "10.0.3.0/24", "podCIDRs": ["10.0.3.0/24"]}

    async def give() -> None:
        await cluster.client.patch(NODES, "", "a", {"spec": spec})

    transport = _Before(cluster, give)
    async with cluster.manager(config(), transport=transport):
        await asyncio.sleep(0.5)
        add(cluster, "a")
        await asyncio.sleep(5)
        for name in ("b", "c", "d"):
            add(cluster, name)
            await asyncio.sleep(1)
    assert await ranges(cluster) == {
        "a": ["10.0.3.0/24"],
        "b": ["10.0.1.0/24"],
        "c": ["10.0.2.0/24"],
        "d": ["10.0.0.0/24"],
    }
    assert await events(cluster) == set()


class _Before(InMemoryTransport):
    """Calls a function right before the first patch of a node."""

    def __init__(self, cluster: Hands, act: Callable[[], Awaitable[None]]) -> None:
        super().__init__(cluster.server, TOKEN)
        self._act: Callable[[], Awaitable[None]] | None = act

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and self._act is not None:
            act, self._act = self._act, None
            await act()
        return await super().request(request)


async def test_a_namesake_that_was_created_meanwhile_is_left_for_later(
    cluster: Hands,
) -> None:
    async def replace_node() -> None:
        cluster.remove(NODES, "a")
        add(cluster, "a", "10.0.2.0/24")

    transport = _Before(cluster, replace_node)
    async with cluster.manager(config(), transport=transport) as recording:
        await asyncio.sleep(0.5)
        add(cluster, "a")
        await asyncio.sleep(5)
        add(cluster, "b")
        await asyncio.sleep(1)
    assert await ranges(cluster) == {"a": ["10.0.2.0/24"], "b": ["10.0.1.0/24"]}
    assert [each.status // 100 for each in recording.writes] == [4, 2]


async def test_it_waits_until_it_has_read_all_nodes(cluster: Hands) -> None:
    """A cache may be older than what a former manager has given away."""
    failures = iter([_answer(500, "InternalError")] * 3)

    def fails(request: Request) -> Response | None:
        is_list = request.path == "/api/v1/nodes" and "watch" not in dict(request.query)
        is_quorum = "resourceVersion" not in dict(request.query)
        return next(failures, None) if is_list and is_quorum else None

    add(cluster, "a")
    async with cluster.manager(config(), transport=Failing(cluster, fails)):
        await asyncio.sleep(1)
        assert await ranges(cluster) == {}
        await asyncio.sleep(10)
    assert await ranges(cluster) == {"a": ["10.0.0.0/24"]}
