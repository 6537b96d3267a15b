"""The rules for a selector and a pod template, and for counts of replicas."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.validation.field_values import percent
from controller_manager.devcluster.validation.label_selectors import selects
from controller_manager.devcluster.validation.pods import POD_TEMPLATE, always_restarts
from controller_manager.devcluster.validation.rules import Rule
from controller_manager.devcluster.validation.text import table


def validate_template_labels(spec: JSON, selector: JSON | None) -> list[Cause]:
    """Check that `selector` selects the pods of a spec's template."""
    labels = spec["template"]["metadata"].get("labels", {})
    if selects(selector, labels):
        return []
    where = "spec.template.metadata.labels"
    detail = "`selector` does not match template `labels`"
    return [statuses.invalid(where, shown(labels) if labels else "null", detail)]


def template_labels(spec: JSON, _: str, __: JSON) -> list[Cause]:
    """Check that the selector of a spec selects the pods of its template."""
    return validate_template_labels(spec, spec.get("selector"))


def selects_all(spec: JSON, _: JSON) -> bool:
    """Tell whether the selector of a spec has no requirements."""
    selector = spec.get("selector")
    return selector is not None and not any(selector.values())


def pods_of(owner: str, kind: str) -> Rule:
    """Return the rules for a spec with a selector and the template of its pods.

    `owner` and `kind` are the kinds of the object in upstream's messages.
    """
    return table(
        f"""
        selector: required pointer
        selector: invalid if selects_all "empty selector is invalid for {owner}"
        selector: selector
        hook template_labels
        include POD_TEMPLATE ALWAYS_RESTARTS
        """,
        selects_all,
        template_labels,
        POD_TEMPLATE=POD_TEMPLATE,
        ALWAYS_RESTARTS=always_restarts(kind),
    )


WORKLOAD: Final = table(
    """
    replicas, minReadySeconds: not-negative
    include PODS
    """,
    PODS=pods_of("deployment", "ReplicaSet"),  # upstream says so of replica sets, too
)
SELECTOR_UPDATE: Final = table(
    """
    spec change:
      selector: immutable
    """
)


def replica_status(counts: str, bounded: str, ready: str = "readyReplicas") -> Rule:
    """Return the rules for the counts of replicas in a status.

    None of `counts` may be negative, none of `bounded` greater than ``replicas``.
    `ready` is upstream's word when more replicas are available than ready.
    """
    return table(
        f"""
        status:
          {counts}: not-negative
          {bounded}: not-above replicas "cannot be greater than status.replicas"
          availableReplicas: not-above readyReplicas "cannot be greater than {ready}"
        """
    )


def _collisions(status: JSON, path: str, old: JSON) -> Iterator[Cause]:
    after = status.get("collisionCount", 0)
    if after < old.get("collisionCount", 0):
        detail = "cannot be decremented"
        yield statuses.invalid(f"{path}collisionCount", shown(after), detail)


STATUS_UPDATE: Final = table(
    """
    status change:
      hook collisions
    """,
    _collisions,
)


def strategy_as_go_prints(strategy: JSON) -> str:
    """Return the strategy of an update with the names of Go's internal type."""
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    return shown({"Type": kind, "RollingUpdate": rolling})


def is_above_all(rolling: JSON, _: JSON) -> bool:
    """Tell whether more than all pods may be unavailable."""
    return percent(rolling.get("maxUnavailable")) > 100
