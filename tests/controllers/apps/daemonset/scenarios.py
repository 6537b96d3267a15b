"""Upstream's known faults with daemon sets, and the effects of node changes."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import daemon_set_json, template
from tests.simulation.ending import remembered_deleted
from tests.simulation.environment import Environment, Scenario
from tests.simulation.objects import controller_of
from tests.simulation.world import NAMESPACE

_ROOM: Final = {"capacity": {"pods": "110"}, "allocatable": {"pods": "110"}}
_RESERVED: Final = {"key": "example.com/reserved", "effect": "NoSchedule"}


def create(environment: Environment, name: str = "agent", **spec: Any) -> JSON:
    """Create a daemon set; return it as stored."""
    kind = environment.world.kind("daemonsets")
    obj = daemon_set_json(name, **spec)
    return environment.world.server.objects.create(kind, NAMESPACE, obj).obj


def numbers(environment: Environment, name: str = "agent") -> tuple[int, ...]:
    """Return the numbers of nodes: desired, current, ready and misscheduled."""
    found = environment.world.find("daemonsets", NAMESPACE, name)
    status = (found or {}).get("status", {})
    keys = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "numberMisscheduled",
    )
    return tuple(int(status.get(key, 0)) for key in keys)


def pods_of(environment: Environment, uid: str) -> list[JSON]:
    return [
        each
        for each in environment.world.stored("pods", NAMESPACE)
        if controller_of(each) == uid
    ]


async def surplus_daemon_pods_of_a_lagging_watch(environment: Environment) -> None:
    """kubernetes#129795 for daemon sets: a watch that lags for more than five minutes.

    Upstream acts on its cache once its expectations are five minutes old, and creates
    a second pod for each node.
    """
    lagging = environment.manager.connection.lagging
    lagging["pods"] = environment.now + 1200
    uid = create(environment)["metadata"]["uid"]
    for _ in range(150):
        await asyncio.sleep(10)
        assert len(pods_of(environment, uid)) <= 3
    await environment.until(lambda: numbers(environment) == (3, 3, 3, 0), within=60)


async def daemon_pods_of_a_stranger(environment: Environment) -> None:
    """Pods that a user made for nodes that have one are adopted, and the surplus goes.

    The oldest pod of each node stays.
    """
    uid = create(environment)["metadata"]["uid"]
    await environment.until(lambda: numbers(environment) == (3, 3, 3, 0), within=60)
    before = sorted(each["metadata"]["name"] for each in pods_of(environment, uid))
    kind = environment.world.kind("pods")
    await asyncio.sleep(2)  # so that these pods are younger
    for number in range(3):
        pod = {
            "metadata": {"name": f"stranger-{number}", "labels": {"app": "agent"}},
            "spec": {
                "containers": [{"name": "c", "image": "app:v1"}],
                "nodeName": f"node-{number}",
            },
        }
        environment.world.server.objects.create(kind, NAMESPACE, pod)
    await asyncio.sleep(60)
    after = sorted(each["metadata"]["name"] for each in pods_of(environment, uid))
    assert after == before


async def taint_under_a_daemon_pod(environment: Environment) -> None:
    """Expect the status within seconds after a node got a taint, or is gone.

    Upstream's status stays behind until something else causes a sync.
    """
    create(environment)
    await environment.until(lambda: numbers(environment) == (3, 3, 3, 0), within=60)
    node = environment.world.stored("nodes")[0]

    def taint(obj: JSON) -> None:
        obj["spec"]["taints"] = [dict(_RESERVED)]

    environment.world.change("nodes", node, taint)
    await environment.until(lambda: numbers(environment) == (2, 2, 2, 1), within=5)
    environment.world.delete("nodes", environment.world.stored("nodes")[1])
    await environment.until(lambda: numbers(environment) == (1, 1, 1, 1), within=5)


async def hundreds_of_nodes_come_back(environment: Environment) -> None:
    """No issue: nodes are deleted and registered again within podgc's forty seconds.

    Their pods still run. No pod is deleted, whichever of the nodes the controller has
    looked at when it syncs a daemon set.
    """
    nodes = [f"edge-{number:03}" for number in range(_MANY)]
    _register(environment, nodes)
    for name in _AGENTS:
        tolerant = template(app=name)
        tolerant["spec"]["tolerations"] = [{"operator": "Exists"}]
        create(environment, name, template=tolerant)
    total = len(_AGENTS) * (_MANY + 3)
    await environment.until(lambda: len(_bound(environment)) == total, within=120)
    before = _bound(environment)
    for name in nodes:
        found = environment.world.find("nodes", "", name)
        assert found is not None
        environment.world.delete("nodes", found)
    await asyncio.sleep(20)
    _register(environment, nodes)
    await asyncio.sleep(100)
    lost = before - _bound(environment)
    assert lost == set(), f"{len(lost)} of {total} pods are lost"
    for name in _AGENTS:
        assert numbers(environment, name)[:2] == (_MANY + 3, _MANY + 3)


_MANY: Final = 120
_AGENTS: Final = tuple(f"agent-{number}" for number in range(5))


def _register(environment: Environment, names: Iterable[str]) -> None:
    kind = environment.world.kind("nodes")
    for name in names:
        node = {"metadata": {"name": name}, "status": _ROOM}
        environment.world.server.objects.create(kind, "", node)


def _bound(environment: Environment) -> set[str]:
    """Return the uids of the pods that have a node and are not being deleted."""
    return {
        each["metadata"]["uid"]
        for each in environment.world.stored("pods", NAMESPACE)
        if each["spec"].get("nodeName") and "deletionTimestamp" not in each["metadata"]
    }


async def churn_of_daemon_sets(environment: Environment) -> None:
    """No state is kept of daemon sets that were created and deleted."""
    for number in range(20):
        stored = create(environment, f"agent-{number}")
        await asyncio.sleep(10)
        environment.world.delete("daemonsets", stored, policy="Background")
    await asyncio.sleep(60)
    assert list(remembered_deleted(environment.world)) == []


SCENARIOS: Final[tuple[Scenario, ...]] = (
    surplus_daemon_pods_of_a_lagging_watch,
    daemon_pods_of_a_stranger,
    taint_under_a_daemon_pod,
    hundreds_of_nodes_come_back,
    churn_of_daemon_sets,
)
