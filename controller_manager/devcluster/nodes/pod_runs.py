"""The containers of one pod on its kubelet, from their start to their end."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.devcluster.nodes.annotations import (
    FAILING_SANDBOX,
    FOREVER,
    AnnotationError,
    Periods,
    periods_of,
)
from controller_manager.devcluster.nodes.container_runs import (
    FIRST_BACK_OFF,
    JUST_NOW,
    KILLED,
    LONGEST_BACK_OFF,
    ContainerRun,
    Machine,
    Moment,
    Step,
)
from controller_manager.devcluster.nodes.machine import pulling
from controller_manager.devcluster.nodes.notes import Note, normal, warning
from controller_manager.devcluster.nodes.probes import Probe, ProbeKind, probes_of
from controller_manager.devcluster.nodes.programs import Program, Role, program_of

JSON = dict[str, Any]
At = Callable[[str], float]
"""When a time of the API was, in seconds of the monotonic clock."""

_SANDBOX_PERIOD: Final = 12.0
"""Seconds after which a kubelet tries again to create a sandbox."""

DEADLINE_EXCEEDED: Final = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)
"""Reason and message of a pod whose activeDeadlineSeconds have passed."""


class PodRun(Struct, frozen=True):
    """The containers of a pod, init containers first.

    `full_name` is how kubelets name the pod in messages. `seen` is when the kubelet
    first saw the pod, as the API shows it. `deadline` and `kill_at` are
    in seconds of the monotonic clock: when the pod has been active for too long, and
    when its termination grace period ends. `failure` has the reason and the message
    of a pod that its kubelet has ended. `no_sandbox` says when its sandbox cannot be
    created, in seconds after `began`, when its kubelet first saw it. `notes` is what
    is to be reported of the pod as a whole.
    """

    full_name: str
    seen: str
    policy: str
    containers: tuple[ContainerRun, ...]
    deadline: float | None = None
    kill_at: float | None = None
    annotations: JSON | None = None
    began: float = 0.0
    no_sandbox: Periods = Periods()
    failure: tuple[str, str] | None = None
    is_killed: bool = False
    notes: tuple[Note, ...] = ()

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
    def has_sandbox(self) -> bool:
        """Whether containers of the pod can start: its network is there."""
        return not self.is_over and any(
            each.step is not Step.NEW for each in self.containers
        )

    @property
    def lacks_configuration(self) -> bool:
        """Whether a container waits for a config map, a secret or a better word."""
        return any(
            each.state.get("waiting", {}).get("reason") == "CreateContainerConfigError"
            for each in self.containers
        )

    @property
    def is_running(self) -> bool:
        """Whether a container runs."""
        return any(each.step is Step.RUNNING for each in self.containers)

    @property
    def due(self) -> float | None:
        """When something happens by itself, `None` if nothing will."""
        times = [self.deadline, self.kill_at]
        if self.kill_at is None:
            times += [each.next for each in self.containers if self._may_move(each)]
        else:  # what does not run is not started any more
            times += [
                each.next for each in self.containers if each.step is Step.RUNNING
            ]
        return min((each for each in times if each is not None), default=None)

    def turn_of(self, container: ContainerRun) -> bool:
        """Tell whether the init containers before a container let it start."""
        for each in self.containers:
            if each is container:
                return True
            if each.role is Role.INIT and not each.is_ready:
                return False
            if each.role is Role.SIDECAR and not each.is_started:
                return False
        return True

    def _may_move(self, container: ContainerRun) -> bool:
        return container.step is not Step.NEW or self.turn_of(container)

    def _has_failed_to_initialize(self) -> bool:
        return any(
            each.role is Role.INIT and each.step is Step.ENDED and each.code
            for each in self.containers
        )


def new_run(
    pod: JSON,
    now: Moment,
    delay: float,
    deadline: float | None,
    pulls: Callable[[JSON], bool],
    grace_scale: float,
) -> PodRun:
    """Return a pod whose images are on the node after `delay` seconds.

    `pulls` tells whether the image of a container is pulled.
    """
    due = now.seconds + delay
    containers = tuple(
        _container(pod, spec, role, due, grace_scale) for spec, role in _specs(pod)
    )
    run = PodRun(
        full_name(pod),
        now.text,
        pod["spec"]["restartPolicy"],
        containers,
        deadline,
        annotations=pod["metadata"].get("annotations"),
        began=now.seconds,
        no_sandbox=_no_sandbox(pod),
    )
    begun = tuple(
        _pulling(each, pulls) if run.turn_of(each) else each for each in containers
    )
    return replace(run, containers=begun)


def _pulling(container: ContainerRun, pulls: Callable[[JSON], bool]) -> ContainerRun:
    if not pulls(container.spec):
        return container
    note = pulling(container.spec["image"])
    return replace(container, is_pulling=True).noted(note)


def adopted_run(pod: JSON, now: Moment, at: At, grace_scale: float) -> PodRun:
    """Return the pod that a status describes; `at` tells when a time of it was."""
    status = pod.get("status", {})
    named = {
        each["name"]: each
        for each in (
            *status.get("initContainerStatuses", ()),
            *status.get("containerStatuses", ()),
        )
    }
    containers = (
        _adopted(
            _container(pod, spec, role, now.seconds, grace_scale),
            named.get(spec["name"]),
            now,
            at,
        )
        for spec, role in _specs(pod)
    )
    return PodRun(
        full_name(pod),
        now.text,
        pod["spec"]["restartPolicy"],
        tuple(containers),
        annotations=pod["metadata"].get("annotations"),
    )


def with_images_of(
    run: PodRun, pod: JSON, now: Moment, delay: float, machine: Machine
) -> PodRun:
    """Return the pod with the images of its spec; a new one takes `delay` seconds."""
    images = {spec["name"]: spec["image"] for spec, _ in _specs(pod)}
    containers = tuple(
        each
        if images[each.spec["name"]] == each.spec["image"]
        else each.replaced(now, images[each.spec["name"]], delay, machine)
        for each in run.containers
    )
    return run if containers == run.containers else replace(run, containers=containers)


def with_annotations_of(
    run: PodRun, pod: JSON, now: Moment, grace_scale: float
) -> PodRun:
    """Return the pod as its annotations say now; what has happened stays."""
    annotations = pod["metadata"].get("annotations")
    if annotations == run.annotations:
        return run
    containers = []
    for old, (spec, role) in zip(run.containers, _specs(pod), strict=True):
        new = _container(pod, spec, role, now.seconds, grace_scale)
        containers.append(_with_fate_of(old, new, now))
    return replace(run, containers=tuple(containers), annotations=annotations)


def _with_fate_of(old: ContainerRun, new: ContainerRun, now: Moment) -> ContainerRun:
    """Return a container with what becomes of another one."""
    changed = replace(old, program=new.program, probes=new.probes)
    if old.step is Step.STUCK:
        return replace(changed, due=now.seconds)
    if old.step is not Step.RUNNING or old.stop_code is not None:
        return changed
    passing = {each.kind: each.passes for each in old.probes}
    status = {
        "started": old.is_started,
        "ready": old.is_ready and passing.get(ProbeKind.READINESS, True),
    }
    return _running(changed, status, now, lambda _: old.began)


def advanced(run: PodRun, now: Moment, machine: Machine) -> PodRun:
    """Return the pod after all that is due now has happened."""
    if _is_due(run.deadline, now) and not run.is_over:
        reason, message = DEADLINE_EXCEEDED
        failed = replace(run, failure=DEADLINE_EXCEEDED)
        told = replace(failed, notes=(*run.notes, normal(reason, message)))
        return killed(stopping(told, now), now)
    if _lacks_sandbox(run, now):
        return _without_sandbox(run, now)
    while True:
        following = _step(run, now, machine)
        if following is run:
            break
        run = following
    return killed(run, now) if _is_due(run.kill_at, now) else run


def stopping(run: PodRun, now: Moment) -> PodRun:
    """Return the pod after its kubelet has told all its containers to end."""
    left = 0.0 if run.kill_at is None else max(0.0, run.kill_at - now.seconds)
    containers = tuple(
        each.stopped(now, f"Stopping container {each.spec['name']}", left)
        for each in run.containers
    )
    return replace(run, containers=containers)


def killed(run: PodRun, now: Moment) -> PodRun:
    """Return the pod after its kubelet has killed all its containers."""
    return replace(
        run,
        containers=tuple(_killed(each, now) for each in run.containers),
        deadline=None,
        is_killed=True,
    )


def reported(run: PodRun) -> PodRun:
    """Return the pod after what happened in it was reported."""
    if not run.notes and not any(each.notes for each in run.containers):
        return run
    containers = tuple(
        replace(each, notes=()) if each.notes else each for each in run.containers
    )
    return replace(run, containers=containers, notes=())


def full_name(pod: JSON) -> str:
    """Return how kubelets name a pod in messages: ``NAME_NAMESPACE(UID)``."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def _no_sandbox(pod: JSON) -> Periods:
    """Return when the sandbox of a pod cannot be created."""
    text = (pod["metadata"].get("annotations") or {}).get(FAILING_SANDBOX)
    try:
        return periods_of(FAILING_SANDBOX, text) if text else Periods()
    except AnnotationError:
        return Periods()  # the containers will not start, and say why


def _lacks_sandbox(run: PodRun, now: Moment) -> bool:
    """Tell whether a pod is to start now whose sandbox cannot be created."""
    return (
        bool(run.no_sandbox.pairs)
        and run.kill_at is None
        and all(each.step is Step.NEW for each in run.containers)
        and run.no_sandbox.include(now.seconds - run.began)
        and any(_is_due(each.due, now) for each in run.containers)
    )


def _without_sandbox(run: PodRun, now: Moment) -> PodRun:
    """Return a pod that is tried again later."""
    sandbox = sha256(run.full_name.encode()).hexdigest()
    message = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to "
        f'setup network for sandbox "{sandbox}": an annotation says so'
    )
    due = now.seconds + _SANDBOX_PERIOD
    containers = tuple(replace(each, due=due) for each in run.containers)
    note = warning("FailedCreatePodSandBox", message)
    return replace(run, containers=containers, notes=(*run.notes, note))


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
            return container.probed(now)
        ended = container.ended_by_itself(now)
        again = _again(run, ended)
        return ended.restarted(now, run.full_name, machine) if again else ended
    if run.kill_at is not None:
        return container
    if container.step is Step.BACKING_OFF:
        more = container.restarts + 1
        return replace(container, restarts=more).started(now, machine)
    if container.step is Step.STUCK:
        return container.started(now, machine)
    if container.step is Step.NEW and run.turn_of(container):
        return container.started(now, machine)
    return container


def _again(run: PodRun, container: ContainerRun) -> bool:
    """Tell whether a container that has ended is restarted."""
    if run.kill_at is not None:
        return False
    if container.role is Role.SIDECAR:
        return True
    policy = container.spec.get("restartPolicy") or run.policy
    for rule in container.spec.get("restartPolicyRules") or ():
        if _applies(rule.get("exitCodes") or {}, container.code):
            return True  # Restart is the only action that rules have
    if container.role is Role.MAIN and policy == "Always":
        return True
    return container.code != 0 and policy != "Never"


def _applies(exit_codes: JSON, code: int) -> bool:
    """Tell whether a rule about restarts is about an exit code."""
    is_listed = code in (exit_codes.get("values") or ())
    return is_listed is (exit_codes.get("operator") == "In")


def _killed(container: ContainerRun, now: Moment) -> ContainerRun:
    if container.step is Step.RUNNING:
        return container.ended(now, KILLED)
    if container.step is Step.BACKING_OFF:
        return replace(container, step=Step.ENDED, state=container.last, due=None)
    return replace(container, due=None)


def _is_due(due: float | None, now: Moment) -> bool:
    return due is not None and due <= now.seconds + JUST_NOW


def _specs(pod: JSON) -> Iterator[tuple[JSON, Role]]:
    spec = pod["spec"]
    for each in spec.get("initContainers", ()):
        always = each.get("restartPolicy") == "Always"
        yield each, Role.SIDECAR if always else Role.INIT
    for each in spec["containers"]:
        yield each, Role.MAIN


def _container(
    pod: JSON, spec: JSON, role: Role, due: float, grace_scale: float
) -> ContainerRun:
    program: Program | AnnotationError
    probes: tuple[Probe, ...] = ()
    try:
        program = program_of(pod, spec, role)
        if role is not Role.INIT:
            probes = probes_of(pod, spec, shared=role is Role.MAIN)
    except AnnotationError as error:
        program = error
    seconds = pod["spec"].get("terminationGracePeriodSeconds", 30)
    grace = float(seconds) * grace_scale
    return ContainerRun(spec, role, program, due=due, grace=grace, probes=probes)


def _adopted(
    container: ContainerRun, status: JSON | None, now: Moment, at: At
) -> ContainerRun:
    """Return a container in the state of a status, with the image that it has there."""
    if status is None:
        return container
    state = status.get("state") or {}
    adopted = replace(
        container,
        spec={**container.spec, "image": status.get("image", container.spec["image"])},
        step=Step.STUCK,
        state=state,
        last=status.get("lastState") or {},
        restarts=status.get("restartCount", 0),
    )
    if "running" in state:
        return _running(adopted, status, now, at)
    if "terminated" in state:
        return replace(adopted, step=Step.ENDED, due=None)
    reason = state.get("waiting", {}).get("reason")
    if reason in ("ContainerCreating", "PodInitializing") and not adopted.last:
        return replace(adopted, step=Step.NEW, state={})
    if adopted.last and reason == "CrashLoopBackOff":
        return _backing_off(adopted, now)
    return adopted


def _running(
    container: ContainerRun, status: JSON, now: Moment, at: At
) -> ContainerRun:
    """Return a container that runs since the time that its status tells."""
    started = container.state["running"].get("startedAt")
    began = at(started) if started else now.seconds
    is_started = status.get("started", True)
    passing = {
        ProbeKind.STARTUP: is_started,
        ProbeKind.READINESS: status.get("ready", False),
        ProbeKind.LIVENESS: True,
    }
    probes = tuple(
        each.resumed(began, now.seconds, passes=passing[each.kind])
        if is_started or each.kind is ProbeKind.STARTUP
        else each
        for each in container.probes
    )
    program = container.program
    due = began + program.seconds if isinstance(program, Program) else None
    return replace(
        container,
        step=Step.RUNNING,
        began=began,
        due=None if due == FOREVER else due,
        probes=probes,
    )


def _backing_off(container: ContainerRun, now: Moment) -> ContainerRun:
    """Return a container that is started again after its back-off."""
    restarts = max(0, container.restarts - 1)
    delay = min(FIRST_BACK_OFF * 2.0 ** min(restarts, 5), LONGEST_BACK_OFF)
    return replace(
        container,
        step=Step.BACKING_OFF,
        due=now.seconds + delay,
        back_off=min(delay * 2, LONGEST_BACK_OFF),
    )
