"""The quality of service of pods (pkg/apis/core/helper/qos/qos.go)."""

from functools import lru_cache
from typing import Final

from controller_manager.api.core.resources import CPU, MEMORY
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import ZERO, parse_quantity

_BEST_EFFORT: Final = "BestEffort"
_BURSTABLE: Final = "Burstable"
_COUNTED: Final = (CPU, MEMORY)
_GUARANTEED: Final = "Guaranteed"


def qos_class(spec: JSON) -> str:
    """Return the quality-of-service class of a pod (ComputePodQOS).

    Resources at the level of the pod have priority over those of its containers.
    Amounts are compared, not texts: ``1000m`` equals ``1``. Only cpu and memory count.
    """
    if isinstance(spec.get("resources"), dict):
        return _class_of(spec["resources"])
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    classes = {_class_of(each.get("resources") or {}) for each in containers}
    return classes.pop() if len(classes) == 1 else _BURSTABLE


def _class_of(resources: JSON) -> str:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return _class(*(each.get(name) for each in (requests, limits) for name in _COUNTED))


@lru_cache(1024)
def _class(*stated: str | float | None) -> str:
    """Return the class of two requests and two limits: most pods state equal ones."""
    amounts = [ZERO if each is None else parse_quantity(str(each)) for each in stated]
    requested, limited = amounts[: len(_COUNTED)], amounts[len(_COUNTED) :]
    if not any(each > ZERO for each in amounts):
        return _BEST_EFFORT
    is_full = all(each > ZERO for each in limited) and requested == limited
    return _GUARANTEED if is_full else _BURSTABLE
