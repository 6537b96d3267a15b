"""The pods of each volume, and how they use it (cache/volumecache.go)."""

from collections.abc import Iterator, Mapping

from controller_manager.controllers.storage.selinuxwarning.conflicts import (
    Conflict,
    conflicts_of,
)
from controller_manager.controllers.storage.selinuxwarning.volumes import Use

Volume = tuple[str, str]
"""The driver of a volume, and its handle."""


class VolumeUses:
    """Knows the pods of each volume, by key, as long as they use it.

    A conflict is returned once, when one of its two pods comes or changes.
    """

    def __init__(self) -> None:
        """Start without volumes."""
        self._pods: dict[Volume, dict[str, Use]] = {}
        self._volumes: dict[str, Mapping[Volume, Use]] = {}
        self._by_driver: dict[str, dict[Volume, None]] = {}

    def note(self, pod: str, uses: Mapping[Volume, Use]) -> list[Conflict]:
        """Note how a pod uses its volumes; return the conflicts that are new.

        Both pods of a conflict are told of it.
        """
        known = self._volumes.get(pod, {})
        for volume in known:
            if volume not in uses:
                self._remove(volume, pod)
        if uses:
            self._volumes[pod] = uses
        else:
            self._volumes.pop(pod, None)
        found: list[Conflict] = []
        for volume, use in uses.items():
            self._by_driver.setdefault(volume[0], {})[volume] = None
            pods = self._pods.setdefault(volume, {})
            pods[pod] = use
            if known.get(volume) != use:
                found += _new_conflicts(pod, use, pods)
        return found

    def forget(self, pod: str) -> None:
        """Drop a pod that is gone, or that uses its volumes no more."""
        self.note(pod, {})

    def pods_of(self, driver: str) -> set[str]:
        """Return the keys of the pods with volumes of a driver."""
        volumes = self._by_driver.get(driver, ())
        return {pod for volume in volumes for pod in self._pods[volume]}

    def conflicts(self) -> Iterator[Conflict]:
        """Yield all conflicts there are, each as both pods are told of it."""
        for pods in self._pods.values():
            if len(pods) > 1:
                for pod, use in pods.items():
                    for other, other_use in pods.items():
                        yield from conflicts_of(pod, use, other, other_use)

    def _remove(self, volume: Volume, pod: str) -> None:
        pods = self._pods[volume]
        del pods[pod]
        if pods:
            return
        del self._pods[volume]
        volumes = self._by_driver[volume[0]]
        del volumes[volume]
        if not volumes:
            del self._by_driver[volume[0]]


def _new_conflicts(pod: str, use: Use, pods: Mapping[str, Use]) -> Iterator[Conflict]:
    for other, other_use in pods.items():
        told = list(conflicts_of(pod, use, other, other_use))
        tells = list(conflicts_of(other, other_use, pod, use))
        for mine, theirs in zip(told, tells, strict=True):
            yield from (mine, theirs)
