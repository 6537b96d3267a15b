"""What single values must be, as kube-controller-manager 1.36 checks them.

Upstream: cmd/kube-controller-manager/app/options, the Validate functions.
Flags of controllers that this build does not have are checked all the same: a
value that upstream refuses is a mistake here, too.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from controller_manager.options.values import parse_duration
from controller_manager.version import KUBERNETES_VERSION

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


def _previous_minor(value: str) -> str:
    if value in ("", _PREVIOUS):
        return ""
    return f"must be {_PREVIOUS}, the previous minor version, it is {value!r}"


def _emulated(value: list[str]) -> str:
    for entry in value:
        text = entry.rpartition("=")[2]
        if text not in _EMULATED:
            return f"{entry!r} is not a version from {_EMULATED[0]} to {_EMULATED[-1]}"
    return ""


def _metric_labels(value: dict[str, str]) -> str:
    bad = [key for key in value if not all(key.partition(",")[::2])]
    return f"{bad[0]!r} must be written as metric,label=value" if bad else ""


_MINOR: Final = int(KUBERNETES_VERSION.split(".")[1])
_PREVIOUS: Final = f"1.{_MINOR - 1}"
_EMULATED: Final = tuple(f"1.{minor}" for minor in range(_MINOR - 3, _MINOR + 1))

_POSITIVE: Final = (
    "concurrent-cron-job-syncs",
    "concurrent-deployment-syncs",
    "concurrent-device-taint-eviction-syncs",
    "concurrent-ephemeralvolume-syncs",
    "concurrent-gc-syncs",
    "concurrent-horizontal-pod-autoscaler-syncs",
    "concurrent-job-syncs",
    "concurrent-namespace-syncs",
    "concurrent-rc-syncs",
    "concurrent-replicaset-syncs",
    "concurrent-resourceclaim-syncs",
    "concurrent-statefulset-syncs",
    "concurrent-ttl-after-finished-syncs",
    "concurrent-validating-admission-policy-status-syncs",
)
"""Upstream lets some of these controllers have no worker at all; nobody can want
that."""

RULES: Final[tuple[tuple[str, Rule], ...]] = (
    *((name, _at_least(1)) for name in _POSITIVE),
    ("concurrent-service-endpoint-syncs", _between(1, 50)),
    ("max-endpoints-per-slice", _between(1, 1000)),
    ("mirroring-concurrent-service-endpoint-syncs", _between(1, 50)),
    ("mirroring-max-endpoints-per-subset", _between(1, 1000)),
    ("attach-detach-reconcile-sync-period", _at_least_a_second),
    ("service-cluster-ip-range", _at_most_two),
    ("disabled-metrics", _metric_names),
    ("show-hidden-metrics-for-version", _previous_minor),
    ("emulated-version", _emulated),
    ("min-compatibility-version", _emulated),
    ("allow-metric-labels", _metric_labels),
)
