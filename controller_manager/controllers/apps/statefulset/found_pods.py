"""The cached pods that may be those of a stateful set, as they are at one instant."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.owners import controller_of
from controller_manager.api.selectors import Selector
from controller_manager.controllers.apps.statefulset.identity import ordinal_of
from controller_manager.runtime.spread import Spread, parts


class FoundPods(Struct, frozen=True):
    """The pods of a set, and orphans that its selector matches.

    `named` have a name of the set, `misnamed` are the set's own without such a name.
    """

    stateful_set: StatefulSet
    selector: Selector
    named: Sequence[Pod]
    misnamed: Sequence[Pod]
    uids: Collection[str]

    def lacks(self, pod: Pod) -> bool:
        """Tell whether a pod with a name of the set would have been found by now.

        It is the set's, or an orphan that the set would adopt.
        """
        if pod.metadata.uid in self.uids:
            return False
        controller = controller_of(pod)
        if controller is not None:
            return controller.uid == self.stateful_set.metadata.uid
        return self.selector.matches(labels_of(pod)) and not is_deleting(pod)


def find_pods(
    stateful_set: StatefulSet,
    selector: Selector,
    owned: Sequence[Pod],
    orphans: Sequence[Pod],
) -> Spread[FoundPods]:
    """Return the pods of a set by whether they have a name of it."""
    namespace = stateful_set.metadata.namespace
    named: list[Pod] = []
    misnamed: list[Pod] = []
    uids: set[str] = set()
    for part in parts((*owned, *orphans)):
        for pod in part:
            uids.add(pod.metadata.uid)
            if pod.metadata.namespace != namespace:
                continue  # a forged owner may be elsewhere
            if ordinal_of(stateful_set, pod) is not None:
                named.append(pod)
            elif controller_of(pod) is not None:
                misnamed.append(pod)
        yield
    return FoundPods(stateful_set, selector, named, misnamed, uids)
