"""Labels, the volumes of pods, and the conflicts between pods."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod, SELinuxOptions
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.selinuxwarning.conflicts import (
    Conflict,
    VolumeUses,
    conflicts_of,
)
from controller_manager.controllers.storage.selinuxwarning.volumes import (
    MOUNT_OPTION,
    RECURSIVE,
    Use,
    conflicts,
    label_of,
    mounted_labels,
    use_of,
)


@pytest.mark.parametrize(
    ("options", "label"),
    [
        (SELinuxOptions(), ""),
        (SELinuxOptions(level="s0:c1,c2"), ":::s0:c1,c2"),
        (SELinuxOptions(user="u", role="r", type="t", level="s0"), "u:r:t:s0"),
        (SELinuxOptions(type="t"), "::t:"),
    ],
)
def test_a_label_has_only_set_parts(options: SELinuxOptions, label: str) -> None:
    assert label_of(options) == label


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("", "", False),
        ("", "u:r:t:", False),
        ("", "u:r:t:s0", True),
        ("", ":::s0:c1,c2", True),
        ("u:r:t:", "u:r:t:s0", True),
        ("u:r:t:s0", "u:r:t:s0", False),
        ("u:r:t:s0:c1,c2", ":::s0:c1,c2", False),
        ("u:r:t:s0:c1,c2", ":::s0:c98,c99", True),
        (":::s0:c1,c2", ":::s0", True),
        ("u:::", ":r::", False),
        ("u:::", "v:::", True),
        ("::t:", "u::x:", True),
    ],
)
def test_labels_conflict_in_one_part(one: str, other: str, *, differ: bool) -> None:
    assert conflicts(one, other) is differ
    assert conflicts(other, one) is differ


def pod(**spec: Any) -> Pod:
    return msgspec.json.decode(msgspec.json.encode({"spec": spec}), type=Pod)


def container(*mounts: str, level: str = "") -> JSON:
    context = {"seLinuxOptions": {"level": level}} if level else {}
    volumes = [{"name": each, "mountPath": f"/{each}"} for each in mounts]
    return {"name": "c", "securityContext": context, "volumeMounts": volumes}


@pytest.mark.parametrize(
    ("user", "labels"),
    [
        (pod(), {}),
        (pod(containers=[container()]), {}),
        (pod(containers=[container("a")]), {"a": set()}),
        (pod(containers=[container("a", level="x")]), {"a": {":::x"}}),
        (
            pod(
                securityContext={"seLinuxOptions": {"level": "p"}},
                containers=[container("a"), container("a", "b", level="x")],
            ),
            {"a": {":::p", ":::x"}, "b": {":::x"}},
        ),
        (
            pod(
                initContainers=[container("a", level="x")],
                containers=[container("b")],
                ephemeralContainers=[container("a", level="y")],
            ),
            {"a": {":::x", ":::y"}, "b": set()},
        ),
        (
            pod(
                securityContext={"seLinuxOptions": {"type": "t"}},
                containers=[container("a", level="x")],
            ),
            {"a": {":::x"}},
        ),
    ],
)
def test_mounts_have_container_labels(user: Pod, labels: dict[str, set[str]]) -> None:
    assert mounted_labels(user) == labels


@pytest.mark.parametrize(
    ("policy", "label", "mounts", "use"),
    [
        (None, "x", True, Use("x", MOUNT_OPTION)),
        (MOUNT_OPTION, "x", True, Use("x", MOUNT_OPTION)),
        (RECURSIVE, "x", True, Use("", RECURSIVE)),
        (None, "x", False, Use("", RECURSIVE)),
        (None, "", True, Use("", RECURSIVE)),
    ],
)
def test_a_label_is_mounted_if_the_driver_and_the_pod_allow_it(
    policy: str | None, label: str, use: Use, *, mounts: bool
) -> None:
    context = {} if policy is None else {"seLinuxChangePolicy": policy}
    assert use_of(pod(securityContext=context), label, mounts_label=mounts) == use


X, Y = Use(":::x", MOUNT_OPTION), Use(":::y", MOUNT_OPTION)
FILES = Use("", RECURSIVE)
END = ". If both pods land on the same node, only one of them may access the volume."


@pytest.mark.parametrize(
    ("use", "other", "names"),
    [
        (X, X, []),
        (X, Y, ["SELinuxLabel"]),
        (X, FILES, ["SELinuxChangePolicy", "SELinuxLabel"]),
        (Use("::t:", MOUNT_OPTION), FILES, ["SELinuxChangePolicy"]),
        (FILES, FILES, []),
        (X, Use(":::y", "Other"), ["SELinuxChangePolicy", "SELinuxLabel"]),
    ],
)
def test_pods_conflict_in_two_ways(use: Use, other: Use, names: list[str]) -> None:
    assert [each.name for each in conflicts_of("ns/p", use, "ns/q", other)] == names
    assert [each.name for each in conflicts_of("ns/q", other, "ns/p", use)] == names


def test_a_message_names_no_pod_of_another_namespace() -> None:
    """The values are quoted; a space is missing upstream, too."""
    near = Conflict("SELinuxLabel", "ns/p", ":::x", "ns/q", ":::y")
    far = Conflict("SELinuxLabel", "ns/p", ":::x", "other/q", ":::y")
    assert near.reason == "SELinuxLabelConflict"
    assert near.message == (
        'SELinuxLabel ":::x" conflicts with pod q that uses the same volume as this '
        f'pod with SELinuxLabel ":::y"{END}'
    )
    assert far.message == (
        'SELinuxLabel":::x" conflicts with another pod that uses the same volume as '
        f"this pod with a different SELinuxLabel{END}"
    )


def test_a_conflict_is_told_once_to_both_pods() -> None:
    uses, volume = VolumeUses(), ("d", "v")
    told = Conflict("SELinuxLabel", "ns/q", ":::y", "ns/p", ":::x")
    tells = Conflict("SELinuxLabel", "ns/p", ":::x", "ns/q", ":::y")
    assert uses.note("ns/p", {volume: X}) == []
    assert uses.note("ns/q", {volume: Y}) == [told, tells]
    assert uses.note("ns/q", {volume: Y}) == []
    assert set(uses.conflicts()) == {told, tells}
    assert uses.note("ns/q", {volume: X}) == []
    assert list(uses.conflicts()) == []
    assert len(uses.note("ns/q", {volume: FILES})) == 4


def test_the_tracker_drops_pods_that_are_gone() -> None:
    uses = VolumeUses()
    uses.note("ns/p", {("d", "v"): X, ("d", "w"): X})
    uses.note("ns/q", {("d", "v"): X, ("e", "v"): X})
    assert uses.pods_of("d") == {"ns/p", "ns/q"}
    uses.note("ns/p", {("d", "w"): X})
    uses.forget("ns/q")
    assert (uses.pods_of("d"), uses.pods_of("e")) == ({"ns/p"}, set())
    uses.forget("ns/p")
    uses.forget("ns/never-seen")
    assert [len(each) for each in vars(uses).values()] == [0, 0]
