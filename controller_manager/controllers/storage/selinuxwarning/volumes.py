"""The SELinux labels with which a pod mounts its volumes (syncVolume).

Only the labels in pods are known: the defaults are on the nodes, where this process
cannot read them. Upstream: translator/selinux_translator.go.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import (
    Container,
    EphemeralContainer,
    InitContainer,
    Pod,
    SELinuxOptions,
)

_Container = Container | EphemeralContainer | InitContainer

MOUNT_OPTION: Final = "MountOption"
RECURSIVE: Final = "Recursive"


class Use(Struct, frozen=True):
    """The use of a volume by a pod: the label, and the policy for the label."""

    label: str
    policy: str


def label_of(options: SELinuxOptions) -> str:
    """Return ``user:role:type:level``, with empty parts for fields that are not set."""
    parts = (options.user, options.role, options.type, options.level)
    return ":".join(parts) if any(parts) else ""


def conflicts(one: str, other: str) -> bool:
    """Tell whether two labels differ in a part that both have.

    A part that is not set gets the default of the node, which may be equal. The level
    is the last part, and may have colons itself.
    """
    parts = zip_longest(one.split(":", 3), other.split(":", 3), fillvalue="")
    return any(a != b and a and b for a, b in parts)


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


def use_of(pod: Pod, label: str, *, driver_mounts: bool) -> Use:
    """Return the use of a volume that a pod mounts with a label.

    `driver_mounts` tells whether the driver of the volume can mount it with a label. If
    it cannot, or if there is no label, the container runtime changes each file.
    """
    context = pod.spec.security_context
    policy = (context and context.se_linux_change_policy) or MOUNT_OPTION
    if policy == RECURSIVE or not driver_mounts or not label:
        return Use("", RECURSIVE)
    return Use(label, policy)
