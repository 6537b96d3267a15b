"""The pods that wait for a node, with an index by claim."""

from collections.abc import Iterator, Sequence

from controller_manager.devcluster.server.storage.storage import Key

from .node_infos import PodInfo


class WaitingPods:
    """Remembers the waiting pods, their claims, and their nominated nodes."""

    def __init__(self) -> None:
        """Begin without pods."""
        self._claims: dict[Key, tuple[Key, ...]] = {}
        self._by_claim: dict[Key, dict[Key, None]] = {}
        self._nominated: dict[Key, tuple[str, PodInfo]] = {}

    def __contains__(self, key: object) -> bool:
        """Tell whether a pod waits."""
        return key in self._claims

    def __len__(self) -> int:
        """Return the number of pods that wait."""
        return len(self._claims)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over a snapshot, beginning with the pod that waits longest."""
        return iter(list(self._claims))

    def add(self, key: Key, claims: tuple[Key, ...]) -> None:
        """Remember that a pod waits, and its claims."""
        self._claims[key] = claims
        for claim in claims:
            self._by_claim.setdefault(claim, {})[key] = None

    def discard(self, key: Key) -> None:
        """Forget a pod that no longer waits."""
        self._nominated.pop(key, None)
        for claim in self._claims.pop(key, ()):
            pods = self._by_claim.get(claim, {})
            pods.pop(key, None)
            if not pods:
                self._by_claim.pop(claim, None)

    def with_claim(self, claim: Key) -> Sequence[Key]:
        """Return the waiting pods that use a claim."""
        return list(self._by_claim.get(claim, ()))

    def nominate(self, key: Key, node: str, pod: PodInfo) -> None:
        """Nominate a node for a pod that waits until its victims are gone."""
        self._nominated[key] = (node, pod)

    def kept_for(self, node: str, pod: PodInfo) -> Iterator[PodInfo]:
        """Yield other pods nominated for a node, of at least the priority of `pod`."""
        for key, (name, other) in self._nominated.items():
            if name == node and key != pod.key and other.priority >= pod.priority:
                yield other
