"""The budgets that select a pod, and the pods that a budget selects."""

from collections.abc import Sequence

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import labels_of
from controller_manager.api.policy.v1 import PodDisruptionBudget
from controller_manager.api.selectors import SelectorError, compile_selector
from controller_manager.informers.indexes import BY_SELECTED_LABEL, label_entry
from controller_manager.informers.lister import Lister


def pods_of(budget: PodDisruptionBudget, pods: Lister[Pod]) -> Sequence[Pod]:
    """Return the pods that a budget selects; an empty selector selects all.

    Raises SelectorError if the selector cannot be evaluated.
    """
    selector = compile_selector(budget.spec.selector)
    return pods.matching(budget.metadata.namespace, selector)


def budgets_of(
    pod: Pod, budgets: Lister[PodDisruptionBudget]
) -> list[PodDisruptionBudget]:
    """Return the budgets that select a pod, by name (GetPodPodDisruptionBudgets).

    A budget whose selector cannot be evaluated selects nothing.
    """
    namespace, labels = pod.metadata.namespace, labels_of(pod)
    entries = [label_entry(namespace, *pair) for pair in labels.items()]
    found = [
        budget
        for entry in (*entries, namespace)
        for budget in budgets.by_index(BY_SELECTED_LABEL, entry)
        if _selects(budget, pod)
    ]
    return sorted(found, key=lambda each: each.metadata.name)


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    try:
        selector = compile_selector(budget.spec.selector)
    except SelectorError:
        return False
    return selector.matches(labels_of(pod))
