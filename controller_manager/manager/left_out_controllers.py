"""Controllers that kube-controller-manager runs by default, and this manager does not.

Each controller's descriptor has the conditions of its start. The start-up leaves out
what lacks something, and this module names the same controllers: there is no second
list.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from controller_manager import upstream
from controller_manager.client.leadership.leader_election import is_of_this_program
from controller_manager.observability.logs import Logger
from controller_manager.options.config import Config
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry

from .migration import is_given_away

NOT_SELECTED: Final = "--controllers leaves it out"


class LeftOut(Struct, frozen=True):
    """A controller that does not run, and why: most often the flag to give."""

    name: str
    why: str

    def __str__(self) -> str:
        """Return both, as the log shows them."""
        return f"{self.name} ({self.why})"


def left_out_controllers(
    build: Registry, config: Config, root_ca: str
) -> list[LeftOut]:
    """Return the controllers that run upstream by default, and not with this config.

    `root_ca` has the authorities of the API server, as PEM. A controller behind a
    feature gate that is off by default does not run upstream either. One that leader
    migration gives to another manager runs there. One that waits for resources of the
    API server is not left out: the start-up warns of it.
    """
    selected = build.select(config.generic.controllers)
    return [
        LeftOut(name, why)
        for name in upstream.ON_BY_DEFAULT
        for why in _reasons(name, build, selected, config, root_ca)
    ]


def starting_controllers(
    build: Registry, config: Config, root_ca: str
) -> tuple[Descriptor, ...]:
    """Return the controllers that start with this config, once they can.

    Left out are those that feature gates disable, that lack flags, and that leader
    migration gives to another manager.
    """
    return tuple(
        each
        for each in build.select(config.generic.controllers)
        if all(map(config.features.is_enabled, each.requires_gates))
        and not is_given_away(each, config.generic)
        and not each.lacks(config, root_ca)
    )


def _reasons(
    name: str,
    build: Registry,
    selected: list[Descriptor],
    config: Config,
    root_ca: str,
) -> Iterator[str]:
    """Yield the reason why the controller does not run, nothing if it does."""
    if name not in build.names:
        yield "this build lacks it"
        return
    descriptor = build[name]
    if is_given_away(descriptor, config.generic):
        return
    off = [
        gate
        for gate in descriptor.requires_gates
        if not config.features.is_enabled(gate)
    ]
    if not all(gate.default for gate in off):
        return
    if descriptor not in selected:
        yield NOT_SELECTED
    elif off:
        gates = ",".join(f"{gate.name}=true" for gate in off)
        yield f"give --feature-gates={gates}"
    elif lacking := descriptor.lacks(config, root_ca):
        yield f"give {lacking}"


def warn_of_left_out_controllers(
    former: str, left_out: list[LeftOut], logger: Logger
) -> None:
    """Warn of them after a takeover from upstream's manager, in one line.

    `former` is the identity of the former leader, empty if there was none.
    """
    if not former or is_of_this_program(former) or not left_out:
        return
    logger.warning(
        "Took the lease over from another manager; no manager runs these controllers "
        "of kube-controller-manager now",
        former=former,
        controllers=", ".join(map(str, left_out)),
    )
