"""Types from OpenAPI schemas (SchemaDeclType of k8s.io/apiserver/pkg/cel/common).

Where a schema leaves room for doubt the type is unknown. So no expression is called
wrong which the API server takes for right.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from controller_manager.api.json_objects import Decoder

from . import types

_GVK: Final = "x-kubernetes-group-version-kind"

SCALARS: Final[Mapping[str, types.Type]] = {
    "boolean": types.BOOL,
    "integer": types.INT,
    "number": types.DOUBLE,
    "string": types.STRING,
}
"""The types of values without parts, by their name in a schema."""

_FORMATS: Final[Mapping[str, types.Type]] = {
    "byte": types.BYTES,
    "date": types.TIMESTAMP,
    "date-time": types.TIMESTAMP,
    "duration": types.DURATION,
    "int-or-string": types.DYN,
}
"""The types of strings with a format."""


class _Kind(Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Schema(Struct, frozen=True):
    """The parts of a schema that say of which type a value is."""

    ref: str = field(default="", name="$ref")
    all_of: "tuple[_Schema, ...]" = field(default=(), name="allOf")
    type: str = ""
    format: str = ""
    properties: "dict[str, _Schema] | None" = None
    items: "_Schema | None" = None
    additional: "bool | _Schema" = field(default=False, name="additionalProperties")
    int_or_string: bool = field(default=False, name="x-kubernetes-int-or-string")
    keeps_unknown: bool = field(
        default=False, name="x-kubernetes-preserve-unknown-fields"
    )
    is_embedded: bool = field(default=False, name="x-kubernetes-embedded-resource")
    kinds: tuple[_Kind, ...] = field(default=(), name=_GVK)


class _Components(Struct, frozen=True):
    schemas: dict[str, Raw] | None = None


class _Document(Struct, frozen=True):
    components: _Components = _Components()


_DOCUMENTS: Final = Decoder(_Document)
_SCHEMAS: Final = Decoder(_Schema)


class Schemas:
    """The schemas of one OpenAPI document of version 3; each is decoded when needed.

    Raises msgspec.DecodeError for a document that is no JSON.
    """

    def __init__(self, document: bytes) -> None:
        self._raw = _DOCUMENTS.decode(document).components.schemas or {}

    def type_of(self, group: str, version: str, kind: str) -> types.Type | None:
        """Return the type of a kind, `None` if the document has no schema of it."""
        wanted = _Kind(group, version, kind)
        for name, raw in self._raw.items():
            text = bytes(raw)
            if _GVK.encode() in text and b'"%s"' % kind.encode() in text:
                schema = self._decoded(name)
                if schema is not None and wanted in schema.kinds:
                    return self._root(schema, name)
        return None

    def _decoded(self, name: str) -> _Schema | None:
        """Return a definition, `None` if there is none, or none of a known form."""
        try:
            return _SCHEMAS.decode(self._raw[name])
        except (KeyError, msgspec.ValidationError):
            return None

    def _root(self, schema: _Schema, name: str) -> types.Type:
        found = self._type(schema, frozenset((name,)))
        if not isinstance(found, types.Object):
            return types.DYN
        named = {"kind": types.STRING, "apiVersion": types.STRING}
        meta = types.object_of({"name": types.STRING, "generateName": types.STRING})

        def field_of(name: str) -> types.Type | None:
            present = found.field(name)
            if present is not None:
                return present
            return meta if name == "metadata" else named.get(name)

        return types.Object(field_of)

    def _type(self, schema: _Schema, within: frozenset[str]) -> types.Type:
        """Return the type of a schema, inside of definitions with these names."""
        for part in (schema, *schema.all_of):
            if part.ref:
                return self._referred(part.ref.rpartition("/")[2], within)
        if schema.int_or_string or schema.is_embedded:
            return types.DYN
        match schema.type:
            case "array" if schema.items is not None:
                return types.ListOf(self._type(schema.items, within))
            case "object":
                return self._object(schema, within)
            case "string":
                return _FORMATS.get(schema.format, types.STRING)
        return SCALARS.get(schema.type, types.DYN)

    def _referred(self, name: str, within: frozenset[str]) -> types.Type:
        definition = None if name in within else self._decoded(name)
        return self._type(definition, within | {name}) if definition else types.DYN

    def _object(self, schema: _Schema, within: frozenset[str]) -> types.Type:
        if isinstance(schema.additional, _Schema):
            return types.MapOf(self._type(schema.additional, within))
        if not schema.properties or schema.additional:
            return types.DYN
        # When an admission policy is evaluated, properties have their own names, too:
        # ``object.metadata.namespace`` is right, though `namespace` is a keyword.
        names = {
            each: found
            for name, found in schema.properties.items()
            for each in (types.escaped(name), name)
        }

        def field_of(name: str) -> types.Type | None:
            found = names.get(name)
            if found is not None:
                return self._type(found, within)
            return types.DYN if schema.keeps_unknown else None

        return types.Object(field_of)
