"""A cluster for the tests of controllers, with faults, and a pytest plugin.

pytest imports this package wherever it is installed. So the first use of another
name than those of the settings imports the cluster, not the import of this package.
Users import the names from `controller_manager.testing`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from controller_manager.devcluster import settings
from controller_manager.first_use import at_first_use

if TYPE_CHECKING:
    from .cluster import DevelopmentCluster, TemporaryNamespace
    from .faults import Faults, Snapshot
    from .manager import VirtualManager
    from .requests import Fault, RecordedRequest, Requests


__all__ = [
    "ClusterError",
    "ClusterSettings",
    "DevelopmentCluster",
    "Fault",
    "Faults",
    "RecordedRequest",
    "Requests",
    "Snapshot",
    "TemporaryNamespace",
    "VirtualManager",
]


class ClusterError(Exception):
    """A cluster cannot run with its settings; the message names cause and remedy."""


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(settings.Settings):
    """The settings of a cluster; times are in seconds of the cluster's clock.

    Raises ClusterError for a value that is out of its range.
    """

    time_factor: Annotated[
        float,
        settings.Limits(1, 1000),
        settings.Option("Seconds that pass in the cluster while one passes outside."),
    ] = 1.0

    def __post_init__(self) -> None:
        """Check the numbers and the lists."""
        for each in SETTINGS:
            value = getattr(self, each.name)
            if each.type in (settings.Names, settings.Paths) and isinstance(value, str):
                msg = f"{each.name}: must be a tuple of names, not the text {value!r}"
                raise ClusterError(msg)
            if each.limits and not each.limits.least <= value <= each.limits.most:
                least, most, _ = each.limits
                msg = f"{each.name}: must be from {least} to {most}, not {value:g}"
                raise ClusterError(msg)


SETTINGS: Final[tuple[settings.Setting, ...]] = settings.settings_of(ClusterSettings)

if not TYPE_CHECKING:  # mypy must find a name that is not there
    __getattr__ = at_first_use(__name__)
