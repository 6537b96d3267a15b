"""Create, update and delete of stored objects (registry/generic).

Every function either returns the new object or raises a Refusal, and then nothing
has changed. The strategy of a kind decides what is special about it.
"""

import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from controller_manager.api.times import format_time
from controller_manager.clock import Clock
from controller_manager.devcluster.server.authentication import ANONYMOUS, User
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.object_meta import (
    validate_metadata,
    validate_metadata_update,
)
from controller_manager.devcluster.server.preconditions import (
    check_deletion,
    check_uid,
    check_version,
)
from controller_manager.devcluster.server.statuses import (
    already_exists,
    bad_request,
    invalid_object,
    not_found,
)
from controller_manager.devcluster.server.storage import Key, Storage, Stored

JSON = dict[str, Any]
Managed = Callable[[JSON, JSON], JSON]


class Admission(Protocol):
    """Decides which objects may be stored."""

    def admit(self, kind: Kind, namespace: str, name: str) -> None:
        """Raise Refusal if a namespace accepts no new object with that name."""

    def charge(
        self,
        kind: Kind,
        new: JSON,
        old: JSON | None,
        subresource: str,
        *,
        dry_run: bool,
    ) -> None:
        """Charge quotas for `new`, which replaces `old`; raises Refusal.

        A dry run charges nothing.
        """


_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX: Final = 58
_SERVER_OWNED: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


class Objects:
    """The verbs on stored objects."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        rng: random.Random,
        admission: Admission,
    ) -> None:
        """Take the storage, the clock, and the source of uids and names."""
        self.storage = storage
        self.clock = clock
        self._rng = rng
        self._admission = admission

    def find(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Return an object; raises Refusal 404."""
        stored = self.storage.collection(kind.stored.resource).get((namespace, name))
        if stored is None:
            raise not_found(kind.group, kind.plural, name)
        return stored

    def has(self, kind: Kind, namespace: str, name: str) -> bool:
        """Tell whether there is such an object."""
        return (
            self.storage.collection(kind.stored.resource).get((namespace, name))
            is not None
        )

    def put(self, kind: Kind, key: Key, obj: JSON, *, dry_run: bool = False) -> Stored:
        """Store an object without checks, unless it is a dry run."""
        complete = _complete(kind, obj)
        if dry_run:
            return Stored(complete, self.storage.version)
        return self.storage.collection(kind.resource).put(key, complete)

    # Creating

    def create(
        self,
        kind: Kind,
        namespace: str,
        obj: JSON,
        *,
        dry_run: bool = False,
        managed: Callable[[JSON], JSON] | None = None,
        user: User = ANONYMOUS,
    ) -> Stored:
        """Store a new object of `user`; `managed` adds the managers of its fields."""
        obj, strategy = self._prepared(kind, namespace, obj), kind.strategy
        strategy.record_user(obj, user)
        metadata = obj["metadata"]
        name = metadata.get("name", "")
        causes = validate_metadata(metadata, strategy.validate_name)
        causes += [*strategy.validate(obj), *strategy.validate_new(obj)]
        if causes:
            raise invalid_object(kind.group, kind.kind, name, causes)
        key = (metadata.get("namespace", ""), name)
        if self.storage.collection(kind.resource).get(key) is not None:
            raise already_exists(kind.group, kind.plural, name)
        strategy.admit(obj, self.storage)
        self._admission.charge(kind, obj, None, "", dry_run=dry_run)
        obj = managed(obj) if managed else obj
        stored = self.put(kind, key, obj, dry_run=dry_run)
        if not dry_run:
            strategy.after_change(namespace, self.storage)
            strategy.after_write(self, None, stored.obj)
        return stored

    def _prepared(self, kind: Kind, namespace: str, given: JSON) -> JSON:
        """Return a new object with the fields that the server sets; raises Refusal."""
        obj: JSON = _copied(given)
        metadata = obj.setdefault("metadata", {})
        _place(kind, namespace, metadata)
        kind.strategy.mutate(obj, self.storage)
        self._name(metadata)
        if kind.namespaced:
            self._admission.admit(kind, namespace, metadata.get("name", ""))
        if metadata.get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise bad_request(message)
        self._stamp_new(kind, metadata)
        if kind.has_status:
            obj.pop("status", None)
        kind.strategy.apply_defaults(obj)
        kind.strategy.prepare_for_create(obj, self.storage)
        return obj

    def _name(self, metadata: JSON) -> None:
        prefix = metadata.get("generateName", "")
        if prefix and not metadata.get("name"):
            suffix = "".join(self._rng.choices(_SUFFIX_LETTERS, k=5))
            metadata["name"] = prefix[:_MAX_PREFIX] + suffix

    def _stamp_new(self, kind: Kind, metadata: JSON) -> None:
        for name in (*_SERVER_OWNED, "resourceVersion", "managedFields"):
            metadata.pop(name, None)
        bits = self._rng.getrandbits(128)
        metadata["uid"] = str(uuid.UUID(int=bits, version=4))
        metadata["creationTimestamp"] = format_time(self.clock.now())
        if kind.strategy.counts_generations:
            metadata["generation"] = 1

    # Updating

    def update(
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
    ) -> Stored:
        """Replace an object, or the part that a subresource writes.

        `managed` adds the managers of its fields, given the old and the new one, and
        may raise Refusal.
        """
        stored = self.find(kind, namespace, name)
        old = stored.obj
        new: JSON = _copied(obj)
        metadata = new.setdefault("metadata", {})
        _check_identity(kind, namespace, name, metadata)
        check_version(kind, old, metadata.get("resourceVersion", ""))
        if uid_is_precondition:
            check_uid(kind, old, metadata.get("uid", ""))
        uid = metadata.get("uid") or old["metadata"]["uid"]
        causes = validate_metadata_update(old["metadata"], {**metadata, "uid": uid})
        # Upstream checks metadata twice, in the registry and in the strategy.
        causes += causes
        _carry_over(old, metadata)
        new = _replaced(kind, old, new, subresource)
        kind.strategy.apply_defaults(new)
        kind.strategy.stamp(old, new, self.clock.now())
        if not subresource:
            kind.strategy.assign(old, new, self.storage)
        causes += _validated(kind, old, new, subresource)
        if causes:
            raise invalid_object(kind.group, kind.kind, name, causes)
        new = managed(old, new) if managed else new
        return self._replace(kind, stored, new, subresource, dry_run=dry_run)

    def _replace(
        self, kind: Kind, stored: Stored, new: JSON, subresource: str, *, dry_run: bool
    ) -> Stored:
        old, metadata, strategy = stored.obj, new["metadata"], kind.strategy
        if _complete(kind, new) == old:
            return stored  # no change: no new version, no event
        if (
            strategy.counts_generations
            and not subresource
            and strategy.changes_generation(old, new)
        ):
            metadata["generation"] = old["metadata"]["generation"] + 1
        self._admission.charge(kind, new, old, subresource, dry_run=dry_run)
        key = (metadata.get("namespace", ""), metadata["name"])
        result = self.put(kind, key, new, dry_run=dry_run)
        if not dry_run:
            gone = strategy.can_be_removed(new)
            if gone:
                self.storage.collection(kind.resource).remove(key)
            strategy.after_change(key[0], self.storage)
            strategy.after_write(self, old, None if gone else result.obj)
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
    ) -> tuple[JSON, bool]:
        """Delete an object or mark it; return it, and whether it is removed."""
        stored = self.find(kind, namespace, name)
        check_deletion(kind, stored.obj, options)
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
            strategy.after_change(namespace, self.storage)
            strategy.after_write(self, stored.obj, None)
        return stored.obj, gone


def _copied(value: Any) -> Any:
    """Return a copy of a JSON value; copy.deepcopy takes several times as long."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value


def _complete(kind: Kind, obj: JSON) -> JSON:
    """Return an object as it is stored: kind and apiVersion come first."""
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        **_with_null_times(kind.strategy.null_condition_times, obj),
    }


def _with_null_times(names: Sequence[str], obj: JSON) -> JSON:
    """Return `obj` with null for absent condition times that Go always writes."""
    conditions = obj.get("status", {}).get("conditions") if names else None
    if not conditions:
        return obj
    complete = [{**dict.fromkeys(names), **condition} for condition in conditions]
    return {**obj, "status": {**obj["status"], "conditions": complete}}


def _place(kind: Kind, namespace: str, metadata: JSON) -> None:
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        message = (
            "the namespace of the provided object does not match the "
            "namespace sent on the request"
        )
        raise bad_request(message)
    metadata["namespace"] = namespace


def _check_identity(kind: Kind, namespace: str, name: str, metadata: JSON) -> None:
    _place(kind, namespace, metadata)
    given = metadata.get("name", "")
    if given and given != name:
        message = (
            f"the name of the object ({given}) does not match the name on the "
            f"URL ({name})"
        )
        raise bad_request(message)
    metadata["name"] = name


def _carry_over(old: JSON, metadata: JSON) -> None:
    """Copy the fields that the server owns from the old metadata to the new."""
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    metadata.pop("managedFields", None)
    if "managedFields" in old["metadata"]:
        metadata["managedFields"] = old["metadata"]["managedFields"]
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]


def _replaced(kind: Kind, old: JSON, new: JSON, subresource: str) -> JSON:
    """Return the new object: the endpoint decides which fields may change."""
    if subresource == "status":
        metadata = new["metadata"]
        for name in kind.strategy.kept_by_status:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        new = {**old, "metadata": metadata, "status": new.get("status", {})}
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


def _validated(kind: Kind, old: JSON, new: JSON, subresource: str) -> list[Any]:
    strategy = kind.strategy
    if subresource == "status":
        changes = strategy.validate_status_update(old, new)
        return [*strategy.validate_status(new), *changes]
    return [*strategy.validate(new), *strategy.validate_update(old, new)]
