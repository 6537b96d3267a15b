"""Which controllers run here, and which of upstream's are left out.

Each controller's descriptor has the conditions of its start. Leader migration
(``--enable-leader-migration``) moves controllers between managers: a manager that holds
its own lease tries to get the lease of the migration as well, and runs under it the
controllers that the configuration gives to it.
"""

from typing import Final

from msgspec import Struct

from controller_manager import upstream
from controller_manager.client.leadership.leader_election import is_of_this_program
from controller_manager.observability.logs import Logger, silent_logger
from controller_manager.options.config import Config, GenericConfig
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry
from controller_manager.version import COMPONENT

NOT_SELECTED: Final = "--controllers leaves it out"


def component_of(descriptor: Descriptor, config: GenericConfig) -> str | None:
    """Return the component that runs a controller under the migration's lease.

    `None` if the controller takes no part. The controller that runs first never takes
    part: the others need its tokens.
    """
    migration = config.leader_migration
    if migration is None or descriptor.runs_first:
        return None
    return migration.component_of(descriptor.name, *descriptor.aliases)


def is_given_away(descriptor: Descriptor, config: GenericConfig) -> bool:
    """Tell whether the configuration gives a controller to another manager."""
    return component_of(descriptor, config) not in (None, COMPONENT)


def migrated_controllers(build: Registry, config: GenericConfig) -> frozenset[str]:
    """Return the selected controllers that run here under the migration's lease."""
    if config.leader_migration is None:
        return frozenset()
    return frozenset(
        each.name
        for each in build.select(config.controllers)
        if component_of(each, config) == COMPONENT
    )


class LeftOut(Struct, frozen=True):
    """A controller that does not run, and why: most often the flag to give."""

    name: str
    why: str


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
    known = {each.name: each for each in build.descriptors}
    left_out = []
    for name in upstream.ON_BY_DEFAULT:
        if (descriptor := known.get(name)) is None:
            why = "this build lacks it"
        else:
            why = _why(descriptor, config, root_ca, is_selected=descriptor in selected)
        if why:
            left_out.append(LeftOut(name, why))
    return left_out


def _why(
    descriptor: Descriptor, config: Config, root_ca: str, *, is_selected: bool
) -> str:
    """Return the reason why a controller does not run, "" if it does."""
    is_enabled = config.features.is_enabled
    off = [gate for gate in descriptor.requires_gates if not is_enabled(gate)]
    is_off_upstream = not all(gate.default for gate in off)
    if is_off_upstream or is_given_away(descriptor, config.generic):
        return ""
    if not is_selected:
        return NOT_SELECTED
    if off:
        gates = ",".join(f"{gate.name}=true" for gate in off)
        return f"give --feature-gates={gates}"
    lacking = descriptor.lacks(config, root_ca)
    return f"give {lacking}" if lacking else ""


def selected_controllers(
    build: Registry, config: Config, logger: Logger
) -> list[Descriptor]:
    """Return the controllers of ``--controllers``, perhaps none, as upstream.

    Left out are those that feature gates disable, and those that leader migration gives
    to another manager; the log names them.
    """
    wanted = []
    for each in build.select(config.generic.controllers):
        if not all(map(config.features.is_enabled, each.requires_gates)):
            logger.info(
                "Controller is disabled by a feature gate",
                controller=each.name,
                requiredFeatureGates=", ".join(
                    gate.name for gate in each.requires_gates
                ),
            )
        elif is_given_away(each, config.generic):
            logger.info(
                "Controller runs in another manager, by leader migration",
                controller=each.name,
                runsIn=component_of(each, config.generic),
            )
        else:
            wanted.append(each)
    if not wanted:
        logger.warning(
            "No controller is selected, only the endpoints are served",
            controllers=",".join(config.generic.controllers),
        )
    return wanted


def starting_controllers(
    build: Registry, config: Config, root_ca: str
) -> tuple[Descriptor, ...]:
    """Return the controllers that start with this config, once they can.

    Left out are those of `selected_controllers`, and those that lack flags.
    """
    selected = selected_controllers(build, config, silent_logger())
    return tuple(each for each in selected if not each.lacks(config, root_ca))


def warn_of_left_out_controllers(
    former: str, build: Registry, config: Config, root_ca: str, logger: Logger
) -> None:
    """Warn of them after a takeover from upstream's manager, in one line.

    `former` is the identity of the former leader, empty if there was none.
    """
    if not former or is_of_this_program(former):
        return
    if left_out := left_out_controllers(build, config, root_ca):
        logger.warning(
            "Took the lease over from another manager; no manager runs these "
            "controllers of kube-controller-manager now",
            former=former,
            controllers=", ".join(f"{each.name} ({each.why})" for each in left_out),
        )
