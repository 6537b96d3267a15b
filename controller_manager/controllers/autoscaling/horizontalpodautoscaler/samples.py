"""What the metrics and the cache say about the pods of one target, at one time."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct


class ComputationError(Exception):
    """The metrics allow no recommendation; the message is upstream's."""


class PodMetric(Struct, frozen=True):
    """What one pod uses, in thousandths, measured over the window before a time."""

    value: int
    timestamp: datetime
    window: timedelta


class TargetPod(Struct, frozen=True):
    """One pod that the selector of the target selects.

    `ready` is the status of the Ready condition, `None` if there is none, and
    `ready_since` is when that status was reached.
    """

    name: str
    phase: str
    deleting: bool = False
    started: datetime | None = None
    ready: str | None = None
    ready_since: datetime | None = None


class PodSample(Struct, frozen=True):
    """The pods of a target and their metrics, by the names of the pods.

    `resource` is the resource that is measured, empty for a custom metric. A metric
    may belong to a pod that is not among the pods, and a pod may have no metric.
    """

    pods: tuple[TargetPod, ...]
    metrics: Mapping[str, PodMetric]
    now: datetime
    resource: str = ""
