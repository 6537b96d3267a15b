"""The files that commands make, in containers and in volumes.

They have a path and no content. The kubelets forget them when the cluster ends.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.core.persistentvolumeclaim import KIND as CLAIM
from controller_manager.devcluster.server.storage.storage import Storage

from .commands import Write
from .container_runs import ContainerRun
from .programs import Program
from .surroundings import Surroundings, variables_of

_Place = tuple[str, ...]
"""A part of a disk: what it belongs to, and the name there."""

_OF_IMAGES: Final = (
    *("/app", "/bin", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root"),
    *("/sbin", "/sys", "/usr", "/var"),
)
"""Directories with files of images: all files exist there, until they are removed."""

_EMPTY: Final = ("/", "/data", "/mnt", "/run", "/srv", "/tmp")  # noqa: S108 - of a container
"""Directories that images have without files that a command asks for."""

_MADE: Final = ("emptyDir", "ephemeral", "hostPath", "persistentVolumeClaim")
"""The volumes in which there are only files that commands make."""

_MOST_PLACES: Final = 10_000
"""The places that are remembered; the files of the oldest are forgotten then."""


class Files:
    """The files of all nodes."""

    def __init__(self, storage: Storage) -> None:
        self._claims = storage.collection(CLAIM.resource)
        self._changes: dict[_Place, dict[str, list[tuple[float, bool]]]] = {}
        self._programs: dict[tuple[str, str], Program] = {}

    def around(self, pod: JSON, container: ContainerRun, now: float) -> Surroundings:
        """Return the variables and files of a container at a time."""
        variables = variables_of(pod, container.spec, container.restarts)

        def exists(path: str) -> bool:
            return self._exists(pod, container, path, now)

        return Surroundings(variables, exists)

    def record(
        self, pod: JSON, container: ContainerRun, began: float, writes: Iterable[Write]
    ) -> None:
        """Remember the files that a command of a container makes and removes."""
        for each in writes:
            place, path = self._place(pod, container, each.path)
            while place not in self._changes and len(self._changes) >= _MOST_PLACES:
                del self._changes[next(iter(self._changes))]
            changes = self._changes.setdefault(place, {}).setdefault(path, [])
            changes.append((began + each.after, each.exists))
            changes.sort()

    def next_change(self, pod: JSON, container: ContainerRun, now: float) -> float:
        """Return the time of the next change of a container's files, else infinity."""
        places = {
            self._place(pod, container, each["mountPath"])[0]
            for each in container.spec.get("volumeMounts") or ()
        }
        places.add(self._place(pod, container, "/")[0])
        times = (
            time
            for place in places
            for changes in self._changes.get(place, {}).values()
            for time, _ in changes
            if time > now
        )
        return min(times, default=float("inf"))

    def start(self, pod: JSON, container: str, program: Program) -> None:
        """Remember the program that a container has found at its start."""
        self._programs[pod["metadata"]["uid"], container] = program

    def program(self, pod: JSON, container: str) -> Program | None:
        """Return the program that a container found at its start, `None` for none."""
        return self._programs.get((pod["metadata"]["uid"], container))

    def forget(self, pod: JSON) -> None:
        """Forget the containers and the volumes that end with a pod."""
        uid = pod["metadata"]["uid"]
        if not self._changes and not self._programs:
            return
        for place in [each for each in self._changes if each[:2] == ("pod", uid)]:
            del self._changes[place]
        for key in [each for each in self._programs if each[0] == uid]:
            del self._programs[key]

    def _exists(
        self, pod: JSON, container: ContainerRun, path: str, now: float
    ) -> bool:
        place, inside = self._place(pod, container, path)
        changes = self._changes.get(place, {})
        past = [exists for time, exists in changes.get(inside, ()) if time <= now]
        if past:
            return past[-1]
        volume, rest = _place_of(container.spec, path)
        if volume:
            return rest == "." or not _is_made(pod, volume)
        if rest in _EMPTY or any(
            rest == each or rest.startswith(f"{each}/") for each in _OF_IMAGES
        ):
            return True
        inner = f"{inside.rstrip('/')}/"
        return any(
            name.startswith(inner) and any(exists for _, exists in times)
            for name, times in changes.items()
        )

    def _place(
        self, pod: JSON, container: ContainerRun, path: str
    ) -> tuple[_Place, str]:
        """Return the place of a file, and its path there."""
        uid, spec = pod["metadata"]["uid"], container.spec
        volume, inside = _place_of(spec, path)
        if not volume:
            return ("pod", uid, f"{spec['name']} {container.restarts}"), inside
        source = _volume(pod, volume)
        if "hostPath" in source:
            whole = PurePosixPath("/", source["hostPath"]["path"], inside)
            return ("node", pod["spec"].get("nodeName", "")), str(whole)
        claim = source.get("persistentVolumeClaim", {}).get("claimName", "")
        if "ephemeral" in source:
            claim = f"{pod['metadata']['name']}-{volume}"
        if claim:
            stored = self._claims.get((pod["metadata"]["namespace"], claim))
            if stored is not None:
                return ("claim", stored.obj["metadata"]["uid"]), inside
        return ("pod", uid, f"volume {volume}"), inside


def _place_of(container: JSON, path: str) -> tuple[str, str]:
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


def _volume(pod: JSON, name: str) -> JSON:
    for each in pod["spec"].get("volumes") or ():
        if each["name"] == name:
            return dict(each)
    return {}


def _is_made(pod: JSON, volume: str) -> bool:
    """Tell whether only commands make the files of a volume."""
    return any(each in _MADE for each in _volume(pod, volume))
