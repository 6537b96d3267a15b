"""Which pods a rolling update replaces instead of waiting for them.

With OrderedReady, upstream waits until every pod is ready before it replaces one. A
pod whose template is broken is never ready, so a repaired template is not rolled
out until somebody deletes that pod (kubernetes#67250).

A pod that is not ready is stuck if its revision is neither the update revision nor
one that works:

- A revision that is not the current one either belongs to an update that was given
  up. Its pods are replaced.
- The current revision works if one of its pods is ready: then a pod that is not
  ready is waited for, as upstream, since it may recover. If none is ready, its pods
  are replaced one after the other, unless a pod of the update revision is not
  available either: the new template may be broken, too.

A pod without a revision was made by somebody else, and is waited for.
"""

from datetime import datetime

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.controllers.apps.statefulset.health import is_running_and_ready
from controller_manager.controllers.apps.statefulset.identity import revision_of
from controller_manager.controllers.apps.statefulset.updating import updates
from controller_manager.controllers.apps.statefulset.view import Slot, View


def is_stuck(view: View, slot: Slot, now: datetime) -> bool:
    """Tell whether the pod of a wanted ordinal is to be replaced now."""
    pod = slot.pod
    if pod is None or not view.settings.replaces_stuck_pods:
        return False
    if is_deleting(pod) or is_running_and_ready(pod) or not updates(view, slot):
        return False
    revision = revision_of(pod)
    if revision in ("", view.revisions.update):
        return False
    return revision != view.revisions.current or _current_is_broken(view, now)


def _current_is_broken(view: View, now: datetime) -> bool:
    return not any(map(is_running_and_ready, _of(view, view.revisions.current))) and (
        not any(
            view.is_unavailable(pod, now) for pod in _of(view, view.revisions.update)
        )
    )


def _of(view: View, revision: str) -> list[Pod]:
    return [pod for pod in view.pods if revision_of(pod) == revision]
