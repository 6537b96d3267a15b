"""The containers of one pod on its kubelet, and their steps."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON

from . import programs
from .containers import (
    JUST_NOW,
    KILLED,
    ContainerRun,
    Machine,
    Moment,
    Probe,
    Step,
    probes_of,
)
from .events import Note, normal, warning
from .machine import NodeMachine, pod_name, pulling

# The containers of one pod on its kubelet.

_STATUSES: Final = (
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
)
"""The lists of a pod's status."""


class PodRun(Struct, frozen=True):
    """The containers of a pod, init containers first.

    `full_name` is the kubelets' name of the pod in messages. `seen` is the time at
    which the kubelet first saw the pod, in the form of the API. `deadline` and
    `kill_at` are in seconds of the monotonic clock: the end of activeDeadlineSeconds,
    and the end of the termination grace period. `failure` has the reason and the
    message of a pod that its kubelet has ended. `no_sandbox` has the periods in which
    the sandbox cannot be created, in seconds after `began`, the time at which the
    kubelet first saw the pod. `notes` has the events about the pod as a whole.
    """

    full_name: str
    seen: str
    policy: str
    containers: tuple[ContainerRun, ...]
    deadline: float | None = None
    kill_at: float | None = None
    annotations: JSON | None = None
    began: float = 0.0
    no_sandbox: programs.Periods = programs.Periods()
    failure: tuple[str, str] | None = None
    is_killed: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def main(self) -> list[ContainerRun]:
        """The containers that are no init containers."""
        return [each for each in self.containers if each.role is programs.Role.MAIN]

    @property
    def phase(self) -> str:
        """The pod's phase, as getPhase of the kubelet finds it."""
        if self.failure is not None:
            return "Failed"
        is_pending = has_failed = False
        is_over = True
        for each in self.containers:
            step = each.step
            if each.role is programs.Role.MAIN:
                has_ended = step is Step.ENDED
                is_over = is_over and has_ended
                has_failed = has_failed or (has_ended and each.code != 0)
                is_pending = is_pending or step is Step.NEW or step is Step.STUCK
            elif each.role is programs.Role.INIT and step is Step.ENDED and each.code:
                return "Failed"
        if is_over:
            return "Failed" if has_failed else "Succeeded"
        if self.is_killed:  # some container had not started
            return "Failed"
        return "Pending" if is_pending else "Running"

    @property
    def is_over(self) -> bool:
        """True if no container will run again."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def has_sandbox(self) -> bool:
        """True if containers of the pod can start, because its network exists."""
        begun = any(each.step is not Step.NEW for each in self.containers)
        return begun and not self.is_over

    @property
    def lacks_configuration(self) -> bool:
        """True if a container waits for a config map, a secret or an annotation."""
        return any(
            each.state.get("waiting", {}).get("reason") == "CreateContainerConfigError"
            for each in self.containers
        )

    @property
    def is_running(self) -> bool:
        """True if a container runs."""
        return any(each.step is Step.RUNNING for each in self.containers)

    @property
    def due(self) -> float | None:
        """The time of the next step, `None` if there is none."""
        times = [self.deadline, self.kill_at]
        for each in self.containers:
            waits = each.step is Step.NEW and not self.turn_of(each)
            # Once the pod ends, containers that do not run will not start.
            if each.step is Step.RUNNING or (self.kill_at is None and not waits):
                times.append(each.next)
        return min((each for each in times if each is not None), default=None)

    def with_each(self, change: Callable[[ContainerRun], ContainerRun]) -> "PodRun":
        """Return the pod with each container changed, the same one without a change."""
        containers = tuple(map(change, self.containers))
        same = containers == self.containers
        return self if same else replace(self, containers=containers)

    def turn_of(self, container: ContainerRun) -> bool:
        """Tell whether the init containers before a container let it start."""
        for each in self.containers:
            if each is container:
                return True
            if each.role is programs.Role.INIT and not each.is_ready:
                return False
            if each.role is programs.Role.SIDECAR and not each.is_started:
                return False
        return True


def new_run(
    pod: JSON, now: Moment, deadline: float | None, machine: NodeMachine
) -> PodRun:
    """Return a pod whose images the node pulls first."""
    run = PodRun(
        pod_name(pod),
        now.text,
        pod["spec"]["restartPolicy"],
        tuple(
            container_of(pod, spec, role, now.seconds + machine.delay, machine)
            for spec, role in specs_of(pod)
        ),
        deadline,
        annotations=pod["metadata"].get("annotations"),
        began=now.seconds,
        no_sandbox=_no_sandbox(pod),
    )
    return run.with_each(
        lambda each: _pulling(each, machine) if run.turn_of(each) else each
    )


def _pulling(container: ContainerRun, machine: NodeMachine) -> ContainerRun:
    if not machine.pulls(container.spec):
        return container
    note = pulling(container.spec["image"])
    return replace(container, is_pulling=True).noted(note)


def with_spec_of(run: PodRun, pod: JSON, now: Moment, machine: NodeMachine) -> PodRun:
    """Return the pod with images and resources of its spec, and ephemeral containers.

    A container with another image starts again, and so does one with other resources
    whose policy says so.
    """
    known = {each.spec["name"]: each for each in run.containers}
    in_use = statuses_of(pod)
    containers = []
    for spec, role in specs_of(pod):
        name = spec["name"]
        if (each := known.get(name)) is None:
            due = now.seconds + machine.delay
            each = _pulling(container_of(pod, spec, role, due, machine), machine)
        elif each.spec["image"] != spec["image"]:
            each = each.replaced(now, spec["image"], machine)
        resources = in_use.get(name, {}).get("resources")
        containers.append(each.resized(spec, resources, now, machine))
    return replace(run, containers=tuple(containers))


def with_probes_due(run: PodRun, now: Moment) -> PodRun:
    """Return the pod with checks now, where a probe has been checked before."""

    def checked(probe: Probe) -> Probe:
        return probe if probe.last is None else replace(probe, due=now.seconds)

    return run.with_each(
        lambda each: replace(each, probes=tuple(map(checked, each.probes)))
    )


def reported(run: PodRun) -> PodRun:
    """Return the pod after its events were reported."""
    quiet = run.with_each(lambda each: replace(each, notes=()) if each.notes else each)
    return replace(quiet, notes=()) if quiet.notes else quiet


def specs_of(pod: JSON) -> Iterator[tuple[JSON, programs.Role]]:
    """Yield the containers of a pod, init containers first, with their roles."""
    spec = pod["spec"]
    for each in spec.get("initContainers", ()):
        always = each.get("restartPolicy") == "Always"
        yield each, programs.Role.SIDECAR if always else programs.Role.INIT
    for each in spec["containers"]:
        yield each, programs.Role.MAIN
    for each in spec.get("ephemeralContainers", ()):
        yield each, programs.Role.EPHEMERAL


def statuses_of(pod: JSON) -> dict[str, JSON]:
    """Return the statuses of a pod's containers by their names."""
    status = pod.get("status", {})
    return {each["name"]: each for name in _STATUSES for each in status.get(name) or ()}


def container_of(
    pod: JSON, spec: JSON, role: programs.Role, due: float, machine: NodeMachine
) -> ContainerRun:
    """Return a container that has not started; it may start from `due` on."""
    program: programs.Program | programs.AnnotationError
    probes: tuple[Probe, ...] = ()
    try:
        program = programs.program_of(pod, spec, role)
        if role in (programs.Role.MAIN, programs.Role.SIDECAR):
            probes = probes_of(pod, spec, shared=role is programs.Role.MAIN)
    except programs.AnnotationError as error:
        program = error
    seconds = pod["spec"].get("terminationGracePeriodSeconds", 30)
    grace = float(seconds) * machine.grace_scale
    return ContainerRun(spec, role, program, due=due, grace=grace, probes=probes)


def _no_sandbox(pod: JSON) -> programs.Periods:
    """Return the periods in which the sandbox of a pod cannot be created."""
    text = (pod["metadata"].get("annotations") or {}).get(programs.FAILING_SANDBOX)
    try:
        return (
            programs.periods_of(programs.FAILING_SANDBOX, text)
            if text
            else programs.Periods()
        )
    except programs.AnnotationError:
        return programs.Periods()  # the containers do not start, and report the reason


def _is_due(due: float | None, now: Moment) -> bool:
    return due is not None and due <= now.seconds + JUST_NOW


# The steps of a pod: its containers start, end, and start again.

_SANDBOX_PERIOD: Final = 12.0
"""Seconds after which a kubelet tries again to create a sandbox."""

_DEADLINE_EXCEEDED: Final = normal(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)
"""The event of a pod whose activeDeadlineSeconds have passed."""


def advanced(run: PodRun, now: Moment, machine: Machine) -> PodRun:
    """Return the pod after all steps that are due now."""
    if _is_due(run.deadline, now) and not run.is_over:
        late = replace(run, notes=(*run.notes, _DEADLINE_EXCEEDED))
        return failed(late, _DEADLINE_EXCEEDED, now)
    if _lacks_sandbox(run, now):
        return _without_sandbox(run, now)
    while True:
        following = _step(run, now, machine)
        if following is run:
            break
        run = following
    return killed(run, now) if _is_due(run.kill_at, now) else run


def failed(run: PodRun, why: Note, now: Moment) -> PodRun:
    """Return the pod after its kubelet has ended it for good."""
    failure = (why.reason, why.message)
    return killed(stopping(replace(run, failure=failure), now), now)


def stopping(run: PodRun, now: Moment) -> PodRun:
    """Return the pod after its kubelet has told all its containers to end."""
    left = 0.0 if run.kill_at is None else max(0.0, run.kill_at - now.seconds)
    return run.with_each(
        lambda each: each.stopped(now, f"Stopping container {each.spec['name']}", left)
    )


def killed(run: PodRun, now: Moment) -> PodRun:
    """Return the pod after its kubelet has killed all its containers."""
    ended = run.with_each(lambda each: _killed(each, now))
    return replace(ended, deadline=None, is_killed=True)


def _step(run: PodRun, now: Moment, machine: Machine) -> PodRun:
    """Return the pod after one container has moved, or the same pod if none can."""
    for number, each in enumerate(run.containers):
        moved = _moved(run, each, now, machine)
        if moved is not each:
            before, after = run.containers[:number], run.containers[number + 1 :]
            return replace(run, containers=(*before, moved, *after))
    return run


def _moved(
    run: PodRun, container: ContainerRun, now: Moment, machine: Machine
) -> ContainerRun:
    if run.is_over:
        # Sidecars run until the others have ended.
        return container.ended(now, 0) if container.step is Step.RUNNING else container
    if not _is_due(container.next, now):
        return container
    if container.step is Step.RUNNING:
        if not _is_due(container.due, now):
            return container.probed(now, machine)
        ended = container.ended_by_itself(now)
        again = _again(run, ended)
        return ended.restarted(now, run.full_name, machine) if again else ended
    if run.kill_at is not None:
        return container
    if container.step is Step.BACKING_OFF:
        return container.started_again(now, machine)
    if container.step is Step.STUCK:
        return container.started(now, machine)
    if container.step is Step.NEW and run.turn_of(container):
        return container.started(now, machine)
    return container


def _again(run: PodRun, container: ContainerRun) -> bool:
    if run.kill_at is not None:
        return False
    if container.role is programs.Role.EPHEMERAL:
        return False
    if container.role is programs.Role.SIDECAR:
        return True
    policy = container.spec.get("restartPolicy") or run.policy
    for rule in container.spec.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        is_listed = container.code in (codes.get("values") or ())
        if is_listed is (codes.get("operator") == "In"):
            return True  # Restart is the only action that rules have
    if container.role is programs.Role.MAIN and policy == "Always":
        return True
    return container.code != 0 and policy != "Never"


def _killed(container: ContainerRun, now: Moment) -> ContainerRun:
    if container.step is Step.RUNNING:
        return container.ended(now, KILLED)
    if container.step is Step.BACKING_OFF:
        return replace(container, step=Step.ENDED, state=container.last, due=None)
    return replace(container, due=None)


def _lacks_sandbox(run: PodRun, now: Moment) -> bool:
    """Tell whether a pod should start now but its sandbox cannot be created."""
    return (
        bool(run.no_sandbox.pairs)
        and run.kill_at is None
        and all(each.step is Step.NEW for each in run.containers)
        and run.no_sandbox.include(now.seconds - run.began)
        and any(_is_due(each.due, now) for each in run.containers)
    )


def _without_sandbox(run: PodRun, now: Moment) -> PodRun:
    """Return a pod whose sandbox is tried again later."""
    sandbox = sha256(run.full_name.encode()).hexdigest()
    message = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to "
        f'setup network for sandbox "{sandbox}": an annotation says so'
    )
    due = now.seconds + _SANDBOX_PERIOD
    note = warning("FailedCreatePodSandBox", message)
    later = run.with_each(lambda each: replace(each, due=due))
    return replace(later, notes=(*run.notes, note))
