"""The steps of a pod: its containers start, end, and start again."""

from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from controller_manager.api.json_objects import JSON

from .container_runs import KILLED, ContainerRun, Machine, Moment, Step
from .event_notes import Note, normal, warning
from .pod_runs import PodRun, is_due
from .programs import Role

_SANDBOX_PERIOD: Final = 12.0
"""Seconds after which a kubelet tries again to create a sandbox."""

DEADLINE_EXCEEDED: Final = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)
"""Reason and message of a pod whose activeDeadlineSeconds have passed."""


def advanced(run: PodRun, now: Moment, machine: Machine) -> PodRun:
    """Return the pod after all steps that are due now."""
    if is_due(run.deadline, now) and not run.is_over:
        reason, message = DEADLINE_EXCEEDED
        return _failed(run, reason, normal(reason, message), now)
    if _lacks_sandbox(run, now):
        return _without_sandbox(run, now)
    while True:
        following = _step(run, now, machine)
        if following is run:
            break
        run = following
    return killed(run, now) if is_due(run.kill_at, now) else run


def _failed(run: PodRun, reason: str, note: Note, now: Moment) -> PodRun:
    """Return the pod after its kubelet has ended it for a reason."""
    failed = replace(run, failure=(reason, note.message), notes=(*run.notes, note))
    return killed(stopping(failed, now), now)


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
    if not is_due(container.next, now):
        return container
    if container.step is Step.RUNNING:
        if not is_due(container.due, now):
            return container.probed(now, machine)
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
    if container.role is Role.EPHEMERAL:
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
    """Tell whether a restart rule matches an exit code."""
    is_listed = code in (exit_codes.get("values") or ())
    return is_listed is (exit_codes.get("operator") == "In")


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
        and any(is_due(each.due, now) for each in run.containers)
    )


def _without_sandbox(run: PodRun, now: Moment) -> PodRun:
    """Return a pod whose sandbox is tried again later."""
    sandbox = sha256(run.full_name.encode()).hexdigest()
    message = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to "
        f'setup network for sandbox "{sandbox}": an annotation says so'
    )
    due = now.seconds + _SANDBOX_PERIOD
    containers = tuple(replace(each, due=due) for each in run.containers)
    note = warning("FailedCreatePodSandBox", message)
    return replace(run, containers=containers, notes=(*run.notes, note))
