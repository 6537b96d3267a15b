"""Properties of the cleaner of bootstrap tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import convert

from controller_manager.api.core.secrets import (
    NAMESPACE,
    Secret,
    is_bootstrap_token,
    time_left,
)
from controller_manager.options.config import Config
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager

_NAME: Final = "token-cleaner-controller"


class TokenCleanerProperties(Properties):
    """It deletes bootstrap tokens that have expired, and nothing else."""

    controller = _NAME
    may_write = (AllowedWrite(("delete",), "secrets"),)

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Switch the controller on."""
        generic = config.generic
        controllers = (*generic.controllers, _NAME)
        return replace(config, generic=replace(generic, controllers=controllers))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no token is deleted before it has expired."""
        if write.controller != self.controller or write.before is None:
            return
        secret = convert(write.before, Secret)
        left = time_left(secret, self.state.server.objects.clock.now())
        if not is_bootstrap_token(secret) or left:
            yield f"{write}: it is no bootstrap token, or has not expired"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that no token is left that has expired."""
        del managers
        now = self.state.server.objects.clock.now()
        for each in self.state.stored("secrets", NAMESPACE):
            secret = convert(each, Secret)
            left: Any = time_left(secret, now)
            if is_bootstrap_token(secret) and left is not None and not left:
                yield f"the token {secret.metadata.name} has expired, and is there"


PROPERTIES = TokenCleanerProperties
