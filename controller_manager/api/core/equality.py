"""Equality of pod templates by their meaning (apimachinery's equality.Semantic).

Two templates that make the same pods may be written in several ways. The API server
takes ``1Gi`` and ``1073741824``, and stores both as they came; lists and maps may be
empty, null or absent. `canonical_template` returns one form for all of them. Callers
compare the bytes first, because templates are nearly always written alike.
"""

from typing import Any, Final

from controller_manager.api.json_objects import JSON, object_at, objects_at
from controller_manager.api.quantity import Quantity, QuantityError, parse_quantity

_EMPTY_IS_ABSENT: Final = frozenset(
    (
        "annotations",
        "labels",
        "limits",
        "matchLabels",
        "metadata",
        "nodeSelector",
        "options",
        "overhead",
        "requests",
        "volumeAttributes",
    )
)
"""Fields that are maps in Go, or structs that are always written.

Any other field with an empty object is a pointer in Go. There an empty object differs
from none: ``emptyDir: {}`` is a volume. ``resources`` is a pointer in the spec of a
pod, and a struct in containers and claims.
"""

CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
"""The fields of a pod's spec that have containers."""


def canonical_template(template: JSON) -> JSON:
    """Return a copy of a pod template in the form that all equal templates share."""
    pruned: JSON = without_empty(template)
    spec = object_at(pruned, "spec")
    if spec:
        _canonize_spec(spec)
    return pruned


def canonical_spec(spec: JSON) -> JSON:
    """Return a copy of the spec of a pod template, as `canonical_template` does."""
    pruned: JSON = without_empty(spec)
    _canonize_spec(pruned)
    return pruned


def without_empty(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a copy without null values, empty lists and empty maps."""
    if isinstance(value, dict):
        pruned = {key: without_empty(inner) for key, inner in value.items()}
        return {
            key: inner
            for key, inner in pruned.items()
            if inner is not None
            and inner != []
            and (inner != {} or key not in _EMPTY_IS_ABSENT)
        }
    if isinstance(value, list | tuple):
        return [without_empty(inner) for inner in value]
    return value


def canonical_amount(text: str) -> str:
    """Return the text that all quantities of one amount share.

    A text that is no quantity is returned unchanged.
    """
    try:
        return str(Quantity(parse_quantity(text).nanos))
    except QuantityError:
        return text


def _canonize_spec(spec: JSON) -> None:
    """Write all quantities of a pod's spec in one form."""
    _canonize(spec, "overhead")
    _canonize_amounts(object_at(spec, "resources"))
    for name in CONTAINERS:
        for container in objects_at(spec, name):
            _canonize_resources(container)
            for variable in objects_at(container, "env"):
                _canonize_divisor(object_at(variable, "valueFrom"))
    for volume in objects_at(spec, "volumes"):
        _canonize_volume(volume)


def _canonize_volume(volume: JSON) -> None:
    _canonize_field(object_at(volume, "emptyDir"), "sizeLimit")
    claim = object_at(object_at(volume, "ephemeral"), "volumeClaimTemplate")
    _canonize_resources(object_at(claim, "spec"))
    sources = objects_at(object_at(volume, "projected"), "sources")
    for holder in (volume, *sources):
        for item in objects_at(object_at(holder, "downwardAPI"), "items"):
            _canonize_divisor(item)


def _canonize_resources(holder: JSON) -> None:
    """Write the resources of a container or claim in one form, none if empty."""
    _canonize_amounts(object_at(holder, "resources"))
    if holder.get("resources") == {}:
        del holder["resources"]


def _canonize_amounts(resources: JSON) -> None:
    _canonize(resources, "requests")
    _canonize(resources, "limits")


def _canonize_divisor(holder: JSON) -> None:
    """Write a divisor in one form; zero means the same as no divisor."""
    reference = object_at(holder, "resourceFieldRef")
    _canonize_field(reference, "divisor")
    if reference.get("divisor") == "0":
        del reference["divisor"]


def _canonize(holder: JSON, name: str) -> None:
    amounts = object_at(holder, name)
    for each in amounts:
        _canonize_field(amounts, each)


def _canonize_field(holder: JSON, name: str) -> None:
    value = holder.get(name)
    # A quantity may be a number in JSON, but not a boolean.
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        holder[name] = canonical_amount(str(value))
