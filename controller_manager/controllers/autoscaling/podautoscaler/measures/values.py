"""What evaluations take and return."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import MetricStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.autoscaling.podautoscaler.replicas.judging import (
    Judgement,
)
from controller_manager.controllers.autoscaling.podautoscaler.sources import (
    apis,
)


class Target(Struct, frozen=True):
    """The target of an autoscaler, as it is now.

    `desired` and `observed` are the replicas in spec and status of its scale;
    `selector` is the scale's. `find_pods` returns the pods that it selects by now:
    an answer of a metrics API may take long, and is judged by the pods of its time.
    """

    namespace: str
    desired: int
    observed: int
    selector: str
    find_pods: Callable[[], Sequence[Pod]]


class Question(Struct, frozen=True):
    """For which target metrics are evaluated, and how.

    With `pod_level` the requests that a pod states for itself as a whole count.
    """

    sources: apis.Sources
    target: Target
    judgement: Judgement
    now: datetime
    pod_level: bool


class Evaluation(Struct, frozen=True):
    """What a metric asks for, what messages call it, and its status."""

    replicas: int
    name: str
    status: MetricStatus


class MetricFailure(Exception):  # noqa: N818 - the outcome of a metric
    """A metric from which no number of replicas can be computed.

    `reason` and `cause` are those of the event and of the condition; the message of
    the exception says more, as upstream's does. `is_spec` says that the spec of the
    autoscaler is at fault.
    """

    def __init__(
        self, cause: str, reason: str, message: str, *, is_spec: bool = False
    ) -> None:
        """Take the cause and the reason, and upstream's whole message."""
        super().__init__(message)
        self.reason = reason
        self.cause = cause
        self.is_spec = is_spec
