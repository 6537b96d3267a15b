"""Listers, which read a cache by name, namespace, owner or selector."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from controller_manager.api.apps.v1 import selector_of
from controller_manager.api.meta import KubeObject, controller_of, labels_of
from controller_manager.api.selectors import (
    EVERYTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
)

from .store import (
    BY_CONTROLLER,
    BY_LABEL,
    BY_NAMESPACE,
    BY_SELECTED_LABEL,
    ORPHANS,
    ORPHANS_BY_LABEL,
    Index,
    Store,
    label_entry,
)

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class Lister(Generic[ObjectT]):
    """Reads the objects of one resource from a cache, and writes nothing.

    Each look-up uses an index and costs time only for the objects that it returns. A
    lister has only the indexes that it was created with; a method that needs another
    index raises LookupError, which names the index. Upstream: client-go's generated
    listers, and ByIndex of their indexers.
    """

    def __init__(self, store: Store[ObjectT], kind: str = "", *indexes: Index) -> None:
        self._store = store
        self._kind = kind
        self._indexes = frozenset(each.name for each in indexes)
        for index in indexes:
            store.add_index(index)

    def __len__(self) -> int:
        """Return how many objects are cached."""
        return len(self._store)

    def get(self, namespace: str, name: str) -> ObjectT | None:
        """Return an object; `namespace` is empty for a cluster-scoped object."""
        return self._store.get(f"{namespace}/{name}" if namespace else name)

    @property
    def kind(self) -> str:
        """The kind of the objects, empty if it is not known."""
        return self._kind

    @property
    def changes(self) -> int:
        """The number of changes of the cache so far.

        A result that was computed from the cache holds as long as it stays the same.
        """
        return self._store.changes

    def by_key(self, key: str) -> ObjectT | None:
        """Return the object of a key that `key_of` returned."""
        return self._store.get(key)

    def all(self) -> Sequence[ObjectT]:
        """Return a snapshot of all objects."""
        return list(self._store)

    def keys(self) -> Sequence[str]:
        """Return the keys of all objects."""
        return self._store.keys()

    def by_index(self, index: Index, value: str) -> Sequence[ObjectT]:
        """Return the objects that have `value` in one of the lister's indexes."""
        self._require(index)
        return self._store.by_index(index, value)

    def count(self, index: Index, value: str) -> int:
        """Return how many objects have `value` in one of the lister's indexes."""
        self._require(index)
        return self._store.count(index, value)

    def list(
        self, namespace: str, selector: Selector = EVERYTHING
    ) -> Sequence[ObjectT]:
        """Return the objects of a namespace that a selector matches."""
        found = self.by_index(BY_NAMESPACE, namespace)
        if selector.is_empty:
            return found
        return [obj for obj in found if selector.matches(labels_of(obj))]

    def labelled(self, namespace: str, labels: Mapping[str, str]) -> Sequence[ObjectT]:
        """Return the objects of a namespace that have all of these labels.

        It looks at the objects that have the rarest of the labels only. There must be
        at least one label.
        """
        self._require(BY_LABEL)
        entries = [label_entry(namespace, *pair) for pair in labels.items()]
        rarest = min(entries, key=lambda entry: self._store.count(BY_LABEL, entry))
        found = self._store.by_index(BY_LABEL, rarest)
        if len(entries) == 1:
            return found
        wanted = labels.items()
        return [obj for obj in found if wanted <= labels_of(obj).items()]

    def matching(self, namespace: str, selector: Selector) -> Sequence[ObjectT]:
        """Return the objects of a namespace that a selector matches, by their labels.

        It looks at all objects of the namespace only if the selector requires no label
        to have a certain value; then most of them match.
        """
        if selector.nothing:
            return []
        if selector.exact:
            labels = dict(selector.exact)
            found = self.labelled(namespace, labels)
            # A text such as a=1,a=2 has two values for a label: nothing has both.
            if not selector.requirements and len(labels) == len(selector.exact):
                return found
        elif (values := _least_values(selector)) is not None:
            key, texts = values.key, sorted(values.values)
            found = [
                obj for text in texts for obj in self.labelled(namespace, {key: text})
            ]
        else:
            found = self.by_index(BY_NAMESPACE, namespace)
        return [obj for obj in found if selector.matches(labels_of(obj))]

    def controlled_by(self, owner: KubeObject) -> Sequence[ObjectT]:
        """Return the objects that `owner` manages, by its uid."""
        return self.controlled_by_uid(owner.metadata.uid)

    def controlled_by_uid(self, uid: str) -> Sequence[ObjectT]:
        """Return the objects that the owner with this uid manages."""
        return self.by_index(BY_CONTROLLER, uid)

    def orphans(self, namespace: str, selector: Selector) -> Sequence[ObjectT]:
        """Return the objects without a managing owner that a selector matches."""
        if selector.exact:
            entry = label_entry(namespace, *selector.exact[0])
            found = self.by_index(ORPHANS_BY_LABEL, entry)
        else:
            found = self.by_index(ORPHANS, namespace)
        return [obj for obj in found if selector.matches(labels_of(obj))]

    def candidates(self, owner: KubeObject, selector: Selector) -> Sequence[ObjectT]:
        """Return what `owner` manages, and what it may adopt."""
        orphans = self.orphans(owner.metadata.namespace, selector)
        return [*self.controlled_by(owner), *orphans]

    def controller_of(self, obj: KubeObject) -> ObjectT | None:
        """Return the cached object that manages `obj`, if it is of this kind.

        Its uid must be that of the owner reference: an object that was created later
        with the same name does not count.
        """
        reference = controller_of(obj)
        if reference is None or reference.kind != self._kind:
            return None
        # The owner is in the same namespace, or of no namespace.
        owner = self.get(obj.metadata.namespace, reference.name)
        if owner is None:
            owner = self.get("", reference.name)
        if owner is None or owner.metadata.uid != reference.uid:
            return None
        return owner

    def selecting(self, obj: KubeObject) -> Sequence[ObjectT]:
        """Return the objects of the same namespace whose selector matches `obj`.

        Nothing selects an object without labels. An object with an empty or an invalid
        selector selects nothing.
        """
        namespace, labels = obj.metadata.namespace, labels_of(obj)
        if not labels:
            return []
        entries = [label_entry(namespace, *pair) for pair in labels.items()]
        return [
            owner
            for entry in (*entries, namespace)
            for owner in self.by_index(BY_SELECTED_LABEL, entry)
            if _selects(owner, obj)
        ]

    def _require(self, index: Index) -> None:
        if index.name not in self._indexes:
            msg = (
                f"the lister of {self._kind} has no index {index.name}; name the "
                "index where the lister is created"
            )
            raise LookupError(msg)


def _least_values(selector: Selector) -> Requirement | None:
    """Return the requirement that allows the fewest values of a label, if there is one.

    A label has one value, so the objects with each of them are different ones.
    """
    listing = [each for each in selector.requirements if each.operator == "In"]
    return min(listing, key=lambda each: len(each.values), default=None)


def _selects(owner: KubeObject, obj: KubeObject) -> bool:
    try:
        selector = compile_selector(selector_of(owner))
    except SelectorError:
        return False
    return not selector.is_empty and selector.matches(labels_of(obj))
