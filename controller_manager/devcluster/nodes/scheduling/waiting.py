"""The pods that wait for a node, by their claims."""

from collections.abc import Iterator, Sequence

from controller_manager.devcluster.nodes.scheduling.node_infos import PodInfo
from controller_manager.devcluster.server.storage import Key


class WaitingPods:
    """Remembers which pods wait, for which claims, and for which room."""

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
        """Forget a pod that waits no more."""
        self._nominated.pop(key, None)
        for claim in self._claims.pop(key, ()):
            pods = self._by_claim.get(claim, {})
            pods.pop(key, None)
            if not pods:
                self._by_claim.pop(claim, None)

    def with_claim(self, claim: Key) -> Sequence[Key]:
        """Return the pods that wait and have a claim."""
        return list(self._by_claim.get(claim, ()))

    def nominate(self, key: Key, node: str, pod: PodInfo) -> None:
        """Keep room on a node for a pod that waits until others have gone."""
        self._nominated[key] = (node, pod)

    def kept_for(self, node: str, pod: PodInfo) -> Iterator[PodInfo]:
        """Yield the pods for which room on a node is kept from another pod."""
        for key, (name, other) in self._nominated.items():
            if name == node and key != pod.key and other.priority >= pod.priority:
                yield other
