"""The fields that Go writes also when they are empty.

Go's JSON leaves out an empty field only if its tag has ``omitempty``, and an empty
struct that is no pointer only if its tag has ``omitzero``. So an object that a client
sent without such a field has it in the answer: an empty text, 0, false, an empty
object, or null for a list, a pointer or a time. Built-in objects are stored as
protobuf, which does not tell an empty list from an absent one.
"""

from types import MappingProxyType
from typing import Any, Final

from controller_manager.api.json_objects import JSON

from .models import Field, Model, Type, built_in

_SCALARS: Final = MappingProxyType(
    {"string": "", "boolean": False, "integer": 0, "number": 0}
)
_OF_KINDS: Final = ("apiVersion", "kind", "metadata")
"""The fields of an object that the server fills in for every kind."""

_RAW: Final = (".RawExtension", ".FieldsV1", ".Patch")
"""The models of any JSON."""

_STRUCT: Final = object()
_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_TIMES: Final = (_TIME, "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime")


class Zeros:
    """Fills in the empty fields of one model, and those of the models inside it."""

    def __init__(self) -> None:
        """Make the zeros of a model without such fields."""
        self._absent: dict[str, Any] = {}
        self._lists: list[str] = []
        self._below: dict[str, Zeros] = {}
        self._maps: set[str] = set()

    def fill(self, obj: JSON) -> None:
        """Add the empty fields to an object of the model, at any depth."""
        for name, value in self._absent.items():
            if name not in obj:
                obj[name] = {} if value is _STRUCT else value
        for name in self._lists:
            obj[name] = obj.get(name) or None
        below = self._below
        for name, value in obj.items() if below else ():
            if (zeros := below.get(name)) is None:
                continue
            if value is None:
                continue
            if type(value) is list:
                for each in value:
                    zeros.fill(each)
            elif name in self._maps:
                for each in value.values():
                    zeros.fill(each)
            else:
                zeros.fill(value)

    def __bool__(self) -> bool:
        """Tell whether there is anything to fill in."""
        return bool(self._absent or self._lists or self._below)

    def add(self, name: str, model: Model, known: "dict[str, Zeros]") -> None:
        """Take a field of the model; `known` has the zeros of models by name."""
        field = model.fields[name]
        # A required list that is empty is refused later.
        if _is_null(field) and name not in model.required:
            self._lists.append(name)
        if _is_nil(field) and name not in model.required:
            self._absent[name] = None
        of: Type = field.items or field.values or field
        if field.type in _SCALARS and not (field.pointer or field.omitempty):
            self._absent[name] = _SCALARS[field.type]
        if not of.ref or of.ref.endswith(_RAW):
            return
        if built_in().model(of.ref).type != "object":
            return
        if of is field and not (field.pointer or field.omitzero):
            self._absent[name] = _STRUCT
        is_begun = of.ref in known
        if (zeros := _of_model(of.ref, known)) or is_begun:
            self._below[name] = zeros
        if of is field.values:
            self._maps.add(name)


def zeros_of(api_version: str, kind: str) -> Zeros | None:
    """Return the zeros of the objects of a kind, `None` for one without a model.

    Fields that all kinds have are left out.
    """
    models, zeros = built_in(), Zeros()
    if (name := models.find(api_version, kind)) is None:
        return None
    known: dict[str, Zeros] = {}
    model = models.model(name)
    for each in model.fields:
        if each not in _OF_KINDS:
            zeros.add(each, model, known)
    return zeros


def condition_times(api_version: str, kind: str) -> tuple[str, ...]:
    """Return the times in conditions of a kind that Go writes as null when absent."""
    models = built_in()
    if (model := models.find(api_version, kind)) is None:
        return ()
    fields = models.model(model).fields
    for name in ("status", "conditions"):
        if (field := fields.get(name)) is None:
            return ()
        fields = models.model((field.items or field).ref).fields
    return tuple(
        name
        for name, field in fields.items()
        if field.ref == _TIME and not (field.pointer or field.omitzero)
    )


def _of_model(name: str, known: dict[str, Zeros]) -> Zeros:
    if name not in known:
        zeros = known[name] = Zeros()  # first, for a model that is inside itself
        model = built_in().model(name)
        for each in model.fields:
            zeros.add(each, model, known)
    return known[name]


def _is_nil(field: Field) -> bool:
    """Tell whether Go writes null for an absent pointer or time.

    A time is a struct, for which Go has no regard to omitempty.
    """
    if field.pointer:
        return not (field.omitempty or field.omitzero)
    return field.ref in _TIMES and not field.omitzero


def _is_null(field: Field) -> bool:
    """Tell whether Go writes null for an absent list."""
    return field.items is not None and not (field.omitempty or field.omitzero)
