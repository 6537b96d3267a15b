"""By what cached objects are found without looking at all of them.

Upstream walks over all orphans of a namespace in every sync, and 100,000 pods
without an owner slow the healing of every replica set there twelve-fold. With
these indexes each question costs what its answer is worth: dependents are filed
under their owner's uid, orphans under each of their labels, owners under one label
that their selector demands.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.meta import KubeObject, labels_of
from controller_manager.api.owners import controller_of
from controller_manager.api.selectors import SelectorError, compile_selector
from controller_manager.api.workloads import selector_of


def is_filed_alike(old: KubeObject, new: KubeObject) -> bool:
    """Tell whether labels and owners are the same, which most indexes go by.

    Almost every change of a pod is one of its status, and then no index has to
    be looked at: 5 µs of the 13 µs that such an event cost.
    """
    before, after = old.metadata, new.metadata
    return (
        before.labels == after.labels
        and before.owner_references == after.owner_references
    )


@dataclass(frozen=True, slots=True)
class Index:
    """Files each object of a store under some values.

    `is_alike` tells of two versions of an object whether `function` returns the
    same values for both.
    """

    name: str
    function: Callable[[Any], Iterable[str]]
    is_alike: Callable[[Any, Any], bool] = is_filed_alike


def label_entry(namespace: str, key: str, value: str) -> str:
    """Return the value under which a label of an object of a namespace is filed."""
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


def _selected_label(owner: Any) -> Iterable[str]:  # noqa: ANN401 - any kind of owner
    try:
        selector = compile_selector(selector_of(owner))
    except SelectorError:
        return ()
    namespace = owner.metadata.namespace
    if selector.exact:
        return (label_entry(namespace, *selector.exact[0]),)
    return (namespace,)


def _selects_alike(old: Any, new: Any) -> bool:  # noqa: ANN401 - any kind of owner
    return bool(old.spec.selector == new.spec.selector)


BY_NAMESPACE: Final = Index("namespace", _namespace, lambda _old, _new: True)
"""Objects by their namespace, which never changes."""

BY_CONTROLLER: Final = Index("controllerUID", _controller_uid)
"""Objects by the uid of their managing owner: a replica set's pods at once."""

ORPHANS: Final = Index("orphan", _orphan)
"""Objects without a managing owner by their namespace."""

ORPHANS_BY_LABEL: Final = Index("orphanLabel", _orphan_label)
"""Objects without a managing owner by each of their labels."""

BY_SELECTED_LABEL: Final = Index("selector", _selected_label, _selects_alike)
"""Owners by the first label that they select by, else by their namespace."""
