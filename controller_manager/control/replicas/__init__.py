"""Keeping a number of pods: the core of two controllers.

``reconciler`` has the handlers, the sync and the writes; ``plan``, ``ranking`` and
``status`` are pure; ``metrics`` are those of both controllers together.
"""

from typing import Final

METRICS: Final = (
    "replicaset_controller_sorting_deletion_age_ratio",
    "replicaset_controller_stale_sync_skips_total",
)
"""The names of the metrics in ``metrics``."""
