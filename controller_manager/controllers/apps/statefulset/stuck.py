"""Which pods a rolling update replaces instead of waiting for them.

With OrderedReady, upstream waits until every pod is ready before it replaces one. A
pod whose template is broken is never ready, so a repaired template is not rolled
out until somebody deletes that pod (kubernetes#67250).

A pod that is not ready is stuck if there is evidence that it is broken (see
`evidence`), and its revision is neither the update revision nor one that works:

- A revision that is not the current one either belongs to an update that was given
  up. Its pods are replaced.
- The current revision works if one of its pods is ready: then a pod that is not
  ready is waited for, as upstream, since it may recover. If none is ready, its pods
  are replaced one after the other, unless a pod of the update revision is not
  available either: the new template may be broken, too.

A pod without a revision was made by somebody else, and is waited for. Of several stuck
pods the highest is replaced first, as in every update.
"""

from datetime import datetime, timedelta

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.controllers.apps.statefulset.evidence import (
    broken_at,
    is_evidently_broken,
)
from controller_manager.controllers.apps.statefulset.health import is_running_and_ready
from controller_manager.controllers.apps.statefulset.identity import revision_of
from controller_manager.controllers.apps.statefulset.updating import updates
from controller_manager.controllers.apps.statefulset.view import Slot, View


def next_stuck(view: View, awaited: Slot, now: datetime) -> Pod | None:
    """Return the pod to replace while the sync waits for the pod of `awaited`.

    `None` if that pod itself is not stuck, or if one that was replaced still
    terminates.
    """
    if not is_stuck(view, awaited, now):
        return None
    slots = view.slots()
    if any(each.pod is not None and is_deleting(each.pod) for each in slots):
        return None
    return next(each.pod for each in reversed(slots) if is_stuck(view, each, now))


def is_stuck(view: View, slot: Slot, now: datetime) -> bool:
    """Tell whether the pod of a wanted ordinal may be replaced now."""
    pod = slot.pod
    return (
        pod is not None
        and _may_be_stuck(view, slot, pod, now)
        and is_evidently_broken(view, pod, now)
    )


def next_evidence(view: View, now: datetime) -> float | None:
    """Return the seconds until an old pod counts as broken by the passing of time.

    `None` if none does.
    """
    if not view.settings.replaces_stuck_pods:
        return None
    instants = [
        broken_at(view, slot.pod)
        for slot in view.slots()
        if slot.pod is not None
        and updates(view, slot)
        and revision_of(slot.pod) not in ("", view.revisions.update)
    ]
    pending = [each for each in instants if each is not None and each > now]
    return (min(pending) - now) / timedelta(seconds=1) if pending else None


def _may_be_stuck(view: View, slot: Slot, pod: Pod, now: datetime) -> bool:
    """Tell whether a pod may be replaced if there is evidence."""
    if not view.settings.replaces_stuck_pods:
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
