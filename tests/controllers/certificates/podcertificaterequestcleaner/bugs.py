"""Deliberate bugs of the cleaner of requests of pods."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from controller_manager.api.meta import AnyResource, KubeObject
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.controllers.certificates.podcertificaterequestcleaner import (
    controller,
)
from controller_manager.runtime.outcome import DONE, Outcome
from tests.simulation.planted import Bug

_OLD: Final = "request-of-a-pod-grows-old"
_REPLACED: Final = "request-of-a-pod-is-replaced"


async def _by_name(client: Client, resource: AnyResource, obj: KubeObject) -> None:
    await client.delete(resource, obj.metadata.namespace, obj.metadata.name)


def _never_again(_: float) -> Outcome:
    return DONE


BUGS: Final[Mapping[str, Bug]] = {
    "delete requests of pods a minute early": Bug(
        0, controller, "_AGE", timedelta(minutes=14), _OLD
    ),
    "believe the clock of the machine": Bug(
        0, ServerClock, "now", lambda clock: clock._clock.now(), _OLD
    ),
    "set no timer for requests of pods": Bug(0, controller, "Done", _never_again, _OLD),
    "delete whatever has the name": Bug(
        0, Client, "delete_exactly", _by_name, _REPLACED
    ),
}
