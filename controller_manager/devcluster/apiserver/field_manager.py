"""Writes managedFields: the manager that a request names, and server-side apply.

Upstream: apimachinery/pkg/util/managedfields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.transport import Request
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme.names import validate_annotations
from controller_manager.devcluster.scheme.statuses import (
    invalid,
    invalid_object,
    shown,
    too_long,
)
from controller_manager.devcluster.storage import Stored

from . import merging
from .field_set import (
    EMPTY,
    Comparison,
    FieldSet,
    compare,
    difference,
    fields_of,
    fields_of_new,
    intersection,
    outside_of,
    union,
)
from .field_type import DEDUCED, FieldType, faults_of, type_of_model
from .kind import Answers, Catalogue, Kind, in_version, to_stored
from .negotiation import header
from .request_info import Target

# The annotation of client-side apply, for kubectl's change to server-side apply.

KUBECTL: Final = "kubectl"
"""The manager whose configurations are also in the annotation."""

_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def _given_up(live: JSON, api_version: str, type_: FieldType) -> FieldSet:
    """Return the fields that client-side apply has set and no manager has changed.

    The next server-side apply may take them.
    """
    text = _annotations(live).get(_ANNOTATION)
    try:
        last = msgspec.json.decode(text or "null")
    except msgspec.DecodeError:
        return EMPTY
    if not isinstance(last, dict) or last.get("apiVersion") != api_version:
        return EMPTY
    if faults_of(last, type_):
        return EMPTY
    found = compare(last, live, type_)
    fields = fields_of(last, type_)
    for each in found:
        fields = difference(fields, each)
    return fields


def _with_last_applied(obj: JSON, config: JSON) -> JSON:
    """Return an object with a new configuration in its annotation, if it has one.

    The annotation is removed if the annotations would become too large.
    """
    annotations = _annotations(obj)
    if not annotations.get(_ANNOTATION):
        return obj
    applied = _without_annotation(config)
    text = msgspec.json.encode(applied, order="sorted").decode() + "\n"
    updated = {**annotations, _ANNOTATION: text}
    if validate_annotations(updated, ""):
        del updated[_ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": updated}}


def _annotations(obj: JSON) -> JSON:
    found: JSON = obj.get("metadata", {}).get("annotations") or {}
    return found


def _without_annotation(config: JSON) -> JSON:
    annotations = dict(_annotations(config))
    if annotations.pop(_ANNOTATION, None) is None:
        return config
    metadata = {**config["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**config, "metadata": metadata}


# Updates the managers of an object's fields after each write.

_BEFORE: Final = "before-first-apply"
_STRIPPED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{name}": {}
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        },
    },
}
"""Fields without an owner (stripmeta.go)."""


@dataclass(frozen=True)
class FieldManager:
    """A request's manager of fields, in the version of the request.

    `find` returns a version of the kind by its apiVersion, `None` if it is not served.
    `reset` are the fields that the endpoint does not write, so the manager does not own
    them. `time` is that of the request.
    """

    manager: merging.Manager
    version: merging.Version
    find: Callable[[str], merging.Version | None]
    reset: FieldSet
    time: str

    def created(self, obj: JSON) -> list[JSON]:
        """Return the managers of a new object, given in its stored form."""
        return self._with_mine({}, self._all_of(self.version.shown(obj)))

    def updated(self, old: JSON, new: JSON, given: Any = None) -> list[JSON]:
        """Return the managers of an object that a request replaces.

        Both objects are as they are stored. `given` are the managedFields of the
        request, `None` for none. A request may change them, except through a
        subresource; invalid managedFields are ignored.
        """
        entries: list[JSON] = old["metadata"].get("managedFields") or []
        owners: merging.Owners = {}
        if not self.manager.subresource and given is not None and given != entries:
            if merging.is_reset(given):
                return []
            owners = merging.owners_given(given)
        is_given = bool(owners)
        owners = owners or merging.owners_in(entries)
        if not owners:
            return []
        shown = self.version.shown
        found = self._compared(shown(old), shown(new), owners)
        mine = self._mine(found[self.version.api_version].changed)
        left = _less(owners, found)
        if not mine and left == owners and not is_given:
            return entries
        return self._with_mine(left, mine)

    def applied(
        self, live: JSON, config: JSON, *, force: bool
    ) -> tuple[JSON, list[JSON]]:
        """Return an object to which a configuration is applied, and its managers.

        All are in the version of the request. Fields that this manager applied before,
        and that no other manager owns, are removed if the configuration lacks them.
        Raises Refusal 409 if another manager owns a field with another value, unless
        `force` is given.
        """
        owners = self._owners_before(live)
        last, type_ = owners.get(self.manager), self.version.type
        given = outside_of(fields_of(config, type_), self.reset)
        fields, version = difference(given, _STRIPPED), self.version.api_version
        wanted = merging.Owned(fields, version, last.time if last else "")
        others = {each: one for each, one in owners.items() if each != self.manager}
        result = merging.merged(live, config, type_)
        if last:
            # The name that a configuration has keeps the metadata.
            everybody = (*others.values(), replace(wanted, fields=given))
            result = merging.Pruning(self.version, self.find).pruned(
                result, last, everybody
            )
            # A map that lost all its fields stays if the configuration has it.
            result = merging.merged(result, config, type_)
        found = self._compared(live, result, others)
        if not force:
            self._check_conflicts(_taken(others, found), live)
        if live != result:
            wanted = replace(wanted, time=self.time)
        if self.manager.name == KUBECTL:
            result = _with_last_applied(result, config)
        return result, merging.entries_of(
            {**_less(others, found), self.manager: wanted}
        )

    def _owners_before(self, live: JSON) -> merging.Owners:
        """Return the owners of an object.

        If no manager owns a field of an existing object, its fields belong to
        ``before-first-apply`` (skipnonapplied.go).
        """
        owners = merging.owners_in(live["metadata"].get("managedFields"))
        if owners or not live["metadata"].get("uid"):
            return owners
        api_version = self.version.api_version
        before = merging.Manager(
            _BEFORE, "Update", self.manager.subresource, api_version
        )
        return {before: merging.Owned(self._all_of(live), api_version, self.time)}

    def _check_conflicts(
        self, conflicts: Mapping[merging.Manager, FieldSet], live: JSON
    ) -> None:
        """Raise the conflicts; kubectl may take fields of its client-side apply."""
        if conflicts and self.manager.name == KUBECTL:
            allowed = _given_up(live, self.version.api_version, self.version.type)
            conflicts = {
                each: left
                for each, fields in conflicts.items()
                if (left := difference(fields, allowed))
            }
        if conflicts:
            raise merging.conflict_of(conflicts)

    def _all_of(self, obj: JSON) -> FieldSet:
        return self._mine(fields_of_new(obj, self.version.type))

    def _mine(self, fields: FieldSet) -> FieldSet:
        return difference(outside_of(fields, self.reset), _STRIPPED)

    def _with_mine(self, owners: merging.Owners, mine: FieldSet) -> list[JSON]:
        if mine:
            known = owners.get(self.manager)
            fields = union(known.fields, mine) if known else mine
            owned = merging.Owned(fields, self.version.api_version, self.time)
            owners = {**owners, self.manager: owned}
        return merging.entries_of(merging.capped(owners))

    def _compared(
        self, old: JSON, new: JSON, owners: merging.Owners
    ) -> dict[str, Comparison]:
        own, type_ = self.version.api_version, self.version.type
        found = {own: compare(old, new, type_).outside_of(self.reset)}
        for owned in owners.values():
            if owned.api_version in found:
                continue
            if (version := self.find(owned.api_version)) is not None:
                stored = self.version.stored
                before, after = (version.shown(stored(each)) for each in (old, new))
                found[owned.api_version] = compare(before, after, version.type)
        return found


def _taken(
    owners: merging.Owners, found: Mapping[str, Comparison]
) -> dict[merging.Manager, FieldSet]:
    return {
        each: fields
        for each, owned in owners.items()
        if owned.api_version in found
        and (fields := intersection(owned.fields, found[owned.api_version].changed))
    }


def _less(owners: merging.Owners, found: Mapping[str, Comparison]) -> merging.Owners:
    """Remove changed fields from owners, and owners without fields.

    Owners in versions that are no longer served are removed, too.
    """
    result = {}
    for each, owned in owners.items():
        if (changes := found.get(owned.api_version)) is None:
            continue
        left = difference(difference(owned.fields, changes.changed), changes.removed)
        if left is owned.fields:
            result[each] = owned
        elif left:
            result[each] = replace(owned, fields=left, entry=None)
    return result


# The manager of fields that a request names, and the versions of its kind.

MOST_BYTES: Final = 128
"""The most bytes in the name of a manager of fields."""

_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions"}

_STATUS: Final[FieldSet] = {"f:status": {}}


def field_manager(
    target: Target, request: Request, operation: str, clock: Clock, catalogue: Catalogue
) -> FieldManager:
    """Return the manager of fields that a request names, or its user agent.

    Raises Refusal if the name in the request is invalid.
    """
    kind, subresource = target.kind, target.subresource
    options = _OPTIONS.get(request.method, "PatchOptions")
    agent = header(request.headers, "user-agent").partition("/")[0]
    name = _checked(target.query, options) or _printable(agent) or "unknown"
    version = kind.api_version if operation == "Update" else ""
    submission = target.submission
    return FieldManager(
        merging.Manager(name, operation, subresource, version),
        version_of(kind),
        partial(_find, catalogue, kind, submission),
        _reset(kind, subresource),
        # The time is the same in all attempts to write.
        format_time(submission.now if submission else clock.now()),
    )


def part_of_cluster(
    name: str, kind: Kind, subresource: str, clock: Clock
) -> FieldManager:
    """Return the manager of fields for a part of the cluster that sends no requests.

    Such parts write only kinds whose versions all have the same fields.
    """
    version = version_of(kind)
    return FieldManager(
        merging.Manager(name, "Update", subresource, kind.api_version),
        version,
        lambda api_version: version._replace(api_version=api_version),
        _reset(kind, subresource),
        format_time(clock.now()),
    )


def version_of(kind: Kind) -> merging.Version:
    """Return the version of a kind in which objects are merged."""
    model = kind.type_name
    if model and not kind.conversion:
        return _only_version(kind.api_version, model)
    own = kind.strategy.field_type()
    type_ = type_of_model(model) if model else own or DEDUCED
    shown = partial(_shown, kind)
    return merging.Version(kind.api_version, type_, shown, partial(to_stored, kind))


@cache
def _only_version(api_version: str, model: str) -> merging.Version:
    return merging.Version(api_version, type_of_model(model), _same, _same)


def _same(obj: JSON) -> JSON:
    return obj


def _shown(kind: Kind, obj: JSON) -> JSON:
    return in_version(kind, Stored({"apiVersion": "", **obj}, 0)).obj


def _find(
    catalogue: Catalogue, kind: Kind, answers: Answers | None, api_version: str
) -> merging.Version | None:
    """Return the version of a kind by its apiVersion, `None` if it is not served."""
    group, _, version = api_version.rpartition("/")
    found = catalogue.find(group, version, kind.plural)
    if found is None or found.kind != kind.kind:
        return None
    return version_of(found.within(answers) if answers else found)


def _reset(kind: Kind, subresource: str) -> FieldSet:
    """Return the fields that an endpoint does not write (GetResetFields)."""
    if subresource == "status":
        kept: FieldSet = {f"f:{name}": {} for name in kind.strategy.kept_by_status}
        more = {"f:metadata": kept} if kept else EMPTY
        return union(kind.strategy.not_in_status, more)
    return _STATUS if kind.has_status and not subresource else EMPTY


@lru_cache(256)
def _printable(agent: str) -> str:
    return "".join(each for each in agent if each.isprintable())[:MOST_BYTES]


def _checked(query: Mapping[str, str], options: str) -> str:
    """Return the parameter fieldManager; raises Refusal if it is not valid.

    Upstream: apimachinery/pkg/apis/meta/v1/validation.
    """
    name, causes = query.get("fieldManager", ""), []
    if len(name.encode()) > MOST_BYTES:
        causes.append(too_long("fieldManager", MOST_BYTES))
    position = 0
    for each in name:
        if not each.isprintable():
            detail = f"invalid character U+{ord(each):04X} (at position {position})"
            causes.append(invalid("fieldManager", shown(name), detail))
        position += len(each.encode())
    if causes:
        raise invalid_object("meta.k8s.io", options, "", causes)
    return name
