"""The pods of a target, if its selector is valid and no other autoscaler's, too."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscaler
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import key_of
from controller_manager.api.selectors import Selector, SelectorError, parse_selector
from controller_manager.controllers.autoscaling.podautoscaler.apply import (
    SyncFailed,
    Writer,
)
from controller_manager.controllers.autoscaling.podautoscaler.selection.overlap import (
    Overlaps,
)
from controller_manager.controllers.autoscaling.podautoscaler.status import (
    FALSE,
    SCALING_ACTIVE,
    Draft,
)
from controller_manager.informers.indexes import Index
from controller_manager.informers.lister import Lister


def _target_of(autoscaler: HorizontalPodAutoscaler) -> str:
    """Return what an autoscaler scales; the version of the API does not count."""
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
        autoscaler selects some of the pods, too. Event and condition say so.
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
        # Others of this target, which may not have been synced yet, have it too.
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

        Messages name the first pod that lacks something: always the same one.
        """
        found = self._pods.matching(namespace, selector)
        return sorted(found, key=lambda pod: pod.metadata.name)
