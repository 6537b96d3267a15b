"""The admission plugin DefaultTolerationSeconds."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .writes import PODS, spec_of

_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_EXECUTE: Final = "NoExecute"
_SECONDS: Final = 300


class DefaultTolerationSeconds(Plugin):
    """Lets a pod stay for five minutes on a node that does not answer.

    A pod with its own tolerations for these taints is not changed.
    """

    name: ClassVar = "DefaultTolerationSeconds"
    targets: ClassVar = PODS
    covers_own_writes: ClassVar = True
    mutates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def mutate(self, write: Write) -> None:
        """Add the tolerations that the pod lacks."""
        spec = spec_of(write)
        given = spec.get("tolerations") or []
        added = [_toleration(key) for key in _TAINTS if not _tolerates(given, key)]
        if added:
            spec["tolerations"] = [*given, *added]


def _tolerates(tolerations: list[JSON], key: str) -> bool:
    return any(
        each.get("key") in (None, "", key)
        and each.get("effect") in (None, "", _NO_EXECUTE)
        for each in tolerations
    )


def _toleration(key: str) -> JSON:
    return {
        "key": key,
        "operator": "Exists",
        "effect": _NO_EXECUTE,
        "tolerationSeconds": _SECONDS,
    }
