"""The pods of each volume, and their conflicts (volumecache.go, conflict.go)."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.meta import split_key

from .volumes import Use, Volume, conflicts

POLICY: Final = "SELinuxChangePolicy"
LABEL: Final = "SELinuxLabel"

_REASONS: Final = {POLICY: "SELinuxChangePolicyConflict", LABEL: "SELinuxLabelConflict"}

_END: Final = (
    ". If both pods land on the same node, only one of them may access the volume."
)


class Conflict(Struct, frozen=True):
    """Two different values of a property, as the pod of key `pod` is told of them."""

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
        """Return the message of the event; it names no pod of another namespace.

        Upstream's message lacks the same space.
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


_Pods = dict[Use, dict[str, None]]
"""The keys of the pods of a volume, by their use: most volumes have one use."""


class VolumeUses:
    """The pods of each volume, by key, as long as they use it.

    A conflict is returned once. Pods that use a volume in one way are not compared.
    """

    def __init__(self) -> None:
        self._pods: dict[Volume, _Pods] = {}
        self._uses: dict[str, Mapping[Volume, Use]] = {}

    def note(self, pod: str, uses: Mapping[Volume, Use]) -> list[Conflict]:
        """Replace the uses of a pod; return new conflicts, one for each of two pods."""
        known = self._uses.pop(pod, {})
        if uses:
            self._uses[pod] = uses
        for volume, use in known.items():
            if uses.get(volume) != use:
                self._remove(volume, use, pod)
        found: list[Conflict] = []
        for volume, use in uses.items():
            if known.get(volume) != use:
                pods = self._pods.setdefault(volume, {})
                pods.setdefault(use, {})[pod] = None
                found += _conflicts_with(pods, use, pod)
        return found

    def forget(self, pod: str) -> None:
        """Drop a pod that is gone, or that does not use its volumes any more."""
        self.note(pod, {})

    def pods_of(self, driver: str) -> set[str]:
        """Return the keys of the pods with volumes of a driver."""
        return {
            pod
            for (of_driver, _), uses in self._pods.items()
            for pods in (uses.values() if of_driver == driver else ())
            for pod in pods
        }

    def conflicts(self) -> Iterator[Conflict]:
        """Yield all conflicts, each once for both pods."""
        for pods in self._pods.values():
            for use in pods if len(pods) > 1 else ():
                for other_use in pods:
                    yield from _between(pods, use, other_use)

    def _remove(self, volume: Volume, use: Use, pod: str) -> None:
        pods = self._pods[volume]
        del pods[use][pod]
        if not pods[use]:
            del pods[use]
        if not pods:
            del self._pods[volume]


def _conflicts_with(pods: _Pods, use: Use, pod: str) -> Iterator[Conflict]:
    """Yield the conflicts of one pod with the others of a volume, from both sides."""
    for other_use, others in pods.items():
        if other_use == use or not any(conflicts_of(pod, use, pod, other_use)):
            continue
        for other in others:
            told = conflicts_of(pod, use, other, other_use)
            tells = conflicts_of(other, other_use, pod, use)
            for both in zip(told, tells, strict=True):
                yield from both


def _between(pods: _Pods, use: Use, other_use: Use) -> Iterator[Conflict]:
    if use == other_use:
        return
    for pod in pods[use]:
        for other in pods[other_use]:
            yield from conflicts_of(pod, use, other, other_use)
