"""The plans for the volumes of a node, as tables."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from controller_manager.api.core.v1 import AttachedVolume, Node, NodeStatus
from controller_manager.api.core.volume_sources import ISCSISource
from controller_manager.api.meta import PartialMetadata
from controller_manager.api.storage.v1 import (
    Attachment,
    AttachmentError,
    AttachmentStatus,
)
from controller_manager.control.csi_migration import CSIVolume
from controller_manager.control.volumes import disk_name
from controller_manager.controllers.storage.attachdetach import AttachDetachOptions
from controller_manager.controllers.storage.attachdetach.plan import (
    ForcedDetach,
    VolumePlan,
    failed,
    plan_node,
    plan_volume,
)
from controller_manager.controllers.storage.attachdetach.tracker import (
    UNTRACKED,
    TrackedVolume,
)
from controller_manager.controllers.storage.attachdetach.view import (
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


_TIMED_OUT: Final = (
    "timed out waiting for external-attacher of d CSI driver to attach volume h"
)


@pytest.mark.parametrize(
    ("given", "tracked", "action"),
    [
        pytest.param(
            node_volume(),
            UNTRACKED,
            VolumePlan(tracked=TrackedVolume(trying_since=NOW), creates=True),
            id="nothing is there",
        ),
        pytest.param(
            node_volume(),
            TrackedVolume(not_before=NOW + 5, failures=3),
            VolumePlan(
                tracked=TrackedVolume(not_before=NOW + 5, failures=3),
                requeue_at=NOW + 5,
            ),
            id="the last attempt has just failed",
        ),
        pytest.param(
            node_volume(multi_attach=MultiAttach(("m",), stays=True)),
            UNTRACKED,
            VolumePlan(
                tracked=TrackedVolume(multi_attach_reported=True),
                reports_multi_attach=True,
            ),
            id="another node has it",
        ),
        pytest.param(
            node_volume(multi_attach=MultiAttach(("m",), stays=True)),
            TrackedVolume(multi_attach_reported=True),
            VolumePlan(tracked=TrackedVolume(multi_attach_reported=True)),
            id="another node has it, and users know",
        ),
        pytest.param(
            node_volume(multi_attach=MultiAttach(("m",))),
            UNTRACKED,
            VolumePlan(),
            id="another node is about to release it",
        ),
        pytest.param(
            node_volume(attachment=attachment()),
            TrackedVolume(trying_since=NOW - 100),
            VolumePlan(
                tracked=TrackedVolume(trying_since=NOW - 100), requeue_at=NOW + 20
            ),
            id="the driver is at work",
        ),
        pytest.param(
            node_volume(attachment=attachment()),
            TrackedVolume(trying_since=NOW - 120),
            VolumePlan(
                tracked=TrackedVolume(
                    failures=1, not_before=NOW + 0.5, trying_since=NOW + 0.5
                ),
                failure=_TIMED_OUT,
                requeue_at=NOW + 120.5,
            ),
            id="the driver says nothing",
        ),
        pytest.param(
            node_volume(attachment=attachment(error="no")),
            TrackedVolume(trying_since=NOW, failures=3),
            VolumePlan(
                tracked=TrackedVolume(
                    failures=4, not_before=NOW + 4, trying_since=NOW + 4
                ),
                failure="no",
                requeue_at=NOW + 4,
            ),
            id="the driver has failed",
        ),
        pytest.param(
            node_volume(attachment=attachment(deleted=True, ok=True)),
            TrackedVolume(trying_since=NOW - 120, deleted="uid"),
            VolumePlan(
                tracked=TrackedVolume(
                    failures=1,
                    not_before=NOW + 0.5,
                    trying_since=NOW + 0.5,
                    deleted="uid",
                ),
                failure="volume attachment is being deleted",
                requeue_at=NOW + 120.5,
            ),
            id="it does not go away",
        ),
        pytest.param(
            node_volume(attachment=attachment(deleted=True, ok=True)),
            UNTRACKED,
            VolumePlan(
                tracked=TrackedVolume(
                    failures=1,
                    not_before=NOW + 0.5,
                    trying_since=NOW + 0.5,
                    deleted="uid",
                ),
                failure="volume attachment is being deleted",
                requeue_at=NOW + 0.5,
            ),
            id="another program has deleted it",
        ),
        pytest.param(
            node_volume(),
            TrackedVolume(failures=1, not_before=NOW + 0.5, deleted="uid"),
            VolumePlan(
                tracked=TrackedVolume(failures=1, trying_since=NOW),
                creates=True,
            ),
            id="it was deleted, and is gone now",
        ),
        pytest.param(
            node_volume(attachment=attachment(ok=True)),
            TrackedVolume(deleted="uid"),
            VolumePlan(
                tracked=TrackedVolume(deleted="uid", trying_since=NOW),
                requeue_at=NOW + 120,
            ),
            id="it was deleted, and the cache does not show it",
        ),
        pytest.param(
            node_volume(attachment=attachment(ok=True)),
            TrackedVolume(trying_since=NOW - 3, failures=2),
            VolumePlan(
                tracked=TrackedVolume(
                    trying_since=NOW - 3, failures=2, attached_since=NOW
                ),
                list_by=NOW + 0.1,
                requeue_at=NOW + 0.1,
            ),
            id="it is attached",
        ),
        pytest.param(
            node_volume(attachment=attachment(ok=True), is_listed=True),
            TrackedVolume(announced="uid", failures=2, lost_since=3),
            VolumePlan(tracked=TrackedVolume(announced="uid"), lists=True),
            id="it is attached and listed",
        ),
        pytest.param(
            node_volume(is_listed=True),
            UNTRACKED,
            VolumePlan(
                tracked=TrackedVolume(lost_since=NOW), lists=True, requeue_at=NOW + 60
            ),
            id="it is listed, and its attachment is lost",
        ),
        pytest.param(
            node_volume(is_listed=True, attachment=attachment()),
            TrackedVolume(lost_since=NOW - 60),
            VolumePlan(
                tracked=TrackedVolume(lost_since=NOW - 60, trying_since=NOW),
                requeue_at=NOW + 120,
            ),
            id="it has been lost for a minute",
        ),
        pytest.param(
            node_volume(is_listed=True),
            TrackedVolume(detaching_since=3),
            VolumePlan(
                tracked=TrackedVolume(lost_since=NOW), lists=True, requeue_at=NOW + 60
            ),
            id="a pod needs it again",
        ),
        pytest.param(
            node_volume(attachment_name=""),
            UNTRACKED,
            VolumePlan(
                tracked=TrackedVolume(attached_since=NOW),
                list_by=NOW + 0.1,
                requeue_at=NOW + 0.1,
            ),
            id="no driver attaches it",
        ),
        pytest.param(
            node_volume(
                attachment_name="", multi_attach=MultiAttach(("m",), stays=True)
            ),
            UNTRACKED,
            VolumePlan(
                tracked=TrackedVolume(multi_attach_reported=True),
                reports_multi_attach=True,
            ),
            id="no driver attaches it, and another node has it",
        ),
    ],
)
def test_a_volume_that_a_pod_needs_is_attached(
    given: NodeVolume, tracked: TrackedVolume, action: VolumePlan
) -> None:
    """Each attempt is one of upstream's operations."""
    wanted = replace(given, volume=WANTED)
    assert plan_volume(wanted, tracked, READY, NOW, OPTIONS) == action


def test_a_listed_volume_counts_as_attached_for_ever_if_a_flag_says_so() -> None:
    """--disable-attach-detach-reconcile-sync."""
    given = node_volume(is_listed=True, volume=WANTED)
    tracked = TrackedVolume(lost_since=NOW - 1e6)
    options = AttachDetachOptions(disable_reconcile_sync=True)
    assert plan_volume(given, tracked, READY, NOW, options) == VolumePlan(
        tracked=tracked, lists=True
    )


_ATTACHED: Final = {"attachment": attachment(ok=True), "is_listed": True}
_LONG: Final = TrackedVolume(detaching_since=NOW - 360)
_SINCE: Final = TrackedVolume(detaching_since=NOW)


@pytest.mark.parametrize(
    ("parts", "tracked", "view", "action"),
    [
        pytest.param(
            _ATTACHED,
            UNTRACKED,
            READY,
            VolumePlan(tracked=_SINCE, deletes=True),
            id="unused",
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            UNTRACKED,
            UNREADY,
            VolumePlan(tracked=_SINCE, lists=True, requeue_at=NOW + 360),
            id="in use",
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            _LONG,
            READY,
            VolumePlan(tracked=_LONG, lists=True),
            id="in use for long on a node that is ready",
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            _LONG,
            UNREADY,
            VolumePlan(tracked=_LONG, deletes=True, forced=ForcedDetach.TIMEOUT),
            id="in use for long on a node that is not ready",
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            UNTRACKED,
            TAINTED,
            VolumePlan(
                tracked=_SINCE,
                deletes=True,
                forced=ForcedDetach.OUT_OF_SERVICE,
            ),
            id="in use on a node that is out of service",
        ),
        pytest.param(
            {**_ATTACHED, "is_kept": True},
            _LONG,
            UNREADY,
            VolumePlan(lists=True),
            id="a pod may use it",
        ),
        pytest.param(
            {"attachment": attachment(deleted=True, ok=True), "is_listed": True},
            UNTRACKED,
            READY,
            VolumePlan(tracked=_SINCE),
            id="it is being deleted",
        ),
        pytest.param(
            {"attachment": attachment(ok=True)},
            TrackedVolume(deleted="uid"),
            READY,
            VolumePlan(tracked=TrackedVolume(detaching_since=NOW, deleted="uid")),
            id="it was deleted, and the cache does not show it",
        ),
        pytest.param(
            {"is_listed": True},
            UNTRACKED,
            READY,
            VolumePlan(tracked=_SINCE, deletes=True),
            id="its attachment is lost",
        ),
        pytest.param(
            {"is_pending": True},
            UNTRACKED,
            READY,
            VolumePlan(tracked=_SINCE, deletes=True),
            id="it may have been created",
        ),
        pytest.param(
            {"is_listed": True, "attachment_name": ""},
            UNTRACKED,
            READY,
            VolumePlan(tracked=_SINCE),
            id="no driver attaches it",
        ),
    ],
)
def test_a_volume_that_no_pod_needs_is_detached(
    parts: dict[str, Any], tracked: TrackedVolume, view: NodeView, action: VolumePlan
) -> None:
    """If its node uses it, it stays, unless force is allowed."""
    assert plan_volume(node_volume(**parts), tracked, view, NOW, OPTIONS) == action


def test_no_volume_is_detached_by_force_after_a_time_if_a_flag_says_so() -> None:
    """--disable-force-detach-on-timeout."""
    given = node_volume(**_ATTACHED, in_use=True)
    action = plan_volume(
        given, _LONG, UNREADY, NOW, AttachDetachOptions(disable_force_detach=True)
    )
    assert action == VolumePlan(tracked=_LONG, lists=True)


def test_delays_between_attempts_double_up_to_two_minutes() -> None:
    """As upstream's exponential backoff of operations."""
    tracked, delays = UNTRACKED, []
    for _ in range(10):
        tracked = failed(tracked, NOW)
        delays.append(tracked.not_before - NOW)
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]


def _view(listed: list[str], *volumes: NodeVolume) -> NodeView:
    attached = tuple(AttachedVolume(name=each, device_path="x") for each in listed)
    node = Node(status=NodeStatus(volumes_attached=attached))
    return NodeView(
        name="n", node=node, is_ready=True, volumes={each.key: each for each in volumes}
    )


def _wanted(key: str) -> NodeVolume:
    return NodeVolume(
        key=key, attachment_name=key, volume=WANTED, attachment=attachment(ok=True)
    )


def test_volumes_that_are_attached_shortly_after_each_other_are_listed_together() -> (
    None
):
    """They are listed at once if the list changes anyway; unknown entries stay."""
    view = _view(["flex"], _wanted("a"), _wanted("b"))
    early = plan_node(
        view, {"a": TrackedVolume(attached_since=NOW - 0.05)}, NOW, OPTIONS
    )
    assert early.listed is None
    assert early.requeue_after(NOW) == pytest.approx(0.05)
    due = plan_node(view, {"a": TrackedVolume(attached_since=NOW - 0.1)}, NOW, OPTIONS)
    flex = AttachedVolume(name="flex", device_path="x")
    joined = (AttachedVolume(name="a"), AttachedVolume(name="b"))
    assert (due.listed, due.added) == ((flex, *joined), ("a", "b"))
    gone = NodeVolume(key="c", unique_name="c", attachment_name="c", is_listed=True)
    shorter = plan_node(_view(["flex", "c"], _wanted("a"), gone), {}, NOW, OPTIONS)
    assert (shorter.listed, shorter.added) == ((flex, joined[0]), ("a",))


def test_a_node_that_is_gone_lists_nothing() -> None:
    """Its attachments are deleted."""
    view = NodeView(
        name="n", volumes={NAME: node_volume(attachment=attachment(ok=True))}
    )
    plan = plan_node(view, {}, NOW, OPTIONS)
    assert (plan.listed, [each.deletes for each in plan.volumes.values()]) == (
        None,
        [True],
    )


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
    assert [is_known(each) for each in (unique, disk, "flexvolume-x/y")] == [
        True,
        True,
        False,
    ]


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
def test_access_modes_say_whether_a_volume_is_exclusive(
    modes: list[str], *, exclusive: bool
) -> None:
    """Upstream: IsMultiAttachAllowed."""
    assert is_exclusive(modes) is exclusive
