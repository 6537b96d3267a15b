"""Pods are evicted from tainted nodes on a cluster in memory, on virtual time."""

from typing import Any

import pytest

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios


def config() -> Config:
    return make_config(
        controllers=("taint-eviction-controller",), use_service_account_credentials=True
    )


class Tainted(Hands):
    """A cluster with the nodes "a" and "b"."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.put(NODES, "a")
        self.put(NODES, "b")

    def ready(self) -> None:
        """Have the kubelet of the node "a" post that it is ready."""
        ready = {"type": "Ready", "status": "True"}
        self.edit(NODES, "a", status={"conditions": [ready]})

    def pod(self, name: str, node: str = "a", **tolerated: Any) -> None:
        """Add a pod that tolerates taints by their keys, for seconds or for ever."""
        spec: JSON = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "c", "image": "app:v1"}],
            "tolerations": _tolerations(tolerated),
        }
        self.put(PODS, name, spec=spec, status={"phase": "Running"})

    def taint(self, *taints: JSON, **taint: str) -> None:
        given = [taint] if taint else list(taints)
        self.edit(NODES, "a", spec={"taints": given or None})

    async def tolerate(self, name: str, **tolerated: Any) -> None:
        patch = {"spec": {"tolerations": _tolerations(tolerated)}}
        await self.client.patch(PODS, "default", name, patch, PatchType.MERGE)

    def evicted(self) -> list[str]:
        found = [each["metadata"] for each in self.all(PODS)]
        return sorted(each["name"] for each in found if "deletionTimestamp" in each)


def _tolerations(tolerated: JSON) -> list[JSON]:
    made = []
    for key, how in tolerated.items():
        given = how if isinstance(how, dict) else {"tolerationSeconds": how}
        known = {"key": key, "operator": "Exists", "effect": "NoExecute", **given}
        made.append({name: each for name, each in known.items() if each is not None})
    return made


@pytest.mark.looptime
@scenarios("nodes/tainteviction")
async def test_pods_are_evicted(scenario: Scenario) -> None:
    await scenario.play(Tainted, config, rbac=True)
