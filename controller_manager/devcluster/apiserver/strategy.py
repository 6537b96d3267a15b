"""The behaviour of the objects of one kind (registry/rest): strategy and columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.storage import Storage, Stored

from .field_set import FieldSet
from .field_type import FieldType
from .security import User

# The defaults of a kind as a mapping (pkg/apis/*/v1/defaults.go).

Defaults = Mapping[str, Any]
"""The value of each absent field, or the defaults of the object in a field.

``{"a": 1, "b": {"c": 2}, "d[]": {"e": 3}}`` fills in ``a``, in the object ``b`` the
field ``c``, and ``e`` in each object of the list ``d``. An object that is absent stays
so, unless it is the spec. ``{}`` and lists are values: a new one for each object.
"""

_ALWAYS: Final = "spec"


def fill(obj: JSON, defaults: Defaults) -> None:
    """Fill in the fields that `obj` lacks."""
    for name, value in defaults.items():
        if name.endswith("[]"):
            for each in obj.get(name[:-2]) or ():
                fill(each, value)
        elif isinstance(value, list) or value == {}:
            obj.setdefault(name, value.copy())
        elif not isinstance(value, dict):
            obj.setdefault(name, value)
        elif name == _ALWAYS:
            fill(obj.setdefault(name, {}), value)
        elif name in obj:
            fill(obj[name], value)


# The options of a DELETE, and the marks of an object that is being deleted.

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a DELETE."""

    grace_period: int | None = None
    policy: str = ""
    dry_run: bool = False
    uid: str = ""
    resource_version: str = ""


def _marked_deleted(
    obj: JSON, options: Deletion, now: datetime, period: int, *, orphans: bool
) -> JSON:
    """Return `obj` marked as deleted, with a grace period of `period` seconds.

    `orphans` says that dependents are orphaned unless the options say otherwise.
    """
    metadata = dict(obj["metadata"])
    finalizers = _finalizers(
        metadata.pop("finalizers", []), options.policy, orphans=orphans
    )
    if finalizers:
        metadata["finalizers"] = finalizers
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = format_time(now + timedelta(seconds=period))
        metadata["deletionGracePeriodSeconds"] = period
        if "generation" in metadata:
            metadata["generation"] += 1
    elif period < metadata.get("deletionGracePeriodSeconds", 0):
        # A later request with a shorter period brings the time forward.
        earlier = metadata["deletionGracePeriodSeconds"] - period
        due = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=earlier)
        metadata["deletionTimestamp"] = format_time(due)
        metadata["deletionGracePeriodSeconds"] = period
    return {**obj, "metadata": metadata}


def _finalizers(current: list[str], policy: str, *, orphans: bool) -> list[str]:
    if not policy and orphans and FOREGROUND not in current:
        policy = "Orphan"  # the default of these kinds from before propagationPolicy
    if not policy:
        return list(current)
    finalizers = [each for each in current if each not in (FOREGROUND, ORPHAN)]
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    return finalizers if wanted is None else [*finalizers, wanted]


# The columns and cells of tables, the form of objects that kubectl prints
# (printers).

Cells = list[Any]


class Column(NamedTuple):
    """A column; columns of priority 1 are shown only with ``-o wide``."""

    title: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


class Printer(Protocol):
    """The table of a kind; the package ``kinds`` makes it from a text."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table."""

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return an object's row, one cell for each column."""


NAME: Final = Column("Name")
AGE: Final = Column("Age")
CREATED_AT: Final = Column("Created At", "date")

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def human_duration(seconds: float) -> str:
    """Return an age as kubectl shows it: ``45s``, ``2m5s``, ``3h``, ``2d1h``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole // _MINUTE, "m", whole % _MINUTE, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole // _DAY, "d", whole % _DAY // _HOUR, "h")
    if whole < 2 * 365 * _DAY:
        return f"{whole // _DAY}d"
    return _two(whole // (365 * _DAY), "y", whole % (365 * _DAY) // _DAY, "d")


def _two(major: int, unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{unit}{minor}{minor_unit}" if minor else f"{major}{unit}"


def age(obj: JSON, now: datetime) -> str:
    """Return how long ago an object was created, as kubectl shows it."""
    created = obj["metadata"].get("creationTimestamp")
    if not created:
        return UNKNOWN
    return human_duration((now - parse_time(created)).total_seconds())


# The behaviour of the objects of one kind (registry/rest strategies).

_SPEC: Final[FieldSet] = {"f:spec": {}}
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Rules(Protocol):
    """The rules that a kind's objects obey; the package ``validation`` makes them."""

    def errors(self, obj: JSON, outer: JSON = ..., /) -> list[statuses.Cause]:
        """Return the errors in an object; `outer` is the old one of an update."""


class Strategy:
    """Prepares, checks, shows and deletes the objects of one kind.

    By itself it is the strategy of a kind without special behaviour: it stores every
    object as given. Most kinds differ by facts only (see ``registry.kinds``); others
    override the methods that differ. Methods change their argument, and raise Refusal,
    only where their docstrings say so.
    """

    def with_facts(self, facts: Mapping[str, Any]) -> Self:
        """Return the same strategy with other class variables or methods."""
        other = copy(self)
        vars(other).update(facts)
        return other

    counts_generations: ClassVar[bool] = False
    """True if ``metadata.generation`` counts the changes of the spec."""

    allows_unconditional_update: ClassVar[bool] = True
    """True if a PUT needs no resourceVersion."""

    returns_deleted: ClassVar[bool] = False
    """True if DELETE answers with the object, and not with a Status."""

    orphans_dependents: ClassVar[bool] = False
    """True if DELETE orphans dependents by default."""

    counted_metadata: ClassVar[str] = ""
    """A field of the metadata whose change is a new generation, too."""

    records_deletion: ClassVar[bool] = False
    """True if an object that is removed at once is marked as deleted first."""

    merges_strategically: ClassVar[bool] = True
    """True if PATCH accepts a strategic merge patch."""

    kept_by_status: ClassVar[tuple[str, ...]] = ()
    """Fields of the metadata that a write of the status does not change."""

    not_in_status: ClassVar[FieldSet] = _SPEC
    """Fields that a write of the status does not own (GetResetFields)."""

    selectable_fields: ClassVar[Mapping[str, tuple[str, ...]]] = _NONE
    """The path of each field that a field selector may name, besides the metadata."""

    absent_fields: ClassVar[Mapping[str, str]] = _NONE
    """The values of absent selectable fields, if they are not empty."""

    fallback_fields: ClassVar[Mapping[str, tuple[str, ...]]] = _NONE
    """The path of the field that is selected by where a selectable field is empty."""

    rules: ClassVar[Rules | None] = None
    """The rules for an object, except its metadata."""

    new_rules: ClassVar[Rules | None] = None
    """More rules for a new object."""

    update_rules: ClassVar[Rules | None] = None
    """The rules for the changes of an update."""

    status_rules: ClassVar[Rules | None] = None
    """The rules for an object whose status is written."""

    status_update_rules: ClassVar[Rules | None] = None
    """The rules for the changes of a status."""

    check_name: Callable[[str, str], Iterable[statuses.Cause]] = staticmethod(
        validate_subdomain
    )
    """Checks the name of a new object; it gets the name, and its path for causes."""

    defaults: ClassVar[Defaults] = _NONE
    """The values of absent fields."""

    kept: ClassVar[tuple[str, ...]] = ()
    """The fields that a PUT of the object does not change."""

    dropped: ClassVar[tuple[str, ...]] = ()
    """The dotted paths of the fields of a disabled gate.

    An update keeps them if the old object has one of them.
    """

    columns: ClassVar[tuple[Column, ...]] = (NAME, CREATED_AT)
    """The columns of the table that kubectl prints, without a `printer`."""

    printer: ClassVar[Printer | None] = None
    """The table that kubectl prints."""

    empty: ClassVar[Mapping[str, Any]] = _NONE
    """The fields that Go shows for an object with metadata only, as in a bookmark."""

    # Reading what clients send

    def decoded(self, obj: JSON) -> tuple[JSON, list[str]]:
        """Return an object of a kind without a model, and its problems.

        Raises TypeMismatch for a value of a wrong type.
        """
        return obj, []

    # Creating and updating

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults of `obj` (pkg/apis/*/v1/defaults.go)."""
        fill(obj, self.defaults)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Fill in other fields of `obj` after the defaults."""
        del storage
        self._drop(obj)

    def _drop(self, obj: JSON) -> None:
        for path in self.dropped:
            parent, name = _place(obj, path)
            parent.pop(name, None)

    def record_user(self, obj: JSON, user: User) -> None:
        """Fill in the user that creates `obj`."""

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Restore fields of `new` that a PUT of the object may not change."""
        for name in self.kept:
            new[name] = old[name]
        places = (_place(old, path) for path in self.dropped)
        if not any(name in parent for parent, name in places):
            self._drop(new)

    def prepare_for_status_update(self, old: JSON, new: JSON) -> None:
        """Restore fields of `new` that a write of the status may not change."""

    def stamp(self, old: JSON, new: JSON, now: datetime) -> None:
        """Fill in the times of `new` that the server sets in any update."""

    def assign(self, old: JSON, new: JSON, storage: Storage) -> None:
        """Fill in the server's fields in a changed object that has its defaults.

        Raises Refusal.
        """

    def changes_generation(self, old: JSON, new: JSON) -> bool:
        """Tell whether an update makes a new generation."""
        if _content(old) != _content(new):
            return True
        name = self.counted_metadata
        return bool(name and old["metadata"].get(name) != new["metadata"].get(name))

    def field_type(self) -> FieldType | None:
        """Return the field types of a kind without a model, `None` if unknown."""
        return None

    # Validation (pkg/apis/*/validation): causes in the order of upstream

    def validate_name(self, name: str) -> list[statuses.Cause]:
        """Check the name of a new object."""
        return list(self.check_name(name, "metadata.name"))

    def validate(self, obj: JSON) -> Sequence[statuses.Cause]:
        """Check an object before it is stored, except its metadata."""
        return self.rules.errors(obj) if self.rules else ()

    def validate_new(self, obj: JSON) -> Sequence[statuses.Cause]:
        """Check the rules for new objects."""
        return self.new_rules.errors(obj) if self.new_rules else ()

    def validate_update(self, old: JSON, new: JSON) -> Sequence[statuses.Cause]:
        """Check the changes of an update; the new object itself is valid."""
        return self.update_rules.errors(new, old) if self.update_rules else ()

    def validate_status(self, obj: JSON) -> Sequence[statuses.Cause]:
        """Check a status before it is stored."""
        return self.status_rules.errors(obj) if self.status_rules else ()

    def validate_status_update(self, old: JSON, new: JSON) -> Sequence[statuses.Cause]:
        """Check the changes of a status; the new status itself is valid."""
        rules = self.status_update_rules
        return rules.errors(new, old) if rules else ()

    # Deleting

    def grace_period(self, obj: JSON, wanted: int | None) -> int:
        """Return the seconds until an object is removed; `wanted` was requested."""
        del obj, wanted
        return 0

    def mark_deleted(self, obj: JSON, options: Deletion, now: datetime) -> JSON:
        """Return `obj` marked as deleted; raises Refusal."""
        period = self.grace_period(obj, options.grace_period)
        return _marked_deleted(
            obj, options, now, period, orphans=self.orphans_dependents
        )

    def can_be_removed(self, obj: JSON) -> bool:
        """Tell whether an object that is being deleted can be removed now."""
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return False
        return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)

    def deletion_warnings(self, options: Deletion) -> Sequence[str]:
        """Return the warnings in the answer to a DELETE with these options."""
        del options
        return ()

    # Showing

    def openapi_schema(self) -> JSON | None:
        """Return the schema of a kind without a model, `None` if it has none."""
        return None

    def shown(self, stored: Stored) -> JSON:
        """Return an object in the form for clients, by default the stored form."""
        return stored.obj

    def fields_to_select(self) -> Mapping[str, tuple[str, ...]]:
        """Return the path of each field that a field selector may name."""
        return self.selectable_fields

    def table_columns(self) -> Sequence[Column]:
        """Return the columns of the table that kubectl prints."""
        return self.printer.columns if self.printer else self.columns

    def in_table_order(self, items: Iterable[Stored]) -> Iterable[Stored]:
        """Return the objects in the order of the table's rows."""
        return items

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return an object's row of the table, one cell for each column."""
        if self.printer:
            return self.printer.cells(obj, now)
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")]

    def label_selector(self, obj: JSON) -> JSON | None:
        """Return the LabelSelector of the objects that the spec selects."""
        selector: JSON | None = obj["spec"].get("selector")
        return selector


def _content(obj: JSON) -> JSON:
    aside = ("metadata", "status", "kind", "apiVersion")
    return {key: value for key, value in obj.items() if key not in aside}


def _place(obj: JSON, path: str) -> tuple[JSON, str]:
    *parents, name = path.split(".")
    for each in parents:
        obj = obj.get(each) or {}
    return obj, name
