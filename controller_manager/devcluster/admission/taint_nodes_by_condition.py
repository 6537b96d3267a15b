"""The admission plugin TaintNodesByCondition."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .writes import spec_of

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(Plugin):
    """Taints a new node as not ready; the node lifecycle controller removes the taint.

    The nodes of the development cluster itself have no such taint: they work without
    that controller.
    """

    name: ClassVar = "TaintNodesByCondition"
    targets: ClassVar = frozenset((("", "nodes", ""),))
    mutates: ClassVar = frozenset((Operation.CREATE,))

    def mutate(self, write: Write) -> None:
        """Add the taint to a node that lacks it."""
        taints = spec_of(write).get("taints") or []
        if not any(_NOT_READY.items() <= each.items() for each in taints):
            spec_of(write)["taints"] = [*taints, dict(_NOT_READY)]
