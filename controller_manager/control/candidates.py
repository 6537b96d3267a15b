"""Finding who owns or could own what, without looking at everything.

Upstream walks over all orphans of a namespace in every sync, and 100,000 pods
without an owner slow the healing of every replica set there twelve-fold. Two
indexes make both questions cost what their answers are worth: orphans are filed
under each of their labels, owners under one label that their selector demands.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.core.v1 import ReplicationController
from controller_manager.api.meta import KubeObject, labels_of
from controller_manager.api.owners import controller_of
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.api.workloads import selector_of
from controller_manager.informers.store import ORPHAN_INDEX, Store, orphan_index

ObjectT = TypeVar("ObjectT", bound=KubeObject)
Owner = Deployment | ReplicaSet | ReplicationController
OwnerT = TypeVar("OwnerT", Deployment, ReplicaSet, ReplicationController)

ORPHAN_LABEL_INDEX: Final = "orphanLabel"
SELECTOR_INDEX: Final = "selector"


def _entry(namespace: str, key: str, value: str) -> str:
    return f"{namespace}/{key}={value}"


def orphan_label_index(obj: KubeObject) -> Iterable[str]:
    """Index objects without a managing owner by each of their labels."""
    if controller_of(obj) is not None:
        return ()
    namespace = obj.metadata.namespace
    return [_entry(namespace, *pair) for pair in labels_of(obj).items()]


def selector_index(owner: Owner) -> Iterable[str]:
    """Index owners by the first label that they select by, else by namespace."""
    try:
        selector = compile_selector(selector_of(owner))
    except SelectorError:
        return ()
    namespace = owner.metadata.namespace
    if selector.exact:
        return (_entry(namespace, *selector.exact[0]),)
    return (namespace,)


def index_orphans(store: Store[ObjectT]) -> None:
    """Make `orphans_matching` work on a store."""
    store.add_index(ORPHAN_INDEX, orphan_index)
    store.add_index(ORPHAN_LABEL_INDEX, orphan_label_index)


def index_selectors(store: Store[OwnerT]) -> None:
    """Make `owners_selecting` work on a store."""
    store.add_index(SELECTOR_INDEX, selector_index, _selects_alike)


def _selects_alike(old: Owner, new: Owner) -> bool:
    return old.spec.selector == new.spec.selector


def orphans_matching(
    store: Store[ObjectT], namespace: str, selector: Selector
) -> list[ObjectT]:
    """Return the objects of a namespace that nobody manages and that match."""
    if selector.exact:
        found = store.by_index(
            ORPHAN_LABEL_INDEX, _entry(namespace, *selector.exact[0])
        )
    else:
        found = store.by_index(ORPHAN_INDEX, namespace)
    return [obj for obj in found if selector.matches(labels_of(obj))]


def manager_in(store: Store[OwnerT], kind: str, obj: KubeObject) -> OwnerT | None:
    """Return the object of `store`, all of one kind, that manages `obj`.

    It must be the very object that the owner reference means: a namesake that
    came after it does not count.
    """
    reference = controller_of(obj)
    if reference is None or reference.kind != kind:
        return None
    owner = store.get(f"{obj.metadata.namespace}/{reference.name}")
    if owner is None or owner.metadata.uid != reference.uid:
        return None
    return owner


def owners_selecting(store: Store[OwnerT], obj: KubeObject) -> list[OwnerT]:
    """Return the owners in the object's namespace whose selector matches it.

    An object without labels has none, and an owner with an empty or invalid
    selector owns nothing.
    """
    namespace, labels = obj.metadata.namespace, labels_of(obj)
    if not labels:
        return []
    entries = [_entry(namespace, *pair) for pair in labels.items()] + [namespace]
    candidates = [
        owner for entry in entries for owner in store.by_index(SELECTOR_INDEX, entry)
    ]
    return [owner for owner in candidates if _selects(owner, obj)]


def _selects(owner: Owner, obj: KubeObject) -> bool:
    try:
        selector = compile_selector(selector_of(owner))
    except SelectorError:
        return False
    return not selector.is_empty and selector.matches(labels_of(obj))
