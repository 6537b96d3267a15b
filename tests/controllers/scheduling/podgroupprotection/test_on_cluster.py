"""Deleted groups stay while pods use them, on a cluster in memory."""

from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.core.v1 import (
    PODS,
    Pod,
    PodMeta,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.controllers.scheduling.podgroupprotection.controller import (
    BY_GROUP,
    group_of,
    used_by,
)
from controller_manager.informers.store import Store
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios

FEATURES: Final = FeatureGates({"GenericWorkload": True})


def config(*, enabled: bool = True) -> Config:
    made = make_config(
        controllers=("podgroup-protection-controller", "ttl"),
        use_service_account_credentials=True,
    )
    return replace(made, features=FEATURES) if enabled else made


class Groups(Hands):
    """A cluster with groups of pods, whose gate is on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(features=FEATURES, **options)

    def group(self, name: str = "g", **metadata: Any) -> None:
        spec: JSON = {"schedulingPolicy": {"basic": {}}}
        self.put(POD_GROUPS, name, metadata=metadata, spec=spec)

    def pod(self, name: str, group: str = "g") -> None:
        containers = [{"name": "c", "image": "i"}]
        belongs = {"podGroupName": group}
        self.put(
            PODS, name, spec={"containers": containers, "schedulingGroup": belongs}
        )

    def end_pod(self, name: str, phase: str) -> None:
        self.edit(PODS, name, status={"phase": phase})

    def groups(self) -> dict[str, list[str]]:
        return self.finalizers(POD_GROUPS)


@pytest.mark.looptime
@scenarios("scheduling/podgroupprotection")
async def test_groups_stay_while_pods_use_them(scenario: Scenario) -> None:
    await scenario.play(Groups, config)


def pod(group: str | None, phase: str = "Running", uid: str = "1") -> Pod:
    named = None if group is None else PodSchedulingGroup(pod_group_name=group)
    return Pod(
        metadata=PodMeta(name="p", namespace="n", uid=uid),
        spec=PodSpec(scheduling_group=named),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("found", "group", "used"),
    [
        (pod(None), "", []),
        (pod(""), "", []),
        (pod("g"), "n/g", ["n/g"]),
        (pod("g", ""), "n/g", ["n/g"]),
        (pod("g", "Pending"), "n/g", ["n/g"]),
        (pod("g", "Unknown"), "n/g", ["n/g"]),
        (pod("g", "Succeeded"), "n/g", []),
        (pod("g", "Failed"), "n/g", []),
    ],
)
def test_a_pod_uses_its_group(found: Pod, group: str, used: list[str]) -> None:
    assert group_of(found) == group
    assert list(used_by(found)) == used


def test_the_index_sees_that_a_pod_has_ended() -> None:
    store: Store[Pod] = Store()
    store.add_index(BY_GROUP)
    found = []
    for each in (pod("g"), pod("g", "Pending"), pod("g", "Failed"), pod("h", uid="2")):
        store.put(each)
        found.append([store.count(BY_GROUP, f"n/{name}") for name in "gh"])
    assert found == [[1, 0], [1, 0], [0, 0], [0, 1]]
