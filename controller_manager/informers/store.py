"""The store: a cache of immutable objects, with indexes that find them without a walk.

A lister reads it by name, namespace, owner or selector. Upstream walks over all orphans
of a namespace in every sync, so 100,000 pods without an owner make the syncs of every
replica set there twelve times slower. With these indexes a look-up costs time only for
the objects that it returns: dependents are indexed by the uid of their owner, orphans
by each of their labels, owners by one label that their selector requires.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from controller_manager.api.apps.v1 import selector_of
from controller_manager.api.meta import KubeObject, controller_of, key_of, labels_of
from controller_manager.api.selectors import (
    EVERYTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
)

from .changes import ALL_PARTS, Comparison, DependsOn

LABELS_AND_OWNERS: Final = DependsOn("metadata.labels", "metadata.ownerReferences")
"""The parts on which most indexes depend.

Almost every change of a pod is a change of its status, and then no index is updated.
"""


class Index(Struct, frozen=True):
    """An index of a store: `function` returns the values that an object is found by.

    The values change only if one of the parts changes that `depends_on` names. An index
    whose values depend on less than a whole part has the function `has_same_values`
    instead: it tells whether `function` returns the same values for two versions of an
    object.

    >>> def image_of(website: Website) -> tuple[str]:
    ...     return (website.spec.image,)
    >>> BY_IMAGE = Index("image", image_of, depends_on=DependsOn("spec.image"))
    >>> websites = context.lister(WEBSITES, BY_IMAGE)
    >>> [key_of(each) for each in websites.by_index(BY_IMAGE, "nginx")]
    ['default/shop']
    """

    name: str
    function: Callable[[Any], Iterable[str]]
    has_same_values: Callable[[Any, Any], bool] | None = None
    depends_on: DependsOn = LABELS_AND_OWNERS


def label_entry(namespace: str, key: str, value: str) -> str:
    """Return the index value for a label of an object in a namespace."""
    return f"{namespace}/{key}={value}"


def _namespace(obj: KubeObject) -> Iterable[str]:
    return (obj.metadata.namespace,)


def _controller_uid(obj: KubeObject) -> Iterable[str]:
    reference = controller_of(obj)
    return (reference.uid,) if reference is not None else ()


def _orphan(obj: KubeObject) -> Iterable[str]:
    return () if controller_of(obj) is not None else (obj.metadata.namespace,)


def _orphan_label(obj: KubeObject) -> Iterable[str]:
    if controller_of(obj) is not None:
        return ()
    namespace = obj.metadata.namespace
    return [label_entry(namespace, *pair) for pair in labels_of(obj).items()]


def _label(obj: KubeObject) -> Iterable[str]:
    namespace = obj.metadata.namespace
    return [label_entry(namespace, *pair) for pair in labels_of(obj).items()]


def _selected_label(owner: KubeObject) -> Iterable[str]:
    try:
        selector = compile_selector(selector_of(owner))
    except SelectorError:
        return ()
    if selector.nothing:
        return ()
    namespace = owner.metadata.namespace
    if selector.exact:
        return (label_entry(namespace, *selector.exact[0]),)
    return (namespace,)


def _has_same_selector(old: KubeObject, new: KubeObject) -> bool:
    return selector_of(old) == selector_of(new)


BY_NAMESPACE: Final = Index("namespace", _namespace, depends_on=DependsOn())
"""Objects by their namespace, which never changes."""

BY_CONTROLLER: Final = Index("controllerUID", _controller_uid)
"""Objects by the uid of their managing owner, for example the pods of a replica set."""

ORPHANS: Final = Index("orphan", _orphan)
"""Objects without a managing owner, by their namespace."""

ORPHANS_BY_LABEL: Final = Index("orphanLabel", _orphan_label)
"""Objects without a managing owner, by each of their labels."""

BY_LABEL: Final = Index("label", _label, depends_on=DependsOn("metadata.labels"))
"""Objects by each of their labels, for example the pods that a service selects."""

BY_SELECTED_LABEL: Final = Index("selector", _selected_label, _has_same_selector)
"""Owners by the first label of their selector; without one, by their namespace."""


ObjectT = TypeVar("ObjectT", bound=KubeObject)

_MAX_COMBINATIONS: Final = 1024
"""The number of combinations of changed parts that are remembered at most."""


@dataclass(slots=True)
class _IndexEntries(Generic[ObjectT]):
    """The keys of one index by index value, in the order in which they were added."""

    index: Index
    bits: int
    """The parts on which the values depend, as the store's comparison shows them."""
    keys: dict[str, dict[str, None]] = field(default_factory=dict)

    def may_change(self, changed: int) -> bool:
        """Tell whether the values may change with these parts of an object."""
        return self.index.has_same_values is not None or bool(self.bits & changed)

    def values(self, old: ObjectT | None, new: ObjectT) -> tuple[str, ...] | None:
        """Return the values of a version, `None` if the old one has the same values."""
        compare = self.index.has_same_values
        if old is not None and compare is not None and compare(old, new):
            return None
        return tuple(self.index.function(new))

    def insert(self, key: str, values: Iterable[str]) -> None:
        for value in values:
            self.keys.setdefault(value, {})[key] = None

    def fill(self, objects: Mapping[str, ObjectT]) -> None:
        for key, obj in objects.items():
            self.insert(key, self.index.function(obj))

    def remove(self, key: str, obj: ObjectT) -> None:
        for value in self._values_at(key, obj):
            entries = self.keys.get(value)
            if entries is None:
                continue
            entries.pop(key, None)
            if not entries:
                del self.keys[value]

    def _values_at(self, key: str, obj: ObjectT) -> Collection[str]:
        """Return the values under which an object stands."""
        try:
            return tuple(self.index.function(obj))
        except Exception:  # noqa: BLE001 - it did not fail when the object was added
            return [value for value, keys in self.keys.items() if key in keys]


class Store(Generic[ObjectT]):
    """Objects by key, and by the indexes that were added.

    If an index function raises an exception, so does the method that needs it, and the
    store stays as it was: no index is updated half.

    Objects are immutable and returned without a copy; a reader that keeps an object
    keeps that version. Iteration is in the order of the first insertion.
    """

    def __init__(self, comparison: Comparison | None = None) -> None:
        self.comparison = comparison or Comparison()
        self._objects: dict[str, ObjectT] = {}
        self._indexes: dict[str, _IndexEntries[ObjectT]] = {}
        self._affected: dict[int, tuple[_IndexEntries[ObjectT], ...]] = {}
        """The indexes that a change of these parts may affect."""
        self._asked = 0
        """All parts on which an index depends."""
        self._changes = 0

    def __len__(self) -> int:
        """Return how many objects are held."""
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectT]:
        """Iterate over a snapshot of all objects."""
        return iter(list(self._objects.values()))

    @property
    def changes(self) -> int:
        """The number of changes so far.

        A result that was computed from the objects holds as long as it stays the same.
        """
        return self._changes

    def keys(self) -> list[str]:
        """Return the keys of all objects."""
        return list(self._objects)

    def add_index(self, index: Index) -> None:
        """Maintain an index from now on; adding the same index again does nothing."""
        if index.name in self._indexes:
            return
        bits = 0
        if index.has_same_values is None:
            bits = self.comparison.bits_of(index.depends_on)
        entries: _IndexEntries[ObjectT] = _IndexEntries(index, bits)
        entries.fill(self._objects)
        self._indexes[index.name] = entries
        self._forget_affected()

    def get(self, key: str) -> ObjectT | None:
        """Return the object of this key, `None` if there is none."""
        return self._objects.get(key)

    def by_index(self, index: Index, value: str) -> list[ObjectT]:
        """Return the objects that have this value in the index."""
        objects, index_entries = self._objects, self._indexes[index.name]
        return [objects[key] for key in index_entries.keys.get(value, ())]

    def count(self, index: Index, value: str) -> int:
        """Return how many objects have this value in the index."""
        return len(self._indexes[index.name].keys.get(value, ()))

    def put(
        self, obj: ObjectT, key: str = "", changed: int | None = None
    ) -> ObjectT | None:
        """Store `obj` under `key` (default: `key_of`); return the replaced object.

        `changed` are the changed parts, if the caller has compared the two already.
        """
        key = key or key_of(obj)
        old = self._objects.get(key)
        if changed is None:
            changed = self._changed(old, obj)
        updated = [
            (index, values)
            for index in self._affected_by(changed)
            if (values := index.values(old, obj)) is not None
        ]
        # An assignment keeps the key string of the entry, which the indexes share.
        self._objects[key] = obj
        self._changes += 1
        for index, values in updated:
            if old is not None:
                index.remove(key, old)
            index.insert(key, values)
        return old

    def _changed(self, old: ObjectT | None, new: ObjectT) -> int:
        if old is None or old.metadata.uid != new.metadata.uid:
            return ALL_PARTS
        return self.comparison.changed(old, new)

    def _affected_by(self, changed: int) -> tuple[_IndexEntries[ObjectT], ...]:
        if changed == ALL_PARTS:
            return tuple(self._indexes.values())
        changed &= self._asked
        if (found := self._affected.get(changed)) is None:
            if len(self._affected) >= _MAX_COMBINATIONS:
                self._affected.clear()
            found = self._affected[changed] = tuple(
                each for each in self._indexes.values() if each.may_change(changed)
            )
        return found

    def _forget_affected(self) -> None:
        self._affected.clear()
        self._asked = 0
        for each in self._indexes.values():
            self._asked |= each.bits

    def without_objects(self) -> "Store[ObjectT]":
        """Return an empty store with the same indexes."""
        empty: Store[ObjectT] = Store(self.comparison)
        for index_entries in self._indexes.values():
            empty.add_index(index_entries.index)
        return empty

    def exchange(self, other: "Store[ObjectT]") -> dict[str, ObjectT]:
        """Replace all objects by those of `other` atomically; return the old ones.

        `other` must come from `without_objects`; it is empty afterwards. An index that
        was added since then is filled now.
        """
        for index in self._indexes.values():
            other.add_index(index.index)
        before, (self._objects, self._indexes) = self._objects, other.release()
        self._forget_affected()
        self._changes += 1
        return before

    def release(self) -> tuple[dict[str, ObjectT], dict[str, _IndexEntries[ObjectT]]]:
        """Return the objects and the indexes, and remove them from the store."""
        released = self._objects, self._indexes
        self._objects, self._indexes = {}, {}
        self._forget_affected()
        return released

    def remove(self, key: str) -> ObjectT | None:
        """Remove the object of this key; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._changes += 1
            for index in self._indexes.values():
                index.remove(key, old)
        return old


class Lister(Generic[ObjectT]):
    """Reads the objects of one resource from a cache, and writes nothing.

    Each look-up uses an index and costs time only for the objects that it returns. A
    lister has only the indexes that it was created with; a method that needs another
    index raises LookupError, which names the index. Upstream: client-go's generated
    listers, and ByIndex of their indexers.

    >>> websites = reconciler.objects
    >>> websites.get("default", "shop").spec.image
    'nginx'
    >>> class WithSettings(WebsiteReconciler):
    ...     def __init__(self, context: ControllerContext) -> None:
    ...         super().__init__(context)
    ...         self.settings = context.lister(core_v1.CONFIG_MAPS, BY_NAMESPACE)
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
