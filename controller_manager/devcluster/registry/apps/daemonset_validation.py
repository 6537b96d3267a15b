"""The rules for the specs of daemon sets (apps/validation)."""

from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.workload_validation import (
    selects_all,
    strategy_as_go_prints,
    template_labels,
)
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.validation.field_values import percent
from controller_manager.devcluster.validation.pods import POD_TEMPLATE, always_restarts
from controller_manager.devcluster.validation.text import table


def _is_zero(value: Any) -> bool:
    return not (percent(value) if isinstance(value, str) else value)


def _type(strategy: JSON, path: str, _: JSON) -> Iterator[Cause]:
    value, known = strategy_as_go_prints(strategy), ("RollingUpdate", "OnDelete")
    yield statuses.not_supported(path[:-1], value, known)


def _rolling_update(rolling: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that pods are either removed first or added first."""
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        if percent(value) > 100:
            detail = "must not be greater than 100%"
            yield statuses.invalid(f"{path}{name}", shown(value), detail)
    if _is_zero(unavailable) and _is_zero(surge):
        detail = "cannot be 0 when maxSurge is 0"
        yield statuses.required(f"{path}maxUnavailable", detail)
    elif not _is_zero(unavailable) and not _is_zero(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        yield statuses.invalid(f"{path}maxSurge", shown(surge), detail)


DAEMON_SET: Final = table(
    """
    spec:
      selector: selector
      hook template_labels
      selector: invalid if selects_all "empty selector is invalid for daemonset"
      include POD_TEMPLATE ALWAYS_RESTARTS
      minReadySeconds: not-negative
      updateStrategy:
        when type is RollingUpdate:
          rollingUpdate always:
            maxUnavailable, maxSurge: int-or-percent default 0
            hook rolling_update
        when type is-not RollingUpdate OnDelete:
          hook type
      revisionHistoryLimit: not-negative
    """,
    template_labels,
    selects_all,
    _rolling_update,
    _type,
    POD_TEMPLATE=POD_TEMPLATE,
    ALWAYS_RESTARTS=always_restarts("DaemonSet"),
)
