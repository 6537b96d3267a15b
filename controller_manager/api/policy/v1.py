"""policy/v1: pod disruption budgets."""

from controller_manager.api.meta import APIStruct, CompleteObject, Condition, Resource
from controller_manager.api.scalars import IntOrString
from controller_manager.api.selectors import LabelSelector


class PodDisruptionBudgetSpec(APIStruct, frozen=True):
    """All of a budget's spec."""

    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(APIStruct, frozen=True):
    """All of a budget's status.

    `disrupted_pods` has the time of the eviction of each pod that the API server has
    allowed and that the controller has not seen yet, by the pod's name.
    """

    observed_generation: int = 0
    disrupted_pods: dict[str, str | None] | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] | None = None


class PodDisruptionBudget(CompleteObject, frozen=True):
    """A budget that limits how many pods may be evicted at a time."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


BUDGETS: Resource[PodDisruptionBudget] = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget
)
