"""The texts of events that are written as Go prints them."""

from typing import Final

from controller_manager.api.selectors import LabelSelector, LabelSelectorRequirement

UNMANAGED_PODS: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be "
    "unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
    "which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


def selector_text(selector: LabelSelector | None) -> str:
    """Return a selector as Go prints the struct of metav1.

    ``&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:…,}``
    """
    if selector is None:
        return "nil"
    labels = sorted((selector.match_labels or {}).items())
    pairs = "".join(f"{key}: {value}," for key, value in labels)
    expressions = "".join(map(_expression_text, selector.match_expressions or ()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _expression_text(expression: LabelSelectorRequirement) -> str:
    values = " ".join(expression.values or ())
    return (
        f"LabelSelectorRequirement{{Key:{expression.key},"
        f"Operator:{expression.operator},Values:[{values}],}},"
    )
