"""The pods that use a group, as a table."""

import pytest

from controller_manager.api.core.v1 import (
    Pod,
    PodMeta,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
)
from controller_manager.controllers.scheduling.podgroupprotection.controller import (
    BY_GROUP,
    group_of,
    used_by,
)
from controller_manager.informers.store import Store


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
def test_a_pod_uses_its_group_until_it_has_ended(
    found: Pod, group: str, used: list[str]
) -> None:
    """A pod uses its group also without a node."""
    assert group_of(found) == group
    assert list(used_by(found)) == used


def test_the_index_sees_that_a_pod_has_ended() -> None:
    """It sees a new pod of the same name, too."""
    store: Store[Pod] = Store()
    store.add_index(BY_GROUP)
    found = []
    for each in (pod("g"), pod("g", "Pending"), pod("g", "Failed"), pod("h", uid="2")):
        store.put(each)
        found.append([store.count(BY_GROUP, f"n/{name}") for name in "gh"])
    assert found == [[1, 0], [1, 0], [0, 0], [0, 1]]
