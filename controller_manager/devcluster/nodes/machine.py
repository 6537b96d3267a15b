"""The needs of a container before its start: its image and its variables.

Upstream: startContainer in pkg/kubelet/kuberuntime, which pulls the image first and
makes the configuration of the container then.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.options.durations import format_duration

from .annotations import AnnotationError
from .configuration import Configuration
from .container_runs import ContainerRun, Moment, Refused
from .event_notes import Note, normal, warning
from .images import invalid_name_message, is_broken, pull_error, pull_policy, size_of
from .probes import JUST_NOW

_SHOWN_ERROR: Final = 1.0
"""Seconds in which a container shows ``ErrImagePull``, before the kubelet's backoff."""


class NodeMachine:
    """The node of one pod, for the start of its containers."""

    def __init__(
        self, pod: JSON, images: set[str], configuration: Configuration, delay: float
    ) -> None:
        """Take the images that are on the node, and the seconds that a pull takes."""
        self._pod = pod
        self._images = images
        self._configuration = configuration
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
