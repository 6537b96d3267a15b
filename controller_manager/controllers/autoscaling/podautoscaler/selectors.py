"""Selects the pods of a target, and finds autoscalers that select the same pods."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscaler
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import key_of, labels_of
from controller_manager.api.selectors import Selector, SelectorError, parse_selector
from controller_manager.informers.indexes import Index
from controller_manager.informers.lister import Lister

from .apply import SyncFailed, Writer
from .status import FALSE, SCALING_ACTIVE, Draft


def _target_of(autoscaler: HorizontalPodAutoscaler) -> str:
    """Return a key of the target of an autoscaler, without the version of its API."""
    target = autoscaler.spec.scale_target_ref
    group = target.api_version.rpartition("/")[0]
    namespace = autoscaler.metadata.namespace
    return f"{namespace}/{target.kind}.{group}/{target.name}"


BY_TARGET: Final = Index(
    "target",
    lambda autoscaler: (_target_of(autoscaler),),
    lambda old, new: old.spec.scale_target_ref == new.spec.scale_target_ref,
)
"""Finds the autoscalers of one target."""


class Selection:
    """Selects the pods of targets (validateAndParseSelector of horizontal.go)."""

    def __init__(
        self, pods: Lister[Pod], autoscalers: Lister[HorizontalPodAutoscaler]
    ) -> None:
        """Take the pods, and the autoscalers by their targets.

        No selector is known yet.
        """
        self._pods = pods
        self._autoscalers = autoscalers
        self._overlaps = Overlaps()

    def forget(self, key: str) -> None:
        """Drop the selector of an autoscaler that is gone."""
        self._overlaps.forget(key)

    def of_target(
        self,
        autoscaler: HorizontalPodAutoscaler,
        text: str,
        draft: Draft,
        writer: Writer,
    ) -> Selector:
        """Return the selector of a scale.

        Raises SyncFailed if there is no selector, or an invalid one, or if another
        autoscaler selects some of the pods, too. An event and the condition
        ScalingActive give the reason.
        """

        def refused(
            message: str, reason: str, *, shown: str = "", event: str = ""
        ) -> SyncFailed:
            writer.warn(event or reason, message)
            draft.set(SCALING_ACTIVE, FALSE, reason, shown or message)
            return SyncFailed(message)

        if not text:
            message = "selector is required"
            shown = "the HPA target's scale is missing a selector"
            event = "SelectorRequired"
            raise refused(message, "InvalidSelector", shown=shown, event=event)
        try:
            selector = parse_selector(text)
        except SelectorError as error:
            message = (
                "couldn't convert selector into a corresponding internal selector "
                f"object: {error}"
            )
            raise refused(message, "InvalidSelector") from error
        namespace = autoscaler.metadata.namespace
        self._overlaps.put(key_of(autoscaler), selector)
        # Other autoscalers of this target may not have been synced yet.
        for other in self._autoscalers.by_index(BY_TARGET, _target_of(autoscaler)):
            self._overlaps.put(key_of(other), selector)
        pods = self._pods.matching(namespace, selector)
        selecting = self._overlaps.selecting(namespace, pods)
        if len(selecting) > 1:
            message = (
                f"pods by selector {text} are controlled by multiple HPAs: "
                f"[{' '.join(selecting)}]"
            )
            raise refused(message, "AmbiguousSelector")
        return selector

    def pods(self, namespace: str, selector: Selector) -> Sequence[Pod]:
        """Return the pods of a namespace that a selector matches, by their names.

        The order is fixed, so that a message about one of several pods always names the
        same pod.
        """
        found = self._pods.matching(namespace, selector)
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
        """Start without selectors."""
        self._selectors: dict[str, tuple[_Bucket, Selector]] = {}
        self._buckets: defaultdict[_Bucket, set[str]] = defaultdict(set)

    def put(self, key: str, selector: Selector) -> None:
        """Set the selector of an autoscaler."""
        known = self._selectors.get(key)
        if known is not None and known[1] == selector:
            return
        self.forget(key)
        bucket = self._least_bucket(_namespace(key), selector)
        self._selectors[key] = (bucket, selector)
        self._buckets[bucket].add(key)

    def _least_bucket(self, namespace: str, selector: Selector) -> _Bucket:
        """Return the smallest of the buckets that a selector may be in.

        All selectors of a namespace may require the same label, and each of them a
        second label of its own.
        """
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


def _namespace(key: str) -> str:
    return key.partition("/")[0]
