"""The lines that the containers of a pod print, and their times."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON

from .annotations import LOGS, find
from .container_commands import run_of_container

_TIMED: Final = re.compile(r"@(\d{1,9}(?:\.\d{1,3})?) (.*)")


class Line(Struct, frozen=True):
    """A line that a container prints `after` so many seconds of each run."""

    after: float
    text: str


def lines_of(pod: JSON, container: JSON) -> Sequence[Line]:
    """Return the lines that each run of a container prints, in order.

    They come from an annotation, else from the ``echo`` commands of the container.
    ``@5`` and a space before a line of the annotation is its time in seconds.
    """
    found = find(pod, LOGS, container["name"])
    if found is not None:
        lines = [_line(each) for each in found[1].splitlines()]
        return sorted(lines, key=lambda line: line.after)
    run = run_of_container(container)
    return [Line(*each) for each in run.lines] if run is not None else ()


def _line(text: str) -> Line:
    match = _TIMED.fullmatch(text)
    return Line(float(match[1]), match[2]) if match else Line(0.0, text)
