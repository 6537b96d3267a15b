"""Checks the holder of the lease, and that no two managers run the same controllers."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.coordination.v1 import LEASES, Lease
from controller_manager.api.scalars import parse_time
from controller_manager.client.leadership.leader_election import is_of_this_program
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Forbidden, NotFound
from controller_manager.options import manager_pods
from controller_manager.options.flag_set import FlagSet
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry

from .examination import Examination
from .finding import Finding, error, ok, warning

UPSTREAM: Final = "kube-controller-manager"


async def check_lease(examined: Examination) -> list[Finding]:
    """Say who holds the lease that this manager would take."""
    election = examined.config.generic.leader_election
    if not election.leader_elect:
        return [warning("without a lease: a second manager would act as well")]
    name, namespace = election.resource_name, election.resource_namespace
    where = f"the lease {namespace}/{name}"
    try:
        holder = await _holder(examined, namespace, name)
    except Forbidden:
        return [warning(f"{where} may not be read", "see rights: leases")]
    if not holder:
        return [ok(f"{where} is free")]
    kind = "a manager of this kind" if is_of_this_program(holder) else UPSTREAM
    return [
        ok(
            f"{where} is held by {holder!a}, {kind}; this manager takes it when "
            "that one stops"
        )
    ]


async def check_overlap(examined: Examination) -> list[Finding]:
    """Check that no other manager runs the same controllers under another lease.

    The flags of its static pods show the controllers that kube-controller-manager runs.
    """
    election = examined.config.generic.leader_election
    ours = (election.resource_namespace, election.resource_name)
    if election.leader_elect and ours == (manager_pods.NAMESPACE, UPSTREAM):
        return [ok("there is one lease, so one manager acts")]
    if not examined.starting:
        return [ok("no controller starts here, so none runs twice")]
    try:
        holder = await _holder(examined, manager_pods.NAMESPACE, UPSTREAM)
    except Forbidden:
        text = f"the lease {manager_pods.NAMESPACE}/{UPSTREAM} may not be read"
        return [warning(text, "look that no other manager runs the same controllers")]
    if not holder:
        return [ok(f"no other manager holds {manager_pods.NAMESPACE}/{UPSTREAM}")]
    theirs = await _selection(examined.client, examined.build.flags, holder)
    if theirs is None:
        mend = "look that its --controllers leaves out what runs here"
        text = f"{holder!a} leads, and the controllers that it runs are unknown"
        return [warning(text, mend)]
    both = _both(examined.build, examined.starting, theirs)
    if not both:
        return [ok(f"{holder!a} leads, and runs other controllers")]
    names = ", ".join(each.name for each in both)
    text = f"{holder!a} runs the same controllers under another lease: {names}"
    off = ",".join(f"-{each.name}" for each in both)
    make = error if any(map(_makes_workloads, both)) else warning
    return [make(text, f"give kube-controller-manager --controllers=*,{off}")]


async def _holder(examined: Examination, namespace: str, name: str) -> str:
    """Return the holder of a lease that has not expired, empty if there is none."""
    try:
        lease = await examined.client.get(LEASES, namespace, name)
    except NotFound:
        return ""
    return (lease.spec.holder_identity or "") if _is_held(examined, lease) else ""


def _is_held(examined: Examination, lease: Lease) -> bool:
    spec = lease.spec
    if spec.renew_time is None or spec.lease_duration_seconds is None:
        return bool(spec.holder_identity)
    ends = parse_time(spec.renew_time) + timedelta(seconds=spec.lease_duration_seconds)
    return ends > examined.server_clock.now()


async def _selection(
    client: Client, flags: FlagSet, holder: str
) -> tuple[str, ...] | None:
    """Return the leader's ``--controllers``, `None` if no pod shows the flags."""
    try:
        pods: dict[str, Any] = await client.read(
            manager_pods.PODS, dict[str, Any], (("labelSelector", manager_pods.LABEL),)
        )
    except Forbidden:
        return None
    pod = manager_pods.pod_in_charge(pods.get("items") or (), holder)
    if pod is None:
        return None
    given = manager_pods.given_flags(manager_pods.arguments_of_pod(pod), flags)
    texts = given.values.get("controllers", ("*",))
    return tuple(each for text in texts for each in text.split(",") if each)


def _both(
    build: Registry, ours: Sequence[Descriptor], entries: Sequence[str]
) -> list[Descriptor]:
    """Return our controllers that another manager's selection has, too."""
    known = [each for each in entries if not build.check_selection([each])[0]]
    theirs = {each.name for each in build.select(known)}
    return [each for each in ours if each.name in theirs]


def _makes_workloads(descriptor: Descriptor) -> bool:
    """Tell whether two of a controller would make pods, or their owners, twice."""
    return any(
        "create" in each.verbs
        and (each.group in ("apps", "batch") or (each.group, each.resource) == _POD)
        for each in descriptor.permissions
    )


_POD: Final = ("", "pods")
