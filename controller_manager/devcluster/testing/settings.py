"""The settings of a cluster for tests."""

from dataclasses import dataclass
from typing import Annotated, Final

from controller_manager.devcluster.settings import (
    Limits,
    Names,
    Option,
    Paths,
    Setting,
    Settings,
    settings_of,
)


class ClusterError(Exception):
    """A cluster cannot run with its settings; the message names cause and remedy."""


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(Settings):
    """The settings of a cluster; times are in seconds of the cluster's clock.

    Raises ClusterError for a value that is out of its range.
    """

    time_factor: Annotated[
        float,
        Limits(1, 1000),
        Option("Seconds that pass in the cluster while one passes outside."),
    ] = 1.0

    def __post_init__(self) -> None:
        """Check the numbers and the lists."""
        for each in SETTINGS:
            value = getattr(self, each.name)
            if each.type in (Names, Paths) and isinstance(value, str):
                msg = f"{each.name}: must be a tuple of names, not the text {value!r}"
                raise ClusterError(msg)
            if each.limits and not each.limits.least <= value <= each.limits.most:
                least, most, _ = each.limits
                msg = f"{each.name}: must be from {least} to {most}, not {value:g}"
                raise ClusterError(msg)


SETTINGS: Final[tuple[Setting, ...]] = settings_of(ClusterSettings)
