"""The final state: what must hold when no more faults happen."""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.manager.manager import ControllerManager
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.worker import Workers
from tests.conformance.selection import field
from tests.simulation.objects import path_of
from tests.simulation.world import World


def end_state(world: World) -> JSON:
    """Return the objects as users see them, by controller."""
    states = {each.controller: each.end_state() for each in world.properties}
    return {controller: state for controller, state in states.items() if state}


def wrong_ends(world: World) -> Iterator[str]:
    """Yield each way in which the final state breaks a controller's promise."""
    for each in world.properties:
        yield from each.wrong_at_the_end(world.managers)


def wrong_caches(world: World) -> Iterator[str]:
    """Yield each cache of a running manager that differs from the server."""
    for manager in world.managers:
        daemon = manager.manager
        if daemon is None or not daemon.synced.is_set():
            yield f"manager {manager.number} is not synced"
            continue
        for informer in daemon.informers.all():
            collection = world.server.storage.collection(
                informer.resource.group_resource
            )
            selector = informer.resource.field_selector
            server = {
                path_of(each.obj): each.obj["metadata"]["resourceVersion"]
                for each in collection
                if _selects(selector, each.obj)
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


def _selects(selector: str, obj: JSON) -> bool:
    """Tell whether a field selector, as the informers have them, selects an object."""
    path, _, wanted = selector.partition("=")
    return not selector or bool(field(obj, path) == wanted)


def remembered_deleted(world: World) -> Iterator[str]:
    """Yield what a manager still stores about deleted objects."""
    stored = world.state.everything()
    there = {path_of(obj) for obj in stored}
    there |= {obj["metadata"]["uid"] for obj in stored}
    there |= {
        owner["uid"]
        for obj in stored
        for owner in obj["metadata"].get("ownerReferences", [])
    }
    bounded = tuple(name for each in world.properties for name in each.bounded)
    for manager in world.managers:
        if manager.manager is not None:
            kept = remembered(manager.manager, bounded, world.invented)
            for where, keys in kept.items():
                if gone := sorted(keys - there):
                    yield f"manager {manager.number}: {where} remembers {gone}"


def remembered(
    daemon: ControllerManager,
    bounded: tuple[str, ...] = (),
    invented: Collection[str] = (),
) -> dict[str, set[str]]:
    """Return each collection of keys and uids that a manager's controllers have.

    Left out are caches, which are compared with the server, collections with a
    limit of their own (whose paths end as in `bounded`), and the memory of the event
    recorder. `invented` has parts of names of kinds that no server serves: names
    with such parts are returned, too.
    """
    found: dict[str, set[str]] = {}
    for member in daemon.controllers:
        seen: set[int] = set()
        for pool in pools_of(member.controller):
            controller = pool.reconcile.__self__  # type: ignore[attr-defined]
            for where, collection in _collections(
                member.name, controller, _CACHES, seen
            ):
                names = {
                    text for each in collection for text in _names_in(each, invented)
                }
                if names and not where.endswith(bounded):
                    found[where] = names
    return found


def pools_of(controller: Controller) -> Sequence[Workers]:
    """Return the pools of workers of a controller."""
    if isinstance(controller, WorkerGroup):
        return controller._pools
    assert isinstance(controller, Workers)
    return (controller,)


def sizes_of(daemon: ControllerManager) -> dict[str, int]:
    """Return the size of every collection that a manager has, caches included."""
    return {
        where: len(collection)
        for where, collection in _collections("manager", daemon, (), set())
    }


def _names_in(item: object, invented: Collection[str]) -> Iterator[str]:
    """Yield keys, uids and unserved kinds in an item, alone or in a tuple.

    A queue of several kinds has the kind before the namespace, and a colon.
    """
    if isinstance(item, str) and "/" in item:
        namespace, slash, name = item.partition("/")
        yield namespace.rpartition(":")[2] + slash + name
    for part in item if isinstance(item, tuple) else (item,):
        if isinstance(part, str) and (
            _UID.fullmatch(part) or any(name in part for name in invented)
        ):
            yield part


_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_CACHES: Final = ("informers", "client", "observability")
_COLLECTIONS: Final = (dict, set, list, frozenset, deque)


def _collections(
    where: str, owner: object, without: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[str, Any]]:
    """Yield an object's collections, and those of the objects that it refers to."""
    if id(owner) in seen:
        return
    seen.add(id(owner))
    for name, value in _attributes(owner):
        place = f"{where}.{name.lstrip('_')}"
        inner = [value]
        if isinstance(value, _COLLECTIONS):
            yield place, value
            # Follow objects in small collections only: controllers, not pods.
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
    """Count the running tasks by their coroutine, without the current task."""
    current = asyncio.current_task()
    works = [
        getattr(task.get_coro(), "__qualname__", "?")
        for task in asyncio.all_tasks()
        if task is not current
    ]
    return Counter(each for each in works if not each.startswith("FaultyTransport."))
