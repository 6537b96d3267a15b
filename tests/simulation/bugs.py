"""Deliberate bugs that the simulator must find; otherwise it cannot be relied on."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from controller_manager.api.meta import (
    is_deleting,
)
from controller_manager.client.leadership.fencing import FencedTransport
from controller_manager.client.leadership.leader_election import LeaderElector
from controller_manager.client.rest.client import WatchOptions
from controller_manager.client.rest.errors import RequestTimeout, TransportError
from controller_manager.client.rest.request import RESTClient
from controller_manager.client.rest.transport import Request, Response
from controller_manager.control.controller_ref_manager import Claimer
from controller_manager.control.expectations import Expectations, State, Takeover
from controller_manager.informers.informer import SharedInformer
from controller_manager.informers.reflector import Reflector
from controller_manager.manager.caches import CacheGroup
from controller_manager.runtime.consistency import ConsistencyStore
from controller_manager.runtime.worker import Turns
from controller_manager.workqueue.queue import WorkQueue
from tests.simulation.finding import find_properties, of_one_controller
from tests.simulation.network import LiveStream
from tests.simulation.planted import Bug
from tests.simulation.properties import Properties
from tests.simulation.users import users_in_every_seed


def _ignore_expectations(_: Expectations, __: str) -> State:
    return State.FULFILLED


def _act_on_a_stale_cache(_: ConsistencyStore, __: str) -> None:
    return None


def _trust_an_inherited_cache(*_: object) -> bool:
    return False


def _lead_without_an_end(self: LeaderElector) -> float:
    return 1e9 if self._leading else 0.0


def _lose_a_delayed_key(_: WorkQueue, __: str, ___: float) -> None:
    return None


async def _adopt_anything(_: Any, __: Any, ___: Any, candidates: Any) -> list[Any]:
    return [each for each in candidates if not is_deleting(each)]


async def _do_not_recheck(_: Any, __: Any) -> None:
    return None


_call = RESTClient.call


async def _create_again(
    self: RESTClient, request: Request, *, checks: bool = True
) -> Response:
    """Treat a lost answer as a failure, and send the write again."""
    try:
        return await _call(self, request, checks=checks)
    except TransportError:
        return await _call(self, request, checks=checks)


async def _drop_the_version(
    self: RESTClient, request: Request, *, checks: bool = True
) -> Response:
    """Overwrite the object without its resourceVersion."""
    if request.method in ("PUT", "PATCH") and request.body:
        body = msgspec.json.decode(request.body)
        body.get("metadata", {}).pop("resourceVersion", None)
        request = replace(request, body=msgspec.json.encode(body))
    return await _call(self, request, checks=checks)


def _swallow_a_deletion(self: Any, obj: Any) -> None:
    del self, obj


def _from_any_cache(self: Reflector[Any], *, initial: bool) -> WatchOptions:
    """Begin with the cache of any replica, as upstream once did (#59848)."""
    version = "0" if initial else self._resource_version
    return WatchOptions(version, timeout_seconds=300, send_initial_events=initial)


async def _end_with_the_lease_as_it_was(
    self: FencedTransport, request: Request
) -> Response:
    """Limit a write to the time that the lease had left when the write began."""
    if request.method == "GET":
        return await self._inner.request(request)
    try:
        async with asyncio.timeout(
            min(self.ownership.seconds_left(""), request.timeout)
        ):
            return await self._inner.request(request)
    except TimeoutError:
        raise RequestTimeout(request.path) from None


async def _wait_for_every_cache(self: CacheGroup, _: float) -> None:
    await self.factory.wait_for_sync()


def _never_let_others_in(_: Turns) -> bool:
    return True


_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    WeakKeyDictionary()
)


async def _share_32_turns(
    self: RESTClient, request: Request, *, checks: bool = True
) -> Response:
    """Allow 32 requests in flight, of all controllers together."""
    loop = asyncio.get_running_loop()
    async with _SHARED.setdefault(loop, asyncio.Semaphore(32)):
        return await _call(self, request, checks=checks)


def _never_give_up(self: LiveStream) -> None:
    """Let a reader wait forever, as without a limit on silence."""
    if self._pump is not None:
        self._pump.cancel()


def _pause_after_each_cut(_: Reflector[Any]) -> bool:
    return False


def _let_it_through(self: Reflector[Any], obj: Any) -> None:
    self.transform(obj)


_BELOW: Final[Mapping[str, Bug]] = {
    "ignore expectations": Bug(335, Expectations, "state", _ignore_expectations),
    "act on a stale cache": Bug(
        1, ConsistencyStore, "stale_cache", _act_on_a_stale_cache
    ),
    "trust a standby's cache": Bug(
        325, Takeover, "must_recheck", _trust_an_inherited_cache
    ),
    "lead without an end": Bug(9, LeaderElector, "seconds_left", _lead_without_an_end),
    "forget to requeue": Bug(1, WorkQueue, "add_after", _lose_a_delayed_key),
    "take a lost answer for a failure": Bug(6, RESTClient, "call", _create_again),
    "adopt without patching": Bug(1, Claimer, "claim", _adopt_anything),
    "adopt without reading again": Bug(1, Claimer, "recheck", _do_not_recheck),
    "drop the resourceVersion": Bug(1, RESTClient, "call", _drop_the_version),
    "lose deletions": Bug(1, SharedInformer, "deleted", _swallow_a_deletion),
    "begin with an old cache": Bug(5, Reflector, "_watch_options", _from_any_cache),
    "forget to drop a key": Bug(1, Takeover, "forget", lambda *_: None),
    "believe that a silent watch is alive": Bug(
        0, LiveStream, "fall_silent", _never_give_up, "watches-stay-half-open"
    ),
    "end writes with the lease that they began with": Bug(
        0,
        FencedTransport,
        "request",
        _end_with_the_lease_as_it_was,
        "webhook-outlasts-the-lease",
    ),
    "wait for every cache": Bug(
        0, CacheGroup, "wait_for_some", _wait_for_every_cache, "list-is-refused"
    ),
    "drain a queue in one turn": Bug(
        0, Turns, "_has_time", _never_let_others_in, "hundreds-are-settled-at-the-start"
    ),
    "share turns among controllers": Bug(
        0, RESTClient, "call", _share_32_turns, "slow-creates-of-one-controller"
    ),
    "pause after each cut of a watch": Bug(
        0,
        Reflector,
        "_watch_was_long",
        _pause_after_each_cut,
        "proxy-cuts-idle-streams",
    ),
    "end a list at its first broken object": Bug(
        0, Reflector, "_make_smaller", _let_it_through, "objects-break-a-transform"
    ),
}
"""Bugs in the code that all controllers share."""


def _users_of(properties: type[Properties]) -> frozenset[str]:
    """Return who finds the bugs of a controller: its own users, if it has any."""
    if properties.workload is None:
        return users_in_every_seed(find_properties())
    return frozenset({properties.controller})


BUGS: Final[Mapping[str, Bug]] = {
    **_BELOW,
    **{
        name: replace(bug, users=bug.users or _users_of(properties))
        for properties, module in of_one_controller("bugs")
        for name, bug in module.BUGS.items()
    },
}
"""The scenario of each bug must find it, or else one of some thirty seeds."""
