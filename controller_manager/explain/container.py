"""A container of a pod: its spec, its status, and its causes."""

from typing import Final

from controller_manager.api.json_objects import JSON, object_at

from .cause import Cause, State
from .items import Item, number_at, text_at

_LONGEST: Final = 300
"""Characters of a message that are shown."""


class Container:
    """A container: its pod, its spec, and its status."""

    def __init__(self, pod: Item, kind: str, spec: JSON, status: JSON) -> None:
        self.pod = pod
        self.spec = spec
        self.status = status
        self.name = text_at(spec, "name")
        self.field = f"status.{kind}[{self.name}]"
        state = object_at(status, "state")
        self.waiting = object_at(state, "waiting")
        self.running = object_at(state, "running")
        self.terminated = object_at(state, "terminated")
        self.last = object_at(object_at(status, "lastState"), "terminated")
        self.restarts = number_at(status, "restartCount")

    @property
    def is_sidecar(self) -> bool:
        """Tell whether it is an init container that runs on."""
        return self.spec.get("restartPolicy") == "Always"

    @property
    def has_started(self) -> bool:
        """Tell whether its startup probe has succeeded."""
        return bool(self.status.get("started"))

    def cause(self, code: str, state: State, what: str, **more: str) -> Cause:
        """Return a cause that the state of the container shows, with more parts."""
        given = {"field": f"{self.field}.state", **more}
        return Cause(
            code=code,
            state=state,
            what=what,
            object=self.pod.reference,
            **given,  # type: ignore[arg-type]
        )


def short_message(text: str) -> str:
    """Return a message in one line, without its end if it is very long."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
