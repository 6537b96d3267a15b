"""The containers of one pod on its kubelet, from their start to their end."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.devcluster.nodes.container_runs import (
    KILLED,
    ContainerRun,
    Moment,
    Step,
)
from controller_manager.devcluster.nodes.programs import (
    Program,
    ProgramError,
    Role,
    program_of,
)

JSON = dict[str, Any]

DEADLINE_EXCEEDED: Final = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)
"""Reason and message of a pod whose activeDeadlineSeconds have passed."""

_JUST_NOW: Final = 0.001
"""A timer may fire early by less than this, in seconds."""


class PodRun(Struct, frozen=True):
    """The containers of a pod, init containers first.

    `full_name` is how kubelets name the pod in messages. `seen` is when the kubelet
    first saw the pod, as the API shows it. `deadline` and `kill_at` are
    in seconds of the monotonic clock: when the pod has been active for too long, and
    when its termination grace period ends. `failure` has the reason and the message
    of a pod that its kubelet has ended.
    """

    full_name: str
    seen: str
    policy: str
    containers: tuple[ContainerRun, ...]
    deadline: float | None = None
    kill_at: float | None = None
    failure: tuple[str, str] | None = None
    is_killed: bool = False

    @property
    def main(self) -> list[ContainerRun]:
        """The containers that are no init containers."""
        return [each for each in self.containers if each.role is Role.MAIN]

    @property
    def phase(self) -> str:
        """The pod's phase, as getPhase of the kubelet finds it."""
        main = self.main
        if self.failure is not None or self._has_failed_to_initialize():
            return "Failed"
        if all(each.step is Step.ENDED for each in main):
            return "Failed" if any(each.code for each in main) else "Succeeded"
        if self.is_killed:  # some container had not started
            return "Failed"
        if any(each.step in (Step.NEW, Step.STUCK) for each in main):
            return "Pending"
        return "Running"

    @property
    def is_over(self) -> bool:
        """Whether no container will run any more."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def is_running(self) -> bool:
        """Whether a container runs."""
        return any(each.step is Step.RUNNING for each in self.containers)

    @property
    def due(self) -> float | None:
        """When something happens by itself, `None` if nothing will."""
        times = [self.deadline, self.kill_at]
        if self.kill_at is None:
            times += [each.due for each in self.containers if self._may_move(each)]
        else:  # what does not run is not started any more
            times += [each.due for each in self.containers if each.step is Step.RUNNING]
        return min((each for each in times if each is not None), default=None)

    def turn_of(self, container: ContainerRun) -> bool:
        """Tell whether the init containers before a container let it start."""
        for each in self.containers:
            if each is container:
                return True
            if each.role is Role.INIT and not each.is_ready:
                return False
            if each.role is Role.SIDECAR and each.step in (Step.NEW, Step.STUCK):
                return False
        return True

    def _may_move(self, container: ContainerRun) -> bool:
        return container.step is not Step.NEW or self.turn_of(container)

    def _has_failed_to_initialize(self) -> bool:
        return any(
            each.role is Role.INIT and each.step is Step.ENDED and each.code
            for each in self.containers
        )


def new_run(pod: JSON, now: Moment, delay: float, deadline: float | None) -> PodRun:
    """Return a pod whose images are on the node after `delay` seconds."""
    due = now.seconds + delay
    return PodRun(
        full_name(pod),
        now.text,
        pod["spec"]["restartPolicy"],
        tuple(_container(pod, spec, role, due) for spec, role in _specs(pod)),
        deadline,
    )


def adopted_run(pod: JSON, now: Moment) -> PodRun:
    """Return the pod that a status describes; nothing of it is due by itself."""
    status = pod.get("status", {})
    named = {
        each["name"]: each
        for each in (
            *status.get("initContainerStatuses", ()),
            *status.get("containerStatuses", ()),
        )
    }
    containers = (
        _adopted(_container(pod, spec, role, now.seconds), named.get(spec["name"]))
        for spec, role in _specs(pod)
    )
    policy = pod["spec"]["restartPolicy"]
    return PodRun(full_name(pod), now.text, policy, tuple(containers))


def with_images_of(run: PodRun, pod: JSON, now: Moment, delay: float) -> PodRun:
    """Return the pod with the images of its spec; a new one takes `delay` seconds."""
    images = {spec["name"]: spec["image"] for spec, _ in _specs(pod)}
    containers = tuple(
        each
        if images[each.spec["name"]] == each.spec["image"]
        else each.replaced(now, images[each.spec["name"]], delay)
        for each in run.containers
    )
    return run if containers == run.containers else replace(run, containers=containers)


def advanced(run: PodRun, now: Moment) -> PodRun:
    """Return the pod after all that is due now has happened."""
    if _is_due(run.deadline, now) and not run.is_over:
        return killed(replace(run, failure=DEADLINE_EXCEEDED), now)
    while True:
        following = _step(run, now)
        if following is run:
            break
        run = following
    return killed(run, now) if _is_due(run.kill_at, now) else run


def killed(run: PodRun, now: Moment) -> PodRun:
    """Return the pod after its kubelet has killed all its containers."""
    return replace(
        run,
        containers=tuple(_killed(each, now) for each in run.containers),
        deadline=None,
        is_killed=True,
    )


def full_name(pod: JSON) -> str:
    """Return how kubelets name a pod in messages: ``NAME_NAMESPACE(UID)``."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def _step(run: PodRun, now: Moment) -> PodRun:
    """Return the pod after one container has moved, or the same pod if none can."""
    for number, each in enumerate(run.containers):
        moved = _moved(run, each, now)
        if moved is not each:
            before, after = run.containers[:number], run.containers[number + 1 :]
            return replace(run, containers=(*before, moved, *after))
    return run


def _moved(run: PodRun, container: ContainerRun, now: Moment) -> ContainerRun:
    if run.is_over:
        # Sidecars run until the others have ended.
        return container.ended(now, 0) if container.step is Step.RUNNING else container
    if not _is_due(container.due, now):
        return container
    if container.step is Step.RUNNING and isinstance(container.program, Program):
        code = container.program.code(container.restarts)
        ended = container.ended(now, code)
        return ended.restarted(now, run.full_name) if _again(run, ended) else ended
    if run.kill_at is not None:
        return container
    if container.step is Step.BACKING_OFF:
        return replace(container, restarts=container.restarts + 1).started(now)
    if container.step is Step.NEW and run.turn_of(container):
        return container.started(now)
    return container


def _again(run: PodRun, container: ContainerRun) -> bool:
    """Tell whether a container that has ended is restarted."""
    if run.kill_at is not None:
        return False
    if container.role is Role.SIDECAR:
        return True
    if container.role is Role.MAIN and run.policy == "Always":
        return True
    return container.code != 0 and run.policy != "Never"


def _killed(container: ContainerRun, now: Moment) -> ContainerRun:
    if container.step is Step.RUNNING:
        return container.ended(now, KILLED)
    if container.step is Step.BACKING_OFF:
        return replace(container, step=Step.ENDED, state=container.last, due=None)
    return replace(container, due=None)


def _is_due(due: float | None, now: Moment) -> bool:
    return due is not None and due <= now.seconds + _JUST_NOW


def _specs(pod: JSON) -> Iterator[tuple[JSON, Role]]:
    spec = pod["spec"]
    for each in spec.get("initContainers", ()):
        always = each.get("restartPolicy") == "Always"
        yield each, Role.SIDECAR if always else Role.INIT
    for each in spec["containers"]:
        yield each, Role.MAIN


def _container(pod: JSON, spec: JSON, role: Role, due: float) -> ContainerRun:
    program: Program | ProgramError
    try:
        program = program_of(pod, spec, role)
    except ProgramError as error:
        program = error
    return ContainerRun(spec, role, program, due=due)


def _adopted(container: ContainerRun, status: JSON | None) -> ContainerRun:
    """Return a container in the state of a status, with the image that it has there."""
    if status is None:
        return container
    state = status.get("state", {})
    step = Step.STUCK
    if "running" in state:
        step = Step.RUNNING
    elif "terminated" in state:
        step = Step.ENDED
    elif status.get("lastState"):
        step = Step.BACKING_OFF
    image = status.get("image", container.spec["image"])
    return replace(
        container,
        spec={**container.spec, "image": image},
        step=step,
        due=None,
        state=state,
        last=status.get("lastState", {}),
        restarts=status.get("restartCount", 0),
    )
