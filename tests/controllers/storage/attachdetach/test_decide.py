"""What to do about one place, as tables."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from controller_manager.api.core.v1 import AttachedVolume, Node, NodeStatus
from controller_manager.api.meta import PartialMetadata
from controller_manager.api.storage.v1 import (
    Attachment,
    AttachmentError,
    AttachmentStatus,
)
from controller_manager.control.csi_migration import CSIVolume
from controller_manager.controllers.storage.attachdetach.decide import (
    Do,
    Reason,
    Rules,
    Step,
    decide,
    failed,
)
from controller_manager.controllers.storage.attachdetach.names import (
    attachment_name,
    csi_name,
    fc_name,
    is_known,
    iscsi_name,
    plugin_name,
)
from controller_manager.controllers.storage.attachdetach.places import (
    NOTHING,
    Block,
    Memory,
    NodeView,
    Place,
)
from controller_manager.controllers.storage.attachdetach.plan import plan
from controller_manager.controllers.storage.attachdetach.volumes import (
    Volume,
    is_exclusive,
)

NOW: Final = 1000.0
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


def place(**parts: Any) -> Place:
    known = {"unique_name": NAME, "attachment_name": "va", **parts}
    return Place(key=NAME, **known)


_TIMED_OUT: Final = (
    "timed out waiting for external-attacher of d CSI driver to attach volume h"
)


@pytest.mark.parametrize(
    ("given", "memory", "step"),
    [
        pytest.param(
            place(),
            NOTHING,
            Step(memory=Memory(trying_since=NOW), do=Do.CREATE),
            id="nothing is there",
        ),
        pytest.param(
            place(),
            Memory(not_before=NOW + 5, failures=3),
            Step(memory=Memory(not_before=NOW + 5, failures=3), requeue_at=NOW + 5),
            id="the last attempt has just failed",
        ),
        pytest.param(
            place(block=Block(("m",), stays=True)),
            NOTHING,
            Step(memory=Memory(refusal_reported=True), is_refused=True),
            id="another node has it",
        ),
        pytest.param(
            place(block=Block(("m",), stays=True)),
            Memory(refusal_reported=True),
            Step(memory=Memory(refusal_reported=True)),
            id="another node has it, and users know",
        ),
        pytest.param(
            place(block=Block(("m",))),
            NOTHING,
            Step(),
            id="another node is about to release it",
        ),
        pytest.param(
            place(attachment=attachment()),
            Memory(trying_since=NOW - 100),
            Step(memory=Memory(trying_since=NOW - 100), requeue_at=NOW + 20),
            id="the driver is at work",
        ),
        pytest.param(
            place(attachment=attachment()),
            Memory(trying_since=NOW - 120),
            Step(
                memory=Memory(failures=1, not_before=NOW + 0.5, trying_since=NOW + 0.5),
                failure=_TIMED_OUT,
                requeue_at=NOW + 120.5,
            ),
            id="the driver says nothing",
        ),
        pytest.param(
            place(attachment=attachment(error="no")),
            Memory(trying_since=NOW, failures=3),
            Step(
                memory=Memory(failures=4, not_before=NOW + 4, trying_since=NOW + 4),
                failure="no",
                requeue_at=NOW + 4,
            ),
            id="the driver has failed",
        ),
        pytest.param(
            place(attachment=attachment(deleted=True, ok=True)),
            Memory(trying_since=NOW - 120, deleted="uid"),
            Step(
                memory=Memory(
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
            place(attachment=attachment(deleted=True, ok=True)),
            NOTHING,
            Step(
                memory=Memory(
                    failures=1,
                    not_before=NOW + 0.5,
                    trying_since=NOW + 0.5,
                    deleted="uid",
                ),
                failure="volume attachment is being deleted",
                requeue_at=NOW + 0.5,
            ),
            id="somebody else has deleted it",
        ),
        pytest.param(
            place(),
            Memory(failures=1, not_before=NOW + 0.5, deleted="uid"),
            Step(memory=Memory(failures=1, trying_since=NOW), do=Do.CREATE),
            id="it was deleted, and is gone now",
        ),
        pytest.param(
            place(attachment=attachment(ok=True)),
            Memory(deleted="uid"),
            Step(memory=Memory(deleted="uid", trying_since=NOW), requeue_at=NOW + 120),
            id="it was deleted, and the cache does not show it",
        ),
        pytest.param(
            place(attachment=attachment(ok=True)),
            Memory(trying_since=NOW - 3, failures=2),
            Step(
                memory=Memory(trying_since=NOW - 3, failures=2, attached_since=NOW),
                joins_at=NOW + 0.1,
                requeue_at=NOW + 0.1,
            ),
            id="it is attached",
        ),
        pytest.param(
            place(attachment=attachment(ok=True), is_listed=True),
            Memory(announced="uid", failures=2, lost_since=3),
            Step(memory=Memory(announced="uid"), lists=True),
            id="it is attached and listed",
        ),
        pytest.param(
            place(is_listed=True),
            NOTHING,
            Step(memory=Memory(lost_since=NOW), lists=True, requeue_at=NOW + 60),
            id="it is listed, and its attachment is lost",
        ),
        pytest.param(
            place(is_listed=True, attachment=attachment()),
            Memory(lost_since=NOW - 60),
            Step(
                memory=Memory(lost_since=NOW - 60, trying_since=NOW),
                requeue_at=NOW + 120,
            ),
            id="it has been lost for a minute",
        ),
        pytest.param(
            place(is_listed=True),
            Memory(detaching_since=3),
            Step(memory=Memory(lost_since=NOW), lists=True, requeue_at=NOW + 60),
            id="it is wanted again",
        ),
        pytest.param(
            place(attachment_name=""),
            NOTHING,
            Step(
                memory=Memory(attached_since=NOW),
                joins_at=NOW + 0.1,
                requeue_at=NOW + 0.1,
            ),
            id="no driver attaches it",
        ),
        pytest.param(
            place(attachment_name="", block=Block(("m",), stays=True)),
            NOTHING,
            Step(memory=Memory(refusal_reported=True), is_refused=True),
            id="no driver attaches it, and another node has it",
        ),
    ],
)
def test_a_volume_that_is_wanted_is_attached(
    given: Place, memory: Memory, step: Step
) -> None:
    """Each attempt is one of upstream's operations."""
    wanted = replace(given, volume=WANTED)
    assert decide(wanted, memory, READY, NOW, Rules()) == step


def test_a_lost_attachment_is_trusted_for_ever_if_the_flag_says_so() -> None:
    """--disable-attach-detach-reconcile-sync."""
    given = place(is_listed=True, volume=WANTED)
    memory = Memory(lost_since=NOW - 1e6)
    rules = Rules(verify_after=None)
    assert decide(given, memory, READY, NOW, rules) == Step(memory=memory, lists=True)


_ATTACHED: Final = {"attachment": attachment(ok=True), "is_listed": True}
_LONG: Final = Memory(detaching_since=NOW - 360)
_SINCE: Final = Memory(detaching_since=NOW)


@pytest.mark.parametrize(
    ("parts", "memory", "view", "step"),
    [
        pytest.param(
            _ATTACHED, NOTHING, READY, Step(memory=_SINCE, do=Do.DELETE), id="unused"
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            NOTHING,
            UNREADY,
            Step(memory=_SINCE, lists=True, requeue_at=NOW + 360),
            id="in use",
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            _LONG,
            READY,
            Step(memory=_LONG, lists=True),
            id="in use for long on a node that is ready",
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            _LONG,
            UNREADY,
            Step(memory=_LONG, do=Do.DELETE, forced=Reason.TIMEOUT),
            id="in use for long on a node that is not ready",
        ),
        pytest.param(
            {**_ATTACHED, "in_use": True},
            NOTHING,
            TAINTED,
            Step(memory=_SINCE, do=Do.DELETE, forced=Reason.OUT_OF_SERVICE),
            id="in use on a node that is out of service",
        ),
        pytest.param(
            {**_ATTACHED, "is_kept": True},
            _LONG,
            UNREADY,
            Step(lists=True),
            id="a pod may use it",
        ),
        pytest.param(
            {"attachment": attachment(deleted=True, ok=True), "is_listed": True},
            NOTHING,
            READY,
            Step(memory=_SINCE),
            id="it is being deleted",
        ),
        pytest.param(
            {"attachment": attachment(ok=True)},
            Memory(deleted="uid"),
            READY,
            Step(memory=Memory(detaching_since=NOW, deleted="uid")),
            id="it was deleted, and the cache does not show it",
        ),
        pytest.param(
            {"is_listed": True},
            NOTHING,
            READY,
            Step(memory=_SINCE, do=Do.DELETE),
            id="its attachment is lost",
        ),
        pytest.param(
            {"is_pending": True},
            NOTHING,
            READY,
            Step(memory=_SINCE, do=Do.DELETE),
            id="it may have been created",
        ),
        pytest.param(
            {"is_listed": True, "attachment_name": ""},
            NOTHING,
            READY,
            Step(memory=_SINCE),
            id="no driver attaches it",
        ),
    ],
)
def test_a_volume_that_nobody_wants_is_detached(
    parts: dict[str, Any], memory: Memory, view: NodeView, step: Step
) -> None:
    """Unless its node uses it, and nobody may use force."""
    assert decide(place(**parts), memory, view, NOW, Rules()) == step


def test_nothing_is_forced_after_a_time_if_the_flag_says_so() -> None:
    """--disable-force-detach-on-timeout."""
    given = place(**_ATTACHED, in_use=True)
    step = decide(given, _LONG, UNREADY, NOW, Rules(forces=False))
    assert step == Step(memory=_LONG, lists=True)


def test_delays_between_attempts_double_up_to_two_minutes() -> None:
    """As upstream's exponential back-off of operations."""
    memory, delays = NOTHING, []
    for _ in range(10):
        memory = failed(memory, NOW)
        delays.append(memory.not_before - NOW)
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]


def _view(listed: list[str], *places: Place) -> NodeView:
    attached = tuple(AttachedVolume(name=each, device_path="x") for each in listed)
    node = Node(status=NodeStatus(volumes_attached=attached))
    return NodeView(
        name="n", node=node, is_ready=True, places={each.key: each for each in places}
    )


def _wanted(key: str) -> Place:
    return Place(
        key=key, attachment_name=key, volume=WANTED, attachment=attachment(ok=True)
    )


def test_volumes_that_are_attached_shortly_after_each_other_join_together() -> None:
    """They join at once if the list changes anyway; unknown entries stay."""
    view = _view(["flex"], _wanted("a"), _wanted("b"))
    early = plan(view, {"a": Memory(attached_since=NOW - 0.05)}, NOW, Rules())
    assert early.listed is None
    assert early.requeue_after(NOW) == pytest.approx(0.05)
    due = plan(view, {"a": Memory(attached_since=NOW - 0.1)}, NOW, Rules())
    flex = AttachedVolume(name="flex", device_path="x")
    joined = (AttachedVolume(name="a"), AttachedVolume(name="b"))
    assert (due.listed, due.joining) == ((flex, *joined), ("a", "b"))
    gone = Place(key="c", unique_name="c", attachment_name="c", is_listed=True)
    shorter = plan(_view(["flex", "c"], _wanted("a"), gone), {}, NOW, Rules())
    assert (shorter.listed, shorter.joining) == ((flex, joined[0]), ("a",))


def test_a_node_that_is_gone_lists_nothing() -> None:
    """Its attachments are deleted nevertheless."""
    view = NodeView(name="n", places={NAME: place(attachment=attachment(ok=True))})
    made = plan(view, {}, NOW, Rules())
    assert (made.listed, [each.do for each in made.steps.values()]) == (
        None,
        [Do.DELETE],
    )


def test_names_are_those_of_upstream() -> None:
    """The recordings have the first; the others are upstream's functions."""
    unique = csi_name("csi.example.com", "vol-attach-detach-a")
    assert attachment_name(unique, "vol-attach-detach-n") == (
        "csi-96621850d0c8afa5e559f2127d28b02159bb6275b296642f6352d35354085451"
    )
    assert attachment_name(csi_name("d", "a^b"), "n").startswith("csi-")
    disk = iscsi_name("10.0.0.1:3260", "iqn.2026", 0)
    assert disk == "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026:0"
    assert attachment_name(disk, "n") == ""
    assert fc_name(("a", "b"), 0, None) == "kubernetes.io/fc/[a b]:0"
    assert fc_name(None, None, ("w",)) == "kubernetes.io/fc/[w]"
    assert fc_name(("a",), None, None) == ""
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
