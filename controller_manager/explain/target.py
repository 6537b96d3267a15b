"""The objects to explain, as a user names them, and the kinds with short names."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.apps.v1 import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
)
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.batch.v1 import CRON_JOBS, JOBS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.resources import RESOURCE_QUOTAS
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import (
    NAMESPACES,
    NODES,
    PODS,
    REPLICATION_CONTROLLERS,
)
from controller_manager.api.meta import AnyResource
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.client.discovery.resources import ServedResource

from .view import Unread, View

SHORT_NAMES: Final[dict[str, AnyResource]] = {
    "cj": CRON_JOBS,
    "deploy": DEPLOYMENTS,
    "ds": DAEMON_SETS,
    "hpa": HORIZONTAL_POD_AUTOSCALERS,
    "no": NODES,
    "ns": NAMESPACES,
    "pdb": BUDGETS,
    "po": PODS,
    "pvc": CLAIMS,
    "quota": RESOURCE_QUOTAS,
    "rc": REPLICATION_CONTROLLERS,
    "rs": REPLICASETS,
    "sts": STATEFUL_SETS,
    "svc": SERVICES,
}
"""kubectl's short names."""

KINDS: Final[Sequence[AnyResource]] = (
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    CRON_JOBS,
    HORIZONTAL_POD_AUTOSCALERS,
    SERVICES,
    CLAIMS,
    BUDGETS,
    RESOURCE_QUOTAS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    PODS,
    NAMESPACES,
)
"""The kinds with explanations of their own, owners first: the order of ``--all``."""


def known_kind(word: str) -> AnyResource | None:
    """Return the kind of a word as kubectl understands it, `None` for another kind.

    ``deploy``, ``deployment``, ``deployments``, ``Deployment``, ``deployments.apps``
    and ``deployments.v1.apps`` are the same.
    """
    name, _, group = word.lower().partition(".")
    if name in SHORT_NAMES and not group:
        return SHORT_NAMES[name]
    for each in (*KINDS, NODES):
        groups = ("", each.group, f"{each.version}.{each.group}")
        if name in (each.plural, each.kind.lower()) and group in groups:
            return each
    return None


class TargetError(ValueError):
    """A target that cannot be understood; the message is one line with the remedy."""


class Target(Struct, frozen=True):
    """A kind and a name, as they were given; all objects of the kind without a name."""

    kind: str
    name: str


def parse_target(words: tuple[str, ...]) -> Target:
    """Return the target of ``KIND/NAME`` or ``KIND NAME``; raises TargetError."""
    found = parse_words(words)
    if len(found) != 1 or not found[0].name:
        raise _not_understood(" ".join(words))
    return found[0]


def parse_words(words: Sequence[str]) -> Sequence[Target]:
    """Return the targets of words as kubectl understands them; raises TargetError.

    ``KIND/NAME ...``, ``KIND[,KIND...]`` and ``KIND[,KIND...] NAME ...`` are known.
    """
    if any("/" in each for each in words):
        pairs = [tuple(each.split("/")) for each in words]
        for pair, word in zip(pairs, words, strict=True):
            if len(pair) != 2 or not all(pair):  # noqa: PLR2004 - a kind and a name
                raise _not_understood(word)
        return [Target(kind, name) for kind, name in pairs]
    kinds = words[0].split(",")
    if not all(kinds) or not all(words):
        raise _not_understood(" ".join(words))
    names = words[1:] or ("",)
    return [Target(kind, name) for kind in kinds for name in names]


def _not_understood(text: str) -> TargetError:
    msg = f"{text!a} is not KIND/NAME; write for example deploy/web"
    return TargetError(msg)


async def resource_of(view: View, kind: str) -> AnyResource:
    """Return the resource of a kind that a user has named.

    Raises TargetError for an unknown kind, and Unread if the kinds cannot be read.

    A kind that has no explanation of its own is looked up in the discovery of the API
    server, by its plural, its singular, its kind or a short name.
    """
    if (known := known_kind(kind)) is not None:
        return known
    name, _, group = kind.lower().partition(".")
    discovery = await view.discovery()
    for each in discovery.resources:
        groups = ("", each.group, f"{each.version}.{each.group}")
        if name and name in _words(each) and group in groups:
            # An explanation reads the fields of one version.
            return known_kind(each.group_resource) or each.metadata_resource()
    if view.unread:
        raise Unread(view.unread[0])
    if problem := discovery.problem():
        raise Unread(problem)
    msg = f'the server doesn\'t have a resource type "{kind}"'
    raise TargetError(msg)


def _words(served: ServedResource) -> Sequence[str]:
    """Return the words for a resource, in lower case."""
    return (
        served.plural,
        served.singular,
        served.kind.lower(),
        *served.short_names,
    )
