"""The outcome of ``kubectl exec``: canned by an annotation, or of a simple command."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
import yaml
from msgspec import Meta, Struct, field

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.streaming.remote_command import Result

from .annotations import EXEC, AnnotationError, find
from .commands import FOREVER, Run

_ANY: Final = "*"
_UNKNOWN_OUTPUT: Final = re.compile(r"\b(?:cat|date|hostname|ls|printf)\b")
"""Commands that would print what no container here has."""
_EXPECTED: Final = (
    "a YAML list of answers with command, and stdout, stderr or exitCode, such as "
    '"[{command: date, stdout: today}]"'
)


Execute = Callable[[JSON, str, Sequence[str]], Run | None]
"""Runs a command in a container of a pod; `None` for an unknown command."""


class _Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a command: its words with blanks between, or "*" for any."""

    command: str | list[str]
    stdout: str = ""
    stderr: str = ""
    code: Annotated[int, Meta(ge=0, le=255)] = field(name="exitCode", default=0)

    def fits(self, words: Sequence[str]) -> bool:
        """Tell whether the answer is for a command."""
        if isinstance(self.command, str):
            return self.command in (_ANY, " ".join(words))
        return self.command == [*words]


def exec_answer(pod: JSON, container: str, command: Sequence[str]) -> Result | None:
    """Return the answer to a command in a container, `None` if there is none.

    Raises AnnotationError.
    """
    found = find(pod, EXEC, container)
    if found is None:
        return None
    key, text = found
    try:
        answers = msgspec.convert(yaml.safe_load(text), list[_Answer])
    except msgspec.ValidationError as error:
        raise AnnotationError.of(key, text, f"{_EXPECTED} ({error})") from None
    except (yaml.YAMLError, RecursionError):
        raise AnnotationError.of(key, text, _EXPECTED) from None
    answer = next((each for each in answers if each.fits(command)), None)
    if answer is None:
        return None
    stdout = ((0.0, answer.stdout.encode()),) if answer.stdout else ()
    return Result(command, stdout, answer.stderr.encode(), answer.code)


def executed(
    execute: Execute, pod: JSON, container: str, command: Sequence[str]
) -> Result | None:
    """Run a simple command in a container; `None` if it cannot be run here."""
    if not command or _UNKNOWN_OUTPUT.search(" ".join(command)):
        return None
    run = execute(pod, container, command)
    if run is None or run.seconds == FOREVER:
        return None
    lines = tuple((after, f"{line}\n".encode()) for after, line in run.lines)
    return Result(command, lines, code=run.code, seconds=run.seconds)
