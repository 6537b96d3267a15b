"""The load of the demo, and the autoscaler that follows it."""

from typing import Final

import msgspec

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.json_objects import JSON
from controller_manager.client.client import Client

FEWEST: Final = 2
MOST: Final = 6
LITTLE: Final = "600m"
MUCH: Final = "3"

_EACH: Final = "500m"
_AUTOSCALER: Final[JSON] = {
    "metadata": {"name": "worker"},
    "spec": {
        "scaleTargetRef": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "worker",
        },
        "minReplicas": FEWEST,
        "maxReplicas": MOST,
        "metrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "AverageValue", "averageValue": _EACH},
                },
            }
        ],
        # By default it waits for five minutes before it removes pods.
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
}


async def autoscale(client: Client, namespace: str) -> None:
    """Create an autoscaler of the deployment worker."""
    body = msgspec.json.encode(_AUTOSCALER)
    await client.create_json(HORIZONTAL_POD_AUTOSCALERS, namespace, body)


async def load(client: Client, namespace: str, cpu: str) -> None:
    """Let the pods of worker share a load of CPU."""
    annotations = {"devcluster/cpu": f"total:{cpu}"}
    patch = {"metadata": {"annotations": annotations}}
    await client.patch(DEPLOYMENTS, namespace, "worker", patch)
