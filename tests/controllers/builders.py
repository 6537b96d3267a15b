"""Short ways to make objects for tests."""

from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.deployment.revisions import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
)


def template(image: str = "app:v1", **labels: str) -> JSON:
    """Return a pod template."""
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def completed_job_status(at: str = "2026-01-01T00:00:00Z") -> JSON:
    """Return the status of a job that is complete since `at`."""
    return {
        "startTime": at,
        "completionTime": at,
        "succeeded": 1,
        "conditions": [
            {"type": each, "status": "True", "lastTransitionTime": at}
            for each in ("SuccessCriteriaMet", "Complete")
        ],
    }


def deployment_json(name: str = "web", replicas: int = 3, **spec: Any) -> JSON:
    """Return a deployment as a user would write it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            **spec,
        },
    }


def replica_set_json(name: str = "rs", replicas: int = 3, **spec: Any) -> JSON:
    """Return a replica set as a user would write it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            **spec,
        },
    }


def daemon_set_json(name: str = "agent", **spec: Any) -> JSON:
    """Return a daemon set as a user would write it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            **spec,
        },
    }


def replication_controller_json(name: str = "rs", replicas: int = 3) -> JSON:
    """Return a replication controller as a user would write it."""
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"app": name},
            "template": template(app=name),
        },
    }


def deployment(
    replicas: int = 10, surge: Any = "25%", unavailable: Any = "25%", **spec: Any
) -> Deployment:
    """Return a rolling deployment as it is cached."""
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    obj = deployment_json(replicas=replicas, **{"strategy": strategy, **spec})
    obj["metadata"]["uid"] = "d"
    obj["metadata"]["generation"] = 1
    return msgspec.json.decode(msgspec.json.encode(obj), type=Deployment)


def replica_set(
    name: str,
    replicas: int,
    available: int = 0,
    *,
    image: str = "app:v1",
    desired: int | None = None,
    maximum: int | None = None,
    revision: int | None = None,
    current: int | None = None,
) -> ReplicaSet:
    """Return a replica set as it is cached; its name tells its age."""
    annotations = {
        key: str(value)
        for key, value in (
            (DESIRED_REPLICAS, desired),
            (MAX_REPLICAS, maximum),
            (REVISION, revision),
        )
        if value is not None
    }
    obj = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "generation": 1,
            "creationTimestamp": f"2026-01-01T00:00:{len(name):02}Z",
            "annotations": annotations,
        },
        "spec": {"replicas": replicas, "template": template(image)},
        "status": {
            "replicas": replicas if current is None else current,
            "readyReplicas": available,
            "availableReplicas": available,
            "observedGeneration": 1,
        },
    }
    return msgspec.json.decode(msgspec.json.encode(obj), type=ReplicaSet)


SINCE: Final = "2026-01-01T00:00:00Z"

_OF_METADATA: Final = {
    "labels": "labels",
    "annotations": "annotations",
    "finalizers": "finalizers",
    "owners": "ownerReferences",
    "deleted": "deletionTimestamp",
}


def pod(name: str = "p", **fields: Any) -> Pod:
    """Return a pod as it is cached, which runs on a node and is ready.

    `fields` change that: ``ready`` and the time ``since`` then, ``None`` for no such
    condition, or all ``conditions``; ``created`` and ``deleted`` are times, ``owners``
    references; ``containers`` are statuses, in place of one with so many ``restarts``
    and a ``state``; more of ``metadata``, ``spec`` and ``status`` is as in JSON.
    """
    ready, since = fields.pop("ready", True), fields.pop("since", SINCE)
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    restarts, state = fields.pop("restarts", 0), fields.pop("state", {})
    container = {"name": "c", "restartCount": restarts, "state": state}
    conditions = [] if ready is None else [condition]
    known = {key: fields.pop(it) for it, key in _OF_METADATA.items() if it in fields}
    obj = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": fields.pop("uid", name),
            "creationTimestamp": fields.pop("created", SINCE),
            **{key: value for key, value in known.items() if value},
            **fields.pop("metadata", {}),
        },
        "spec": {"nodeName": fields.pop("node", "n"), **fields.pop("spec", {})},
        "status": {
            "phase": fields.pop("phase", "Running"),
            "conditions": fields.pop("conditions", conditions),
            "containerStatuses": fields.pop("containers", [container]),
            **fields.pop("status", {}),
        },
    }
    assert not fields, fields
    return msgspec.convert(obj, Pod)
