"""What the cleaner of requests of pods promises."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from controller_manager.api.times import parse_time
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.simulation.properties import AllowedWrite, Properties, Write

_PLURAL: Final = "podcertificaterequests"
_AGE: Final = timedelta(minutes=15)


class PodCertificateRequestProperties(Properties):
    """It deletes requests that are a quarter of an hour old."""

    controller = "podcertificaterequest-cleaner-controller"
    may_write = (AllowedWrite(("delete",), _PLURAL),)

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable its gate."""
        overrides = {**config.features.overrides, "PodCertificateRequest": True}
        return replace(config, features=FeatureGates(overrides))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that a deleted request was old enough."""
        if write.controller != self.controller or write.before is None:
            return
        created = parse_time(write.before["metadata"]["creationTimestamp"])
        if self.state.server.objects.clock.now() < created + _AGE:
            yield f"{write}: the request is not old enough"


PROPERTIES = PodCertificateRequestProperties
