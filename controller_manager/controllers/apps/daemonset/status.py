"""The status of a daemon set (updateDaemonSetStatus)."""

from datetime import datetime

import msgspec
from msgspec import Struct

from controller_manager.api.apps.v1 import DaemonSetStatus
from controller_manager.api.pods import is_ready

from .nodes import Fit
from .view import View, oldest_first


class _Counts(Struct):
    current: int = 0
    desired: int = 0
    misscheduled: int = 0
    ready: int = 0
    available: int = 0
    updated: int = 0


def calculate_status(
    view: View, now: datetime, *, is_processed: bool
) -> DaemonSetStatus:
    """Return the status of the view, with the numbers of nodes.

    Each node counts by its oldest pod, also while that one is being deleted: during
    an update a new pod counts once the old one is gone. With `is_processed` the
    generation of the daemon set counts as observed.
    """
    counts = _Counts()
    for node, fit in view.fits.items():
        _count(view, node, fit, counts, now)
    status = view.daemon_set.status
    generation = view.daemon_set.metadata.generation
    return msgspec.structs.replace(
        status,
        current_number_scheduled=counts.current,
        desired_number_scheduled=counts.desired,
        number_misscheduled=counts.misscheduled,
        number_ready=counts.ready,
        number_available=counts.available,
        number_unavailable=counts.desired - counts.available,
        updated_number_scheduled=counts.updated,
        observed_generation=generation if is_processed else status.observed_generation,
    )


def _count(view: View, node: str, fit: Fit, counts: _Counts, now: datetime) -> None:
    pods = view.pods.get(node)
    if fit is not Fit.RUN:
        counts.misscheduled += bool(pods)
        return
    counts.desired += 1
    if not pods:
        return
    counts.current += 1
    oldest = pods[0] if len(pods) == 1 else oldest_first(pods)[0]
    counts.updated += view.is_updated(oldest)
    if is_ready(oldest):
        counts.ready += 1
        counts.available += view.is_available(oldest, now)
