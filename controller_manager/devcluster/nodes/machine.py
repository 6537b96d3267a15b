"""The needs of a container before its start: its image and its variables.

Upstream: startContainer in pkg/kubelet/kuberuntime, which pulls the image first and
makes the configuration of the container then.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.options.durations import format_duration

from .annotations import AnnotationError
from .commands import FOREVER
from .configuration import Configuration
from .container_commands import image_name, run_of_container
from .container_runs import ContainerRun, Moment, Refused
from .event_notes import Note, normal, warning
from .files import Files
from .images import invalid_name_message, is_broken, pull_error, pull_policy, size_of
from .probes import JUST_NOW, WEB_ROOTS, Outcome, Probe
from .programs import Program
from .scripts import run_of

_SHOWN_ERROR: Final = 1.0
"""Seconds in which a container shows ``ErrImagePull``, before the kubelet's backoff."""


class NodeMachine:
    """The node of one pod, for the start of its containers."""

    def __init__(
        self,
        pod: JSON,
        images: set[str],
        configuration: Configuration,
        files: Files,
        delay: float,
    ) -> None:
        """Take the images that are on the node, and the seconds that a pull takes."""
        self._pod = pod
        self._images = images
        self._configuration = configuration
        self._files = files
        self._delay = delay

    def pulls(self, container: JSON) -> bool:
        """Tell whether a kubelet pulls the image of a container."""
        image, policy = container["image"], pull_policy(container)
        if invalid_name_message(image) or policy == "Never":
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
            why = self._configuration.problem_of_container(self._pod, container.spec)
        if not why:
            return notes
        notes.append(warning("Failed", f"Error: {why}"))
        return Refused("CreateContainerConfigError", why, tuple(notes))

    def program(self, container: ContainerRun, now: Moment) -> Program:
        """Return the program of a container that starts now, and make its files."""
        program = container.program
        assert isinstance(program, Program)  # noqa: S101 - obtain has checked it
        if program.depends:
            around = self._files.around(self._pod, container, now.seconds)
            program = program.started(run_of_container(container.spec, around))
            self._files.start(self._pod, container.spec["name"], program)
        if program.writes:
            self._files.record(self._pod, container, now.seconds, program.writes)
        return program

    def outcome(self, container: ContainerRun, probe: Probe, now: Moment) -> Outcome:
        """Return the result of a probe, by the files of a container.

        An unknown program may have made any files, so its probes pass.
        """
        program = container.program
        command, files = list(probe.command), self._files
        if probe.page:
            page = f"{probe.page}index.html" if probe.page[-1] == "/" else probe.page
            command = ["cat", WEB_ROOTS[image_name(container.spec)] + page]
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
        if message := invalid_name_message(image):
            notes = warning("InspectFailed", message)
            return _refused("InvalidImageName", message, None, notes)
        if not is_broken(container.spec):
            return None
        if pull_policy(container.spec) == "Never":
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
        took = format_duration(self._delay)
        message = (
            f'Successfully pulled image "{image}" in {took} ({took} including '
            f"waiting). Image size: {size_of(image)} bytes."
        )
        begun = [] if container.is_pulling else [pulling(image)]
        return [*begun, normal("Pulled", message)]


def pulling(image: str) -> Note:
    """Return the event for the begin of an image pull."""
    return normal("Pulling", f'Pulling image "{image}"')


def _broken(container: ContainerRun, image: str, now: Moment) -> Refused:
    """Return the reason why a container waits for an image that cannot be pulled."""
    error, failed = pull_error(image), container.pull_failed_at
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
