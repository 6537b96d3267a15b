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

from controller_manager.api.apps.v1 import selector_of
from controller_manager.api.meta import KubeObject, controller_of, labels_of
from controller_manager.api.selectors import SelectorError, compile_selector

from .changes import DependsOn

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
