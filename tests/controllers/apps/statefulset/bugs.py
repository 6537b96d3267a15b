"""Deliberate bugs of the stateful set controller."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.statefulset import (
    identity,
    ordering,
    replicas,
    rolling_update,
)
from controller_manager.controllers.apps.statefulset.pod_control import UnseenDeletions
from controller_manager.controllers.apps.statefulset.replicas import Replicas, Slot
from tests.simulation.planted import Bug


def _never_wait(*_: object) -> None:
    return None


def _replace_whatever_is_not_ready(_: Replicas, slot: Slot, __: object) -> Pod | None:
    pod = slot.pod
    return pod if pod is not None and pod.status.phase == "Running" else None


def _replace_nothing(*_: object) -> None:
    return None


def _replace_all_at_once(seen: Replicas, _: object) -> tuple[Pod, ...]:
    update = seen.revisions.update
    pods = [slot.pod for slot in seen.slots if slot.pod is not None]
    return tuple(pod for pod in pods if seen.revision_of(pod) != update)


def _no_claims(*_: object) -> tuple[()]:
    return ()


def _own_nothing(*_: object) -> None:
    return None


_CLAIMS: Final = "claims-follow-their-policy"

BUGS: Final[Mapping[str, Bug]] = {
    "create pods out of order": Bug(2, ordering, "_unavailable_because", _never_wait),
    "replace pods that may recover": Bug(
        2, ordering, "next_stuck_pod", _replace_whatever_is_not_ready
    ),
    "replace pods without start failures": Bug(
        0,
        rolling_update,
        "is_broken",
        lambda *_: True,
        "template-changes-after-a-power-cut",
    ),
    "update all pods at once": Bug(6, ordering, "outdated_pods", _replace_all_at_once),
    "ignore the partition": Bug(
        0, rolling_update, "partition", lambda _: 0, "canary-stays-alone"
    ),
    "create pods without claims": Bug(
        0, identity, "missing_claims", _no_claims, _CLAIMS
    ),
    "forget the retention policy": Bug(
        0, identity, "corrected_owners", _own_nothing, _CLAIMS
    ),
    "delete a pod again and again": Bug(
        0,
        UnseenDeletions,
        "are_unseen",
        lambda *_: False,
        "update-behind-a-lagging-watch",
    ),
    "wait for broken pods": Bug(
        0, ordering, "next_stuck_pod", _replace_nothing, "repaired-template"
    ),
    "take the pods of an earlier set for new ones": Bug(
        0,
        replicas,
        "lacks_new_claims",
        lambda *_: False,
        "claim-template-that-is-added",
    ),
    "use claims that are about to go": Bug(
        0,
        identity,
        "will_be_deleted",
        lambda *_: False,
        "claim-of-a-pod-that-was-scaled-away",
    ),
}
