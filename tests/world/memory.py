"""What the controllers of a manager remember, found by walking through its objects."""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Final

from controller_manager.manager.manager import ControllerManager
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.worker import Workers

from .objects import path_of, uid_of
from .world import World

_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_CACHES: Final = ("informers", "client", "observability")
"""Packages whose collections are left out: caches are compared with the server."""

_COLLECTIONS: Final = (dict, set, list, frozenset, deque)

_BOUNDED: Final = (
    "certificatesigningrequest-signing-controller.authorities",
    "absent.items",
    "deleted_owners.items",
    "gone.items",
    "gone.uids",
    "orphaned.items",
    ".claims.generations",
    "device-taint-eviction-controller.last",
    "nodes.actual",
    "nodes.desired",
    "nodes.in_use",
)
"""Ends of paths of collections that keep a limited number of entries for a while."""

_FOLLOWED: Final = 20
"""Entries of a collection whose own collections are looked at."""


def remembered_deleted(world: World) -> Iterator[str]:
    """Yield what a manager still stores about deleted objects."""
    stored = world.everything()
    there = {path_of(obj) for obj in stored} | {uid_of(obj) for obj in stored}
    there |= {
        owner["uid"]
        for obj in stored
        for owner in obj["metadata"].get("ownerReferences", ())
    }
    for manager in world.managers:
        if manager.manager is not None:
            for where, keys in remembered(manager.manager).items():
                if gone := sorted(keys - there):
                    yield f"manager {manager.number}: {where} remembers {gone}"


def remembered(daemon: ControllerManager) -> dict[str, set[str]]:
    """Return the keys and uids in each collection of a manager's controllers."""
    found: dict[str, set[str]] = {}
    for member in daemon.controllers:
        seen: set[int] = set()
        for pool in pools_of(member.controller):
            controller = pool.reconcile.__self__  # type: ignore[attr-defined]
            for where, collection in _collections(member.name, controller, seen):
                names = {text for each in collection for text in _names_in(each)}
                if names and not where.endswith(_BOUNDED):
                    found[where] = names
    return found


def pools_of(controller: Controller) -> tuple[Workers, ...]:
    """Return the pools of workers of a controller."""
    if isinstance(controller, WorkerGroup):
        return tuple(controller._pools)
    assert isinstance(controller, Workers)
    return (controller,)


def _names_in(item: object) -> Iterator[str]:
    """Yield keys and uids in an item, alone or in a tuple.

    A queue of several kinds has the kind before the namespace, and a colon.
    """
    if isinstance(item, str) and "/" in item:
        namespace, slash, name = item.partition("/")
        yield namespace.rpartition(":")[2] + slash + name
    for part in item if isinstance(item, tuple) else (item,):
        if isinstance(part, str) and _UID.fullmatch(part):
            yield part


def _collections(
    where: str, owner: object, seen: set[int]
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
            inner = list(value.values() if isinstance(value, dict) else value)
        for each in inner[:_FOLLOWED]:
            module = type(each).__module__.split(".")
            if module[0] == "controller_manager" and module[1] not in (*_CACHES, "api"):
                yield from _collections(place, each, seen)


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
