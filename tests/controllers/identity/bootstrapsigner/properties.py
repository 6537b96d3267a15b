"""Properties of the signer of cluster-info."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import convert

from controller_manager.api.core.secrets import Secret
from controller_manager.controllers.identity.bootstrapsigner.controller import (
    PREFIX,
    signed,
    signing_tokens,
)
from controller_manager.options.config import Config
from tests.simulation.changes import Path
from tests.simulation.properties import AllowedWrite, Properties

if TYPE_CHECKING:
    from tests.simulation.managers import Manager

_NAME: Final = "bootstrap-signer-controller"


def _signs(path: Path, _: Any, __: Any) -> bool:
    """Allow changes of signatures only."""
    own = len(path) > 1 and path[0] == "data" and path[1].startswith(PREFIX)
    return own or path == ("metadata", "resourceVersion")


class BootstrapSignerProperties(Properties):
    """It writes signatures into one config map."""

    controller = _NAME
    may_write = (AllowedWrite(("update",), "configmaps", _signs),)

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Switch the controller on."""
        generic = config.generic
        controllers = (*generic.controllers, _NAME)
        return replace(config, generic=replace(generic, controllers=controllers))

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that the signatures are those of the tokens that may sign."""
        del managers
        found = self.state.find("configmaps", "kube-public", "cluster-info")
        secrets = [convert(each, Secret) for each in self.state.stored("secrets")]
        tokens = signing_tokens(secrets, self.state.server.objects.clock.now())
        if found is not None and signed(found.get("data", {}), tokens) is not None:
            yield "cluster-info has wrong signatures"


PROPERTIES = BootstrapSignerProperties
