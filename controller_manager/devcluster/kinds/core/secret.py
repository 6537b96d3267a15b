"""Secret: confidential data."""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import data_count, name_of
from controller_manager.devcluster.scheme.bodies import go_json_error
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
    too_long,
)
from controller_manager.devcluster.server.rest.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.text import table

from .data_validation import LARGEST, size_of_base64, validate_immutable

_ACCOUNT: Final = "kubernetes.io/service-account.name"
_TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105 - the name of a type
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that secrets of some types must have."""

_JSON_TYPES: Final = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_BASIC: Final = "kubernetes.io/basic-auth"
_BASIC_KEYS: Final = ("username", "password")
_REDACTED: Final = "<secret contents redacted>"


def _size(data: JSON, field: str) -> Iterator[Cause]:
    if sum(map(size_of_base64, data.values())) > LARGEST:
        yield too_long(field, LARGEST)


def _of_type(secret: JSON, _: str, __: JSON) -> Iterator[Cause]:
    """Yield what a secret lacks for its type."""
    kind, data = secret.get("type", ""), secret.get("data") or {}
    if kind == _TOKEN:
        annotations = secret["metadata"].get("annotations") or {}
        if not annotations.get(_ACCOUNT):
            yield required(f"metadata.annotations[{_ACCOUNT}]")
    if kind == _BASIC and not any(key in data for key in _BASIC_KEYS):
        yield from (required(f"data[{key}]") for key in _BASIC_KEYS)
    for key in _NEEDED.get(kind, ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            yield required(f"data[{key}]")
        elif kind in _JSON_TYPES and (problem := _json_problem(data[key])):
            yield invalid(f"data[{key}]", shown(_REDACTED), problem)


def _json_problem(encoded: str) -> str:
    """Return why a value is no JSON object, "" if it is one."""
    text = base64.b64decode(encoded)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return go_json_error(text)
    if isinstance(value, dict):
        return ""
    found = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    if value is None:
        return ""
    what = "Go value of type map[string]interface {}"
    return f"json: cannot unmarshal {found} into {what}"


_SECRET: Final = table(
    """
    data{}: config-key keys
    data: size
    hook of_type
    """,
    _size,
    _of_type,
)
_UPDATE: Final = table(
    """
    type: immutable
    hook immutable
    """,
    validate_immutable,
)


class SecretStrategy(Strategy):
    """Encodes ``stringData`` as base64 into ``data``; may be immutable."""

    rules: ClassVar = _SECRET
    update_rules: ClassVar = _UPDATE
    selectable_fields: ClassVar = fields_by_path("type")
    columns: ClassVar = (NAME, Column("Type"), Column("Data"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the type, and encode ``stringData``."""
        obj.setdefault("type", "Opaque")
        if given := obj.pop("stringData", None):
            data = obj.setdefault("data", {})
            for key, value in given.items():
                data[key] = base64.b64encode(value.encode()).decode()

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), obj.get("type", ""), data_count(obj), age(obj, now)]


KIND: Final = kind_of("v1", "secrets", SecretStrategy())
