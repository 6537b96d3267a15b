"""Finds the autoscalers of a target, and those that select the same pods."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscaler
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import labels_of
from controller_manager.api.selectors import Selector
from controller_manager.informers.store import Index, Lister


def target_of(autoscaler: HorizontalPodAutoscaler) -> str:
    """Return a key of the target of an autoscaler, without the version of its API."""
    target = autoscaler.spec.scale_target_ref
    group = target.api_version.rpartition("/")[0]
    namespace = autoscaler.metadata.namespace
    return f"{namespace}/{target.kind}.{group}/{target.name}"


BY_TARGET: Final = Index(
    "target",
    lambda autoscaler: (target_of(autoscaler),),
    lambda old, new: old.spec.scale_target_ref == new.spec.scale_target_ref,
)
"""Finds the autoscalers of one target."""


def selected(pods: Lister[Pod], namespace: str, selector: Selector) -> Sequence[Pod]:
    """Return the matching pods by their names, in an order that messages rely on."""
    found = pods.matching(namespace, selector)
    return sorted(found, key=lambda pod: pod.metadata.name)


_Bucket = tuple[str, str, str]
"""A namespace, and a label that the selectors of the bucket require (or two empty)."""


class Overlaps:
    """The selectors of all autoscalers, found by one label that they require.

    An autoscaler has the selector that its target had at the last sync. The time to
    find the autoscalers of some pods grows with the number of different sets of labels
    of these pods, which is mostly one.
    """

    def __init__(self) -> None:
        self._selectors: dict[str, tuple[_Bucket, Selector]] = {}
        self._buckets: defaultdict[_Bucket, set[str]] = defaultdict(set)

    def put(self, key: str, selector: Selector) -> None:
        """Set the selector of an autoscaler."""
        known = self._selectors.get(key)
        if known is not None and known[1] == selector:
            return
        self.forget(key)
        bucket = self._least_bucket(key.partition("/")[0], selector)
        self._selectors[key] = (bucket, selector)
        self._buckets[bucket].add(key)

    def _least_bucket(self, namespace: str, selector: Selector) -> _Bucket:
        # All selectors of a namespace may require the same label, and each of them a
        # second label of its own.
        labels = selector.exact or (("", ""),)
        buckets: list[_Bucket] = [(namespace, key, value) for key, value in labels]
        return min(buckets, key=lambda each: len(self._buckets.get(each, ())))

    def forget(self, key: str) -> None:
        """Drop the selector of an autoscaler that is gone."""
        known = self._selectors.pop(key, None)
        if known is None:
            return
        bucket, _ = known
        self._buckets[bucket].discard(key)
        if not self._buckets[bucket]:
            del self._buckets[bucket]

    def selecting(self, namespace: str, pods: Iterable[Pod]) -> list[str]:
        """Return the keys of the autoscalers that select one of these pods, sorted."""
        different = {tuple(labels_of(pod).items()) for pod in pods}
        found: set[str] = set()
        for each in different:
            found |= self._matching(namespace, dict(each))
        return sorted(found)

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> set[str]:
        found: set[str] = set()
        for label in (*labels.items(), ("", "")):
            for key in self._buckets.get((namespace, *label), ()):
                if self._selectors[key][1].matches(labels):
                    found.add(key)
        return found
