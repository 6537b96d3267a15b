"""Metrics, events, pending attachments and waiting nodes, each by itself."""

import re
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.scheduling import Taint
from controller_manager.api.core.v1 import (
    AttachedVolume,
    Node,
    NodeCondition,
    NodeMeta,
    NodeSpec,
    NodeStatus,
    Pod,
    PodMeta,
)
from controller_manager.api.storage.v1 import Attachment
from controller_manager.controllers.storage.attachdetach.controller import is_in_use
from controller_manager.controllers.storage.attachdetach.metrics import (
    AttachDetachMetrics,
)
from controller_manager.controllers.storage.attachdetach.multi_attach import (
    MultiAttachWaiters,
    multi_attach_error,
)
from controller_manager.controllers.storage.attachdetach.plan import (
    ForcedDetach,
    VolumePlan,
)
from controller_manager.controllers.storage.attachdetach.tracker import (
    PendingAttachments,
)
from controller_manager.controllers.storage.attachdetach.view import (
    OUT_OF_SERVICE,
    MultiAttach,
    NodeView,
    NodeVolume,
)
from controller_manager.controllers.storage.attachdetach.volumes import (
    Volume,
    attachment_name,
    csi_name,
)
from controller_manager.runtime.outcome import SyncError

NAME: Final = csi_name("d", "h")
ATTACHMENT: Final = attachment_name(NAME, "n")
EXCLUSIVE: Final = (
    "Volume is already exclusively attached to one node and can't be attached to "
    "another"
)
VOLUME: Final = Volume(NAME, "v", exclusive=True)


def pod(name: str, namespace: str = "ns") -> Pod:
    return Pod(metadata=PodMeta(name=name, namespace=namespace))


def view(name: str, *volumes: NodeVolume, **more: Any) -> NodeView:
    return NodeView(name=name, volumes={each.key: each for each in volumes}, **more)


@pytest.mark.parametrize(
    ("users", "reason"),
    [
        ((), EXCLUSIVE),
        ((pod("a"), pod("b")), "Volume is already used by pod(s) a, b"),
        (
            (pod("a"), pod("b", "other")),
            "Volume is already used by pod(s) a and 1 pod(s) in different namespaces",
        ),
        (
            (pod("a", "x"), pod("b", "y")),
            "Volume is already used by 2 pod(s) in different namespaces",
        ),
    ],
)
def test_a_multi_attach_error_names_only_pods_of_the_same_namespace(
    users: tuple[Pod, ...], reason: str
) -> None:
    """Upstream: reportMultiAttachError."""
    multi_attach = MultiAttach(("n",), users, stays=True)
    message = multi_attach_error(VOLUME, multi_attach, pod("p"))
    assert message == f'Multi-Attach error for volume "v" {reason}'


def test_metrics_count_the_volumes_of_all_nodes() -> None:
    """By plugin; a node without volumes counts no more."""
    registry = CollectorRegistry()
    metrics = AttachDetachMetrics(registry)
    total, used = (
        "attachdetach_controller_total_volumes",
        "storage_count_attachable_volumes_in_use",
    )
    forced = "attach_detach_controller_attachdetach_controller_forced_detaches"

    def of(state: str) -> float | None:
        labels = {"plugin_name": "kubernetes.io/csi:d", "state": state}
        return registry.get_sample_value(total, labels)

    here = NodeVolume(key=NAME, unique_name=NAME, volume=VOLUME, is_listed=True)
    asked = NodeVolume(key=NAME, unique_name=NAME, volume=VOLUME)
    metrics.count(view("a", here, used_by_pods=(NAME, NAME)))
    metrics.count(view("b", asked, used_by_pods=(NAME,)))
    assert (of("desired_state_of_world"), of("actual_state_of_world")) == (2, 1)
    plugin = {"node": "a", "volume_plugin": "kubernetes.io/csi:d"}
    assert registry.get_sample_value(used, plugin) == 2
    metrics.forced(ForcedDetach.TIMEOUT)
    assert [
        registry.get_sample_value(forced, {"reason": each.value})
        for each in ForcedDetach
    ] == [1, 0]
    metrics.count(view("a"))
    metrics.count(view("b"))
    assert (len(metrics._nodes), of("desired_state_of_world")) == (0, None)


def test_only_the_node_of_a_pending_attachment_ends_it() -> None:
    """The attachment stays pending if it is removed for another node."""
    pending = PendingAttachments()
    pending.add("a", "n")
    pending.remove("a", "m")
    assert (pending.node_of("a"), pending.volumes_of("n"), pending.volumes_of("m")) == (
        "n",
        frozenset({"a"}),
        frozenset(),
    )
    pending.remove("a", "n")
    assert (len(pending._nodes), pending.node_of("a"), pending.volumes_of("n")) == (
        0,
        "",
        frozenset(),
    )


def _waiting(node: str, volume: str, holder: str) -> NodeView:
    return view(
        node, NodeVolume(key=volume, volume=VOLUME, multi_attach=MultiAttach((holder,)))
    )


def test_nodes_that_wait_for_each_other_do_not_wake_each_other_for_ever() -> None:
    """Each is synced once for each state of the volume."""
    waiters = MultiAttachWaiters()
    waiters.update(_waiting("a", "one", "b"))
    waiters.update(_waiting("b", "two", "a"))
    on_a = view("a", NodeVolume(key="two", attachment=Attachment()))
    on_b = view("b", NodeVolume(key="one", attachment=Attachment()))
    assert [waiters.to_sync(on_a), waiters.to_sync(on_b)] == [["b"], ["a"]]
    assert [waiters.to_sync(on_a), waiters.to_sync(on_b)] == [[], []]
    assert waiters.to_sync(view("a")) == ["b"]
    waiters.update(view("a"))
    waiters.update(view("b"))
    assert len(waiters._by_holder) == 0


IN_USE: Final = {"volumes_in_use": (NAME,)}
OTHER_IN_USE: Final = {"volumes_in_use": (csi_name("d", "other"), "kubernetes.io/fc/0")}
READY: Final = {"conditions": (NodeCondition(type="Ready", status="True"),)}


VOLUMES: Final = {
    "named": NodeVolume(key=NAME, unique_name=NAME, attachment_name=ATTACHMENT),
    "nameless": NodeVolume(key=ATTACHMENT, attachment_name=ATTACHMENT),
}
"""A volume that the caches have, and an attachment whose volume they do not have."""


def node(**parts: Any) -> Node:
    return Node(metadata=NodeMeta(name="n"), **parts)


@pytest.mark.parametrize("node_volume", VOLUMES.values(), ids=VOLUMES)
@pytest.mark.parametrize(
    ("status", "taints", "forced", "stays"),
    [
        ({}, (), None, False),
        (OTHER_IN_USE, (), None, False),
        (IN_USE, (), None, True),
        ({**IN_USE, **READY}, (), ForcedDetach.TIMEOUT, True),
        (IN_USE, (), ForcedDetach.TIMEOUT, False),
        ({**IN_USE, **READY}, (), ForcedDetach.OUT_OF_SERVICE, True),
        ({**IN_USE, **READY}, (Taint(key=OUT_OF_SERVICE),), None, False),
    ],
    ids=[
        "unused",
        "another used",
        "used",
        "ready again",
        "given up",
        "in service again",
        "tainted",
    ],
)
def test_the_stored_node_decides_whether_a_volume_is_in_use(
    status: dict[str, Any],
    taints: tuple[Taint, ...],
    forced: ForcedDetach | None,
    node_volume: NodeVolume,
    stays: bool,
) -> None:
    """An old cache may have allowed to detach the volume by force."""
    said = node(spec=NodeSpec(taints=taints), status=NodeStatus(**status))
    assert (
        is_in_use(said, node_volume, VolumePlan(deletes=True, forced=forced)) is stays
    )


@pytest.mark.parametrize("node_volume", VOLUMES.values(), ids=VOLUMES)
def test_a_volume_that_a_node_lists_is_not_detached(node_volume: NodeVolume) -> None:
    """The cache was older than the list; the sync is retried."""
    listing = NodeStatus(volumes_attached=(AttachedVolume(name=NAME),))
    message = f"the node n lists {NAME} again; its cached status is old"
    with pytest.raises(SyncError, match=f"^{re.escape(message)}$"):
        is_in_use(node(status=listing), node_volume, VolumePlan(deletes=True))
