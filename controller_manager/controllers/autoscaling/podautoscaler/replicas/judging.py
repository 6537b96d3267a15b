"""How an autoscaler judges what it measures."""

from datetime import timedelta

from msgspec import Struct


class Tolerances(Struct, frozen=True):
    """How far a metric may be from its target without a change; 0.1 stands for 10 %.

    Upstream: Tolerances in pkg/controller/podautoscaler/replica_calculator.go.
    """

    up: float
    down: float

    def allow(self, usage_ratio: float) -> bool:
        """Tell whether the ratio of usage to target asks for no change."""
        return 1.0 - self.down <= usage_ratio <= 1.0 + self.up


class Readiness(Struct, frozen=True):
    """How long the start of a pod may distort how much CPU it uses.

    Upstream: --horizontal-pod-autoscaler-cpu-initialization-period and
    --horizontal-pod-autoscaler-initial-readiness-delay.
    """

    cpu_initialization_period: timedelta
    initial_readiness_delay: timedelta


class Judgement(Struct, frozen=True):
    """How the metrics of one autoscaler are judged."""

    tolerances: Tolerances
    readiness: Readiness
