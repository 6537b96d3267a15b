"""Create, update, delete and scale of stored objects (registry/generic)."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme.names import (
    validate_metadata,
    validate_metadata_update,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    bad_request,
    invalid,
    invalid_object,
    shown,
)
from controller_manager.devcluster.storage import Storage, Stored, key_of

from . import store
from .admission import Chain, Operation, Submission, Write
from .field_manager import part_of_cluster
from .kind import Catalogue, Kind
from .merging import with_entries
from .request_info import Target
from .security import ANONYMOUS, Authorizer, Tokens, User
from .strategy import Deletion

# Prepares the new object of an update (registry/rest).


def _carry_over(old: JSON, metadata: JSON) -> None:
    for name in store.SERVER_OWNED:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    metadata.pop("managedFields", None)
    if "managedFields" in old["metadata"]:
        metadata["managedFields"] = old["metadata"]["managedFields"]
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]


def _planned_update(kind: Kind, old: JSON, new: JSON, subresource: str) -> JSON:
    """Return the object after an update, with defaults; it changes `new`."""
    _carry_over(old, new["metadata"])
    planned = _replaced(kind, old, new, subresource)
    kind.apply_defaults(planned)
    return planned


def _replaced(kind: Kind, old: JSON, new: JSON, subresource: str) -> JSON:
    if subresource == "status":
        metadata = new["metadata"]
        for name in kind.strategy.kept_by_status:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        has_none = kind.is_custom and "status" not in new
        new = {**old, "metadata": metadata, "status": new.get("status", {})}
        if has_none:
            del new["status"]
        kind.strategy.prepare_for_status_update(old, new)
        return new
    if subresource:
        found = kind.subresource(subresource)
        assert found is not None  # noqa: S101 - the path has been checked
        assert found.replace is not None  # noqa: S101 - likewise
        return found.replace(old, new)
    if kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    kind.strategy.prepare_for_update(old, new)
    return new


def _problems_of_update(
    kind: Kind, old: JSON, new: JSON, subresource: str
) -> list[Cause]:
    """Return the errors in an update, except those in the metadata."""
    strategy = kind.strategy
    if subresource == "status":
        changes = strategy.validate_status_update(old, new)
        return [*strategy.validate_status(new), *changes]
    part = kind.subresource(subresource)
    if part is not None and part.validate is not None:
        return [*strategy.validate(new), *part.validate(old, new)]
    return [*strategy.validate(new), *strategy.validate_update(old, new)]


# Create, update and delete of stored objects (registry/generic).

Managed = Callable[[JSON, JSON, Any], list[JSON]]
"""Returns the managers of the fields of an object that is replaced.

The arguments are the old object, the new one, and the request's managedFields.
"""

AfterWrite = Callable[["Objects", JSON | None, JSON | None], None]
"""Reacts to a write: the object before and after it, `None` for no object."""


class Objects(store.ObjectStore):
    """The verbs on stored objects."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        rng: random.Random,
        admission: Chain,
        after_write: Mapping[str, AfterWrite] | None = None,
    ) -> None:
        """Take the storage, the clock, the source of uids and names, and the plugins.

        `after_write` has the functions that react to a write, by resource.
        """
        super().__init__(storage, clock, rng)
        self.admission = admission
        self._after_write = after_write or {}

    def react(self, kind: Kind, old: JSON | None, new: JSON | None) -> None:
        """Call the function that reacts to writes of a kind, if there is one."""
        if react := self._after_write.get(kind.resource):
            react(self, old, new)

    # Creating

    def create(
        self,
        kind: Kind,
        namespace: str,
        obj: JSON,
        *,
        dry_run: bool = False,
        managed: Callable[[JSON], list[JSON]] | None = None,
        user: User = ANONYMOUS,
        submission: Submission | None = None,
    ) -> Stored:
        """Store a new object of `user`.

        `managed` returns the managers of its fields. Its arguments are the given object
        and the object with defaults: fields that the server adds have no owner.
        `submission` is the request of a client, `None` for a part of the cluster.
        """
        write = Write(Operation.CREATE, kind, namespace, "", None)
        write.submission, write.is_dry_run = submission, dry_run
        if managed is None and self._writer:
            managed = part_of_cluster(self._writer, kind, "", self.clock).created
        obj = self._with_defaults(write, obj)
        obj = store.with_managers(kind, obj, managed)
        obj = self._mutated(write, obj)
        self._prepare(write, obj, user)
        self._validate(write, obj)
        self.admission.validate(write)
        key = self.free_key(kind, obj["metadata"])
        self.admission.charge(write)
        stored = self.put(kind, key, obj, dry_run=dry_run)
        if not dry_run:
            self.react(kind, None, stored.obj)
        return stored

    def _with_defaults(self, write: Write, given: JSON) -> JSON:
        kind = write.kind
        obj, _ = store.copied_object(given)
        store.place(kind, write.namespace, obj["metadata"])
        if kind.has_status:
            obj.pop("status", None)
        kind.apply_defaults(obj)
        return obj

    def _prepare(self, write: Write, obj: JSON, user: User) -> None:
        """Fill in the fields that the server sets in a new object; raises Refusal."""
        kind, metadata = write.kind, obj["metadata"]
        store.place(kind, write.namespace, metadata)
        if metadata.get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise bad_request(message)
        if self._named(kind, metadata, write.submission):
            kind.apply_defaults(obj)
        self._stamp_new(kind, metadata, write.submission)
        kind.strategy.prepare_for_create(obj, self.storage)
        kind.strategy.record_user(obj, user)

    def _validate(self, write: Write, obj: JSON) -> None:
        """Check a new object, which admission sees next; raises Refusal."""
        kind, strategy, metadata = write.kind, write.kind.strategy, obj["metadata"]
        name = metadata.get("name", "")
        causes = validate_metadata(metadata, strategy.validate_name)
        causes += [*strategy.validate(obj), *strategy.validate_new(obj)]
        if causes:
            raise invalid_object(kind.group, kind.kind, name, causes)
        write.name, write.obj = name, obj

    def _mutated(self, write: Write, obj: JSON) -> JSON:
        """Return a new object as the plugins change it; they set no status."""
        status = obj.get("status")
        write.name, write.obj = obj["metadata"].get("name", ""), obj
        self.admission.mutate(write)
        changed = write.obj
        if changed is obj or not write.kind.has_status:
            return changed
        changed.pop("status", None)
        return changed if status is None else {**changed, "status": status}

    # Updating

    def update(  # noqa: PLR0913 - the parts of a write
        self,
        kind: Kind,
        namespace: str,
        name: str,
        obj: JSON,
        subresource: str = "",
        *,
        dry_run: bool = False,
        uid_is_precondition: bool = True,
        managed: Managed | None = None,
        submission: Submission | None = None,
    ) -> Stored:
        """Replace an object, or the part that a subresource writes.

        `managed` returns the managers of its fields, and may raise Refusal.
        `submission` is the request of a client.
        """
        stored = self.find(kind, namespace, name)
        old = stored.obj
        new, given = store.copied_object(obj)
        metadata = new["metadata"]
        store.check_identity(kind, namespace, name, metadata)
        store.check_version(kind, old, metadata.get("resourceVersion", ""))
        if uid_is_precondition:
            store.check_uid(kind, old, metadata.get("uid", ""))
        write = Write(Operation.UPDATE, kind, namespace, name, new, old, subresource)
        write.submission, write.is_dry_run = submission, dry_run
        asked = None
        if submission and self.admission.mutates(write):
            asked = store.copied(new)
            new = self._mutated_update(write, new)
            metadata = new["metadata"]
        uid = metadata.get("uid") or old["metadata"]["uid"]
        causes = validate_metadata_update(old["metadata"], {**metadata, "uid": uid})
        # Upstream checks metadata twice, in the registry and in the strategy.
        causes += causes
        new = _planned_update(kind, old, new, subresource)
        managed = managed or self._managed_by_writer(kind, subresource)
        if managed:
            mine = _planned_update(kind, old, asked, subresource) if asked else new
            shown = store.with_null_times(kind.null_condition_times, mine)
            new = with_entries(new, managed(old, shown, given))
        kind.strategy.stamp(old, new, self._now(submission))
        if not subresource:
            kind.strategy.assign(old, new, self.storage)
        causes += _problems_of_update(kind, old, new, subresource)
        if causes:
            raise invalid_object(kind.group, kind.kind, name, causes)
        write.obj = new
        self.admission.validate(write)
        return self._replace(stored, write)

    def _managed_by_writer(self, kind: Kind, subresource: str) -> Managed | None:
        if not self._writer:
            return None
        return part_of_cluster(self._writer, kind, subresource, self.clock).updated

    def _mutated_update(self, write: Write, new: JSON) -> JSON:
        """Return a changed object as the plugins change it; raises Refusal."""
        assert write.old is not None  # noqa: S101 - there is one in an update
        if write.subresource != "status":  # whose null the defaults would drop
            write.kind.apply_defaults(new)
        write.obj = new
        self.admission.mutate(write)
        changed = write.obj
        store.check_identity(
            write.kind, write.namespace, write.name, changed["metadata"]
        )
        return changed

    def _replace(self, stored: Stored, write: Write) -> Stored:
        kind, new, old = write.kind, write.obj, stored.obj
        assert new is not None  # noqa: S101 - there is one in an update
        metadata, strategy, key = new["metadata"], kind.strategy, key_of(new)
        if store.is_same(store.complete(kind, new), old) and self.is_current(kind, key):
            return stored  # no change: no new version, no event
        if (
            strategy.counts_generations
            and write.subresource != "status"
            and strategy.changes_generation(old, new)
        ):
            metadata["generation"] = old["metadata"]["generation"] + 1
        self.admission.charge(write)
        result = self.put(kind, key, new, dry_run=write.is_dry_run)
        if not write.is_dry_run:
            if gone := strategy.can_be_removed(new):
                self.storage.collection(kind.resource).remove(key)
            self.react(kind, old, None if gone else result.obj)
        return result

    # Deleting

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        options: Deletion,
        *,
        dry_run: bool = False,
        submission: Submission | None = None,
        in_collection: bool = False,
    ) -> tuple[JSON, bool]:
        """Delete or mark an object; return the object, and True if it is removed.

        `submission` is the request of a client. As upstream, admission does not see the
        name of an object that is deleted with its collection.
        """
        stored = self.find(kind, namespace, name)
        store.check_deletion(kind, stored.obj, options)
        if submission:
            seen = "" if in_collection else name
            write = Write(Operation.DELETE, kind, namespace, seen, None, stored.obj)
            write.submission, write.is_dry_run = submission, dry_run
            self.admission.mutate(write)
            self.admission.validate(write)
        strategy = kind.strategy
        marked = strategy.mark_deleted(stored.obj, options, self.clock.now())
        gone = strategy.can_be_removed(marked)
        if dry_run:
            return marked, gone
        key = (namespace, name)
        records = strategy.records_deletion or not gone
        if records and marked != stored.obj:
            stored = self.put(kind, key, marked)
        if gone:
            self.storage.collection(kind.resource).remove(key)
            self.react(kind, stored.obj, None)
        return stored.obj, gone


# The handlers of a resource that use stored objects, besides its strategy.

CUSTOM_RESOURCES: Final = "*"
"""The name under which the storage of all custom resources is registered."""


@dataclass(frozen=True, slots=True)
class Call:
    """A POST to a subresource, or of a kind whose objects are not stored.

    `name` is that of the subresource's object, empty without one.
    """

    kind: Kind
    namespace: str
    name: str
    dry_run: bool
    user: User
    objects: Objects
    tokens: Tokens
    authorizer: Authorizer


Create = Callable[[Call, JSON], JSON | None]
"""Answers a POST without storing its object; returns `None` to store it.

Raises Refusal.
"""

Connect = Callable[[Call, JSON], JSON]
"""Answers a POST to a subresource; raises Refusal."""

AfterRequest = Callable[[Kind, Objects, Catalogue], None]
"""Reacts to a request that wrote objects of a kind."""


@dataclass(frozen=True, slots=True)
class RESTStorage:
    """The handlers of one resource; a resource without special handlers has none.

    `resource` is that of the kind. `after_write` reacts to each write of an object,
    `after_request` to each request that is not a GET. `connect` has the handlers of
    subresources by their names; a POST to another subresource gets 501.
    """

    resource: str
    after_write: AfterWrite | None = None
    after_request: AfterRequest | None = None
    create: Create | None = None
    connect: Mapping[str, Connect] = field(default_factory=dict)


GENERIC: Final = RESTStorage("")
"""The storage of a resource without handlers."""


# The scale subresource, for every kind that has one.


def scale_of(kind: Kind, stored: Stored) -> JSON:
    """Return the Scale of an object."""
    metadata, paths = stored.obj["metadata"], kind.scale_paths
    parts = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: JSON = {"replicas": _value_at(stored.obj, paths.status_replicas) or 0}
    if selector := _selector_of(kind, stored.obj):
        status["selector"] = selector
    replicas = _value_at(stored.obj, paths.replicas) or 0
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in parts if name in metadata},
        # Go omits a zero here.
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_of(kind: Kind, obj: JSON) -> str:
    """Return the selector of an object's pods as text, "" for none."""
    if path := kind.scale_paths.selector:
        return str(_value_at(obj, path) or "")
    selector = kind.strategy.label_selector(obj)
    return format_selector(msgspec.convert(selector, LabelSelector)) if selector else ""


def _value_at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def with_value(obj: JSON, path: tuple[str, ...], value: Any) -> JSON:
    """Return the object with another value of a field."""
    name, *rest = path
    if rest:
        inner = obj.get(name)
        value = with_value(inner if isinstance(inner, dict) else {}, (*rest,), value)
    return {**obj, name: value}


def scaled(objects: Objects, target: Target, scale: Any, managed: Managed) -> JSON:
    """Set an object's replicas to those of a Scale; return its new Scale.

    `managed` adds the field managers, given the old and the new object.

    Raises Refusal.
    """
    kind, namespace, name = target.kind, target.namespace, target.name
    stored = objects.find(kind, namespace, name)
    metadata = scale.get("metadata") if isinstance(scale, dict) else None
    spec = scale.get("spec", {}) if isinstance(scale, dict) else None
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise bad_request("a Scale has metadata and a spec, both objects")
    write = Write(
        Operation.UPDATE, kind, namespace, name, scale, scale_of(kind, stored), "scale"
    )
    write.submission, write.is_dry_run = target.submission, target.dry_run
    objects.admission.mutate(write)
    scale = write.obj
    metadata, spec = scale["metadata"], scale.get("spec", {})
    # A Scale never needs a resourceVersion.
    if given := metadata.get("resourceVersion"):
        store.check_version(kind, stored.obj, given)
    replicas = spec.get("replicas", 0)
    if type(replicas) is not int or abs(replicas) >= 2**31:
        raise bad_request("spec.replicas must be a whole number of 32 bits")
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        cause = invalid("spec.replicas", shown(replicas), detail)
        raise invalid_object("autoscaling", "Scale", name, [cause])
    objects.admission.validate(write)
    resized = with_value(stored.obj, kind.scale_paths.replicas, replicas)
    result = objects.update(
        kind, namespace, name, resized, dry_run=target.dry_run, managed=managed
    )
    return scale_of(kind, result)
