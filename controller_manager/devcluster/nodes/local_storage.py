"""The local storage of a pod: the files that its commands write, and its limits.

Upstream: localStorageEviction in pkg/kubelet/eviction/eviction_manager.go.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, QuantityError, parse_quantity
from controller_manager.control.quota.pods import pod_limits

from .commands import Write
from .container_runs import ContainerRun, Step
from .programs import Program, Role

_RESOURCE: Final = "ephemeral-storage"
_PERIOD: Final = 10.0
"""Seconds after which a kubelet has measured the files of a pod again."""

_Usage = dict[tuple[str, str], int]
"""The bytes of files, by the container or the volume, and the path in it."""


class LocalStorage(Struct, frozen=True):
    """The limits of a pod: of its empty directories, and of the pod as a whole.

    `volumes` are the empty directories on the disk, with their limits if they have one.
    """

    volumes: dict[str, Quantity | None]
    total: Quantity | None


class Overflow(Struct, frozen=True):
    """The time at which a kubelet evicts a pod, and its message."""

    due: float
    message: str


def local_storage(pod: JSON, containers: Sequence[ContainerRun]) -> LocalStorage | None:
    """Return the limits of a pod, `None` if its containers write no files."""
    if not any(_writes(each) for each in containers):
        return None
    volumes = {
        each["name"]: _quantity(each["emptyDir"].get("sizeLimit"))
        for each in pod["spec"].get("volumes") or ()
        if "emptyDir" in each and each["emptyDir"].get("medium") != "Memory"
    }
    try:
        limits = pod_limits(msgspec.convert(pod, Pod, strict=False))
    except QuantityError:
        limits = {}
    return LocalStorage(volumes, limits.get(_RESOURCE))


def overflow_of(
    storage: LocalStorage | None, containers: Sequence[ContainerRun]
) -> Overflow | None:
    """Return the eviction that the files of running containers lead to, if any."""
    if storage is None:
        return None
    times = {
        each.began + write.after
        for each in containers
        if each.step is Step.RUNNING
        for write in _writes(each)
    }
    for time in sorted(times):
        if message := _message(storage, containers, time):
            return Overflow(time + _PERIOD, message)
    return None


def _message(
    storage: LocalStorage, containers: Sequence[ContainerRun], time: float
) -> str:
    """Return the reason to evict a pod at a time, empty if there is none."""
    usage: _Usage = {}
    for each in containers:
        usage.update(_files(each, storage, time))
    for name, limit in storage.volumes.items():
        if _exceeds(_used(usage, f"volume {name}"), limit):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    if _exceeds(sum(usage.values()), storage.total):
        return (
            "Pod ephemeral local storage usage exceeds the total limit of containers "
            f"{storage.total}. "
        )
    for each in containers:
        name = each.spec["name"]
        limits = (each.spec.get("resources") or {}).get("limits") or {}
        limit = _quantity(limits.get(_RESOURCE))
        if each.role is Role.MAIN and _exceeds(_used(usage, name), limit):
            return (
                f"Container {name} exceeded its local ephemeral storage limit "
                f'"{limit}". '
            )
    return ""


def _files(
    container: ContainerRun, storage: LocalStorage, time: float
) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the files of a container on the node's disk at a time.

    Those in a volume stay when the container ends, the others do not.
    """
    runs, has_run = container.step is Step.RUNNING, bool(container.state)
    for write in _writes(container):
        is_written = runs and container.began + write.after <= time
        volume, path = place_of(container.spec, write.path)
        if not volume and is_written:
            yield (container.spec["name"], path), write.size
        elif volume in storage.volumes and (
            is_written or container.restarts or (has_run and not runs)
        ):
            yield (f"volume {volume}", path), write.size


def place_of(container: JSON, path: str) -> tuple[str, str]:
    """Return the volume of a path, empty for the container itself, and the rest."""
    whole = PurePosixPath("/", container.get("workingDir") or "/", path)
    mounts = {
        PurePosixPath("/", each["mountPath"]): each
        for each in container.get("volumeMounts") or ()
    }
    for parent in (whole, *whole.parents):
        if (mount := mounts.get(parent)) is not None:
            inside = PurePosixPath(mount.get("subPath") or ".")
            return mount["name"], str(inside / whole.relative_to(parent))
    return "", str(whole)


def _writes(container: ContainerRun) -> Sequence[Write]:
    program = container.program
    return program.writes if isinstance(program, Program) else ()


def _used(usage: _Usage, place: str) -> int:
    return sum(size for (name, _), size in usage.items() if name == place)


def _exceeds(used: int, limit: Quantity | None) -> bool:
    return limit is not None and limit.nanos > 0 and used * 10**9 > limit.nanos


def _quantity(text: str | None) -> Quantity | None:
    try:
        return parse_quantity(text) if text else None
    except QuantityError:
        return None
