"""The bounds of a rolling update in pods: maxSurge and maxUnavailable.

Upstream: ResolveFenceposts of deployment_util.go.
"""

from typing import Final

from controller_manager.api.apps.v1 import Deployment
from controller_manager.api.intstr import IntOrString, IntOrStringError, scaled_value
from controller_manager.api.workloads import desired_replicas

ROLLING_UPDATE: Final = "RollingUpdate"


def fenceposts(
    max_surge: IntOrString, max_unavailable: IntOrString, replicas: int
) -> tuple[int, int]:
    """Return surge and unavailability in pods, never both 0.

    Surge is rounded up, unavailability is rounded down: 25 % of 10 are 3 and 2, 25 % of
    1 are 1 and 0. If both are 0, no pod could ever be replaced, so one pod may be
    unavailable (ResolveFenceposts). A malformed value counts as 0.
    """
    surge = _scaled_or_zero(max_surge, replicas, round_up=True)
    unavailable = _scaled_or_zero(max_unavailable, replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def _scaled_or_zero(value: IntOrString, total: int, *, round_up: bool) -> int:
    try:
        return max(0, scaled_value(value, total, round_up=round_up))
    except IntOrStringError:
        return 0


def _resolved(deployment: Deployment) -> tuple[int, int]:
    rolling = deployment.spec.strategy.rolling_update
    # apps/v1 defaults both to 25 %; upstream's helper takes an absent value as 0.
    surge = rolling.max_surge if rolling and rolling.max_surge is not None else 0
    unavailable = (
        rolling.max_unavailable
        if rolling and rolling.max_unavailable is not None
        else 0
    )
    return fenceposts(surge, unavailable, desired_replicas(deployment))


def is_rolling_update(deployment: Deployment) -> bool:
    """Tell whether old pods are replaced step by step."""
    return deployment.spec.strategy.type == ROLLING_UPDATE


def max_surge(deployment: Deployment) -> int:
    """Return how many pods may exist above the wanted size."""
    return _resolved(deployment)[0] if is_rolling_update(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """Return how many of the wanted pods may be unavailable."""
    replicas = desired_replicas(deployment)
    if not is_rolling_update(deployment) or replicas == 0:
        return 0
    return min(_resolved(deployment)[1], replicas)


def max_total(deployment: Deployment) -> int:
    """Return the wanted size with surge."""
    return desired_replicas(deployment) + max_surge(deployment)
