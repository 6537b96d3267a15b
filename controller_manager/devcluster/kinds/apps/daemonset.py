"""DaemonSet: a pod on every node."""

from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.strategy import Strategy

JSON = dict[str, Any]

_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
)


class DaemonSetStrategy(Strategy):
    """Shows counts of nodes also when they are 0."""

    counts_generations: ClassVar = True
    models: ClassVar = ("V1RollingUpdateDaemonSet",)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in template, how to update, and the counts."""
        spec = obj.setdefault("spec", {})
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        default_template(spec)
        status = obj.setdefault("status", {})
        for name in _COUNTS:
            status.setdefault(name, 0)


KIND: Final = Kind(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    model="V1DaemonSet",
    short_names=("ds",),
    categories=("all",),
    subresources=(status_of("DaemonSet"),),
    strategy=DaemonSetStrategy(),
)
