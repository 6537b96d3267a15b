"""Bindings by subject, to find those of a user without a look at all bindings."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.security.authentication import User
from controller_manager.devcluster.server.storage import Change, Key, Storage, Watcher

_Subject = tuple[str, str]
"""``User`` or ``Group``, and its name; a service account counts as a user."""

GROUP: Final = "rbac.authorization.k8s.io"


class BindingIndex:
    """The bindings of one resource, always as the storage has them.

    A query first reads the new changes of the storage, so the index costs nothing while
    bindings do not change.
    """

    def __init__(self, storage: Storage, plural: str) -> None:
        self._storage = storage
        self._resource = f"{plural}.{GROUP}"
        self._by_subject: dict[tuple[str, _Subject], dict[Key, JSON]] = {}
        self._watcher: Watcher | None = None

    def of(self, user: User, namespace: str) -> Iterator[JSON]:
        """Yield the bindings of a user in a namespace, "" for cluster role bindings."""
        self._update()
        found: dict[Key, JSON] = {}
        for subject in (
            ("User", user.name),
            *(("Group", each) for each in user.groups),
        ):
            found |= self._by_subject.get((namespace, subject), {})
        yield from found.values()

    def _update(self) -> None:
        """Take the changes since the last time."""
        if self._watcher is None:
            self._read_all()
            return
        for change in self._watcher.take():
            self._apply(change)

    def _read_all(self) -> None:
        collection = self._storage.collection(self._resource)
        self._watcher = collection.watch(collection.version)
        self._by_subject.clear()
        for key, stored in collection.snapshot().items():
            self._add(key, stored.obj)

    def _apply(self, change: Change) -> None:
        if change.before is not None:
            for entry in _entries(change.key, change.before.obj):
                found = self._by_subject.get(entry, {})
                found.pop(change.key, None)
                if not found:
                    self._by_subject.pop(entry, None)
        if change.type != "DELETED":
            self._add(change.key, change.after.obj)

    def _add(self, key: Key, binding: JSON) -> None:
        for entry in _entries(key, binding):
            self._by_subject.setdefault(entry, {})[key] = binding


def _entries(key: Key, binding: JSON) -> Iterator[tuple[str, _Subject]]:
    """Yield the keys of a binding in the index."""
    namespace = key[0]
    for subject in binding.get("subjects") or ():
        if found := _as_user_or_group(subject, namespace):
            yield namespace, found


def _as_user_or_group(subject: JSON, namespace: str) -> _Subject | None:
    """Return a subject; an account without a namespace is of the binding's."""
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind in ("User", "Group"):
        return kind, name
    place = subject.get("namespace") or namespace
    if kind == "ServiceAccount" and place:
        return "User", f"system:serviceaccount:{place}:{name}"
    return None


def applying_subject(binding: JSON, user: User, namespace: str) -> JSON:
    """Return the first subject that is the user or a group of the user."""
    for subject in binding.get("subjects") or ():
        found = _as_user_or_group(subject, namespace)
        if found == ("User", user.name) or (
            found is not None and found[0] == "Group" and found[1] in user.groups
        ):
            result: JSON = subject
            return result
    return {}
