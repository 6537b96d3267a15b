"""The store of objects: finds, names and stores them, without checks.

Upstream: the Store of registry/generic, without its verbs.
"""

import random
from collections.abc import Callable
from copy import copy
from datetime import datetime
from functools import partial
from typing import Final, Self

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme.bodies import random_uid
from controller_manager.devcluster.scheme.statuses import already_exists, not_found
from controller_manager.devcluster.server.rest.admission import Submission
from controller_manager.devcluster.server.rest.kind import Converter, Kind
from controller_manager.devcluster.server.storage.storage import Key, Storage, Stored

from .stored_form import SERVER_OWNED, complete, with_null_times

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX: Final = 58
_MOST_NAMES: Final = 8
"""The most names that are generated for an object until one is free."""


class ObjectStore:
    """Finds, names and stores objects, without checks."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        rng: random.Random,
    ) -> None:
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
            raise not_found(kind.group, kind.plural, name)
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
        raise already_exists(
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
