"""The rules for the specs of stateful sets (apps/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.volumes import CLAIM_SPEC
from controller_manager.devcluster.registry.workload_validation import (
    is_above_all,
    pods_of,
    strategy_as_go_prints,
)
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.field_values import percent
from controller_manager.devcluster.validation.text import table

_MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _type(strategy: JSON, path: str, _: JSON) -> Iterator[Cause]:
    why = "must be 'RollingUpdate' or 'OnDelete'"
    yield statuses.invalid(path[:-1], strategy_as_go_prints(strategy), why)


def _none_unavailable(rolling: JSON, _: JSON) -> bool:
    value = rolling.get("maxUnavailable")
    return value == 0 or (isinstance(value, str) and not percent(value))


STATEFUL_SET: Final = table(
    """
    spec:
      podManagementPolicy: required
      podManagementPolicy: invalid
        if podManagementPolicy is-not OrderedReady Parallel null empty
        "must be 'OrderedReady' or 'Parallel'"
      updateStrategy:
        when type is OnDelete:
          rollingUpdate: refused "only allowed for updateStrategy 'RollingUpdate'"
        when type is RollingUpdate:
          rollingUpdate:
            partition: not-negative
            maxUnavailable: int-or-percent pointer
            maxUnavailable: invalid if none_unavailable "cannot be 0"
            maxUnavailable: invalid if is_above_all "must not be greater than 100%"
        when type is-not OnDelete RollingUpdate:
          hook type
      persistentVolumeClaimRetentionPolicy:
        whenDeleted, whenScaled: enum Retain Delete default empty
      replicas, minReadySeconds: not-negative
      ordinals:
        start: not-negative
      revisionHistoryLimit: not-negative
      serviceName: label
      include PODS
    """,
    _none_unavailable,
    is_above_all,
    _type,
    PODS=pods_of("statefulset", "StatefulSet"),
)
STATEFUL_SET_CLAIMS: Final = table(
    """
    spec:
      volumeClaimTemplates[]:
        spec:
          include CLAIM_SPEC
    """,
    CLAIM_SPEC=CLAIM_SPEC,
)
"""The rules for the templates of claims, which do not change later."""


def _immutable(spec: JSON) -> JSON:
    return {name: value for name, value in spec.items() if name not in _MUTABLE}


def _changes(spec: JSON, old: JSON) -> bool:
    return _immutable(spec) != _immutable(old)


STATEFUL_SET_UPDATE: Final = table(
    """
    spec change:
      when changes:
        self: forbidden
          "updates to statefulset spec for fields other than 'replicas', 'ordinals',"
          "'template', 'updateStrategy', 'revisionHistoryLimit',"
          "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    """,
    _changes,
)
