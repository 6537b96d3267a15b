"""Tainted nodes and tolerant pods, for tests on a cluster in memory."""

from typing import Any

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands

DEDICATED: JSON = {"key": "dedicated", "value": "x", "effect": "NoExecute"}
MAINTENANCE: JSON = {"key": "maintenance", "effect": "NoExecute"}


def config() -> Config:
    return make_config(
        controllers=("taint-eviction-controller",), use_service_account_credentials=True
    )


def tolerating(seconds: int | None = None, key: str = "dedicated") -> JSON:
    """Return a toleration of a taint, for ever or for some seconds."""
    toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    times = {} if seconds is None else {"tolerationSeconds": seconds}
    return {**toleration, **times}


class Tainted(Hands):
    """A cluster with the nodes "a" and "b"."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.put(NODES, "a")
        self.put(NODES, "b")

    def ready(self) -> None:
        """Have the kubelet of the node "a" post that it is ready."""
        self.edit(NODES, "a", status={"conditions": [READY]})

    def pod(self, name: str, *tolerations: JSON, node: str = "a") -> None:
        spec: JSON = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "c", "image": "app:v1"}],
            "tolerations": list(tolerations),
        }
        self.put(PODS, name, spec=spec, status={"phase": "Running"})

    def taint(self, *taints: JSON) -> None:
        self.edit(NODES, "a", spec={"taints": list(taints) or None})

    async def tolerate(self, name: str, *tolerations: JSON) -> None:
        patch = {"spec": {"tolerations": list(tolerations)}}
        await self.client.patch(PODS, "default", name, patch, PatchType.MERGE)

    def evicted(self) -> list[str]:
        found = [each["metadata"] for each in self.all(PODS)]
        return sorted(each["name"] for each in found if "deletionTimestamp" in each)


READY = {"type": "Ready", "status": "True"}


def event(pod: str, message: str) -> str:
    """Return an event about a pod, as it is told."""
    source = "[taint-eviction-controller]"
    return f"{pod} Normal TaintManagerEviction {source}: {message} default/{pod} x1"


MARKING = "Marking for deletion Pod"
CANCELLING = "Cancelling deletion of Pod"
