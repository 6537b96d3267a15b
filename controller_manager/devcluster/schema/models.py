"""Answers questions about the types of the API."""

from collections.abc import Iterator
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final

import msgspec

from .file import Parts

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
