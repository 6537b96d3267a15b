"""The flags with which the recordings of a family were made.

``ARGS`` has those of the controller manager, and those of the API server in a line that
begins with ``apiserver:``.
"""

import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

from controller_manager.devcluster.registry.core.service_addresses import DEFAULT_RANGE

Flags = Mapping[str, list[str]]
"""The values that each flag was given, by its name."""

_OF_SERVER: Final = "apiserver:"
_GATES: Final = "feature-gates"
_RANGE: Final = "service-cluster-ip-range"


class Arguments(NamedTuple):
    """The flags of the controller manager, and of the API server."""

    manager: Flags
    server: Flags

    @property
    def server_gates(self) -> dict[str, bool]:
        """The feature gates that were set for the API server."""
        pairs = (
            pair.partition("=")
            for value in self.server.get(_GATES, ())
            for pair in value.split(",")
        )
        return {name: value == "true" for name, _, value in pairs}

    @property
    def service_cluster_ip_range(self) -> str:
        return self.server.get(_RANGE, [DEFAULT_RANGE])[-1]


def arguments(text: str, more: str = "") -> Arguments:
    """Return the flags in the text of ``ARGS``, with `more` of the manager's."""
    lines = text.splitlines()
    of_server = [each for each in lines if each.startswith(_OF_SERVER)]
    of_manager = [each for each in lines if each not in of_server]
    return Arguments(
        _flags(" ".join((*of_manager, more))),
        _flags(" ".join(each.removeprefix(_OF_SERVER) for each in of_server)),
    )


def _flags(text: str) -> Flags:
    given: dict[str, list[str]] = {}
    for flag in shlex.split(text):
        name, _, value = flag.removeprefix("--").partition("=")
        given.setdefault(name, []).append(value)
    return given
