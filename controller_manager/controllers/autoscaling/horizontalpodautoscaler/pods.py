"""The pods that the selector of a target selects."""

from collections.abc import Sequence

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import labels_of
from controller_manager.api.selectors import Selector
from controller_manager.informers.lister import Lister


def selected_pods(
    lister: Lister[Pod], namespace: str, selector: Selector
) -> Sequence[Pod]:
    """Return the pods of a namespace that a selector matches, by their names.

    A selector with a label, as almost all have, costs time only for the pods with that
    label; others look at all pods of the namespace.
    """
    if not selector.exact:
        return _in_order(lister.list(namespace, selector))
    found = lister.labelled(namespace, dict(selector.exact))
    return _in_order([each for each in found if selector.matches(labels_of(each))])


def _in_order(pods: Sequence[Pod]) -> Sequence[Pod]:
    # Messages name the first pod that lacks something: always the same one.
    return sorted(pods, key=lambda pod: pod.metadata.name)
