"""Chooses the labels of a node: the beta labels follow the stable ones."""

from collections.abc import Mapping
from typing import Final

_BETA_OF: Final = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}
"""The beta label of each stable label, which is the source of truth."""


def labels_to_set(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the beta labels that are missing or wrong, with their right values.

    Without the stable label, its beta label stays as it is. Upstream:
    reconcileNodeLabels.
    """
    return {
        beta: labels[stable]
        for stable, beta in _BETA_OF.items()
        if stable in labels and labels.get(beta) != labels[stable]
    }
