"""The kind of the group node.k8s.io; the simulated kubelets ignore it."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.pods import TOLERATION
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import validate_quantity

from .built_in import kind_of
from .columns import columns


def _overhead(overhead: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the amounts, whose field upstream calls limits."""
    for resource, amount in overhead.get("podFixed", {}).items():
        yield from validate_quantity(amount, f"{path}limits[{resource}]")


RUNTIME_CLASSES: Final = kind_of(
    "node.k8s.io/v1",
    "runtimeclasses",
    Strategy(
        rules=table(
            """
            handler: label default empty
            overhead:
              hook overhead
            scheduling:
              nodeSelector: labels
              tolerations[]:
                include TOLERATION
            """,
            _overhead,
            TOLERATION=TOLERATION,
        ),
        update_rules=table("handler: immutable"),
        printer=columns("Name; Handler: .handler; Age"),
    ),
)
