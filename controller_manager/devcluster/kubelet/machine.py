"""What a container needs of its node: its image, its variables, its files.

Upstream: startContainer in pkg/kubelet/kuberuntime, which pulls the image first and
makes the configuration of the container then; pkg/kubelet/images; pkg/util/parsers; the
names of github.com/distribution/reference.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.storage import Storage
from controller_manager.options.durations import format_duration

from .commands import FOREVER, RANDOM, Surroundings, Write, random_of
from .containers import (
    JUST_NOW,
    ContainerRun,
    Moment,
    Outcome,
    Probe,
    Refused,
)
from .environment import Environment, variables_of_runtime, with_references
from .events import Note, normal, warning
from .programs import (
    SHELL_IMAGES,
    AnnotationError,
    Program,
    image_name,
    run_of_container,
)
from .shell import run_of

# The images of containers: their names, and how pulling them fails.

_MISSING: Final = (":404", ":non-existent", "-that-doesnt-exist")
"""The ends of the names of images that upstream's tests know to be missing."""

_BROKEN: Final = "broken"
"""Images whose name begins with this can never be pulled."""

_NO_REGISTRY: Final = re.compile(r"(?:invalid\.[^/]*|[^/]+\.invalid(?::\d+)?)/")
"""The beginning of images whose registry nobody can have (RFC 2606)."""

_MAX_NAME: Final = 255
_KEPT: Final = 1024
"""The images whose facts are kept: the pods of a cluster share few of them."""

_HOST: Final = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::\d+)?"
)
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[a-zA-Z][a-zA-Z0-9]*(?:[-_+.][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,}))?"
)


@lru_cache(_KEPT)
def why_invalid(image: str) -> str:
    """Return why a text is no name of an image, empty if it is one."""
    if len(image) > _MAX_NAME * 4:
        return "repository name must not be more than 255 characters"
    if _NAME.fullmatch(image):
        return ""
    if _NAME.fullmatch(image.lower()):
        path = image.partition(":")[0]
        full = path if "/" in path else f"library/{path}"
        return f"invalid reference format: repository name ({full}) must be lowercase"
    return "invalid reference format"


def _invalid_name_message(image: str) -> str:
    """Return the kubelet's message about the name of an image, "" if it is valid."""
    why = why_invalid(image)
    if not why:
        return ""
    return (
        f'Failed to apply default image tag "{image}": couldn\'t parse image name '
        f'"{image}": {why}'
    )


def is_broken(container: JSON) -> bool:
    """Tell whether the image of a container cannot be pulled.

    A node has no registry of its own. So an image such as ``localhost/app`` is never
    pulled, and is there only if it need not be pulled.
    """
    image = container["image"]
    name = image.rpartition("/")[2]
    if name.startswith(_BROKEN) or name.endswith(_MISSING):
        return True
    if _NO_REGISTRY.match(image):
        return True
    return image.startswith("localhost/") and _pull_policy(container) == "Always"


def _pull_error(image: str) -> str:
    """Return containerd's message about an image that no registry has."""
    full = full_name(image)
    return (
        "rpc error: code = NotFound desc = failed to pull and unpack image "
        f'"{full}": failed to resolve image: {full}: not found'
    )


def full_name(image: str) -> str:
    """Return the name of an image with its registry and its tag."""
    first, slash, _ = image.partition("/")
    has_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    if not has_host:
        image = f"docker.io/{image}" if slash else f"docker.io/library/{image}"
    is_tagged = "@" in image or ":" in image.rpartition("/")[2]
    return image if is_tagged else f"{image}:latest"


@lru_cache(_KEPT)
def image_id(image: str) -> str:
    """Return the imageID of an image: its name with a digest."""
    full = full_name(image)
    if "@" in full:
        return full
    name = full.rpartition(":")[0]
    return f"{name}@sha256:{sha256(full.encode()).hexdigest()}"


@lru_cache(_KEPT)
def _size_of(image: str) -> int:
    """Return an invented size of an image, in bytes."""
    return 1_000_000 + int(sha256(image.encode()).hexdigest()[:6], 16) * 4


def _pull_policy(container: JSON) -> str:
    return str(container.get("imagePullPolicy", "IfNotPresent"))


# The files that commands make, in containers and in volumes.

_REFERENCE: Final = re.compile(r"\$\(([^()]+)\)")

_Place = tuple[str, ...]
"""A part of a disk: what it belongs to, and the name there."""

_OF_IMAGES: Final = (
    *("/app", "/bin", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root"),
    *("/sbin", "/sys", "/usr", "/var", "/localhost.crt"),
)
"""Directories with files of images: all files exist there, until they are removed.

The last one is a file, the certificate that agnhost has.
"""

_EMPTY: Final = ("/", "/data", "/mnt", "/run", "/srv", "/tmp")  # noqa: S108 - of a container
"""Directories that images have without files that a command asks for."""

_MADE: Final = ("emptyDir", "ephemeral", "hostPath", "persistentVolumeClaim")
"""The volumes in which there are only files that commands make."""

_MOST_PLACES: Final = 10_000
"""The places that are remembered; the files of the oldest are forgotten then."""


class Files:
    """The files of all nodes."""

    def __init__(self, storage: Storage, environment: Environment) -> None:
        self.environment = environment
        self._claims = storage.collection(CLAIM.resource)
        self._changes: dict[_Place, dict[str, list[tuple[float, bool]]]] = {}
        self._programs: dict[str, dict[str, Program]] = {}
        """The programs of pods by their UIDs, of containers by their names."""

    def around(self, pod: JSON, container: ContainerRun, now: float) -> Surroundings:
        """Return the variables and files of a container at a time."""
        spec = container.spec
        number = random_of(pod, spec, container.restarts)
        variables = {RANDOM: number, **variables_of_runtime(pod)}
        variables |= self.environment.of(pod, spec)

        def exists(path: str) -> bool:
            return self._exists(pod, container, path, now)

        def content(path: str) -> str | None:
            volume, inside = self._place_of(pod, spec, path)
            source = _volume(pod, volume)
            return self.environment.content(pod, spec, source, inside)

        return Surroundings(variables, exists, content)

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
        self._programs.setdefault(pod["metadata"]["uid"], {})[container] = program

    def program(self, pod: JSON, container: str) -> Program | None:
        """Return the program that a container found at its start, `None` for none."""
        return self._programs.get(pod["metadata"]["uid"], {}).get(container)

    def forget(self, pod: JSON, *, is_gone: bool) -> None:
        """Forget the volumes of a pod that has ended; its programs once it is gone."""
        uid = pod["metadata"]["uid"]
        for place in [each for each in self._changes if each[:2] == ("pod", uid)]:
            del self._changes[place]
        if is_gone:
            self._programs.pop(uid, None)

    def _exists(
        self, pod: JSON, container: ContainerRun, path: str, now: float
    ) -> bool:
        place, inside = self._place(pod, container, path)
        changes = self._changes.get(place, {})
        past = [exists for time, exists in changes.get(inside, ()) if time <= now]
        if past:
            return past[-1]
        volume, rest = self._place_of(pod, container.spec, path)
        if volume:
            if rest == "." or not any(each in _MADE for each in _volume(pod, volume)):
                return True
            # A kubelet makes the directories in a volume for its mounts.
            made = (
                PurePosixPath(self.sub_path(pod, container.spec, each)[0])
                for each in container.spec["volumeMounts"]
                if each["name"] == volume
            )
            return any(PurePosixPath(rest) in (one, *one.parents) for one in made)
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
        uid, spec = pod["metadata"]["uid"], container.spec
        volume, inside = self._place_of(pod, spec, path)
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

    def _place_of(self, pod: JSON, container: JSON, path: str) -> tuple[str, str]:
        whole = PurePosixPath("/", container.get("workingDir") or "/", path)
        mounts = {
            PurePosixPath("/", each["mountPath"]): each
            for each in container.get("volumeMounts") or ()
        }
        for parent in (whole, *whole.parents):
            if (mount := mounts.get(parent)) is not None:
                path = self.sub_path(pod, container, mount)[0]
                inside = PurePosixPath(path or ".")
                return mount["name"], str(inside / whole.relative_to(parent))
        return "", str(whole)

    def sub_path(
        self, pod: JSON, container: JSON, mount: JSON
    ) -> tuple[str, list[str]]:
        """Return the path of a mount in its volume, and the variables it misses."""
        expression = mount.get("subPathExpr")
        if not expression:
            return mount.get("subPath") or "", []
        values = self.environment.of(pod, container)
        names = set(_REFERENCE.findall(expression))
        missing = sorted(each for each in names if not values.get(each))
        return with_references(expression, values), missing


def _volume(pod: JSON, name: str) -> JSON:
    for each in pod["spec"].get("volumes") or ():
        if each["name"] == name:
            return dict(each)
    return {}


# The needs of a container before its start: its image, variables, mounts and user.


def _problem_of_mounts(files: Files, pod: JSON, container: JSON) -> str:
    """Return the kubelet's message about a wrong sub path, empty if all are right."""
    for mount in container.get("volumeMounts") or ():
        path, missing = files.sub_path(pod, container, mount)
        if missing:
            return f"missing value for {', '.join(missing)}"
        if path.startswith("/"):
            return f"error SubPath `{path}` must not be an absolute path"
        if ".." in path.split("/"):
            return f"unable to provision SubPath `{path}`: must not contain '..'"
    return ""


_SHOWN_ERROR: Final = 1.0
"""Seconds in which a container shows ``ErrImagePull``, before the kubelet's backoff."""


def _problem_of_user(pod: JSON, container: JSON) -> str:
    """Return the kubelet's message about a user who is root, empty if none must be.

    The users of most images are unknown, and may be others.
    """
    context = {
        name: value
        for each in (pod["spec"], container)
        for name, value in (each.get("securityContext") or {}).items()
    }
    user = context.get("runAsUser")
    if not context.get("runAsNonRoot") or user:
        return ""
    if user is None and image_name(container) not in SHELL_IMAGES:
        return ""
    why = "container has runAsNonRoot and image will run as root"
    if user == 0:
        why = "container's runAsUser breaks non-root policy"
    return f'{why} (pod: "{pod_name(pod)}", container: {container["name"]})'


def pod_name(pod: JSON) -> str:
    """Return the kubelets' name of a pod in messages: ``NAME_NAMESPACE(UID)``."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


class NodeMachine:
    """The node of one pod, for the start of its containers."""

    def __init__(
        self,
        pod: JSON,
        images: set[str],
        files: Files,
        delay: float,
        grace_scale: float,
    ) -> None:
        """Take the images that are on the node, and the seconds that a pull takes.

        `grace_scale` is the factor for grace periods.
        """
        self.files = files
        self.delay = delay
        self.grace_scale = grace_scale
        self._pod = pod
        self._images = images

    def pulls(self, container: JSON) -> bool:
        """Tell whether a kubelet pulls the image of a container."""
        image, policy = container["image"], _pull_policy(container)
        if _invalid_name_message(image) or policy == "Never":
            return False
        return policy == "Always" or image not in self._images

    def obtain(self, container: ContainerRun, now: Moment) -> Refused | list[Note]:
        """Return the events before a container starts, or the reason why it cannot."""
        refused = self._without_image(container, now)
        if refused is not None:
            return refused
        notes = self._pulled(container)
        self._images.add(container.spec["image"])
        if isinstance(container.program, AnnotationError):
            why = str(container.program)
        else:
            environment = self.files.environment
            why = environment.problem_of_container(self._pod, container.spec)
            why = why or _problem_of_mounts(self.files, self._pod, container.spec)
            why = why or _problem_of_user(self._pod, container.spec)
        if not why:
            return notes
        notes.append(warning("Failed", f"Error: {why}"))
        return Refused("CreateContainerConfigError", why, tuple(notes))

    def program(self, container: ContainerRun, now: Moment) -> Program:
        """Return the program of a container that starts now, and make its files."""
        program = container.program
        assert isinstance(program, Program)  # noqa: S101 - obtain has checked it
        if program.depends:
            around = self.files.around(self._pod, container, now.seconds)
            spec = self.files.environment.with_command(self._pod, container.spec)
            program = program.started(run_of_container(spec, around))
            self.files.start(self._pod, container.spec["name"], program)
        if program.writes:
            self.files.record(self._pod, container, now.seconds, program.writes)
        return program

    def outcome(self, container: ContainerRun, probe: Probe, now: Moment) -> Outcome:
        """Return the result of a probe, by the files of a container.

        An unknown program may have made any files, so its probes pass.
        """
        program = container.program
        command, files = list(probe.command), self.files
        if probe.page:
            command = ["cat", probe.page]
        if not command or not isinstance(program, Program) or not program.makes_files:
            return Outcome()
        run = run_of(command, files.around(self._pod, container, now.seconds))
        if run is None:
            return Outcome()
        changes = files.next_change(self._pod, container, now.seconds)
        output = "HTTP probe failed with statuscode: 404" if probe.page else ""
        if not output and run.code and command[0] == "cat":
            output = f"cat: can't open '{command[-1]}': No such file or directory"
        return Outcome(run.code == 0, output, None if changes == FOREVER else changes)

    def _without_image(self, container: ContainerRun, now: Moment) -> Refused | None:
        image = container.spec["image"]
        if message := _invalid_name_message(image):
            notes = warning("InspectFailed", message)
            return _refused("InvalidImageName", message, None, notes)
        if not is_broken(container.spec):
            return None
        if _pull_policy(container.spec) == "Never":
            message = (
                f'Container image "{image}" is not present with pull policy of Never'
            )
            notes = warning("ErrImageNeverPull", message)
            return _refused("ErrImageNeverPull", message, None, notes)
        return _broken(container, image, now)

    def _pulled(self, container: ContainerRun) -> list[Note]:
        image = container.spec["image"]
        if not (container.is_pulling or self.pulls(container.spec)):
            message = (
                f'Container image "{image}" already present on machine and can be '
                "accessed by the pod"
            )
            return [normal("Pulled", message)]
        took = format_duration(self.delay)
        message = (
            f'Successfully pulled image "{image}" in {took} ({took} including '
            f"waiting). Image size: {_size_of(image)} bytes."
        )
        begun = [] if container.is_pulling else [pulling(image)]
        return [*begun, normal("Pulled", message)]


def pulling(image: str) -> Note:
    """Return the event for the begin of an image pull."""
    return normal("Pulling", f'Pulling image "{image}"')


def _broken(container: ContainerRun, image: str, now: Moment) -> Refused:
    """Return the reason why a container waits for an image that cannot be pulled."""
    error, failed = _pull_error(image), container.pull_failed_at
    left = 0.0 if failed is None else failed + container.pull_backoff - now.seconds
    if left > JUST_NOW:
        text = f'Back-off pulling image "{image}"'
        message = f"{text}: ErrImagePull: {error}"
        return _refused("ImagePullBackOff", message, left, normal("BackOff", text))
    begun = [] if container.is_pulling else [pulling(image)]
    failure = warning("Failed", f'Failed to pull image "{image}": {error}')
    return _refused("ErrImagePull", error, _SHOWN_ERROR, *begun, failure)


def _refused(reason: str, message: str, again: float | None, *notes: Note) -> Refused:
    failed = warning("Failed", f"Error: {reason}")
    return Refused(reason, message, (*notes, failed), again)
