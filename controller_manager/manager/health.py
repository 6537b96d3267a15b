"""What /healthz, /livez and /readyz say of a daemon.

The first two say whether a restart of this process would help, so nothing in them
depends on the API server: during an outage every kubelet would restart its manager,
the leader as well as the standby. The third says what the process waits for.
"""

from collections.abc import Mapping
from functools import partial

from controller_manager.client.leader_election import LeaderElector
from controller_manager.informers.factory import InformerFactory
from controller_manager.manager.controllers import ControllerGroup
from controller_manager.serving.health import HealthCheck


def health_checks(
    elector: LeaderElector | None, controllers: ControllerGroup
) -> Mapping[str, HealthCheck]:
    """Return the checks of /healthz and /livez: the lease, then each controller."""
    checks: dict[str, HealthCheck] = {}
    if elector is not None:
        checks["leaderElection"] = elector.health_problem
    for member in controllers:
        checks[member.name] = member.problem
    return checks


def readiness_checks(
    waiting_for: str,
    informers: InformerFactory,
    controllers: ControllerGroup,
    *,
    stopping: bool,
) -> Mapping[str, HealthCheck]:
    """Return the checks of /readyz: the API server, then each cache.

    A cache's check says who waits for it, and why it is not synced.
    """
    checks: dict[str, HealthCheck] = {
        "apiserver": partial(
            _said, f"waiting for {waiting_for}" if waiting_for else None
        ),
        "shutdown": partial(_said, "shutting down" if stopping else None),
    }
    waiting: dict[str, list[str]] = {}
    for name, resources in controllers.unsynced().items():
        for resource in resources:
            waiting.setdefault(resource, []).append(name)
    for informer in informers.shared():
        resource = informer.resource.group_resource
        problem = informer.problem()
        if not informer.is_synced:
            who = ", ".join(waiting.get(resource, ())) or "nobody"
            why = f": {problem}" if problem else ""
            problem = f"waiting for the cache to sync; {who} cannot start{why}"
        checks[f"informer-{resource}"] = partial(_said, problem)
    return checks


def _said(problem: str | None) -> str | None:
    return problem
