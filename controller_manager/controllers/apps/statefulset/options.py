"""The flags of the stateful set controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency

_STUCK_HELP = (
    "If true, a rolling update replaces pods that are not ready and whose revision "
    "does not work, if a container has not started or no node was found for ten "
    "minutes, instead of waiting for them. So a repaired template is rolled out "
    "though pods of the broken one never become ready. Set to false to wait, as "
    "kube-controller-manager does."
)


class StatefulSetOptions(ControllerOptions):
    """How many stateful sets are synced at a time, and what is done when stuck."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-statefulset-syncs",
            5,
            "StatefulSetController.ConcurrentStatefulSetSyncs",
            "stateful sets",
        )
    )
    replaces_stuck_pods: bool = option(
        Flag("statefulset-replace-stuck-pods", "bool", "true", _STUCK_HELP)
    )
