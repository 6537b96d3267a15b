"""With which SELinux label a pod mounts its volumes (syncVolume)."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import (
    Container,
    EphemeralContainer,
    InitContainer,
    Pod,
    SELinuxOptions,
)
from controller_manager.controllers.storage.selinuxwarning.labels import label_of

_Container = Container | EphemeralContainer | InitContainer

MOUNT_OPTION: Final = "MountOption"
RECURSIVE: Final = "Recursive"


class Use(Struct, frozen=True):
    """How a pod uses a volume: with which label, and how the label gets there."""

    label: str
    policy: str


def mounted_labels(pod: Pod) -> Mapping[str, frozenset[str]]:
    """Return the labels with which containers mount each volume of a pod.

    The keys are the names in the pod's spec. A volume that is mounted without any
    label has none; one that is not mounted, or is a block device, is not there.
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
    """Return how a pod uses a volume that it mounts with a label.

    `driver_mounts` tells whether the driver of the volume can mount it with a label:
    otherwise, and without a label, the container runtime changes each file.
    """
    context = pod.spec.security_context
    policy = (context and context.se_linux_change_policy) or MOUNT_OPTION
    if policy == RECURSIVE or not driver_mounts or not label:
        return Use("", RECURSIVE)
    return Use(label, policy)
