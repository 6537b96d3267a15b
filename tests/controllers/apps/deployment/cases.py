"""Short ways to make deployments, replica sets, views and decisions."""

from datetime import datetime
from typing import Any

import msgspec

from controller_manager.api.apps.v1 import Deployment, DeploymentStatus, ReplicaSet
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.runtime.outcome import Reason
from tests.controllers.builders import deployment, replica_set

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
