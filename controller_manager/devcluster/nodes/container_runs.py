"""One container on its kubelet: it starts, ends, and is started again."""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.devcluster.nodes.commands import FOREVER
from controller_manager.devcluster.nodes.programs import Program, ProgramError, Role
from controller_manager.options.durations import format_duration

JSON = dict[str, Any]

BROKEN: Final = "broken"
"""Images whose name begins with this can never be pulled."""

KILLED: Final = 137
"""The exit code of a container that SIGKILL has ended: 128 + 9."""

_FIRST_BACK_OFF: Final = 10.0
_LONGEST_BACK_OFF: Final = 300.0
_STABLE: Final = 600.0
"""A container that ran for so many seconds is restarted without a back-off again."""


class Step(StrEnum):
    """Where a container stands."""

    NEW = "new"
    """It has not started, and waits for its turn."""
    STUCK = "stuck"
    """It cannot start."""
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    """It has ended, and will be started again."""
    ENDED = "ended"
    """It has ended for good."""


class Moment(Struct, frozen=True):
    """A time: seconds on the monotonic clock, and how the API shows it."""

    seconds: float
    text: str


class ContainerRun(Struct, frozen=True):
    """A container's spec, its state as the API shows it, and what happens next.

    `due` is when it starts, ends or is restarted, in seconds of the monotonic clock;
    `None` if it is never due by itself. `began` is when it started. `back_off` is the
    number of seconds before its next restart.
    """

    spec: JSON
    role: Role
    program: Program | ProgramError
    step: Step = Step.NEW
    due: float | None = None
    began: float = 0.0
    state: JSON = {}
    last: JSON = {}
    restarts: int = 0
    back_off: float = 0.0

    @property
    def code(self) -> int:
        """The exit code of a container that has ended."""
        return int(self.state["terminated"]["exitCode"])

    @property
    def is_ready(self) -> bool:
        """Whether it serves, or as an init container has succeeded."""
        if self.role is Role.INIT:
            return self.step is Step.ENDED and self.code == 0
        return self.step is Step.RUNNING

    def started(self, now: Moment) -> "ContainerRun":
        """Return it running, or waiting with the reason why it cannot start."""
        if isinstance(self.program, ProgramError):
            reason, message = "CreateContainerConfigError", str(self.program)
            return self._stuck(reason, message)
        if _is_broken(self.spec):
            message = f'Back-off pulling image "{self.spec["image"]}"'
            return self._stuck("ImagePullBackOff", message)
        seconds = self.program.seconds
        return replace(
            self,
            step=Step.RUNNING,
            state={"running": {"startedAt": now.text}},
            due=now.seconds + seconds if seconds != FOREVER else None,
            began=now.seconds,
        )

    def replaced(self, now: Moment, image: str, delay: float) -> "ContainerRun":
        """Return it with another image, which is there after `delay` seconds."""
        new = replace(self, spec={**self.spec, "image": image})
        if self.step is Step.STUCK:
            return replace(
                new, step=Step.NEW, state={}, due=now.seconds + max(delay, 0.0)
            )
        if self.step is Step.RUNNING:
            ended = self.ended(now, KILLED)
            more = self.restarts + 1
            return replace(new, last=ended.state, restarts=more).started(now)
        return new

    def _stuck(self, reason: str, message: str) -> "ContainerRun":
        waiting = {"reason": reason, "message": message}
        return replace(self, step=Step.STUCK, state={"waiting": waiting}, due=None)

    def ended(self, now: Moment, code: int) -> "ContainerRun":
        """Return it ended for good, after it ran."""
        terminated = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": self.state["running"]["startedAt"],
            "finishedAt": now.text,
        }
        state = {"terminated": terminated}
        return replace(self, step=Step.ENDED, state=state, due=None)

    def restarted(self, now: Moment, pod: str) -> "ContainerRun":
        """Return an ended container that is started again, maybe after a back-off.

        As a kubelet has it: the first restart comes at once, the next ones after 10 s,
        20 s and so on, up to 5 minutes. `pod` is the name that kubelets give to the
        pod in messages.
        """
        stable = now.seconds - self.began >= _STABLE
        delay = 0.0 if stable else self.back_off
        following = min(delay * 2, _LONGEST_BACK_OFF) or _FIRST_BACK_OFF
        ended = replace(self, last=self.state, back_off=following)
        if not delay:
            return replace(ended, restarts=self.restarts + 1).started(now)
        message = (
            f"back-off {format_duration(delay)} restarting failed "
            f"container={self.spec['name']} pod={pod}"
        )
        waiting = {"reason": "CrashLoopBackOff", "message": message}
        return replace(
            ended,
            step=Step.BACKING_OFF,
            state={"waiting": waiting},
            due=now.seconds + delay,
        )

    def status(self, *, initializing: bool) -> JSON:
        """Return the containerStatus; a new container may wait for init containers."""
        reason = "PodInitializing" if initializing else "ContainerCreating"
        return {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": "",
            "ready": self.is_ready,
            "started": self.step is Step.RUNNING,
            "restartCount": self.restarts,
            "state": self.state or {"waiting": {"reason": reason}},
            "lastState": self.last,
        }


def _is_broken(container: JSON) -> bool:
    return str(container["image"]).rpartition("/")[2].startswith(BROKEN)
