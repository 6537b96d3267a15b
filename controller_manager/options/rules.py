"""What single values must be, as kube-controller-manager 1.36 checks them.

Upstream: cmd/kube-controller-manager/app/options, the Validate functions.
Flags of controllers that this build does not have are checked all the same: a
value that upstream refuses is a mistake here, too.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from controller_manager.options.values import parse_duration

Rule = Callable[[Any], str]
"""Returns what is wrong with a value, empty for nothing."""

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def _at_least(least: int) -> Rule:
    return lambda value: (
        "" if value >= least else f"must be at least {least}, it is {value}"
    )


def _between(least: int, most: int) -> Rule:
    def rule(value: Any) -> str:  # noqa: ANN401 - by the flag's type
        if least <= value <= most:
            return ""
        return f"must be from {least} to {most}, it is {value}"

    return rule


def _at_least_a_second(value: str) -> str:
    return "" if parse_duration(value) >= 1 else f"must be at least 1s, it is {value}"


def _at_most_two(value: str) -> str:
    return "must not have more than two entries" if value.count(",") > 1 else ""


def _metric_names(value: list[str]) -> str:
    bad = [name for name in value if not _METRIC.fullmatch(name)]
    return f"{bad[0]!r} is not the full name of a metric" if bad else ""


_POSITIVE: Final = (
    "concurrent-cron-job-syncs",
    "concurrent-deployment-syncs",
    "concurrent-device-taint-eviction-syncs",
    "concurrent-ephemeralvolume-syncs",
    "concurrent-horizontal-pod-autoscaler-syncs",
    "concurrent-job-syncs",
    "concurrent-replicaset-syncs",
    "concurrent-resourceclaim-syncs",
    "concurrent-statefulset-syncs",
    "concurrent-validating-admission-policy-status-syncs",
)
"""Upstream lets deployments and replica sets have no worker at all; nobody can
want that."""

RULES: Final[tuple[tuple[str, Rule], ...]] = (
    *((name, _at_least(1)) for name in _POSITIVE),
    ("concurrent-service-endpoint-syncs", _between(1, 50)),
    ("max-endpoints-per-slice", _between(1, 1000)),
    ("mirroring-concurrent-service-endpoint-syncs", _between(1, 50)),
    ("mirroring-max-endpoints-per-subset", _between(1, 1000)),
    ("attach-detach-reconcile-sync-period", _at_least_a_second),
    ("service-cluster-ip-range", _at_most_two),
    ("disabled-metrics", _metric_names),
)
