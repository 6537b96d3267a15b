"""Finds the resource that serves a kind, from a cache of discovery.

Upstream: client-go's DeferredDiscoveryRESTMapper, which the manager resets every thirty
seconds. This mapper keeps the known resources, and discovers again when a kind is
unknown.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import RequestError
from controller_manager.clock import Clock

from .resources import Discovery, ServedResource, discover

RETRY_INTERVAL: Final = 10.0
"""Seconds between two discoveries that misses cause."""


class KindNotServed(Exception):
    """The API server serves no resource of a kind (meta.NoKindMatchError)."""

    def __init__(self, group: str, kind: str, version: str = "") -> None:
        """With a version the message names it as client-go does."""
        where = f'in group "{group}"'
        if version:
            api_version = f"{group}/{version}" if group else version
            where = f'in version "{api_version}"'
        super().__init__(f'no matches for kind "{kind}" {where}')
        self.group = group
        self.kind = kind
        self.version = version


class ResourceMapper:
    """Maps kinds to served resources, for all controllers of a process.

    A kind that is known costs no request. An unknown kind causes a discovery, at most
    one in `RETRY_INTERVAL` seconds; callers that ask at the same time share it. So a
    kind whose definition is created later is found by a retry. Group versions that a
    discovery could not read keep their earlier resources.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = asyncio.Lock()
        self._discovery = Discovery(())
        self._failure: Exception | None = None
        self._finished = 0
        self._began: float | None = None
        """When the last discovery began, by the monotonic clock."""

        self._doubted = True

    async def resource_of(
        self, group: str, kind: str, version: str = ""
    ) -> ServedResource:
        """Return the resource of a kind, in `version` if that is served.

        Otherwise it is the version that the server prefers. Raises KindNotServed,
        and what `discover` raises if the kind is unknown and discovery fails.
        """
        found = await self.resources_of(group, kind, version)
        return next((each for each in found if each.version == version), found[0])

    async def resources_of(
        self, group: str, kind: str, version: str = ""
    ) -> Sequence[ServedResource]:
        """Return all served resources of a kind, the preferred version first.

        Raises KindNotServed, which names `version`, and what `discover` raises if
        the kind is unknown and discovery fails.
        """

        def is_wanted(each: ServedResource) -> bool:
            return (each.group, each.kind) == (group, kind)

        found = await self._find(is_wanted)
        if not found:
            raise KindNotServed(group, kind, version)
        return found

    async def discovery(self, max_age: float) -> Discovery:
        """Return a discovery that began at most `max_age` seconds ago.

        Raises what `discover` raises.
        """
        oldest = self._clock.monotonic() - max_age
        # A discovery that is under way may have begun before that: then wait for
        # the next one, which begins now.
        while self._failure or self._began is None or self._began < oldest:
            await self._refresh()
        return self._discovery

    def doubt(self) -> None:
        """Note that a known resource seems to be gone: the next call discovers.

        Call it when the API server does not know the path of a resource.
        """
        self._doubted = True

    async def _find(
        self, is_wanted: Callable[[ServedResource], bool]
    ) -> list[ServedResource]:
        found = [each for each in self._discovery.resources if is_wanted(each)]
        if found and not self._doubted:
            return found
        try:
            await self._refresh_if_allowed()
        except RequestError:
            if not found:
                raise
        return [each for each in self._discovery.resources if is_wanted(each)]

    async def _refresh_if_allowed(self) -> None:
        began = self._began
        if began is None or self._clock.monotonic() >= began + RETRY_INTERVAL:
            await self._refresh()
        elif self._failure is not None:
            raise self._failure

    async def _refresh(self) -> None:
        finished = self._finished
        async with self._lock:
            if self._finished == finished:
                await self._discover()
        if self._failure is not None:
            raise self._failure

    async def _discover(self) -> None:
        began = self._clock.monotonic()
        try:
            new = await discover(self._client)
        except RequestError as error:
            self._failure = error
        else:
            self._discovery = _with_unread(new, self._discovery)
            self._failure = None
            self._doubted = False
        self._finished += 1
        self._began = began


def _with_unread(new: Discovery, old: Discovery) -> Discovery:
    """Return `new` with the resources of `old` in the group versions that failed."""
    unread = [each for each in old.resources if new.is_unread(each.api_version)]
    return Discovery((*new.resources, *unread), new.failures)
