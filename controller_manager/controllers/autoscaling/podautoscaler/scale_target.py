"""The scale of an autoscaler's target: found by its kind, read, and set."""

import asyncio
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscaler
from controller_manager.client.discovery.resource_mapper import KindNotServed
from controller_manager.client.discovery.resources import ServedResource
from controller_manager.client.rest.errors import (
    APIError,
    Conflict,
    ProtocolError,
    TransportError,
)
from controller_manager.control.scales import NoScale, Scales
from controller_manager.runtime.context import ControllerContext

from .status import SyncFailed

REQUEST_ERRORS: Final = (APIError, ProtocolError, TransportError)

_TRIES: Final = 5
_DELAY: Final = 0.01
_JITTER: Final = 0.1
"""The number of tries after a conflict, and their delay in seconds (DefaultRetry)."""


class TargetScale(Struct, frozen=True):
    """The scale of a target, and the resource that it belongs to."""

    resource: ServedResource
    scale: Scale


class TargetScales:
    """Reads and sets the scales of targets (scaleForResourceMappings)."""

    def __init__(self, context: ControllerContext) -> None:
        self._scales = Scales(context.client, context.resources)
        self._resources = context.resources
        self._rng = context.rng
        self._logger = context.logger

    async def get(self, autoscaler: HorizontalPodAutoscaler) -> TargetScale:
        """Return the scale of a target; raises SyncFailed in upstream's words."""
        reference = autoscaler.spec.scale_target_ref
        namespace = autoscaler.metadata.namespace
        if reference.api_version.count("/") > 1:
            msg = f"unexpected GroupVersion string: {reference.api_version}"
            raise SyncFailed(msg, is_spec=True)
        group = reference.api_version.rpartition("/")[0]
        try:
            resource = await self._resources.resource_of(group, reference.kind)
            scale = await self._scales.get(resource, namespace, reference.name)
        except NoScale as error:
            # Upstream shows the answer of the API server.
            raise SyncFailed(str(error.__cause__ or error)) from error
        except (KindNotServed, *REQUEST_ERRORS) as error:
            raise SyncFailed(str(error)) from error
        return TargetScale(resource, scale)

    async def set(self, target: TargetScale, replicas: int) -> None:
        """Set the number of replicas on the latest version of a target.

        If another client has changed the number, the conflict is raised: the next sync
        decides with the new number.
        """
        resource, scale = target.resource, target.scale
        before = scale.spec.replicas
        for tries_left in reversed(range(_TRIES)):
            wanted = replace(scale, spec=replace(scale.spec, replicas=replicas))
            try:
                await self._scales.update(resource, wanted)
            except Conflict:
                if not tries_left:
                    raise
                scale = await self._latest(resource, scale)
                if scale.spec.replicas != before:
                    raise
                await asyncio.sleep(_DELAY * (1 + _JITTER * self._rng.random()))
            else:
                return

    async def _latest(self, resource: ServedResource, scale: Scale) -> Scale:
        metadata = scale.metadata
        try:
            return await self._scales.get(resource, metadata.namespace, metadata.name)
        except (NoScale, *REQUEST_ERRORS) as error:
            self._logger.error("Error getting latest scale", err=str(error))
            return scale
