"""The conflicts of two pods that cannot share a volume (cache/conflict.go)."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from controller_manager.api.meta import split_key

from .volumes import Use, conflicts

POLICY: Final = "SELinuxChangePolicy"
LABEL: Final = "SELinuxLabel"

_REASONS: Final = {
    POLICY: "SELinuxChangePolicyConflict",
    LABEL: "SELinuxLabelConflict",
}

_END: Final = (
    ". If both pods land on the same node, only one of them may access the volume."
)


class Conflict(Struct, frozen=True):
    """Two values of a property that must be equal, as the first pod is told of them.

    `pod` and `other` are keys, ``namespace/name``.
    """

    name: str
    pod: str
    value: str
    other: str
    other_value: str

    @property
    def reason(self) -> str:
        """Return the reason of the event."""
        return _REASONS[self.name]

    @property
    def message(self) -> str:
        """Return the message of the event.

        It names no pod of another namespace: the reader may not be allowed to see that
        pod. Upstream's message lacks the same space.
        """
        namespace, _ = split_key(self.pod)
        other_namespace, other_name = split_key(self.other)
        if namespace == other_namespace:
            return (
                f'{self.name} "{self.value}" conflicts with pod {other_name} that uses '
                f"the same volume as this pod with {self.name} "
                f'"{self.other_value}"{_END}'
            )
        return (
            f'{self.name}"{self.value}" conflicts with another pod that uses the same '
            f"volume as this pod with a different {self.name}{_END}"
        )


def conflicts_of(pod: str, use: Use, other: str, other_use: Use) -> Iterator[Conflict]:
    """Yield the conflicts of two pods with one volume, as the first pod sees them."""
    if use.policy != other_use.policy:
        yield Conflict(POLICY, pod, use.policy, other, other_use.policy)
    if conflicts(use.label, other_use.label):
        yield Conflict(LABEL, pod, use.label, other, other_use.label)
