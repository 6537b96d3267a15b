"""The types of the API's objects, taken from kubernetes_asyncio's models.

The server uses them to find unknown fields and wrong types, and to make the OpenAPI
documents. The first decoded object of a model reads the model.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.api.times import parse_rfc3339
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

_INT64: Final = frozenset(
    (
        "activeDeadlineSeconds",
        "deletionGracePeriodSeconds",
        "expirationSeconds",
        "fsGroup",
        "generation",
        "observedGeneration",
        "remainingItemCount",
        "revision",
        "runAsGroup",
        "runAsUser",
        "startingDeadlineSeconds",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
    )
)

_SCHEMAS: Final = frozenset(
    ("V1JSONSchemaProps", name)
    for name in ("additionalItems", "additionalProperties", "items")
)
"""Fields that hold a schema, although their declared type does not say so."""

_INT_OR_STRING: Final = frozenset(
    ("maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort")
)


_OMITTED_WHEN_ZERO: Final = frozenset(
    (
        "active",
        "clusterScope",
        "currentReplicas",
        "deprecatedCount",
        "failed",
        "failureThreshold",
        "fullyLabeledReplicas",
        "globalDefault",
        "healthCheckNodePort",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostPort",
        "initialDelaySeconds",
        "insecureSkipTLSVerify",
        "minReadySeconds",
        "nodePort",
        "number",
        "numberAvailable",
        "numberUnavailable",
        "observedGeneration",
        "paused",
        "periodSeconds",
        "publishNotReadyAddresses",
        "readOnly",
        "readyReplicas",
        "stdin",
        "stdinOnce",
        "succeeded",
        "successThreshold",
        "timeoutSeconds",
        "tty",
        "unavailableReplicas",
        "unschedulable",
        "updatedNumberScheduled",
        "updatedReplicas",
    )
)
"""Fields that Go omits when they are 0 or false: they are no pointers."""

_KEPT_WHEN_EMPTY: Final = frozenset(
    (
        ("DiscoveryV1EndpointPort", "name"),
        ("V1Condition", "message"),
        ("V1Condition", "reason"),
        ("V1ContainerStatus", "image"),
        ("V1ContainerStatus", "imageID"),
        ("V1CronJobSpec", "timeZone"),
        ("V1JobSpec", "managedBy"),
        ("V1JobStatus", "failedIndexes"),
        ("V1PersistentVolumeClaimSpec", "storageClassName"),
        ("V1PersistentVolumeClaimSpec", "volumeAttributesClassName"),
        ("V1PodFailurePolicyOnExitCodesRequirement", "containerName"),
        ("V1SuccessPolicyRule", "succeededIndexes"),
        ("V2MetricStatus", "type"),
    )
)
"""Text fields, by model, that Go keeps when they are empty.

These fields are pointers, or required.
"""


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


class TypeMismatch(ValueError):  # noqa: N818 - the server turns it into an answer
    """A value has the wrong type; the message is that of encoding/json."""


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


def _go_scalar(name: str, type_: Type) -> str:
    match type_.name:
        case "int":
            return "int64" if name in _INT64 else "int32"
        case "str":
            return "string"
        case "float":
            return "float64"
        case "datetime":
            return "string"
        case other:
            return other


def _json_kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class Checker:
    """Converts a decoded object into the form that Go would store.

    Unknown fields are dropped and listed in `unknown`. Nulls and empty lists and maps
    are dropped, as in Go; an empty struct stays. Raises TypeMismatch for the first
    value of a wrong type.
    """

    def __init__(self) -> None:
        """Start with no unknown fields."""
        self.unknown: list[str] = []

    def check(self, obj: JSON, model: str) -> JSON:
        """Return `obj` in stored form."""
        return self._object(obj, model, "")

    def _object(self, obj: JSON, model: str, path: str) -> JSON:
        fields = fields_of(model)
        if fields is None:
            return obj
        result: JSON = {}
        for name, value in obj.items():
            where = f"{path}.{name}" if path else name
            field = fields.get(name)
            if field is None:
                self.unknown.append(where)
                continue
            if value is None:
                continue
            checked = self._value(value, field.type, model, name, where)
            if checked in ([], {}) and field.type.shape in ("list", "map"):
                continue
            if field.type.shape == "scalar" and _is_omitted(checked, model, name):
                continue
            result[name] = checked
        return result

    def _value(
        self,
        value: Any,
        type_: Type,
        model: str,
        name: str,
        path: str,
    ) -> Any:
        match type_.shape:
            case "any" if (model, name) in _SCHEMAS:
                return self._schema(value, model, name, path)
            case "any":
                if name in _INT_OR_STRING and not (
                    isinstance(value, str) or type(value) is int
                ):
                    raise _mismatch(value, model, path, "intstr.IntOrString")
                return value
            case "scalar":
                return self._scalar(value, type_, model, name, path)
            case "object":
                if not isinstance(value, dict):
                    raise _mismatch(value, model, path, go_type(type_.name))
                return self._object(value, type_.name, path)
        element = type_.element
        assert element is not None  # noqa: S101 - lists and maps have one
        if type_.shape == "list":
            if not isinstance(value, list):
                raise _mismatch(value, model, path, f"[]{_go_name(name, element)}")
            # Quantities stand in maps: a list of this name has other texts.
            name = "" if name in _QUANTITIES else name
            return [
                self._value(each, element, model, name, f"{path}[{number}]")
                for number, each in enumerate(value)
                if each is not None
            ]
        if not isinstance(value, dict):
            raise _mismatch(value, model, path, f"map[string]{_go_name(name, element)}")
        return {
            key: self._value(each, element, model, name, path)
            for key, each in value.items()
        }

    def _schema(self, value: Any, model: str, name: str, path: str) -> Any:
        """Check a schema inside a schema; a bool or a list may stand in its place."""
        if isinstance(value, dict):
            return self._object(value, model, path)
        other = list if name == "items" else bool
        if not isinstance(value, other):
            raise _mismatch(value, model, path, go_type(model))
        return value

    def _scalar(
        self,
        value: Any,
        type_: Type,
        model: str,
        name: str,
        path: str,
    ) -> Any:
        match type_.name:
            case "bool":
                good = isinstance(value, bool)
            case "int":
                bits = 63 if name in _INT64 else 31
                good = type(value) is int and -(2**bits) <= value < 2**bits
            case "float":
                good = isinstance(value, int | float) and not isinstance(value, bool)
            case "datetime":
                good = isinstance(value, str) and _is_time(value)
            case _ if _is_quantity(model, name):
                return _quantity(value, model, path)
            case _:
                good = isinstance(value, str) or (
                    name in _INT_OR_STRING and _is_number(value)
                )
        if not good:
            raise _mismatch(value, model, path, _go_scalar(name, type_))
        return value


def is_text(model: str, name: str) -> bool:
    """Tell whether a text field accepts only texts: quantities may be numbers."""
    return not _is_quantity(model, name) and name not in _INT_OR_STRING


def _is_quantity(model: str, name: str) -> bool:
    return name in _QUANTITIES or (model, name) in _MORE_QUANTITIES


def _is_omitted(value: Any, model: str, name: str) -> bool:
    """Tell whether Go does not write a scalar because it is its type's zero value."""
    if value == "":
        return (model, name) not in _KEPT_WHEN_EMPTY
    return not value and name in _OMITTED_WHEN_ZERO


def _quantity(value: Any, model: str, path: str) -> str:
    """Return a quantity in canonical form; the value may be a number."""
    if _is_number(value):
        value = f"{value:g}" if isinstance(value, float) else str(value)
    if not isinstance(value, str):
        raise _mismatch(value, model, path, "resource.Quantity")
    try:
        return str(parse_quantity(value))
    except QuantityError as error:
        raise TypeMismatch(str(error)) from error


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(text: str) -> bool:
    try:
        parse_rfc3339(text)
    except ValueError:
        return False
    return True


def _go_name(name: str, element: Type) -> str:
    return _go_scalar(name, element) if element.shape == "scalar" else element.name


def _mismatch(value: object, model: str, path: str, wanted: str) -> TypeMismatch:
    plain = re.sub(r"\[\d+\]", "", path)
    return TypeMismatch(
        f"json: cannot unmarshal {_json_kind(value)} into Go struct field "
        f"{go_type(model)}.{plain} of type {wanted}"
    )
