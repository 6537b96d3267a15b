"""The strategy of the objects of one version of a definition.

Upstream: pkg/registry/customresource.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.field_set import FieldSet
from controller_manager.devcluster.apiserver.field_type import FieldType
from controller_manager.devcluster.apiserver.strategy import Cells, Column, Strategy
from controller_manager.devcluster.registry.apiextensions.schemas.defaulting import (
    defaulted,
    has_defaults,
    pruned,
)
from controller_manager.devcluster.registry.apiextensions.schemas.keywords import (
    properties_of,
    type_of_resource,
)
from controller_manager.devcluster.registry.apiextensions.schemas.rules import Rules
from controller_manager.devcluster.registry.apiextensions.schemas.structure import (
    coerced,
    coerced_metadata,
    validate_embedded,
    validate_lists,
)
from controller_manager.devcluster.registry.apiextensions.schemas.validation import (
    validate_value,
)
from controller_manager.devcluster.scheme.readers import duplicates, plain
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.storage import Stored

from .printer_columns import PrinterColumns

_MOST_REPLICAS: Final = 2**31 - 1


class Origin(NamedTuple):
    """The parts of a definition that its kinds need."""

    uid: str
    generation: int
    is_going: bool
    accepted: str
    """The accepted names, as JSON."""


class Served(NamedTuple):
    """One version of a definition."""

    origin: Origin
    version: JSON
    api_version: str
    since: int
    """The resource version from which on objects are stored with this schema."""


class CustomResourceStrategy(Strategy):
    """Prunes objects, fills in defaults, and checks them against their schema."""

    counts_generations: ClassVar = True
    merges_strategically: ClassVar = False
    allows_unconditional_update: ClassVar = False
    not_in_status: ClassVar[FieldSet] = {
        "f:apiVersion": {},
        "f:kind": {},
        "f:metadata": {},
        "f:spec": {},
    }

    def __init__(self, served: Served) -> None:
        version = served.version
        self.origin = served.origin
        self._served = served
        self._schema: JSON = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        self._sets_defaults = has_defaults(self._schema)
        self._rules = Rules(self._schema)
        self._type = type_of_resource(self._schema)
        subresources = version.get("subresources") or {}
        self._has_status = "status" in subresources
        self._replicas = _steps(
            (subresources.get("scale") or {}).get("specReplicasPath", "")
        )
        self._printed = PrinterColumns(version.get("additionalPrinterColumns") or ())
        self._selectable = {
            ".".join(steps): steps
            for each in version.get("selectableFields") or ()
            if (steps := _steps(each["jsonPath"]))
        }

    # Reading what clients send

    def decoded(self, obj: JSON) -> tuple[JSON, list[str]]:
        """Return an object without fields that its schema does not know.

        Upstream decodes the metadata, prunes, and decodes the metadata of embedded
        resources, in this order (customresource_handler.go).
        """
        repeated = duplicates(obj)
        given = obj.get("metadata")
        metadata, unknown = coerced_metadata({} if given is None else given)
        result, dropped = pruned(plain(obj), self._schema, is_resource=True)
        result, embedded = coerced(result, self._schema)
        pruned_fields = [f'unknown field "{path}"' for path in sorted(dropped)]
        result["metadata"] = metadata
        problems = [*repeated, *unknown, *pruned_fields, *embedded]
        return result, list(dict.fromkeys(problems))

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults of the schema, and drop nulls that it forbids."""
        found = self._defaulted(obj)
        obj.clear()
        obj.update(found)

    def field_type(self) -> FieldType:
        """Return how the fields of the schema are merged."""
        return self._type

    def _defaulted(self, obj: JSON) -> JSON:
        """Return an object with the defaults; its metadata has none.

        An object that is pruned between two versions may have lost its metadata.
        """
        found: JSON = defaulted(obj, self._schema)
        kept = {name: obj[name] for name in ("metadata",) if name in obj}
        return {**found, **kept}

    def prepare_for_status_update(self, old: JSON, new: JSON) -> None:
        """Keep the metadata: only the status changes."""
        new["metadata"] = dict(old["metadata"])

    def changes_generation(self, old: JSON, new: JSON) -> bool:
        """Tell whether a field besides metadata and a status subresource changes."""
        aside = {"metadata", "kind", "apiVersion"}
        if self._has_status:
            aside.add("status")
        return any(
            old.get(name) != new.get(name) for name in {*old, *new} if name not in aside
        )

    # Validation

    def validate_new(self, obj: JSON) -> Sequence[Cause]:
        """Check a new object against the schema."""
        causes = validate_value(_without_metadata(obj), self._schema)
        causes += self._validate_rest(obj)
        return [*causes, *self._rules.validate(obj, causes)]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check the changes of an update."""
        before = _without_metadata(old)
        causes = validate_value(_without_metadata(new), self._schema, old=before)
        causes += self._validate_rest(new)
        return [*causes, *self._rules.validate(new, causes, old)]

    def _validate_rest(self, obj: JSON) -> Sequence[Cause]:
        return [
            *self._validate_replicas(obj),
            *validate_embedded(obj, self._schema),
            *validate_lists(obj, self._schema),
        ]

    def _validate_replicas(self, obj: Any) -> Sequence[Cause]:
        """Check the replicas that the scale shows."""
        found = obj
        for name in self._replicas:
            found = found.get(name) if isinstance(found, dict) else None
        if type(found) is not int or 0 <= found <= _MOST_REPLICAS:
            return ()
        detail = "should be a non-negative integer"
        if found > 0:
            detail = f"should be less than or equal to {_MOST_REPLICAS}"
        return [invalid("." + ".".join(self._replicas), shown(found), detail)]

    def validate_status_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check a status against the part of the schema that describes it."""
        schema = properties_of(self._schema).get("status")
        if schema is None or "status" not in new:
            return self._rules.validate(new, [], old)
        before = old.get("status")
        causes = validate_value(new["status"], schema, base="status", old=before)
        causes += validate_lists(new["status"], schema, "status")
        return [*causes, *self._rules.validate(new, causes, old)]

    # Showing

    def without_unknown(self, obj: JSON) -> JSON:
        """Return a converted object without the fields that the schema lacks."""
        result, _ = pruned(obj, self._schema, is_resource=True)
        return dict(result)

    def openapi_schema(self) -> JSON:
        """Return the schema of the version."""
        return self._schema

    def shown(self, stored: Stored) -> JSON:
        """Return an object as this version shows it.

        The server prunes an object that was stored before the definition changed, or in
        another version, and fills in the defaults that it lacks.
        """
        obj = stored.obj
        is_own = obj["apiVersion"] == self._served.api_version
        if is_own and stored.version >= self._served.since:
            return obj
        result, _ = pruned(obj, self._schema, is_resource=True)
        if self._sets_defaults:
            result = self._defaulted(result)
        return obj if result == obj else result

    def fields_to_select(self) -> Mapping[str, tuple[str, ...]]:
        """Return the selectable fields of the version."""
        return self._selectable

    def table_columns(self) -> Sequence[Column]:
        """Return the name, and the columns of the version."""
        return self._printed.columns

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return self._printed.cells(obj, now)


def _steps(path: str) -> tuple[str, ...]:
    """Return the names in a path such as ``.spec.replicas``."""
    return tuple(filter(None, path.split(".")))


def _without_metadata(obj: JSON) -> JSON:
    """Return an object with empty metadata.

    The server checks the metadata; a schema may restrict only the name.
    """
    names = {
        name: obj["metadata"][name]
        for name in ("name", "generateName")
        if name in obj["metadata"]
    }
    return {**obj, "metadata": names}
