"""Recordings that show a fault of upstream which this build does not copy.

Each amendment is a JSON patch of the recording, and the row of docs/differences.md that
says why. A difference that a flag switches off needs none: the recording is played with
that flag.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from controller_manager.api.json_objects import JSON


class Amendment(NamedTuple):
    """The content of a recording without the fault."""

    difference: str
    """Words of the row of docs/differences.md."""

    patch: tuple[JSON, ...]


_RESCALED: Final = (
    "HorizontalPodAutoscaler/h2 Normal SuccessfulRescale [horizontal-pod-autoscaler]"
)
_HITS: Final = "Service metric hits"

AMENDMENTS: Final[Mapping[str, Amendment]] = {
    "job-backoff-delay": Amendment(
        "During a backoff the status says that no pod is active",
        (
            # The backoff may be over when a late manager sees the failure.
            {"op": "remove", "path": "/steps/3/wait/until/status.active"},
            {
                "op": "add",
                "path": "/checkpoints/0/state/Job/0/status/active",
                "value": 1,
            },
        ),
    ),
    "hpa-object-metric": Amendment(
        'calls a metric of an object with a target of averageValue "external metric',
        (
            *(
                {
                    "op": "replace",
                    "path": f"/checkpoints/{checkpoint}/state/Event/7",
                    "value": f"{_RESCALED}: New size: 3; reason: {_HITS} above target",
                }
                for checkpoint in range(2)
            ),
            *(
                {
                    "op": "replace",
                    "path": f"{status}/conditions/1/message",
                    "value": "the HPA was able to successfully calculate a replica "
                    f"count from {_HITS}",
                }
                for status in (
                    "/checkpoints/0/state/HorizontalPodAutoscaler/1/status",
                    "/checkpoints/1/state/HorizontalPodAutoscaler/1/status",
                    *(f"/writes/{number}/status" for number in (37, 51, 60)),
                )
            ),
        ),
    ),
    "vol-resource-template": Amendment(
        "does not make a deleted claim again for an hour",
        (
            {
                "op": "copy",
                "from": "/checkpoints/0/state/ResourceClaim/0",
                "path": "/checkpoints/1/state/ResourceClaim/0",
            },
            {"op": "copy", "from": "/writes/2", "path": "/writes/4"},
            {
                "op": "add",
                "path": "/writes/6",
                "value": {
                    "verb": "delete",
                    "resource": "resourceclaims",
                    "code": 200,
                    "name": "p-gpu-*",
                    "body": {"propagationPolicy": "Background"},
                },
            },
        ),
    ),
}
"""The amendments by the name of the recording."""
