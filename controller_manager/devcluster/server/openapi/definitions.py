"""The definitions of a document: one for each model that it refers to.

Upstream: kube-openapi/pkg/builder and builder3. The document of version 2 has no
defaults, and a text where version 3 allows a text or a number.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final, Literal

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import (
    DELETE_OPTIONS,
    OBJECT_META,
    Field,
    Model,
    Type,
    built_in,
    field_descriptions,
)
from controller_manager.devcluster.server.rest.kind import Kind

from .custom_schemas import (
    API_VERSION,
    KIND,
    LIST_METADATA,
    METADATA,
    custom_name,
    has_fields,
    items_text,
    published,
    selectable_fields,
)

Version = Literal[2, 3]

_PREFIXES: Final[Mapping[Version, str]] = {
    2: "#/definitions/",
    3: "#/components/schemas/",
}
_GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"
_ZEROS: Final = {"boolean": False, "integer": 0, "number": 0, "string": ""}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_LIST_META: Final = f"{_META}.ListMeta"
_OF_ALL_GROUPS: Final = (DELETE_OPTIONS, f"{_META}.WatchEvent")
"""Models that each group version has."""


class Schemas:
    """The definitions of one document, by name."""

    def __init__(
        self,
        version: Version,
        group_versions: Iterable[tuple[str, str]],
        known: Container[str] = (),
    ) -> None:
        """Start without definitions.

        `group_versions` are those of the server itself. Another part of the document
        has the definitions `known`.
        """
        self.definitions: JSON = {}
        self._known = known
        self.version = version
        self._prefix = _PREFIXES[version]
        self._group_versions = tuple(group_versions)

    def of_kind(self, kind: Kind) -> JSON:
        """Return the reference to a kind's definition."""
        if name := kind.type_name:
            return self.of_model(name)
        if (name := custom_name(kind)) not in self.definitions:
            self._add_custom(kind, name)
        return self._reference(name)

    def of_list(self, kind: Kind) -> JSON:
        """Return the reference to the definition of a kind's lists."""
        if not kind.is_custom and (
            name := built_in().find(kind.api_version, kind.list_kind)
        ):
            return self.of_model(name)
        item = self.of_kind(kind)
        if (name := f"{custom_name(kind)}List") not in self.definitions:
            self._add_list(kind, name, item)
        return self._reference(name)

    def of_model(self, name: str) -> JSON:
        """Return the reference to a model's definition."""
        if name not in self.definitions and name not in self._known:
            self.definitions[name] = {}  # a model may refer to itself
            self.definitions[name] = self._definition(name, built_in().model(name))
        return self._reference(name)

    def _reference(self, name: str) -> JSON:
        return {"$ref": self._prefix + name}

    def _definition(self, name: str, model: Model) -> JSON:
        found: JSON = {"type": model.type} if model.type else {}
        if model.fields:
            found["description"] = f"{name.rpartition('.')[2]} of the Kubernetes API."
        if model.format:
            found["format"] = model.format
        if model.one_of:
            found |= (
                {"oneOf": model.one_of} if self.version == 3 else {"type": "string"}
            )
        if model.fields:
            texts = field_descriptions(name)
            found["properties"] = {
                each: self._property(field, texts.get(each, ""))
                for each, field in model.fields.items()
            }
        if model.required:
            found["required"] = model.required
        if kinds := self._kinds_of(name, model):
            found[_GROUP_VERSION_KIND] = kinds
        if model.map_type:
            found["x-kubernetes-map-type"] = model.map_type
        if model.unions:
            found["x-kubernetes-unions"] = model.unions
        return found

    def _kinds_of(self, name: str, model: Model) -> list[JSON]:
        """Return the kinds of a model, in all group versions if they have it."""
        if name not in _OF_ALL_GROUPS:
            return list(model.group_version_kind)
        kind = name.rpartition(".")[2]
        return [
            {"group": group, "kind": kind, "version": version}
            for group, version in sorted(self._group_versions)
        ]

    def _property(self, field: Field, description: str) -> JSON:
        found: JSON = {"description": description} if description else {}
        if self.version == 3 and field.default is not None:
            found["default"] = field.default
        found |= _merging(field)
        return found | self._shape(field, has_siblings=bool(found))

    def _shape(self, of: Type, *, has_siblings: bool) -> JSON:
        """Return a type; a reference with siblings needs ``allOf`` in version 3."""
        if of.ref:
            if (items := built_in().model(of.ref).items) is not None:
                # Documents state the list itself; its name is for protobuf.
                return self._shape(Type(items=items), has_siblings=has_siblings)
            reference = self.of_model(of.ref)
            if self.version == 3 and has_siblings:
                return {"allOf": [reference]}
            return reference
        if of.items is not None:
            return {"type": "array", "items": self._element(of.items)}
        if of.values is not None:
            values = self._element(of.values)
            return {"type": "object", "additionalProperties": values}
        found: JSON = {"type": of.type}
        if of.format:
            found["format"] = of.format
        return found

    def _element(self, of: Type) -> JSON:
        """Return the type of the items of a list, or of the values of a map."""
        default = _zero(of) if self.version == 3 else None
        shape = self._shape(of, has_siblings=default is not None)
        return shape if default is None else {**shape, "default": default}

    # Custom resources

    def _add_custom(self, kind: Kind, name: str) -> None:
        """Describe a kind by a schema of its own."""
        schema, shown = kind.strategy.openapi_schema() or {}, {"type": "object"}
        if has_fields(schema, for_v2=self.version == 2):
            metadata = self._described(OBJECT_META, METADATA)
            shown = published(schema, metadata, for_v2=self.version == 2)
        self.definitions[name] = {
            **shown,
            _GROUP_VERSION_KIND: [_gvk(kind, kind.kind)],
            **selectable_fields(kind),
        }

    def _described(self, model: str, text: str) -> JSON:
        """Return a field that refers to a model, with a description of its own."""
        return {
            "description": text,
            **self._shape(Type(ref=model), has_siblings=True),
        }

    def _add_list(self, kind: Kind, name: str, item: JSON) -> None:
        self.definitions[name] = {
            "description": f"{kind.list_kind} is a list of {kind.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "items": {
                    "type": "array",
                    "description": items_text(kind),
                    "items": item,
                },
                "metadata": self._described(_LIST_META, LIST_METADATA),
            },
            _GROUP_VERSION_KIND: [_gvk(kind, kind.list_kind)],
            **selectable_fields(kind),
        }


def _merging(field: Field) -> JSON:
    """Return the extensions that say how a field is merged."""
    extensions = {
        "list-map-keys": field.list_map_keys,
        "list-type": field.list_type,
        "map-type": field.map_type,
        "patch-merge-key": field.patch_merge_key,
        "patch-strategy": field.patch_strategy,
    }
    return {f"x-kubernetes-{name}": each for name, each in extensions.items() if each}


def _zero(of: Type) -> object:
    """Return the default of an element: its zero in Go, `None` if it has no default."""
    if of.ref:
        return {} if built_in().model(of.ref).fields else None
    return None if of.format == "byte" else _ZEROS.get(of.type)


def _gvk(kind: Kind, name: str) -> JSON:
    return {"group": kind.group, "kind": name, "version": kind.version}
