"""Short ways to make objects for tests."""

from typing import Any

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


def pod(name: str = "p", **fields: Any) -> Pod:
    """Return a running, ready pod on a node; `fields` change that."""
    ready = fields.pop("ready", True)
    since = fields.pop("ready_since", "2026-01-01T00:00:00Z")
    annotations = {}
    if (cost := fields.pop("cost", None)) is not None:
        annotations["controller.kubernetes.io/pod-deletion-cost"] = cost
    status = {
        "phase": fields.pop("phase", "Running"),
        "conditions": [
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "lastTransitionTime": since,
            }
        ],
        "containerStatuses": [{"name": "c", "restartCount": fields.pop("restarts", 0)}],
    }
    obj = {
        "metadata": {
            "name": name,
            "uid": fields.pop("uid", name),
            "creationTimestamp": fields.pop("created", "2026-01-01T00:00:00Z"),
            "annotations": annotations,
        },
        "spec": {"nodeName": fields.pop("node", "n")},
        "status": status,
    }
    assert not fields, fields
    return msgspec.convert(obj, Pod)
