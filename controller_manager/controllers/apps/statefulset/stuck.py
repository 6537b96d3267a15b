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

from collections.abc import Sequence
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
from controller_manager.runtime.spread import Spread, parts


def next_stuck(
    view: View, slots: Sequence[Slot], awaited: Slot, now: datetime
) -> Spread[Pod | None]:
    """Return the pod to replace while the sync waits for the pod of `awaited`.

    `slots` are all wanted ordinals. `None` if that pod itself is not stuck, or if one
    that was replaced still terminates.
    """
    if not _may_be_stuck(view, awaited, now):
        return None
    is_broken = yield from _current_is_broken(view, now)
    if not is_broken and _is_current(view, awaited):
        return None
    highest: Pod | None = None
    for part in parts(slots):
        for slot in part:
            if slot.pod is not None and is_deleting(slot.pod):
                return None
            if _may_be_stuck(view, slot, now) and (
                is_broken or not _is_current(view, slot)
            ):
                highest = slot.pod
        yield
    return highest


def next_evidence(
    view: View, slots: Sequence[Slot], now: datetime
) -> Spread[float | None]:
    """Return the seconds until an old pod counts as broken by the passing of time.

    `slots` are all wanted ordinals. `None` if no pod does.
    """
    if not view.settings.replaces_stuck_pods or not view.evidence:
        return None
    first: datetime | None = None
    for part in parts(slots):
        for slot in part:
            instant = _broken_at(view, slot)
            if instant is not None and instant > now:
                first = instant if first is None else min(first, instant)
        yield
    return (first - now) / timedelta(seconds=1) if first is not None else None


def _broken_at(view: View, slot: Slot) -> datetime | None:
    """Return from when on an old pod counts as broken, `None` if it is not old."""
    pod = slot.pod
    if pod is None or not updates(view, slot):
        return None
    if revision_of(pod) in ("", view.revisions.update):
        return None
    return broken_at(view, pod)


def _may_be_stuck(view: View, slot: Slot, now: datetime) -> bool:
    """Tell whether a pod may be replaced now, unless its revision works."""
    pod = slot.pod
    if pod is None or not view.settings.replaces_stuck_pods:
        return False
    if is_deleting(pod) or is_running_and_ready(pod) or not updates(view, slot):
        return False
    if revision_of(pod) in ("", view.revisions.update):
        return False
    return is_evidently_broken(view, pod, now)


def _is_current(view: View, slot: Slot) -> bool:
    return slot.pod is not None and revision_of(slot.pod) == view.revisions.current


def _current_is_broken(view: View, now: datetime) -> Spread[bool]:
    """Tell whether no pod of the current revision is ready.

    Not if a pod of the update revision is not available: the new template may be
    broken, too.
    """
    current, update = view.revisions.current, view.revisions.update
    for pods in parts(view.pods):
        for pod in pods:
            revision = revision_of(pod)
            if revision == current and is_running_and_ready(pod):
                return False
            if revision == update and view.is_unavailable(pod, now):
                return False
        yield
    return True
