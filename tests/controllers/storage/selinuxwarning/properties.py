"""The promises of the SELinux warning controller."""

from dataclasses import replace
from typing import Final

from controller_manager.options.config import Config
from tests.simulation.properties import Properties

_NAME: Final = "selinux-warning-controller"


class SELinuxWarningProperties(Properties):
    """It writes nothing but events, and remembers no pod that is gone."""

    controller = _NAME

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Switch the controller on."""
        generic = config.generic
        controllers = (*generic.controllers, _NAME)
        return replace(config, generic=replace(generic, controllers=controllers))


PROPERTIES = SELinuxWarningProperties
