"""The kind of the group node.k8s.io; the simulated kubelets ignore it."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.values import validate_quantity

from .kinds import kind_of


def _overhead(overhead: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the amounts, whose field upstream calls limits."""
    for resource, amount in overhead.get("podFixed", {}).items():
        yield from validate_quantity(amount, f"{path}limits[{resource}]")


RUNTIME_CLASSES: Final = kind_of(
    "node.k8s.io/v1",
    "runtimeclasses",
    rules="""
        handler: label default empty
        overhead:
          hook overhead
        scheduling:
          nodeSelector: labels
          tolerations[]:
            include TOLERATION
        """,
    update_rules="handler: immutable",
    printer="Name; Handler: .handler; Age",
)
