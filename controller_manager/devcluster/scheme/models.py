"""The types of the API and their fields, as a Kubernetes 1.36 server has them.

They stand in files beside this module, which `tests.devcluster.scheme` writes.
"""

import zlib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import msgspec

from controller_manager.api.json_objects import JSON

# The files of types: compressed parts behind an index.

Content = TypeVar("Content")
"""The model of a name, or the descriptions of its fields."""

_PART: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Index(msgspec.Struct, frozen=True):
    """The places of the parts, and the models of the kinds."""

    parts: dict[str, tuple[int, int]]
    kinds: dict[str, str]
    """By "apiVersion Kind", such as "apps/v1 Deployment"."""


def package_of(model: str) -> str:
    """Return the package of a model: the part of the file that has it."""
    return model.rpartition(".")[0]


class Parts(Generic[Content]):
    """The contents of a file by the names of models.

    A part is decompressed when a model of its package is first needed, and a model is
    decoded when it is first needed itself: most models of a large package never are.
    """

    def __init__(self, data: bytes, decoder: msgspec.json.Decoder[Content]) -> None:
        """Take the bytes of a file, and the decoder of a content."""
        self._data = data
        end = data.index(b"\n")
        self.index = msgspec.json.decode(data[:end], type=Index)
        self._start = end + 1
        self._decoder = decoder
        self._encoded: dict[str, dict[str, msgspec.Raw]] = {}
        self._decoded: dict[str, Content] = {}

    def of_model(self, name: str) -> Content:
        """Return the content of a model; raises KeyError for an unknown name."""
        if (found := self._decoded.get(name)) is None:
            encoded = self._package(package_of(name))[name]
            found = self._decoded[name] = self._decoder.decode(encoded)
        return found

    def names(self) -> Iterator[str]:
        """Yield the names of all models."""
        for package in self.index.parts:
            yield from self._package(package)

    def _package(self, name: str) -> dict[str, msgspec.Raw]:
        """Return the contents of a package; raises KeyError for an unknown one."""
        if (found := self._encoded.get(name)) is None:
            offset, length = self.index.parts[name]
            first = self._start + offset
            part = zlib.decompress(self._data[first : first + length])
            found = self._encoded[name] = _PART.decode(part)
        return found


# Answers questions about the types of the API.

DATA: Final = "models.data"

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
OBJECT_META: Final = f"{_META}.ObjectMeta"
DELETE_OPTIONS: Final = f"{_META}.DeleteOptions"

_META_KINDS: Final = frozenset(
    (
        *("APIGroup", "APIGroupList", "APIResourceList", "APIVersions"),
        *("DeleteOptions", "Status", "WatchEvent"),
    )
)


class Type(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """The type of a value: a model (`ref`), a scalar, a list or a map."""

    ref: str = ""
    type: str = ""
    format: str = ""
    items: "Type | None" = None
    values: "Type | None" = None


class Field(Type, frozen=True, rename="kebab", omit_defaults=True):
    """A field of a model.

    - `default`: the default of the OpenAPI document.
    - `proto`: the number of the field in the protobuf message, first; 0 if it has none.
    - `inside`: the numbers of the embedded messages that hold the field.
    - `pointer`: a zero value differs from an absent one.
    - `omitempty`, `omitzero`: a zero value is left out of the JSON.
    """

    default: Any = None
    proto: tuple[Any, ...] = ()
    inside: tuple[int, ...] = ()
    pointer: bool = False
    omitempty: bool = False
    omitzero: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategy: str = ""
    patch_merge_key: str = ""

    @property
    def number(self) -> int:
        """The number of the field in its protobuf message, 0 if it has none."""
        return int(self.proto[0]) if self.proto else 0


class Model(msgspec.Struct, frozen=True, rename="kebab", dict=True):
    """A type with fields; `required` are the fields that the API requires.

    - `items`: the type of the items of a list that Go gives a name.
    - `one_of`: the types of a value that may have several.
    - `unions`: groups of fields of which one is set.
    """

    fields: dict[str, Field] = {}
    type: str = ""
    format: str = ""
    items: Type | None = None
    required: tuple[str, ...] = ()
    map_type: str = ""
    one_of: tuple[dict[str, str], ...] = msgspec.field(default=(), name="oneOf")
    unions: tuple[dict[str, Any], ...] = ()
    group_version_kind: tuple[dict[str, str], ...] = ()

    @cached_property
    def by_number(self) -> dict[tuple[int, ...], tuple[str, Field]]:
        """The fields by their place in the protobuf message.

        A place has the numbers of the embedded messages, then that of the field.
        """
        return {
            (*field.inside, field.number): (name, field)
            for name, field in self.fields.items()
            if field.number
        }

    @cached_property
    def embedded(self) -> frozenset[tuple[int, ...]]:
        """The places of the embedded messages whose fields are fields of this model."""
        return frozenset(
            field.inside[:length]
            for field in self.fields.values()
            for length in range(1, len(field.inside) + 1)
        )


_MODEL: Final = msgspec.json.Decoder(Model)


class Models:
    """The models of a file. A model is decoded when it is needed."""

    def __init__(self, data: bytes) -> None:
        self._parts = Parts(data, _MODEL)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all models."""
        yield from self._parts.names()

    def model(self, name: str) -> Model:
        """Return a model; raises KeyError for a name that does not exist."""
        return self._parts.of_model(name)

    def find(self, api_version: str, kind: str) -> str | None:
        """Return the name of the model of a kind, `None` for an unknown one.

        The kinds of the meta group may have the version of any group, or none.
        """
        version = "v1" if kind in _META_KINDS else api_version
        return self.kinds.get(f"{version} {kind}")

    @property
    def kinds(self) -> dict[str, str]:
        """The names of the models by "apiVersion Kind"."""
        return self._parts.index.kinds


@cache
def built_in() -> Models:
    """Return the models of Kubernetes 1.36, which never change."""
    return Models(files(__package__).joinpath(DATA).read_bytes())


# The descriptions of the fields of the API.

DESCRIPTIONS: Final = "descriptions.data"

_TEXTS: Final = msgspec.json.Decoder(dict[str, str])


def field_descriptions(model: str) -> Mapping[str, str]:
    """Return the descriptions of a model's fields; empty without a model."""
    try:
        return _built_in().of_model(model)
    except KeyError:
        return {}


@cache
def _built_in() -> Parts[dict[str, str]]:
    """Return the descriptions of Kubernetes 1.36, which never change."""
    return Parts(files(__package__).joinpath(DESCRIPTIONS).read_bytes(), _TEXTS)


# The fields that Go writes also when they are empty.

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


class _Zeros:
    """Fills in the empty fields of one model, and those of the models inside it."""

    def __init__(self) -> None:
        self._absent: dict[str, Any] = {}
        self._lists: list[str] = []
        self._below: dict[str, _Zeros] = {}
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
        return bool(self._absent or self._lists or self._below)

    def add(self, name: str, model: Model, known: "dict[str, _Zeros]") -> None:
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


def zeros_of(api_version: str, kind: str) -> _Zeros | None:
    """Return the zeros of the objects of a kind, `None` for one without a model.

    Fields that all kinds have are left out.
    """
    models, zeros = built_in(), _Zeros()
    if (name := models.find(api_version, kind)) is None:
        return None
    known: dict[str, _Zeros] = {}
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


def _of_model(name: str, known: dict[str, _Zeros]) -> _Zeros:
    if name not in known:
        zeros = known[name] = _Zeros()  # first, for a model that is inside itself
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
    return field.items is not None and not (field.omitempty or field.omitzero)


# The resources of an API server 1.36, as its discovery lists them.

RESOURCES: Final = "resources.data"


class Resource(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """A resource or subresource: an entry of an APIResourceList.

    `group` and `version` are those of its kind, empty if they are those of the list. A
    subresource has no singular name.
    """

    name: str
    singular_name: str
    namespaced: bool
    group: str = ""
    version: str = ""
    kind: str
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""


def read_resources(data: bytes) -> Mapping[str, Mapping[str, Resource]]:
    """Return the resources of a file, by group version and by name."""
    lists = msgspec.json.decode(zlib.decompress(data), type=dict[str, list[Resource]])
    return {
        group_version: {each.name: each for each in resources}
        for group_version, resources in lists.items()
    }


@cache
def built_in_resources() -> Mapping[str, Mapping[str, Resource]]:
    """Return the resources of Kubernetes 1.36, which never change."""
    return read_resources(files(__package__).joinpath(RESOURCES).read_bytes())
