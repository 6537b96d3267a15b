"""Indexes, which find cached objects without a walk over all of them.

Upstream walks over all orphans of a namespace in every sync, so 100,000 pods without
an owner make the syncs of every replica set there twelve times slower. With these
indexes a look-up costs time only for the objects that it returns: dependents are
indexed by the uid of their owner, orphans by each of their labels, owners by one
label that their selector requires.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.meta import KubeObject, labels_of
from controller_manager.api.owners import controller_of
from controller_manager.api.selectors import SelectorError, compile_selector
from controller_manager.api.workloads import selector_of


def has_same_labels_and_owners(old: KubeObject, new: KubeObject) -> bool:
    """Tell whether labels and owners are equal; most indexes depend only on them.

    Almost every change of a pod is a change of its status, and then no index must be
    updated. This saves 5 µs of the 13 µs that such an event cost.
    """
    before, after = old.metadata, new.metadata
    return (
        before.labels == after.labels
        and before.owner_references == after.owner_references
    )


class Index(Struct, frozen=True):
    """An index of a store: `function` returns the values that an object is found by.

    `has_same_values` tells whether `function` returns the same values for two versions
    of an object.
    """

    name: str
    function: Callable[[Any], Iterable[str]]
    has_same_values: Callable[[Any, Any], bool] = has_same_labels_and_owners


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


def _has_same_labels(old: KubeObject, new: KubeObject) -> bool:
    return old.metadata.labels == new.metadata.labels


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


BY_NAMESPACE: Final = Index("namespace", _namespace, lambda _old, _new: True)
"""Objects by their namespace, which never changes."""

BY_CONTROLLER: Final = Index("controllerUID", _controller_uid)
"""Objects by the uid of their managing owner, for example the pods of a replica set."""

ORPHANS: Final = Index("orphan", _orphan)
"""Objects without a managing owner, by their namespace."""

ORPHANS_BY_LABEL: Final = Index("orphanLabel", _orphan_label)
"""Objects without a managing owner, by each of their labels."""

BY_LABEL: Final = Index("label", _label, _has_same_labels)
"""Objects by each of their labels, for example the pods that a service selects."""

BY_SELECTED_LABEL: Final = Index("selector", _selected_label, _has_same_selector)
"""Owners by the first label of their selector; without one, by their namespace."""
