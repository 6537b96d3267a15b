"""The types of the API's objects, taken from kubernetes_asyncio's models.

The server uses them to merge fields, and to make the OpenAPI documents.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from controller_manager.devcluster.server.models import field_texts, model_fields

Shape = Literal["scalar", "object", "list", "map", "any"]

_QUANTITIES: Final = frozenset(
    (
        "allocatable",
        "allocatedResources",
        "capacity",
        "default",
        "defaultRequest",
        "divisor",
        "hard",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "maximumVolumeSize",
        "min",
        "overhead",
        "requests",
        "sizeLimit",
        "used",
    )
)
"""Text fields whose values are quantities."""

_MORE_QUANTITIES: Final = frozenset(
    (
        ("V1Counter", "value"),
        ("V1DeviceCapacity", "value"),
        ("V2HPAScalingRules", "tolerance"),
        ("V2MetricTarget", "averageValue"),
        ("V2MetricTarget", "value"),
        ("V2MetricValueStatus", "averageValue"),
        ("V2MetricValueStatus", "value"),
    )
)
"""Quantities, by model, whose field names other models use for other types."""

_INT_OR_STRING: Final = frozenset(
    ("maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort")
)


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a field: a scalar, a model, or a list or map of these."""

    shape: Shape
    name: str
    """For a scalar ``int``, ``bool``, ``str``, ``float`` or ``datetime``; for an
    object the model; for a list or map the type of its elements."""

    element: "Type | None" = None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a model."""

    name: str
    type: Type
    model: str
    attribute: str

    @property
    def description(self) -> str:
        """The description of the field in the model."""
        return field_texts(self.model).get(self.attribute, "")


def _parse(text: str) -> Type:
    if match := re.fullmatch(r"list\[(.*)\]", text):
        return Type("list", "", _parse(match.group(1)))
    if match := re.fullmatch(r"dict\(str, (.*)\)", text):
        return Type("map", "", _parse(match.group(1)))
    if text in ("int", "bool", "str", "float", "datetime"):
        return Type("scalar", text)
    if text in ("object", "file", "bytearray"):
        return Type("any", text)
    return Type("object", text)


@cache
def fields_of(model: str) -> Mapping[str, Field] | None:
    """Return the fields of a model by their JSON names; `None` if unknown."""
    found = model_fields(model)
    if found is None:
        return None
    return {
        name: Field(name, _parse(text), model, attribute)
        for attribute, name, text in found
    }


def go_type(model: str) -> str:
    """Return the name of the Go struct of a model."""
    return re.sub(r"^(CoreV1|DiscoveryV1|V[12])(?=[A-Z])", "", model)


def is_text(model: str, name: str) -> bool:
    """Tell whether a text field accepts only texts: quantities may be numbers."""
    return not _is_quantity(model, name) and name not in _INT_OR_STRING


def _is_quantity(model: str, name: str) -> bool:
    return name in _QUANTITIES or (model, name) in _MORE_QUANTITIES
