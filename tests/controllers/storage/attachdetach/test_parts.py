"""Metrics, messages, holds and waits, each by itself."""

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
from controller_manager.controllers.storage.attachdetach import messages
from controller_manager.controllers.storage.attachdetach.apply import must_stay
from controller_manager.controllers.storage.attachdetach.decide import Do, Reason, Step
from controller_manager.controllers.storage.attachdetach.holds import Holds
from controller_manager.controllers.storage.attachdetach.metrics import (
    AttachDetachMetrics,
)
from controller_manager.controllers.storage.attachdetach.names import (
    attachment_name,
    csi_name,
)
from controller_manager.controllers.storage.attachdetach.node_state import (
    OUT_OF_SERVICE,
)
from controller_manager.controllers.storage.attachdetach.places import (
    Block,
    NodeView,
    Place,
)
from controller_manager.controllers.storage.attachdetach.volumes import Volume
from controller_manager.controllers.storage.attachdetach.waits import Waits
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


def view(name: str, *places: Place, **more: Any) -> NodeView:
    return NodeView(name=name, places={each.key: each for each in places}, **more)


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
def test_a_refusal_names_pods_of_the_same_namespace_only(
    users: tuple[Pod, ...], reason: str
) -> None:
    """Upstream: reportMultiAttachError."""
    block = Block(("n",), users, stays=True)
    message = messages.refused(VOLUME, block, pod("p"))
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

    here = Place(key=NAME, unique_name=NAME, volume=VOLUME, is_listed=True)
    asked = Place(key=NAME, unique_name=NAME, volume=VOLUME)
    metrics.saw(view("a", here, used_by_pods=(NAME, NAME)))
    metrics.saw(view("b", asked, used_by_pods=(NAME,)))
    assert (of("desired_state_of_world"), of("actual_state_of_world")) == (2, 1)
    plugin = {"node": "a", "volume_plugin": "kubernetes.io/csi:d"}
    assert registry.get_sample_value(used, plugin) == 2
    metrics.forced(Reason.TIMEOUT)
    assert [
        registry.get_sample_value(forced, {"reason": each.value}) for each in Reason
    ] == [1, 0]
    metrics.saw(view("a"))
    metrics.saw(view("b"))
    assert (len(metrics), of("desired_state_of_world")) == (0, None)


def test_a_hold_ends_for_the_node_that_has_it() -> None:
    """Another node cannot end it."""
    holds = Holds()
    holds.take("a", "n")
    holds.release("a", "m")
    assert (holds.holder("a"), holds.of("n"), holds.of("m")) == (
        "n",
        frozenset({"a"}),
        frozenset(),
    )
    holds.release("a", "n")
    assert (len(holds), holds.holder("a"), holds.of("n")) == (0, "", frozenset())


def _blocked(node: str, volume: str, holder: str) -> NodeView:
    return view(node, Place(key=volume, volume=VOLUME, block=Block((holder,))))


def test_nodes_that_wait_for_each_other_do_not_wake_each_other_for_ever() -> None:
    """Each is told of each state of the volume once."""
    waits = Waits()
    waits.update(_blocked("a", "one", "b"))
    waits.update(_blocked("b", "two", "a"))
    on_a = view("a", Place(key="two", attachment=Attachment()))
    on_b = view("b", Place(key="one", attachment=Attachment()))
    assert [waits.to_wake(on_a), waits.to_wake(on_b)] == [["b"], ["a"]]
    assert [waits.to_wake(on_a), waits.to_wake(on_b)] == [[], []]
    assert waits.to_wake(view("a")) == ["b"]
    waits.update(view("a"))
    waits.update(view("b"))
    assert len(waits) == 0


IN_USE: Final = {"volumes_in_use": (NAME,)}
OTHER_IN_USE: Final = {"volumes_in_use": (csi_name("d", "other"), "kubernetes.io/fc/0")}
READY: Final = {"conditions": (NodeCondition(type="Ready", status="True"),)}


PLACES: Final = {
    "named": Place(key=NAME, unique_name=NAME, attachment_name=ATTACHMENT),
    "nameless": Place(key=ATTACHMENT, attachment_name=ATTACHMENT),
}
"""A place whose volume the caches know, and one whose volume they do not know yet."""


def node(**parts: Any) -> Node:
    return Node(metadata=NodeMeta(name="n"), **parts)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(
    ("status", "taints", "forced", "stays"),
    [
        ({}, (), None, False),
        (OTHER_IN_USE, (), None, False),
        (IN_USE, (), None, True),
        ({**IN_USE, **READY}, (), Reason.TIMEOUT, True),
        (IN_USE, (), Reason.TIMEOUT, False),
        ({**IN_USE, **READY}, (), Reason.OUT_OF_SERVICE, True),
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
def test_what_the_server_says_of_a_node_counts_before_a_volume_is_detached(
    status: dict[str, Any],
    taints: tuple[Taint, ...],
    forced: Reason | None,
    place: Place,
    stays: bool,
) -> None:
    """Also if an old cache has said that it may be detached by force."""
    said = node(spec=NodeSpec(taints=taints), status=NodeStatus(**status))
    assert must_stay(said, place, Step(do=Do.DELETE, forced=forced)) is stays


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_a_node_lists_is_not_detached(place: Place) -> None:
    """The cache was older than the list; the sync is tried again."""
    listing = NodeStatus(volumes_attached=(AttachedVolume(name=NAME),))
    message = f"the node n lists {NAME} again; its cached status is old"
    with pytest.raises(SyncError, match=f"^{re.escape(message)}$"):
        must_stay(node(status=listing), place, Step(do=Do.DELETE))
