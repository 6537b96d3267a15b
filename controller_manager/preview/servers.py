"""The servers of group versions: the API server itself, or one behind it.

The API server honours ``dryRun=All``, also for custom resources, and refuses a dry run
that a webhook with side effects would see. A server that is registered by an APIService
may ignore it, and do the write.
"""

from http import HTTPStatus
from typing import Final

import msgspec

from controller_manager.api.json_objects import object_at
from controller_manager.client.transport import Request, Transport
from controller_manager.clock import Clock

from .target import Target

_REGISTRATION: Final = "apiregistration.k8s.io"
"""The group of APIServices, which has none itself: the API server serves it."""

_PATH: Final = f"/apis/{_REGISTRATION}/v1/apiservices"
_KNOWN_FOR: Final = 10.0
"""Seconds for which an answer holds: a group may get another server."""


class Servers:
    """Tells which group versions the API server serves itself."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._known: dict[str, tuple[float, bool]] = {}

    async def is_local(self, target: Target) -> bool:
        """Tell whether the API server itself certainly serves the group version.

        Raises TransportError if it cannot be asked. Without an APIService that can be
        read it is not certain.
        """
        group = target.collection.group
        if group == _REGISTRATION:
            return True
        name, now = f"{target.version}.{group}", self._clock.monotonic()
        until, is_local = self._known.get(name, (now, False))
        if until <= now:
            is_local = await self._ask(name)
            self._known[name] = now + _KNOWN_FOR, is_local
        return is_local

    async def _ask(self, name: str) -> bool:
        answer = await self._inner.request(
            Request("GET", f"{_PATH}/{name}", headers={"accept": "application/json"})
        )
        if answer.status != HTTPStatus.OK:
            return False
        found = msgspec.json.decode(answer.body)
        if not isinstance(found, dict) or found.get("kind") != "APIService":
            return False
        return not object_at(found, "spec").get("service")
