"""The store of objects: finds, names and stores them, in the stored form."""

import random
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime
from functools import partial
from typing import Any, Final, Self

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.decoding import random_uid
from controller_manager.devcluster.storage import Key, Storage, Stored

from .admission import Submission
from .kind import Converter, Kind
from .merging import same_but_for_time, with_entries
from .strategy import Deletion

# The form in which objects are stored: copies, and the place in a namespace.

SERVER_OWNED: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""Fields of the metadata that clients cannot change."""

_NESTED: Final = (dict, list)


def copied(value: Any) -> Any:
    """Return a copy of a JSON value; copy.deepcopy takes several times as long.

    Most values are texts: copy them without a call.
    """
    if isinstance(value, dict):
        return {
            key: copied(each) if type(each) in _NESTED else each
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [copied(each) if type(each) in _NESTED else each for each in value]
    return value


def copied_object(given: JSON) -> tuple[JSON, Any]:
    """Return a copy of an object without its managedFields, and the managedFields."""
    entries = None
    if (metadata := given.get("metadata")) and "managedFields" in metadata:
        metadata = dict(metadata)
        entries = metadata.pop("managedFields")
    obj: JSON = copied({**given, "metadata": metadata or {}})
    return obj, entries


def complete(kind: Kind, obj: JSON) -> JSON:
    """Return an object as it is stored: kind and apiVersion come first.

    A stored object that has changed is so already, and is not copied.
    """
    shown = with_null_times(kind.null_condition_times, obj)
    if _is_headed(kind, shown):
        return shown
    return {**kind.head, **shown}


def _is_headed(kind: Kind, obj: JSON) -> bool:
    fields = iter(obj.items())
    return next(fields, None) == ("kind", kind.kind) and next(fields, None) == (
        "apiVersion",
        kind.api_version,
    )


def is_same(new: JSON, old: JSON) -> bool:
    """Tell whether an update changes nothing, or only times of managers.

    Upstream: apiserver/pkg/endpoints/handlers/fieldmanager/equality.go.
    """
    if new == old:
        return True
    before, after = (each["metadata"].get("managedFields") for each in (old, new))
    if not before or not after or not same_but_for_time(before, after):
        return False
    return with_entries(new, []) == with_entries(old, [])


def with_null_times(names: Sequence[str], obj: JSON) -> JSON:
    """Return `obj` with null for absent condition times that Go always writes."""
    conditions = obj.get("status", {}).get("conditions") if names else None
    if not conditions or not _lack(conditions, names):
        return obj
    complete = [{**dict.fromkeys(names), **condition} for condition in conditions]
    return {**obj, "status": {**obj["status"], "conditions": complete}}


def _lack(conditions: Sequence[JSON], names: Sequence[str]) -> bool:
    """Tell whether a condition lacks one of these fields; most have all."""
    for condition in conditions:
        for name in names:
            if name not in condition:
                return True
    return False


def with_managers(
    kind: Kind, obj: JSON, managed: Callable[[JSON], list[JSON]] | None
) -> JSON:
    """Return a new object with the managers of its fields, if there are any."""
    if managed is None:
        return obj
    shown = with_null_times(kind.null_condition_times, obj)
    return with_entries(obj, managed(shown))


def place(kind: Kind, namespace: str, metadata: JSON) -> None:
    """Put an object into the namespace of its path; raises Refusal for another one."""
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        raise statuses.bad_request(
            "the namespace of the provided object does not match the "
            "namespace sent on the request"
        )
    metadata["namespace"] = namespace


def check_identity(kind: Kind, namespace: str, name: str, metadata: JSON) -> None:
    """Raise Refusal unless an object has the namespace and the name of its path."""
    place(kind, namespace, metadata)
    given = metadata.get("name", "")
    if not given:
        raise statuses.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name "
            "must be provided"
        )
    if given != name:
        raise statuses.bad_request(
            f"the name of the object ({given}) does not match the name on the "
            f"URL ({name})"
        )


# Preconditions: the resource version and uid that a request expects.

_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version "
    "and try again"
)


def check_version(kind: Kind, old: JSON, given: str) -> None:
    """Check the resourceVersion that an update carries; raises Refusal."""
    current = old["metadata"]
    if not given and not kind.strategy.allows_unconditional_update:
        cause = statuses.required(
            "metadata.resourceVersion", "must be specified for an update"
        )
        raise statuses.invalid_object(kind.group, kind.kind, current["name"], [cause])
    if given and given != current["resourceVersion"]:
        raise statuses.conflict(kind.group, kind.plural, current["name"], _MODIFIED)


def check_uid(kind: Kind, old: JSON, given: str) -> None:
    """Check the uid of a PUT, if it has one; raises Refusal."""
    current = old["metadata"]
    if not given or given == current["uid"]:
        return
    name, namespace = current["name"], current.get("namespace", "")
    path = f"{namespace}/{name}" if namespace else name
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/"
        f"{path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID "
        f"in precondition: {given}, UID in object meta: {current['uid']}"
    )
    raise statuses.conflict(kind.group, kind.plural, name, why)


def check_deletion(kind: Kind, obj: JSON, options: Deletion) -> None:
    """Check the preconditions of a DELETE; raises Refusal."""
    metadata = obj["metadata"]
    name = metadata["name"]
    if options.uid and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID "
            f"in record ({metadata['uid']}). The object might have been deleted "
            "and then recreated"
        )
        raise statuses.conflict(kind.group, kind.kind, name, why)
    version = metadata["resourceVersion"]
    if options.resource_version and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version})"
            f" does not match the ResourceVersion in record ({version}). The "
            "object might have been modified"
        )
        raise statuses.conflict(kind.group, kind.kind, name, why)


# The store of objects: finds, names and stores them, without checks.

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX: Final = 58
_MOST_NAMES: Final = 8
"""The most names that are generated for an object until one is free."""


class ObjectStore:
    """Finds, names and stores objects, without checks."""

    def __init__(self, storage: Storage, clock: Clock, rng: random.Random) -> None:
        self.storage = storage
        self.clock = clock
        self._rng = rng
        self._writer = ""

    def in_name_of(self, writer: str) -> Self:
        """Return the same objects for a part of the cluster that writes them.

        The server records `writer` as the manager of the changed fields, unless a write
        names another one.
        """
        other = copy(self)
        other._writer = writer  # noqa: SLF001 - of this class
        return other

    def find(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Return an object, in the version of a kind with a webhook.

        Raises Refusal 404, and Pending.
        """
        stored = self.storage.collection(kind.stored.resource).get((namespace, name))
        if stored is None:
            raise statuses.not_found(kind.group, kind.plural, name)
        return kind.converter.shown(stored) if kind.converter else stored

    def has(self, kind: Kind, namespace: str, name: str) -> bool:
        """Tell whether there is such an object."""
        return (
            self.storage.collection(kind.stored.resource).get((namespace, name))
            is not None
        )

    def is_current(self, kind: Kind, key: Key) -> bool:
        """Tell whether an object is stored in the version that the kind stores now."""
        stored = self.storage.collection(kind.stored.resource).get(key)
        return not kind.converter or not stored or kind.converter.is_current(stored.obj)

    def free_key(self, kind: Kind, metadata: JSON) -> Key:
        """Return the key of a new object; raises Refusal 409 if it is in use."""
        key = (metadata.get("namespace", ""), metadata["name"])
        stored = self.storage.collection(kind.resource).get(key)
        if stored is None:
            return key
        raise statuses.already_exists(
            kind.group,
            kind.plural,
            metadata["name"],
            is_generated=bool(metadata.get("generateName")),
            is_deleted="deletionTimestamp" in stored.obj["metadata"],
        )

    def put(self, kind: Kind, key: Key, obj: JSON, *, dry_run: bool = False) -> Stored:
        """Store an object without checks, unless it is a dry run."""
        collection = self.storage.collection(kind.resource)
        if kind.converter:
            return self._put_converted(kind.converter, kind, key, obj, dry_run=dry_run)
        if dry_run:
            return Stored(complete(kind, obj), collection.version)
        shown = with_null_times(kind.null_condition_times, obj)
        return collection.put(key, shown, kind.head)

    def _put_converted(
        self, converter: Converter, kind: Kind, key: Key, obj: JSON, *, dry_run: bool
    ) -> Stored:
        """Store an object in the stored version; return it as it is read then.

        All conversions are done before: nothing is stored while one is pending.
        """
        collection = self.storage.collection(kind.resource)
        kept = converter.kept(complete(kind, obj))
        shown = converter.shown(Stored(kept, collection.version))
        return shown if dry_run else converter.shown(collection.put(key, kept))

    def insert(self, kind: Kind, key: Key, obj: JSON, now: datetime) -> Stored:
        """Store a new, complete object of a part of the cluster without checks.

        The server adds its namespace, its name, a uid, and `now` as the time of its
        creation. Usually the name is free, as that of an event with a time.
        """
        namespace, name = key
        metadata: JSON = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        self._stamp(kind, metadata, self.new_uid(), now)
        collection = self.storage.collection(kind.resource)
        new = {**kind.head, **obj, "metadata": metadata}
        if collection.get(key) is not None:
            return collection.put(key, new)
        return collection.add(key, new)

    def _named(self, kind: Kind, metadata: JSON, submission: Submission | None) -> bool:
        """Generate the name of a new object without one; tell whether it had none.

        All attempts of a submission get the same name.
        """
        if not metadata.get("generateName") or metadata.get("name"):
            return False
        new_name = partial(self._new_name, kind, metadata)
        metadata["name"] = _once(submission, "name", new_name)
        return True

    def _new_name(self, kind: Kind, metadata: JSON) -> str:
        """Return a name that is free, or the last of eight, as upstream.

        Upstream: createWithGenerateNameRetry of apiserver's registry/store.go.
        """
        prefix, namespace = metadata["generateName"], metadata.get("namespace", "")
        name = ""
        for _ in range(_MOST_NAMES):
            suffix = "".join(self._rng.choices(_SUFFIX_LETTERS, k=5))
            name = prefix[:_MAX_PREFIX] + suffix
            if not self.has(kind, namespace, name):
                break
        return name

    def new_uid(self) -> str:
        """Return a uid for an object or a review."""
        return random_uid(self._rng)

    def _stamp_new(
        self, kind: Kind, metadata: JSON, submission: Submission | None
    ) -> None:
        for name in (*SERVER_OWNED, "resourceVersion"):
            metadata.pop(name, None)
        uid = _once(submission, "uid", self.new_uid)
        self._stamp(kind, metadata, uid, self._now(submission))

    def _stamp(self, kind: Kind, metadata: JSON, uid: str, now: datetime) -> None:
        metadata["uid"] = uid
        metadata["creationTimestamp"] = format_time(now)
        if kind.strategy.counts_generations:
            metadata["generation"] = 1

    def _now(self, submission: Submission | None) -> datetime:
        """Return the time of a request, or of now for a part of the cluster."""
        return submission.now if submission else self.clock.now()


def _once(submission: Submission | None, key: str, make: Callable[[], str]) -> str:
    """Return a text that is the same in all attempts of a submission."""
    return submission.once(key, make) if submission else make()
