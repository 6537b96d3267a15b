"""What must come out once nothing goes wrong any more."""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from controller_manager.manager.manager import ControllerManager
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.worker import Workers
from tests.simulation.checks import controller_of, lives
from tests.simulation.world import World, path_of

JSON = dict[str, Any]

_SIZES: Final = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)


def end_state(world: World) -> JSON:
    """Return what a user sees of every deployment, without times and names."""
    state: JSON = {}
    for deployment in world.stored("deployments"):
        uid = deployment["metadata"]["uid"]
        status = deployment.get("status", {})
        replica_sets = [
            each for each in world.stored("replicasets") if controller_of(each) == uid
        ]
        pods = [
            pod
            for replica_set in replica_sets
            for pod in world.stored("pods")
            if lives(pod, replica_set["metadata"]["uid"])
        ]
        state[path_of(deployment)] = {
            "spec": deployment["spec"],
            "sizes": {key: status.get(key, 0) for key in _SIZES},
            "observed": status.get("observedGeneration")
            == deployment["metadata"]["generation"],
            "conditions": sorted(
                (each["type"], each["status"], each["reason"])
                for each in status.get("conditions", [])
            ),
            "running": sorted(
                (_image(each["spec"]["template"]), each["spec"]["replicas"])
                for each in replica_sets
                if each["spec"]["replicas"]
            ),
            "wrong replica sets": [
                each["metadata"]["name"]
                for each in replica_sets
                if each.get("status", {}).get("replicas") != each["spec"]["replicas"]
            ],
            "pods": sorted(_image(pod) for pod in pods),
        }
    return state


def _image(template: JSON) -> str:
    return str(template["spec"]["containers"][0]["image"])


def wrong_caches(world: World) -> Iterator[str]:
    """Yield where a cache of a running manager is not equal to the server."""
    for manager in world.managers:
        daemon = manager.manager
        if daemon is None or not daemon.synced.is_set():
            yield f"manager {manager.number} is not synced"
            continue
        for informer in daemon.informers.all():
            collection = world.server.storage.collection(
                informer.resource.group_resource
            )
            selected = informer.resource.field_selector.removeprefix("metadata.name=")
            server = {
                path_of(each.obj): each.obj["metadata"]["resourceVersion"]
                for each in collection
                if selected in ("", each.obj["metadata"]["name"])
            }
            cached = {
                f"{each.metadata.namespace}/{each.metadata.name}": (
                    each.metadata.resource_version
                )
                for each in informer.store
            }
            if server != cached:
                differing = sorted(set(server.items()) ^ set(cached.items()))
                what = informer.resource.plural
                yield f"manager {manager.number}: {what}: {differing}"


def leftovers(world: World) -> Iterator[str]:
    """Yield what a manager still remembers of objects that are gone."""
    stored = [
        each.obj
        for kind in world.server.catalogue.all()
        if kind.is_stored
        for each in world.server.storage.collection(kind.resource)
    ]
    there = {path_of(obj) for obj in stored}
    there |= {obj["metadata"]["uid"] for obj in stored}
    there |= {
        owner["uid"]
        for obj in stored
        for owner in obj["metadata"].get("ownerReferences", [])
    }
    for manager in world.managers:
        if manager.manager is not None:
            for where, keys in remembered(manager.manager).items():
                if gone := sorted(keys - there):
                    yield f"manager {manager.number}: {where} remembers {gone}"


def remembered(daemon: ControllerManager) -> dict[str, set[str]]:
    """Return each collection of keys and uids that a manager's controllers have.

    Caches are left out: they are compared with the server. So is what has a bound
    of its own, such as the event recorder's memory.
    """
    found: dict[str, set[str]] = {}
    for member in daemon.controllers:
        seen: set[int] = set()
        for pool in pools_of(member.controller):
            controller = pool._reconcile.__self__  # type: ignore[attr-defined]
            found |= _keys_of(member.name, controller, seen)
    return found


def _keys_of(name: str, controller: object, seen: set[int]) -> dict[str, set[str]]:
    """Return the keys and uids in each collection that a controller has."""
    kept = {
        where: {text for each in collection for text in _names_in(each)}
        for where, collection in _collections(name, controller, _CACHES, seen)
        if not where.endswith(_HAVE_A_BOUND)
    }
    return {where: keys for where, keys in kept.items() if keys}


def pools_of(controller: Controller) -> Sequence[Workers]:
    """Return the pools of workers that a controller consists of."""
    if isinstance(controller, WorkerGroup):
        return controller._pools
    assert isinstance(controller, Workers)
    return (controller,)


def wrong_graphs(world: World) -> Iterator[str]:
    """Yield where a collector's graph is not what the server has."""
    uids = {
        each.obj["metadata"]["uid"]: each.obj["metadata"]["name"]
        for kind in world.server.catalogue.all()
        if kind.is_stored and kind.resource != "events"
        for each in world.server.storage.collection(kind.resource)
    }
    for manager in world.managers:
        daemon = manager.manager
        if daemon is None or (daemon.elector is not None and not manager.leads):
            continue
        controller = daemon.controllers["garbage-collector-controller"].controller
        collector = pools_of(controller)[0]._reconcile.__self__  # type: ignore[attr-defined]
        nodes = {
            node.uid: node.identity.name
            for node in collector.graph.nodes()
            if not node.is_virtual
        }
        if nodes != uids:
            differing = sorted(set(nodes.items()) ^ set(uids.items()))
            yield f"manager {manager.number}: its graph: {differing}"


def uncollected(world: World) -> Iterator[str]:
    """Yield what is still there although all its owners are gone."""
    objects = [
        each.obj
        for kind in world.server.catalogue.all()
        if kind.is_stored
        for each in world.server.storage.collection(kind.resource)
    ]
    uids = {each["metadata"]["uid"] for each in objects}
    for each in objects:
        owners = each["metadata"].get("ownerReferences", [])
        if owners and not any(owner["uid"] in uids for owner in owners):
            yield f"{each['kind']} {path_of(each)} was not collected"


def sizes_of(daemon: ControllerManager) -> dict[str, int]:
    """Return the size of every collection that a manager has, caches and all."""
    return {
        where: len(collection)
        for where, collection in _collections("manager", daemon, (), set())
    }


def _names_in(item: object) -> Iterator[str]:
    """Yield keys, uids and kinds that nobody serves, alone or in a tuple."""
    if isinstance(item, str) and "/" in item:
        yield item
    for part in item if isinstance(item, tuple) else (item,):
        if isinstance(part, str) and (_UID.fullmatch(part) or "Stranger" in part):
            yield part


_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HAVE_A_BOUND: Final = ("absent.items", "gone.items", "orphaned.items")
"""What remembers the last five hundred of a sort, and nothing besides."""

_CACHES: Final = ("informers", "client", "observability")
_COLLECTIONS: Final = (dict, set, list, frozenset, deque)


def _collections(
    where: str, owner: object, without: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[str, Any]]:
    """Yield what an object keeps, and the objects of this program that it has."""
    if id(owner) in seen:
        return
    seen.add(id(owner))
    for name, value in _attributes(owner):
        place = f"{where}.{name.lstrip('_')}"
        inner = [value]
        if isinstance(value, _COLLECTIONS):
            yield place, value
            # Objects in it matter if there are few: controllers, not pods.
            inner = list(value.values() if isinstance(value, dict) else value)[:20]
        for each in inner:
            module = type(each).__module__.split(".")
            if module[0] == "controller_manager" and module[1] not in (*without, "api"):
                yield from _collections(place, each, without, seen)


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(owner, "__dict__", {}).items()
    for name in getattr(type(owner), "__slots__", ()):
        if name != "__dict__" and hasattr(owner, name):
            yield name, getattr(owner, name)


def tasks_by_work() -> Counter[str]:
    """Return what runs now, and how often; the caller and what is on its way aside."""
    current = asyncio.current_task()
    works = [
        getattr(task.get_coro(), "__qualname__", "?")
        for task in asyncio.all_tasks()
        if task is not current
    ]
    return Counter(each for each in works if not each.startswith("FaultyTransport."))
