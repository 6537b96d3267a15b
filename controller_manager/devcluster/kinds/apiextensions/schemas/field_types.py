"""How the fields of a schema are merged (kube-openapi/pkg/schemaconv)."""

from typing import Any, Final

from controller_manager.devcluster.kinds.apiextensions.schemas.words import (
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    items_of,
    properties_of,
    schema_of_others,
)
from controller_manager.devcluster.server.field_types import (
    ATOMIC,
    DeclaredFieldTypes,
    ListType,
    Names,
)

JSON = dict[str, Any]

_METADATA: Final = {
    ("metadata", "finalizers"): ListType(is_set=True),
    ("metadata", "ownerReferences"): ListType({"uid": None}),
}


class SchemaFieldTypes(DeclaredFieldTypes):
    """The types of the fields of one schema."""

    def __init__(self, schema: JSON) -> None:
        """Take a schema that is valid."""
        self._schema = schema

    def list_type(self, names: Names) -> ListType:
        """Return how a list is merged."""
        if names in _METADATA:
            return _METADATA[names]
        schema = self._at(names)
        match schema.get(LIST_TYPE):
            case "set":
                return ListType(is_set=True)
            case "map":
                fields = properties_of(items_of(schema) or {})
                return ListType(
                    {
                        name: fields.get(name, {}).get("default")
                        for name in schema.get(LIST_KEYS) or ()
                    }
                )
        return ATOMIC

    def is_atomic(self, names: Names) -> bool:
        """Tell whether a map is replaced as a whole."""
        return self._at(names).get(MAP_TYPE) == "atomic"

    def _at(self, names: Names) -> JSON:
        """Return the schema of a field, empty if there is none."""
        found: JSON = self._schema
        for name in names:
            found = items_of(found) or found
            inner = properties_of(found).get(name, schema_of_others(found))
            if inner is None:
                return {}
            found = inner
        return found
