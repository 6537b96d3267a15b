"""The volumes that pods may share, and the labels of their mounts (syncVolume).

Only the labels in pods are known, not the defaults of the nodes. Upstream:
translator/selinux_translator.go.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.core import v1
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.control.csi_migration import csi_volume, inline_csi_volume
from controller_manager.control.volumes import disk_name

Volume = tuple[str, str]
"""The driver and the handle of a volume.

For a disk without a driver these are "" and its unique name.
"""

ALONE: Final[Volume] = ("", "")
"""A volume that no other pod has, or whose plugin cannot mount it with a label."""

_Container = v1.Container | v1.EphemeralContainer | v1.InitContainer

_PARTS: Final = 4
"""The number of parts of a label."""

MOUNT_OPTION: Final = "MountOption"
RECURSIVE: Final = "Recursive"


class Use(Struct, frozen=True):
    """The use of a volume by a pod: the label, and the policy for the label."""

    label: str
    policy: str


def shared_volume(volume: PersistentVolume) -> Volume:
    """Return the volume behind a persistent volume; may raise UntranslatableError."""
    csi = csi_volume(volume)
    if csi is not None:
        return csi.driver, csi.handle
    return "", disk_name(volume.spec.iscsi, volume.spec.fc)


def shared_inline_volume(volume: v1.PodVolume, namespace: str) -> Volume:
    """Return the volume that a pod defines itself; may raise UntranslatableError."""
    csi = inline_csi_volume(volume, namespace)
    if csi is not None:
        return csi.driver, csi.handle
    return "", disk_name(volume.iscsi, volume.fc)


def label_of(options: v1.SELinuxOptions) -> str:
    """Return ``user:role:type:level``, with empty parts for fields that are not set."""
    parts = (options.user, options.role, options.type, options.level)
    return ":".join(parts) if any(parts) else ""


def conflicts(one: str, other: str) -> bool:
    """Tell whether two labels differ in their levels, or in a part that both have.

    A user, role or type that is not set gets the default of the node, which may be
    equal; a level has no default. Upstream: ConflictsParsed.
    """
    (*parts, level), (*other_parts, other_level) = _parts(one), _parts(other)
    if level != other_level:
        return True
    return any(a != b and a and b for a, b in zip(parts, other_parts, strict=True))


def _parts(label: str) -> list[str]:
    parts = label.split(":", _PARTS - 1)
    return parts + [""] * (_PARTS - len(parts))


def mounted_labels(pod: v1.Pod) -> Mapping[str, frozenset[str]]:
    """Return the labels with which containers mount each volume of a pod, by its name.

    A volume that is mounted without a label has an empty set.
    """
    found: dict[str, set[str]] = {}
    for options, names in _mounts(pod):
        for name in names:
            labels = found.setdefault(name, set())
            if options is not None:
                labels.add(label_of(options))
    return {name: frozenset(labels) for name, labels in found.items()}


def _mounts(pod: v1.Pod) -> Iterator[tuple[v1.SELinuxOptions | None, list[str]]]:
    """Yield label and volumes of each container; its label replaces the pod's."""
    context = pod.spec.security_context
    of_pod = None if context is None else context.se_linux_options
    spec = pod.spec
    containers: tuple[_Container, ...] = (
        *(spec.init_containers or ()),
        *(spec.containers or ()),
        *(spec.ephemeral_containers or ()),
    )
    for each in containers:
        own = each.security_context and each.security_context.se_linux_options
        yield own or of_pod, [mount.name for mount in each.volume_mounts or ()]


def use_of(pod: v1.Pod, label: str, *, mounts_label: bool) -> Use:
    """Return the use of a volume that a pod mounts with a label.

    Without a label, or if the plugin or driver cannot mount it with one, the container
    runtime changes each file.
    """
    context = pod.spec.security_context
    policy = (context and context.se_linux_change_policy) or MOUNT_OPTION
    if policy == RECURSIVE or not mounts_label or not label:
        return Use("", RECURSIVE)
    return Use(label, policy)
