"""All controllers of this build, and which of them to run.

One descriptor a controller: its upstream name and alias, the resources without
which it cannot work, and its init function, imported when it is wanted.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, cast

from controller_manager.api.resources import (
    DEPLOYMENTS,
    PODS,
    REPLICASETS,
    AnyResource,
)
from controller_manager.runtime.context import InitFunction


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A controller as ``--controllers`` and start-up see it.

    `component` is what its events name as their source.
    """

    name: str
    aliases: tuple[str, ...]
    required: tuple[AnyResource, ...]
    init: str
    component: str
    disabled_by_default: bool = False

    def load(self) -> InitFunction:
        """Import and return the init function (``module:name``)."""
        module, _, function = self.init.partition(":")
        return cast("InitFunction", getattr(import_module(module), function))


DESCRIPTORS: Final = (
    Descriptor(
        name="deployment-controller",
        aliases=("deployment",),
        required=(DEPLOYMENTS, REPLICASETS, PODS),
        init="controller_manager.controllers.deployment.controller:"
        "init_deployment_controller",
        component="deployment-controller",
    ),
    Descriptor(
        name="replicaset-controller",
        aliases=("replicaset",),
        required=(REPLICASETS, PODS),
        init="controller_manager.controllers.replicaset.controller:"
        "init_replicaset_controller",
        component="replicaset-controller",
    ),
)


class UnknownControllerError(ValueError):
    """A name in ``--controllers`` that no controller has."""


def known_names(descriptors: Sequence[Descriptor] = DESCRIPTORS) -> list[str]:
    """Return the names, sorted, without aliases."""
    return sorted(descriptor.name for descriptor in descriptors)


def check_selection(
    selection: Iterable[str], descriptors: Sequence[Descriptor] = DESCRIPTORS
) -> list[str]:
    """Return one line for each entry of ``--controllers`` that names nothing."""
    names = {
        name: descriptor.name
        for descriptor in descriptors
        for name in (descriptor.name, *descriptor.aliases)
    }
    problems = []
    for entry in selection:
        name = entry.removeprefix("-")
        if name == "*" or name in names:
            continue
        close = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.5)
        # An alias may be what was meant, but the name is what to write.
        meant = dict.fromkeys(names[each] for each in close)
        hint = ", ".join(meant or known_names(descriptors))
        problems.append(f'"{name}" is not in the list of known controllers: try {hint}')
    return problems


def select(
    selection: Iterable[str], descriptors: Sequence[Descriptor] = DESCRIPTORS
) -> list[Descriptor]:
    """Return the controllers that ``--controllers`` asks for.

    ``name`` enables and ``-name`` disables one, by name or alias, and the
    first of them counts; ``*`` enables all others that are on by default.
    Raises UnknownControllerError for other words.
    """
    entries = tuple(selection)
    if problems := check_selection(entries, descriptors):
        raise UnknownControllerError("; ".join(problems))
    return [each for each in descriptors if _is_enabled(each, entries)]


def _is_enabled(descriptor: Descriptor, entries: tuple[str, ...]) -> bool:
    names = (descriptor.name, *descriptor.aliases)
    for entry in entries:
        if entry.removeprefix("-") in names:
            return not entry.startswith("-")
    return "*" in entries and not descriptor.disabled_by_default
