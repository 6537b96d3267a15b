"""Objects that the tests create, and the paths of their collections."""

import uuid

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import completed_job_status
from tests.robustness.cluster import FaultyCluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def _template(name: str) -> JSON:
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "app", "image": "app:v1"}]},
    }


def workload(name: str, replicas: int) -> JSON:
    """Return a deployment or a replica set, without its kind."""
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": _template(name),
        },
    }


def replication_controller(name: str, replicas: int) -> JSON:
    """Return a replication controller, without its kind."""
    spec = {"selector": {"app": name}, "template": _template(name)}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, **spec}}


def _finished_job(name: str) -> JSON:
    """Return a job that may be deleted as soon as it has finished."""
    template = _template(name)
    template["spec"]["restartPolicy"] = "Never"
    spec = {"ttlSecondsAfterFinished": 0, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def owned(name: str, kind: str, owner: str) -> JSON:
    """Return an object whose owner, of that name, does not exist."""
    reference = {
        "apiVersion": "v1",
        "kind": kind,
        "name": owner,
        "uid": str(uuid.uuid4()),
    }
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


async def end_a_job(cluster: FaultyCluster, name: str) -> None:
    await cluster.create("/apis/batch/v1/namespaces/default/jobs", _finished_job(name))
    kind = cluster.server.catalogue.find("batch", "v1", "jobs")
    assert kind is not None
    stored = cluster.server.objects.find(kind, "default", name).obj
    ended = {**stored, "status": completed_job_status()}
    cluster.server.objects.update(kind, "default", name, ended, "status")
