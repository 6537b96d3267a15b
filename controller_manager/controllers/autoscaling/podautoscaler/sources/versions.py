"""The version of the custom metrics API that the server prefers.

Upstream: discovery.go of k8s.io/metrics/pkg/client/custom_metrics. That forgets the
version once in a sync period, and so does this.
"""

import asyncio

from controller_manager.api.meta import APIStruct
from controller_manager.client.client import Client
from controller_manager.client.errors import (
    APIError,
    NotFound,
    ProtocolError,
    TransportError,
)
from controller_manager.clock import Clock
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
)


class _GroupVersion(APIStruct, frozen=True):
    version: str = ""


class _Group(APIStruct, frozen=True):
    versions: tuple[_GroupVersion, ...] | None = None
    preferred_version: _GroupVersion = _GroupVersion()


class ServedVersion:
    """Finds a version of an API group that this client knows."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        group: str,
        known: tuple[str, ...],
        max_age: float,
    ) -> None:
        """Take the versions that are known; one is used for `max_age` seconds."""
        self._client = client
        self._clock = clock
        self._group = group
        self._known = known
        self._max_age = max_age
        self._lock = asyncio.Lock()
        self._version = ""
        self._until = 0.0

    async def get(self) -> str:
        """Return the preferred version if it is known, else the first known one.

        Raises ComputationError if the group is not served, or no known version of it.
        Callers that ask at the same time share a request.
        """
        async with self._lock:
            now = self._clock.monotonic()
            if not self._version or now >= self._until:
                self._version = ""
                self._version = await self._find()
                self._until = now + self._max_age
            return self._version

    async def _find(self) -> str:
        try:
            group = await self._client.read(f"/apis/{self._group}", _Group)
        except NotFound as error:
            msg = f"no custom metrics API ({self._group}) registered"
            raise ComputationError(msg) from error
        except (APIError, ProtocolError, TransportError) as error:
            raise ComputationError(str(error)) from error
        served = (group.preferred_version, *(group.versions or ()))
        for each in served:
            if each.version in self._known:
                return each.version
        msg = "no known available metric versions found"
        raise ComputationError(msg)
