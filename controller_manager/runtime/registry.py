"""The registry: the controllers of a build, by name, and the choice of those to run.

The module ``controller_manager.registry`` finds the controllers of this build.
"""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from controller_manager import upstream
from controller_manager.api.apiextensions.definition import Definition
from controller_manager.api.meta import AnyResource
from controller_manager.options.checks import given
from controller_manager.options.controller_options import ControllerOptions, flags_of
from controller_manager.options.flag import Flag, section
from controller_manager.options.flag_set import DuplicateFlag, FlagSet
from controller_manager.options.gates import GENERAL_GATES, Gate
from controller_manager.options.general_flags import GENERAL_FLAGS
from controller_manager.version import (
    COMMAND_USER_AGENT,
    COMPONENT,
    USER_AGENT,
    VERSION,
)

from .admission import WebhookOptions
from .descriptor import Descriptor

if TYPE_CHECKING:  # the registry, which --help reads, has the function
    from controller_manager.client.rest.client import Client
    from controller_manager.client.rest.request import ServerClock


class RootCause(Struct, frozen=True):
    """The root cause for which a rollout is not complete.

    The code is empty if the cause cannot be read. `unread` is the first request that
    was refused or failed, empty for none. Without `is_stuck` the rollout goes on by
    itself, or nothing is known of it.
    """

    is_healthy: bool = False
    is_stuck: bool = False
    code: str = ""
    unread: str = ""


FindRootCause = Callable[
    ["Client", "ServerClock", AnyResource, str, str], Awaitable[RootCause]
]
"""Returns the root cause of an object by its namespace and name; healthy if it is gone.

The package ``explain`` has the function, and a build passes it on, as it passes on the
controllers: what runs the controllers knows none of them.
"""

_OF_CLOUD_PROVIDERS: Final = upstream.CLOUD | {
    upstream.ALIASES[name] for name in upstream.CLOUD
}
"""The names and aliases of their controllers."""


class UnknownControllerError(ValueError):
    """A name in ``--controllers`` that no controller has."""


class RegistryError(Exception):
    """A controller that cannot be loaded, or two that conflict; names them."""


class Registry:
    """The controllers of a build, by name."""

    def __init__(
        self,
        descriptors: Iterable[Descriptor],
        find_root_cause: FindRootCause | None = None,
        *,
        component: str = COMPONENT,
        version: str = VERSION,
        general_flags: Iterable[Flag] = GENERAL_FLAGS,
    ) -> None:
        """Take the descriptors; controllers start in the order of their names.

        `find_root_cause` says why a rollout is stuck; without it that is not counted.
        `component` and `version` are those of the process, and `general_flags` those of
        no particular controller. Raises RegistryError if two controllers have the same
        name, alias, flag or webhook, or declare the same feature gate differently.
        """
        self.component = component
        self.version = version
        self.find_root_cause = find_root_cause
        self.descriptors = tuple(sorted(descriptors, key=lambda each: each.name))
        self._by_name: dict[str, Descriptor] = {}
        for descriptor in self.descriptors:
            for name in dict.fromkeys((descriptor.name, *descriptor.aliases)):
                if name in self._by_name:
                    msg = (
                        f"two controllers are called {name}: {descriptor.name} of "
                        f"{descriptor.package}, and {self._by_name[name].name} of "
                        f"{self._by_name[name].package}; remove one of the packages"
                    )
                    raise RegistryError(msg)
                self._by_name[name] = descriptor
        self.gates = _gates(self.descriptors)
        self.clusters = sorted(
            {name for each in self.descriptors for name in each.clusters}
        )
        """The names of the other clusters that controllers need."""
        _check_webhooks(self.descriptors)
        self.has_webhooks = any(each.has_webhooks for each in self.descriptors)
        own = flags_of(WebhookOptions, "webhooks") if self.has_webhooks else ()
        try:
            self.flags = FlagSet(
                (*own, *self._flags_of_clusters(), *self._flags_of_controllers()),
                self.names,
                self.gates,
                general_flags,
            )
        except DuplicateFlag as error:
            raise RegistryError(str(error)) from error

    def _flags_of_controllers(self) -> Iterator[Flag]:
        return (flag for each in self.descriptors for flag in each.flags)

    def _flags_of_clusters(self) -> tuple[Flag, ...]:
        """Return a flag for each other cluster; an operator has no use without it."""
        check = None if self.is_upstreams else given
        return section(
            "Clusters",
            *(
                Flag(
                    f"kubeconfig-{name}",
                    "string",
                    None,
                    f"Path to the kubeconfig file of the cluster {name}.",
                    value_name="file",
                    check=check,
                )
                for name in self.clusters
            ),
        )

    @property
    def is_upstreams(self) -> bool:
        """True if the process runs in the place of kube-controller-manager."""
        return self.component == COMPONENT

    @property
    def user_agent(self) -> str:
        """The User-Agent header, which begins with the name of the process.

        The API server takes that as the manager of the fields that a write sets.
        """
        if self.is_upstreams:
            return USER_AGENT
        return f"{self.component}/{self.version} {COMMAND_USER_AGENT}"

    @property
    def converted(self) -> list[Definition[Any]]:
        """The definitions of custom resources that a webhook converts, each once."""
        found = (each for one in self.descriptors for each in one.definitions)
        return [each for each in dict.fromkeys(found) if each.is_converted]

    @property
    def names(self) -> list[str]:
        """The names, sorted, without aliases."""
        return [descriptor.name for descriptor in self.descriptors]

    @property
    def options(self) -> tuple[type[ControllerOptions], ...]:
        """The options classes of all controllers, and of their webhooks."""
        own = [WebhookOptions] if self.has_webhooks else []
        return (*own, *(each.options for each in self.descriptors if each.options))

    def __getitem__(self, name: str) -> Descriptor:
        """Return the controller of a name or alias; raises KeyError if unknown."""
        return self._by_name[name]

    def check_selection(self, selection: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return problems and warnings about the entries of ``--controllers``.

        An unknown name is a problem. The name of a controller of cloud providers is a
        warning, unless the entry disables that controller: kube-controller-manager
        does not run it either.
        """
        problems: list[str] = []
        warnings: list[str] = []
        for entry in selection:
            name = entry.removeprefix("-")
            if name == "*" or name in self._by_name:
                continue
            if name not in _OF_CLOUD_PROVIDERS:
                problems.append(self._unknown(name))
            elif not entry.startswith("-"):
                warnings.append(
                    f"{name} is run by a cloud-controller-manager only, neither here "
                    "nor by kube-controller-manager"
                )
        return problems, warnings

    def _unknown(self, name: str) -> str:
        # If an alias is similar, suggest the name of its controller.
        meant = [
            self._by_name[each].name
            for each in difflib.get_close_matches(name, sorted(self._by_name), 3, 0.6)
        ]
        hint = (
            f"did you mean {' or '.join(dict.fromkeys(meant))}?"
            if meant
            else "the help of --controllers lists them"
        )
        return f'"{name}" is not in the list of known controllers; {hint}'

    def not_selected(self, selection: Iterable[str]) -> Iterator[Descriptor]:
        """Yield the controllers that ``--controllers`` does not select; see `select`.

        The names are looked at when the first one is asked for.
        """
        selected = {each.name for each in self.select(selection)}
        yield from (each for each in self.descriptors if each.name not in selected)

    def select(self, selection: Iterable[str]) -> list[Descriptor]:
        """Return the controllers that ``--controllers`` selects.

        ``name`` enables and ``-name`` disables a controller, by name or alias; its
        first entry counts. ``*`` enables all others that are on by default. Raises
        UnknownControllerError for an unknown name.
        """
        entries = tuple(selection)
        problems, _ = self.check_selection(entries)
        if problems:
            raise UnknownControllerError("; ".join(problems))
        return [each for each in self.descriptors if _is_enabled(each, entries)]


def _is_enabled(descriptor: Descriptor, entries: tuple[str, ...]) -> bool:
    names = (descriptor.name, *descriptor.aliases)
    for entry in entries:
        if entry.removeprefix("-") in names:
            return not entry.startswith("-")
    return "*" in entries and not descriptor.disabled_by_default


def _check_webhooks(descriptors: Iterable[Descriptor]) -> None:
    owners: dict[str, str] = {}
    for each in descriptors:
        for webhook in each.webhooks:
            if webhook.name in owners:
                msg = (
                    f"{each.name} and {owners[webhook.name]} have a webhook "
                    f"{webhook.name}; give one of the functions another name"
                )
                raise RegistryError(msg)
            owners[webhook.name] = each.name


def _gates(descriptors: Iterable[Descriptor]) -> tuple[Gate, ...]:
    gates = {gate.name: gate for gate in GENERAL_GATES}
    for descriptor in descriptors:
        for gate in (*descriptor.gates, *descriptor.requires_gates):
            if gates.setdefault(gate.name, gate) != gate:
                msg = (
                    f"{descriptor.name} declares the feature gate {gate.name} "
                    "differently from another controller; make them equal"
                )
                raise RegistryError(msg)
    return tuple(gates.values())
