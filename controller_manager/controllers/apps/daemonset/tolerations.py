"""The tolerations that every daemon pod has (AddOrUpdateDaemonPodTolerations)."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Toleration,
)


def _tolerates_every(key: str, effect: str) -> Toleration:
    name = f"node.kubernetes.io/{key}"
    return Toleration(key=name, operator="Exists", effect=effect)


_OF_ALL: Final = (
    _tolerates_every("not-ready", NO_EXECUTE),
    _tolerates_every("unreachable", NO_EXECUTE),
    _tolerates_every("disk-pressure", NO_SCHEDULE),
    _tolerates_every("memory-pressure", NO_SCHEDULE),
    _tolerates_every("pid-pressure", NO_SCHEDULE),
    _tolerates_every("unschedulable", NO_SCHEDULE),
)
"""A daemon pod stays on a node that has problems, and comes to it."""

_ON_HOST_NETWORK: Final = _tolerates_every("network-unavailable", NO_SCHEDULE)


def with_default_tolerations(
    tolerations: Iterable[Toleration], *, host_network: bool
) -> tuple[Toleration, ...]:
    """Return a template's tolerations with those that every daemon pod has.

    A default one replaces those of the same key, operator, value and effect, also if
    they are limited in time (tolerationSeconds).
    """
    defaults = (*_OF_ALL, _ON_HOST_NETWORK) if host_network else _OF_ALL
    by_identity = {_identity(each): each for each in defaults}
    merged = [by_identity.get(_identity(each), each) for each in tolerations]
    return (*merged, *(each for each in defaults if each not in merged))


def _identity(toleration: Toleration) -> tuple[str, str, str, str]:
    """Return the fields that tell whether two tolerations are the same."""
    return (
        toleration.key,
        toleration.operator,
        toleration.value,
        toleration.effect,
    )
