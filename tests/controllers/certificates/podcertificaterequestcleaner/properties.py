"""Properties of the cleaner of requests of pods."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.controllers.certificates.podcertificaterequestcleaner.workload import (
    PLURAL,
    PodRequesters,
)
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_AGE: Final = timedelta(minutes=15)
_LATE: Final = timedelta(minutes=5)
"""The time that a cache or a retry may delay the deletion of a request."""


class PodCertificateRequestProperties(Properties):
    """It deletes requests that are a quarter of an hour old."""

    controller = "podcertificaterequest-cleaner-controller"
    may_write = (AllowedWrite(("delete",), PLURAL),)
    workload = PodRequesters

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable the gate of the cleaner."""
        overrides = {**config.features.overrides, "PodCertificateRequest": True}
        return replace(config, features=FeatureGates(overrides))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that a deleted request was old enough."""
        if write.controller != self.controller or write.before is None:
            return
        if self._age(write.before) < _AGE:
            yield f"{write}: the request is not old enough"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that no request stands long after its time."""
        del managers
        for request in self.state.stored(PLURAL):
            if self._age(request) > _AGE + _LATE:
                yield f"the request {request['metadata']['name']} is kept for ever"

    def _age(self, request: JSON) -> timedelta:
        """Return the age of a request in the API server's time."""
        created = parse_time(request["metadata"]["creationTimestamp"])
        return self.state.server.objects.clock.now() - created


PROPERTIES = PodCertificateRequestProperties
