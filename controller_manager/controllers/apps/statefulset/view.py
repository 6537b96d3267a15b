"""The data of one sync of a stateful set, as an immutable value."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from msgspec import Struct

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.api.core.v1 import Pod

from .claims import Claims, lacks_new_claims
from .identity import ordinal_of, ordinals, pod_name, revision_of
from .pods import is_unavailable
from .revisions import Revisions

PARALLEL = "Parallel"
ROLLING_UPDATE = "RollingUpdate"


class Settings(Struct, frozen=True):
    """The flags and feature gates that decisions depend on.

    With `replaces_stuck_pods`, a rolling update replaces pods of an old revision that
    are not ready, instead of waiting for them. `max_unavailable` is the gate
    MaxUnavailableStatefulSet.
    """

    replaces_stuck_pods: bool = True
    max_unavailable: bool = False


class Slot(Struct, frozen=True):
    """One ordinal that the set wants, and its pod, if there is one."""

    ordinal: int
    name: str
    pod: Pod | None


class View(Struct, frozen=True, kw_only=True):
    """A stateful set and the data of its sync; an immutable value.

    A sync begins with the objects as they are cached. The results of its actions
    add the rest.
    """

    stateful_set: StatefulSet
    pods: tuple[Pod, ...]
    """The pods of the set; each has a name that the set gives."""

    revisions: Revisions
    claims: Claims = {}
    """The cached claims of its pods, by name."""

    foreign: Mapping[str, Pod] = {}
    """Pods with the name of a wanted pod that the set does not control, by name."""

    failing_since: Mapping[str, datetime] = {}
    """The instants since which pods have start failures, by uid."""

    held: Mapping[str, float] = {}
    """The seconds for which pods that failed at once are not replaced, by name."""

    settings: Settings = Settings()

    acted: bool = False
    """True if the actions of this sync have been carried out."""

    replaced: tuple[Pod, ...] = ()
    """Pods that the rolling update has deleted in this sync."""

    failure: Exception | None = None
    """The error that has ended the actions."""

    @property
    def is_parallel(self) -> bool:
        """True if pods need not wait for each other."""
        return self.stateful_set.spec.pod_management_policy == PARALLEL

    @property
    def min_ready_seconds(self) -> int:
        """The seconds for which a pod must be ready before it is available."""
        return self.stateful_set.spec.min_ready_seconds

    def revision_of(self, pod: Pod) -> str | None:
        """Return the revision that a pod was made from; empty for a pod without one.

        `None` is an old revision without a name: an earlier set of this name made the
        pod, from other claim templates. The label of such a pod may have the update
        revision, because a revision records the template of the pods only.
        """
        return None if lacks_new_claims(self.stateful_set, pod) else revision_of(pod)

    def is_unavailable(self, pod: Pod | None, now: datetime) -> bool:
        """Tell whether a pod is missing, terminating or not yet available."""
        return is_unavailable(pod, self.min_ready_seconds, now)

    def slots(self) -> Sequence[Slot]:
        """Return the wanted ordinals with their pods, in ascending order."""
        by_name = {pod.metadata.name: pod for pod in self.pods}
        names = (
            (ordinal, pod_name(self.stateful_set, ordinal))
            for ordinal in ordinals(self.stateful_set)
        )
        return [Slot(ordinal, name, by_name.get(name)) for ordinal, name in names]

    def condemned(self) -> Sequence[Pod]:
        """Return the pods outside of the wanted ordinals, the highest first."""
        wanted = ordinals(self.stateful_set)
        numbered = ((ordinal_of(self.stateful_set, pod), pod) for pod in self.pods)
        outside = [
            (-ordinal, pod)
            for ordinal, pod in numbered
            if ordinal is not None and ordinal not in wanted
        ]
        outside.sort(key=itemgetter(0))
        return [pod for _, pod in outside]
