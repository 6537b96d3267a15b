"""The command of a container: its own, or the one of its image.

A real image has an entrypoint and a command. Those of a few well-known images are
known here. A container's ``command`` goes before both, its ``args`` before the
command.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from controller_manager.api.json_objects import JSON

from .commands import Run
from .scripts import run_of
from .surroundings import Surroundings

_SHELL_IMAGES: Final = frozenset(
    (
        "almalinux",
        "alpine",
        "amazonlinux",
        "busybox",
        "centos",
        "debian",
        "fedora",
        "rockylinux",
        "ubuntu",
    )
)
"""Images without an entrypoint, whose command is a shell."""

_IMAGES: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    **dict.fromkeys(_SHELL_IMAGES, ((), ("sh",))),
    "agnhost": (("/agnhost",), ("pause",)),
    "httpd": ((), ("httpd-foreground",)),
    "pause": (("/pause",), ()),
    "pause-amd64": (("/pause",), ()),
}
"""The entrypoint and the command of images, by the last part of their names."""


def command_of(container: JSON) -> Sequence[str]:
    """Return the command line of a container, empty if only its image knows it."""
    command, args = container.get("command") or (), container.get("args") or ()
    if command:
        return [*command, *args]
    found = _IMAGES.get(image_name(container))
    if found is None:
        return ()
    entrypoint, default = found
    return [*entrypoint, *(args or default)]


def image_name(container: JSON) -> str:
    """Return the last part of the name of a container's image, such as ``httpd``."""
    name = str(container["image"]).rpartition("/")[2].partition("@")[0]
    return name.partition(":")[0]


def run_of_container(container: JSON, around: Surroundings | None = None) -> Run | None:
    """Return the run of a container's command, `None` for an unknown one.

    Without surroundings, a command that needs variables or files is unknown. A shell
    that gets no script reads the input of its container: that stays open with ``stdin``
    or ``tty``, and else ends at once.
    """
    command = command_of(container)
    if not command:
        return None
    has_input = bool(container.get("stdin") or container.get("tty"))
    if around is not None:
        return run_of(command, around, has_input=has_input)
    return _run_of(tuple(command), has_input=has_input)


@lru_cache(256)
def _run_of(command: tuple[str, ...], *, has_input: bool) -> Run | None:
    """Return the run of a command; the pods of a cluster share few commands."""
    return run_of(command, has_input=has_input)
