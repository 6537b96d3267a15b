"""The kinds that have explanations of their own, and their short names."""

from collections.abc import Sequence
from typing import Final

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
