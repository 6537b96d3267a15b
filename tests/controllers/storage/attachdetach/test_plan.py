"""The plans for the volumes of a node, as tables, and the parts of the controller."""

import re
from typing import Any, Final

import pytest
from msgspec.structs import replace
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
from controller_manager.api.core.volume_sources import ISCSISource
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialMetadata
from controller_manager.api.storage.v1 import (
    Attachment,
    AttachmentError,
    AttachmentStatus,
)
from controller_manager.control.csi_migration import CSIVolume
from controller_manager.control.volumes import disk_name
from controller_manager.controllers.storage.attachdetach import AttachDetachOptions
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
    failed,
    plan_node,
    plan_volume,
)
from controller_manager.controllers.storage.attachdetach.tracker import (
    UNTRACKED,
    PendingAttachments,
    TrackedVolume,
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
    is_exclusive,
    is_known,
    plugin_name,
)
from controller_manager.runtime.outcome import SyncError

NOW: Final = 1000.0
OPTIONS: Final = AttachDetachOptions()
NAME: Final = csi_name("d", "h")
VOLUME: Final = Volume(NAME, "v", exclusive=True, persistent_volume="v")
WANTED: Final = replace(VOLUME, csi=CSIVolume("v", "d", "h"))
READY: Final = NodeView(name="n", is_ready=True)
UNREADY: Final = NodeView(name="n")
TAINTED: Final = NodeView(name="n", is_ready=True, is_out_of_service=True)


def attachment(
    *, deleted: bool = False, error: str = "", ok: bool = False
) -> Attachment:
    stamp = "2026-01-01T00:00:00Z" if deleted else None
    return Attachment(
        metadata=PartialMetadata(name="va", uid="uid", deletion_timestamp=stamp),
        status=AttachmentStatus(
            attached=ok, attach_error=AttachmentError(message=error) if error else None
        ),
    )


def node_volume(**parts: Any) -> NodeVolume:
    known = {"unique_name": NAME, "attachment_name": "va", **parts}
    return NodeVolume(key=NAME, **known)


def plan(tracked: TrackedVolume = UNTRACKED, **parts: Any) -> VolumePlan:
    return VolumePlan(tracked=tracked, **parts)


T: Final = TrackedVolume
ASKED: Final[JSON] = {"attachment": attachment()}
ATTACHED: Final[JSON] = {"attachment": attachment(ok=True)}
LISTED: Final[JSON] = {**ATTACHED, "is_listed": True}
LEAVING: Final[JSON] = {"attachment": attachment(deleted=True, ok=True)}
ELSEWHERE: Final[JSON] = {"multi_attach": MultiAttach(("m",), stays=True)}
NO_DRIVER: Final[JSON] = {"attachment_name": ""}
FAILED_ONCE: Final[JSON] = {"failures": 1, "not_before": 1000.5, "trying_since": 1000.5}
REPORTED: Final = T(multi_attach_reported=True)
TELLS: Final = plan(REPORTED, reports_multi_attach=True)
IS_LEAVING: Final = "volume attachment is being deleted"
TIMED_OUT: Final = (
    "timed out waiting for external-attacher of d CSI driver to attach volume h"
)
LOST: Final = plan(T(lost_since=NOW), lists=True, requeue_at=1060)
BECOMES_LISTED: Final[JSON] = {"list_by": 1000.1, "requeue_at": 1000.1}

NEEDED: Final[dict[str, tuple[JSON, TrackedVolume, VolumePlan]]] = {
    "nothing is there": ({}, UNTRACKED, plan(T(trying_since=NOW), creates=True)),
    "the last attempt has just failed": (
        {},
        T(not_before=1005, failures=3),
        plan(T(not_before=1005, failures=3), requeue_at=1005),
    ),
    "another node has it": (ELSEWHERE, UNTRACKED, TELLS),
    "another node has it, and users know": (ELSEWHERE, REPORTED, plan(REPORTED)),
    "another node is about to release it": (
        {"multi_attach": MultiAttach(("m",))},
        UNTRACKED,
        plan(),
    ),
    "the driver is at work": (
        ASKED,
        T(trying_since=900),
        plan(T(trying_since=900), requeue_at=1020),
    ),
    "the driver says nothing": (
        ASKED,
        T(trying_since=880),
        plan(T(**FAILED_ONCE), failure=TIMED_OUT, requeue_at=1120.5),
    ),
    "the driver has failed": (
        {"attachment": attachment(error="no")},
        T(trying_since=NOW, failures=3),
        plan(
            T(failures=4, not_before=1004, trying_since=1004),
            failure="no",
            requeue_at=1004,
        ),
    ),
    "it does not go away": (
        LEAVING,
        T(trying_since=880, deleted="uid"),
        plan(T(**FAILED_ONCE, deleted="uid"), failure=IS_LEAVING, requeue_at=1120.5),
    ),
    "another program has deleted it": (
        LEAVING,
        UNTRACKED,
        plan(T(**FAILED_ONCE, deleted="uid"), failure=IS_LEAVING, requeue_at=1000.5),
    ),
    "it was deleted, and is gone now": (
        {},
        T(failures=1, not_before=1000.5, deleted="uid"),
        plan(T(failures=1, trying_since=NOW), creates=True),
    ),
    "it was deleted, and the cache does not show it": (
        ATTACHED,
        T(deleted="uid"),
        plan(T(deleted="uid", trying_since=NOW), requeue_at=1120),
    ),
    "it is attached": (
        ATTACHED,
        T(trying_since=997, failures=2),
        plan(T(trying_since=997, failures=2, attached_since=NOW), **BECOMES_LISTED),
    ),
    "it is attached and listed": (
        LISTED,
        T(announced="uid", failures=2, lost_since=3),
        plan(T(announced="uid"), lists=True),
    ),
    "it is listed, and its attachment is lost": ({"is_listed": True}, UNTRACKED, LOST),
    "it has been lost for a minute": (
        {**ASKED, "is_listed": True},
        T(lost_since=940),
        plan(T(lost_since=940, trying_since=NOW), requeue_at=1120),
    ),
    "a pod needs it again": ({"is_listed": True}, T(detaching_since=3), LOST),
    "no driver attaches it": (
        NO_DRIVER,
        UNTRACKED,
        plan(T(attached_since=NOW), **BECOMES_LISTED),
    ),
    "no driver attaches it, and another node has it": (
        {**NO_DRIVER, **ELSEWHERE},
        UNTRACKED,
        TELLS,
    ),
}


@pytest.mark.parametrize(("given", "tracked", "action"), NEEDED.values(), ids=NEEDED)
def test_a_volume_that_a_pod_needs_is_attached(
    given: JSON, tracked: TrackedVolume, action: VolumePlan
) -> None:
    """Each attempt is one of upstream's operations."""
    wanted = node_volume(volume=WANTED, **given)
    assert plan_volume(wanted, tracked, READY, NOW, OPTIONS) == action


def test_a_listed_volume_counts_as_attached_for_ever_if_a_flag_says_so() -> None:
    """--disable-attach-detach-reconcile-sync."""
    given = node_volume(is_listed=True, volume=WANTED)
    tracked = T(lost_since=NOW - 1e6)
    options = AttachDetachOptions(disable_reconcile_sync=True)
    found = plan_volume(given, tracked, READY, NOW, options)
    assert found == plan(tracked, lists=True)


USED: Final[JSON] = {**LISTED, "in_use": True}
LONG: Final = T(detaching_since=640)
SINCE: Final = T(detaching_since=NOW)
DELETES: Final = plan(SINCE, deletes=True)

UNNEEDED: Final[dict[str, tuple[JSON, TrackedVolume, NodeView, VolumePlan]]] = {
    "unused": (LISTED, UNTRACKED, READY, DELETES),
    "in use": (USED, UNTRACKED, UNREADY, plan(SINCE, lists=True, requeue_at=1360)),
    "in use for long on a node that is ready": (
        USED,
        LONG,
        READY,
        plan(LONG, lists=True),
    ),
    "in use for long on a node that is not ready": (
        USED,
        LONG,
        UNREADY,
        plan(LONG, deletes=True, forced=ForcedDetach.TIMEOUT),
    ),
    "in use on a node that is out of service": (
        USED,
        UNTRACKED,
        TAINTED,
        plan(SINCE, deletes=True, forced=ForcedDetach.OUT_OF_SERVICE),
    ),
    "a pod may use it": ({**LISTED, "is_kept": True}, LONG, UNREADY, plan(lists=True)),
    "it is being deleted": (
        {**LEAVING, "is_listed": True},
        UNTRACKED,
        READY,
        plan(SINCE),
    ),
    "it was deleted, and the cache does not show it": (
        ATTACHED,
        T(deleted="uid"),
        READY,
        plan(T(detaching_since=NOW, deleted="uid")),
    ),
    "its attachment is lost": ({"is_listed": True}, UNTRACKED, READY, DELETES),
    "it may have been created": ({"is_pending": True}, UNTRACKED, READY, DELETES),
    "no driver attaches it": (
        {**NO_DRIVER, "is_listed": True},
        UNTRACKED,
        READY,
        plan(SINCE),
    ),
}


@pytest.mark.parametrize(
    ("parts", "tracked", "view", "action"), UNNEEDED.values(), ids=UNNEEDED
)
def test_a_volume_that_no_pod_needs_is_detached(
    parts: JSON, tracked: TrackedVolume, view: NodeView, action: VolumePlan
) -> None:
    """If its node uses it, it stays, unless force is allowed."""
    assert plan_volume(node_volume(**parts), tracked, view, NOW, OPTIONS) == action


def test_no_volume_is_detached_by_force_after_a_time_if_a_flag_says_so() -> None:
    """--disable-force-detach-on-timeout."""
    options = AttachDetachOptions(disable_force_detach=True)
    action = plan_volume(node_volume(**USED), LONG, UNREADY, NOW, options)
    assert action == plan(LONG, lists=True)


def test_delays_between_attempts_double_up_to_two_minutes() -> None:
    """As upstream's exponential backoff of operations."""
    tracked, delays = UNTRACKED, []
    for _ in range(10):
        tracked = failed(tracked, NOW)
        delays.append(tracked.not_before - NOW)
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]


def view(name: str, *volumes: NodeVolume, **more: Any) -> NodeView:
    return NodeView(name=name, volumes={each.key: each for each in volumes}, **more)


def _view(listed: list[str], *volumes: NodeVolume) -> NodeView:
    attached = tuple(AttachedVolume(name=each, device_path="x") for each in listed)
    node = Node(status=NodeStatus(volumes_attached=attached))
    return view("n", *volumes, node=node, is_ready=True)


def _wanted(key: str) -> NodeVolume:
    return NodeVolume(
        key=key, attachment_name=key, volume=WANTED, attachment=attachment(ok=True)
    )


def test_volumes_that_are_attached_soon_after_are_listed_together() -> None:
    both = _view(["flex"], _wanted("a"), _wanted("b"))
    early = plan_node(both, {"a": T(attached_since=NOW - 0.05)}, NOW, OPTIONS)
    assert early.listed is None
    assert early.requeue_after(NOW) == pytest.approx(0.05)
    due = plan_node(both, {"a": T(attached_since=NOW - 0.1)}, NOW, OPTIONS)
    flex = AttachedVolume(name="flex", device_path="x")
    joined = (AttachedVolume(name="a"), AttachedVolume(name="b"))
    assert (due.listed, due.added) == ((flex, *joined), ("a", "b"))
    gone = NodeVolume(key="c", unique_name="c", attachment_name="c", is_listed=True)
    shorter = plan_node(_view(["flex", "c"], _wanted("a"), gone), {}, NOW, OPTIONS)
    assert (shorter.listed, shorter.added) == ((flex, joined[0]), ("a",))


def test_a_node_that_is_gone_lists_nothing() -> None:
    planned = plan_node(view("n", node_volume(**ATTACHED)), {}, NOW, OPTIONS)
    deletes = [each.deletes for each in planned.volumes.values()]
    assert (planned.listed, deletes) == (None, [True])


def test_names_are_those_of_upstream() -> None:
    """The recordings have the first; the others are upstream's functions."""
    unique = csi_name("csi.example.com", "vol-attach-detach-a")
    assert attachment_name(unique, "vol-attach-detach-n") == (
        "csi-96621850d0c8afa5e559f2127d28b02159bb6275b296642f6352d35354085451"
    )
    assert attachment_name(csi_name("d", "a^b"), "n").startswith("csi-")
    disk = disk_name(ISCSISource("10.0.0.1:3260", "iqn.2026"), None)
    assert attachment_name(disk, "n") == ""
    assert [plugin_name(each) for each in (unique, disk)] == [
        "kubernetes.io/csi:csi.example.com",
        "kubernetes.io/iscsi",
    ]
    known = [is_known(each) for each in (unique, disk, "flexvolume-x/y")]
    assert known == [True, True, False]


@pytest.mark.parametrize(
    ("modes", "exclusive"),
    [
        ([], False),
        (["ReadWriteOnce"], True),
        (["ReadWriteOncePod"], True),
        (["ReadWriteOnce", "ReadOnlyMany"], False),
        (["ReadWriteMany"], False),
    ],
)
def test_modes_say_what_is_exclusive(modes: list[str], *, exclusive: bool) -> None:
    """Upstream: IsMultiAttachAllowed."""
    assert is_exclusive(modes) is exclusive


EXCLUSIVE: Final = (
    "Volume is already exclusively attached to one node and can't be attached to "
    "another"
)


def pod(name: str, namespace: str = "ns") -> Pod:
    return Pod(metadata=PodMeta(name=name, namespace=namespace))


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
def test_other_namespaces_are_not_named(users: tuple[Pod, ...], reason: str) -> None:
    """Upstream: reportMultiAttachError."""
    multi_attach = MultiAttach(("n",), users, stays=True)
    message = multi_attach_error(VOLUME, multi_attach, pod("p"))
    assert message == f'Multi-Attach error for volume "v" {reason}'


def test_metrics_count_the_volumes_of_all_nodes() -> None:
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
    pending = PendingAttachments()
    pending.add("a", "n")
    pending.remove("a", "m")
    volumes = pending.volumes_of("n"), pending.volumes_of("m")
    assert (pending.node_of("a"), *volumes) == ("n", frozenset("a"), frozenset())
    pending.remove("a", "n")
    assert (pending.node_of("a"), pending.volumes_of("n")) == ("", frozenset())
    assert len(pending._nodes) == 0


def _waiting(node: str, volume: str, holder: str) -> NodeView:
    return view(
        node, NodeVolume(key=volume, volume=VOLUME, multi_attach=MultiAttach((holder,)))
    )


def test_nodes_that_wait_for_each_other_do_not_wake_each_other_for_ever() -> None:
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


ATTACHMENT: Final = attachment_name(NAME, "n")
IN_USE: Final = {"volumes_in_use": (NAME,)}
OTHER_IN_USE: Final = {"volumes_in_use": (csi_name("d", "other"), "kubernetes.io/fc/0")}
IS_READY: Final = {"conditions": (NodeCondition(type="Ready", status="True"),)}
USED_AND_READY: Final = {**IN_USE, **IS_READY}


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
    {
        "unused": ({}, (), None, False),
        "another used": (OTHER_IN_USE, (), None, False),
        "used": (IN_USE, (), None, True),
        "ready again": (USED_AND_READY, (), ForcedDetach.TIMEOUT, True),
        "given up": (IN_USE, (), ForcedDetach.TIMEOUT, False),
        "in service again": (USED_AND_READY, (), ForcedDetach.OUT_OF_SERVICE, True),
        "tainted": (USED_AND_READY, (Taint(key=OUT_OF_SERVICE),), None, False),
    }.values(),
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
