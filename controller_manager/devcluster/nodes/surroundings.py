"""The variables and the files that a command finds."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from controller_manager.api.json_objects import JSON

from .commands import Write

_RANDOM: Final = 2**15
"""The number of values of ``$RANDOM``."""


class Surroundings:
    """The variables of a container, and its files at one time.

    Commands that run in them see the files that they wrote before.
    """

    def __init__(
        self, variables: Mapping[str, str], has_file: Callable[[str], bool]
    ) -> None:
        """Take the variables, and a function that knows a file by its path."""
        self.variables = variables
        self._has_file = has_file
        self._changed: dict[str, bool] = {}

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory exists."""
        changed = self._changed.get(_plain(path))
        return self._has_file(path) if changed is None else changed

    def take(self, writes: Iterable[Write]) -> None:
        """Let later commands see what a command has written or removed."""
        for each in writes:
            self._changed[_plain(each.path)] = each.exists


def _plain(path: str) -> str:
    return str(PurePosixPath(path))


def variables_of(pod: JSON, container: JSON, restarts: int) -> dict[str, str]:
    """Return the variables of a container that are known without other objects.

    ``RANDOM`` is another number for each run, and the same one each time that it is
    asked for.
    """
    name = container["name"]
    seed = f"{pod['metadata'].get('uid', '')} {name} {restarts}".encode()
    found = {"RANDOM": str(int(sha256(seed).hexdigest(), 16) % _RANDOM)}
    for each in container.get("env") or ():
        field = ((each.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        value = _field(pod, field) if field else each.get("value", "")
        if value is not None and (field or "valueFrom" not in each):
            found[each["name"]] = value
    return found


def _field(pod: JSON, path: str) -> str | None:
    """Return a field of a pod that a variable can have, `None` for other fields."""
    metadata, spec = pod["metadata"], pod["spec"]
    for name in ("annotations", "labels"):
        if path.startswith(f"metadata.{name}['"):
            key = path.removeprefix(f"metadata.{name}['").removesuffix("']")
            return str((metadata.get(name) or {}).get(key, ""))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(metadata[path.removeprefix("metadata.")])
    if path in ("spec.nodeName", "spec.serviceAccountName"):
        return str(spec.get(path.removeprefix("spec."), ""))
    return None
