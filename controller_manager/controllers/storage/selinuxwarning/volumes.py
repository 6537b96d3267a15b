"""The volumes that pods may share, and the labels of their mounts (syncVolume).

Only the labels in pods are known: the defaults are on the nodes, where this process
cannot read them. Upstream: translator/selinux_translator.go.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import (
    Container,
    EphemeralContainer,
    InitContainer,
    Pod,
    PodVolume,
    SELinuxOptions,
)
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.control.csi_migration import csi_volume, inline_csi_volume
from controller_manager.control.volumes import disk_name

Volume = tuple[str, str]
"""The driver of a volume, and its handle.

The driver is empty, and the handle is the unique name, of a disk that kubelets mount
without a driver.
"""

ALONE: Final[Volume] = ("", "")
"""A volume about which pods never conflict.

No other pod has it, or its plugin cannot mount it with a label.
"""

_Container = Container | EphemeralContainer | InitContainer

_PARTS: Final = 4
"""The number of parts of a label."""

MOUNT_OPTION: Final = "MountOption"
RECURSIVE: Final = "Recursive"


class Use(Struct, frozen=True):
    """The use of a volume by a pod: the label, and the policy for the label."""

    label: str
    policy: str


def shared_volume(volume: PersistentVolume) -> Volume:
    """Return the volume behind a persistent volume.

    Raises UntranslatableError if an in-tree source names no volume of its driver.
    """
    csi = csi_volume(volume)
    if csi is not None:
        return csi.driver, csi.handle
    return "", disk_name(volume.spec.iscsi, volume.spec.fc)


def shared_inline_volume(volume: PodVolume, namespace: str) -> Volume:
    """Return the volume that a pod of `namespace` defines itself.

    Raises UntranslatableError if an in-tree source names no volume of its driver.
    """
    csi = inline_csi_volume(volume, namespace)
    if csi is not None:
        return csi.driver, csi.handle
    return "", disk_name(volume.iscsi, volume.fc)


def label_of(options: SELinuxOptions) -> str:
    """Return ``user:role:type:level``, with empty parts for fields that are not set."""
    parts = (options.user, options.role, options.type, options.level)
    return ":".join(parts) if any(parts) else ""


def conflicts(one: str, other: str) -> bool:
    """Tell whether two labels differ in their levels, or in a part that both have.

    A user, role or type that is not set gets the default of the node, which may be
    equal. There is no default of the level, the last part, which may have colons
    itself. Upstream: ConflictsParsed.
    """
    (*parts, level), (*other_parts, other_level) = _parts(one), _parts(other)
    if level != other_level:
        return True
    return any(a != b and a and b for a, b in zip(parts, other_parts, strict=True))


def _parts(label: str) -> list[str]:
    parts = label.split(":", _PARTS - 1)
    return parts + [""] * (_PARTS - len(parts))


def mounted_labels(pod: Pod) -> Mapping[str, frozenset[str]]:
    """Return the labels with which containers mount each volume of a pod.

    The keys are the names in the pod's spec. A volume that is mounted without a label
    has an empty set. Volumes that are not mounted, and block devices, are left out.
    """
    found: dict[str, set[str]] = {}
    for options, names in _mounts(pod):
        for name in names:
            labels = found.setdefault(name, set())
            if options is not None:
                labels.add(label_of(options))
    return {name: frozenset(labels) for name, labels in found.items()}


def _mounts(pod: Pod) -> Iterator[tuple[SELinuxOptions | None, list[str]]]:
    """Yield the label and the volumes of each container.

    The label of a container replaces that of the pod as a whole.
    """
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


def use_of(pod: Pod, label: str, *, mounts_label: bool) -> Use:
    """Return the use of a volume that a pod mounts with a label.

    `mounts_label` tells whether the plugin of the volume, or its driver, can mount it
    with a label. If it cannot, or if there is no label, the container runtime changes
    each file.
    """
    context = pod.spec.security_context
    policy = (context and context.se_linux_change_policy) or MOUNT_OPTION
    if policy == RECURSIVE or not mounts_label or not label:
        return Use("", RECURSIVE)
    return Use(label, policy)
