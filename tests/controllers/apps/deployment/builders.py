"""Short ways to make deployments, replica sets, views and decisions."""

from datetime import datetime
from typing import Any, Final, get_args

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from controller_manager.api.apps.v1 import (
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    desired_replicas,
)
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.controllers.apps.deployment.revisions import ROLLBACK_TO
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import max_total
from controller_manager.runtime.outcome import Reason
from tests.controllers.apps.deployment.model import Cluster, ToCreation
from tests.controllers.builders import deployment, pod, replica_set

REVISION = "deployment.kubernetes.io/revision"
SIZES = {
    "deployment.kubernetes.io/desired-replicas": "4",
    "deployment.kubernetes.io/max-replicas": "5",
}
RECREATE = {"type": "Recreate"}
UNUSABLE = "This deployment cannot be processed: "
EARLIER = "2026-01-01T11:59:30Z"


def of_deployment(waiting_for: str, since: datetime | None = None) -> Reason:
    reference = ObjectReference(
        kind="Deployment",
        namespace="default",
        name="web",
        uid="d",
        api_version="apps/v1",
    )
    return Reason(waiting_for, since, reference)


def of_replica_set(
    name: str, waiting_for: str, since: datetime | None = None
) -> Reason:
    reference = ObjectReference(
        kind="ReplicaSet",
        namespace="default",
        name=name,
        uid=name,
        api_version="apps/v1",
    )
    return Reason(waiting_for, since, reference)


def web(
    *,
    metadata: dict[str, Any] | None = None,
    status: DeploymentStatus | None = None,
    **spec: Any,
) -> Deployment:
    """Return a deployment of four."""
    subject = deployment(4, **spec)
    changed = msgspec.structs.replace(
        subject.metadata, resource_version="1", **(metadata or {})
    )
    return msgspec.structs.replace(
        subject, metadata=changed, status=status or DeploymentStatus()
    )


def sized(name: str, replicas: int, available: int = 0, **more: Any) -> ReplicaSet:
    return replica_set(name, replicas, available, desired=4, maximum=5, **more)


def complete() -> DeploymentStatus:
    return DeploymentStatus(
        observed_generation=1,
        replicas=4,
        updated_replicas=4,
        ready_replicas=4,
        available_replicas=4,
    )


def progressing(reason: str, status: str = "True") -> DeploymentStatus:
    condition = {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": "m",
        "lastUpdateTime": EARLIER,
        "lastTransitionTime": EARLIER,
    }
    return msgspec.convert({"conditions": [condition]}, DeploymentStatus)


unhurried: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Settings for whole syncs, without a deadline: a busy machine may be slow."""

LONG_AGO: Final = "2026-01-01T10:00:00Z"

sizes = st.integers(0, 30)
bounds = st.one_of(st.integers(0, 12), st.integers(0, 100).map("{}%".format))


@st.composite
def rollouts(draw: st.DrawFn, *, within_bounds: bool = False) -> Rollout:
    """Draw a rolling deployment in any possible state.

    `within_bounds` leaves out those with more pods than there may be.
    """
    subject = deployment(draw(sizes), draw(bounds), draw(bounds))
    wanted, most = desired_replicas(subject), max_total(subject)
    room = most
    sets = []
    for name in ("o", "oo", "ooo", "newest")[draw(st.integers(0, 3)) :]:
        size = draw(st.integers(0, room) if within_bounds else sizes)
        room -= size
        available = draw(sizes)
        sets.append(replica_set(name, size, available, desired=wanted, maximum=most))
    return Rollout(subject, sets[-1], tuple(sets[:-1]))


def total(rollout: Rollout) -> int:
    return sum(desired_replicas(each) for each in rollout.all)


TEMPLATES = ("app:v1", "app:v0", "app:older")
"""Images; the first is that of the deployment's current template."""


@st.composite
def conditions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw the condition Progressing in any state, or none."""
    reason = draw(
        st.sampled_from(
            (
                "ReplicaSetUpdated",
                "NewReplicaSetAvailable",
                "ProgressDeadlineExceeded",
                "DeploymentPaused",
                "ReplicaSetCreateError",
            )
        )
    )
    entry = {
        "type": "Progressing",
        "status": draw(st.sampled_from(("True", "False", "Unknown"))),
        "reason": reason,
        "message": draw(st.sampled_from(("m", 'ReplicaSet "newest" has progressed'))),
        "lastUpdateTime": draw(st.sampled_from(("2026-01-01T11:59:55Z", LONG_AGO))),
        "lastTransitionTime": LONG_AGO,
    }
    return draw(st.sampled_from(([], [entry])))


@st.composite
def deployments(draw: st.DrawFn, rolls_out: str | None = None) -> Deployment:
    """Draw a deployment that an API server allows, and some that it refuses.

    `rolls_out` is the strategy of one that is neither paused nor deleted nor to be
    rolled back.
    """
    kind = rolls_out or draw(st.sampled_from(("RollingUpdate", "Recreate", "Odd")))
    rare = st.just(value=False) if rolls_out else st.sampled_from((False, False, True))
    rolling = {"maxSurge": draw(bounds), "maxUnavailable": draw(bounds)}
    strategy = {"type": kind, "rollingUpdate": rolling}
    subject = deployment(
        draw(st.integers(0, 6)),
        strategy=strategy if kind == "RollingUpdate" else {"type": kind},
        paused=draw(rare),
        progressDeadlineSeconds=draw(st.sampled_from((None, 60, 2**31 - 1))),
        revisionHistoryLimit=draw(st.sampled_from((None, 0, 1, 2**31 - 1))),
        minReadySeconds=draw(st.sampled_from((0, 5))),
    )
    asked = draw(st.sampled_from(("0", "1", "7", "nonsense"))) if draw(rare) else None
    metadata = msgspec.structs.replace(
        subject.metadata,
        resource_version="1",
        annotations={"team": "a", **({ROLLBACK_TO: asked} if asked else {})},
        deletion_timestamp=LONG_AGO if draw(rare) else None,
    )
    size = draw(st.integers(0, 6))
    status = {
        "observedGeneration": draw(st.integers(0, 1)),
        "replicas": size,
        "updatedReplicas": draw(st.integers(0, size)),
        "availableReplicas": draw(st.integers(0, size)),
        "conditions": draw(conditions()),
        "collisionCount": draw(st.sampled_from((None, 2))),
    }
    return msgspec.structs.replace(
        subject, metadata=metadata, status=msgspec.convert(status, DeploymentStatus)
    )


@st.composite
def clusters(
    draw: st.DrawFn,
    creation: ToCreation | None = None,
    rolls_out: str | None = None,
) -> Cluster:
    """Draw a deployment with up to four replica sets, and pods of old ones.

    With `rolls_out` its size has not changed.
    """
    subject = draw(deployments(rolls_out))
    wanted = desired_replicas(subject)
    desired = (None, wanted, wanted if rolls_out else 3)
    replica_sets = tuple(
        replica_set(
            name,
            draw(st.integers(0, 4)),
            draw(st.integers(0, 4)),
            image=draw(st.sampled_from(TEMPLATES)),
            desired=draw(st.sampled_from(desired)),
            maximum=draw(st.sampled_from((None, max_total(subject), 4))),
            revision=draw(st.sampled_from((None, 1, 2, 5))),
            current=draw(st.sampled_from((None, 0, 2))),
        )
        for name in ("o", "oo", "ooo", "newest")[draw(st.integers(0, 4)) :]
    )
    old_pod = pod("old", phase=draw(st.sampled_from(("Running", "Failed"))))
    answers: tuple[ToCreation, ...] = get_args(ToCreation)
    return Cluster(
        subject,
        replica_sets,
        draw(st.sampled_from(((), (old_pod,)))),
        draw(st.sampled_from(answers)) if creation is None else creation,
        changes_meanwhile=draw(st.sampled_from((False, False, True))),
    )
