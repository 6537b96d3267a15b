"""The kinds of work: what to create, and when it is done."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet.programs import RUN_SECONDS
from tests.benchmarks.server import NAMESPACE


@dataclass(frozen=True, slots=True)
class Work:
    """Objects of one kind that a controller brings to completion."""

    controllers: str
    """The controllers that do it, as ``--controllers`` names them."""

    path: str
    """The path of the objects in the API."""

    body: Callable[[str, int], JSON]
    """Returns an object of a name and a size."""

    is_complete: Callable[[JSON], bool]
    """Tells whether nothing is left to do for an object."""


def _template(name: str, **spec: Any) -> JSON:
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "app", "image": "app:v1"}],
            **spec,
        },
    }


def _selecting(name: str, **spec: Any) -> JSON:
    """Return an object whose selector matches its template."""
    selector = {"matchLabels": {"app": name}}
    spec = {"selector": selector, "template": _template(name), **spec}
    return {"metadata": {"name": name}, "spec": spec}


def _is_observed(obj: JSON) -> bool:
    return bool(
        obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
    )


def _replicas(obj: JSON) -> set[int]:
    """Return the numbers of all, of updated and of available replicas."""
    status = obj.get("status", {})
    names = ("replicas", "updatedReplicas", "availableReplicas")
    return {status.get(name, 0) for name in names}


def _is_rolled(obj: JSON) -> bool:
    return _replicas(obj) == {obj["spec"]["replicas"]} and _is_observed(obj)


def _stateful_set(name: str, size: int) -> JSON:
    policy = {"podManagementPolicy": "Parallel", "serviceName": name}
    return _selecting(name, replicas=size, **policy)


def _is_rolled_in_order(obj: JSON) -> bool:
    status = obj.get("status", {})
    same = status.get("currentRevision") == status.get("updateRevision")
    # Without replicas nothing is updated.
    return same and (_is_rolled(obj) or obj["spec"]["replicas"] == 0 == _total(obj))


def _total(obj: JSON) -> int:
    return int(obj.get("status", {}).get("replicas", 0))


def _daemon_set(name: str, _: int) -> JSON:
    rolling = {"maxUnavailable": "10%"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return _selecting(name, updateStrategy=strategy)


def _is_on_every_node(obj: JSON) -> bool:
    status = obj.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    names = ("updatedNumberScheduled", "numberAvailable", "currentNumberScheduled")
    numbers = {status.get(name, 0) for name in names}
    return wanted > 0 and numbers == {wanted} and _is_observed(obj)


def _job(name: str, size: int) -> JSON:
    template = _template(name, restartPolicy="Never")
    template["metadata"]["annotations"] = {RUN_SECONDS: "0"}  # they succeed at once
    spec = {
        "completions": size,
        "parallelism": size,
        "completionMode": "Indexed",
        "template": template,
    }
    return {"metadata": {"name": name}, "spec": spec}


def _has_completed(obj: JSON) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(
        each["type"] == "Complete" and each["status"] == "True" for each in conditions
    )


def _service(name: str, _: int) -> JSON:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": ports},
    }


def _quota(name: str, _: int) -> JSON:
    names = ("pods", "requests.cpu", "requests.memory", "limits.cpu", "count/secrets")
    return {"metadata": {"name": name}, "spec": {"hard": dict.fromkeys(names, "1M")}}


def _budget(name: str, size: int) -> JSON:
    """Return a budget of the pods with its name as their label ``app``."""
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "minAvailable": size},
    }


def _autoscaler(name: str, size: int) -> JSON:
    """Return an autoscaler of the deployment of the same name."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    utilization = {"type": "Utilization", "averageUtilization": 50}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
    limits = {"minReplicas": size, "maxReplicas": size}
    spec = {"scaleTargetRef": target, "metrics": [cpu], **limits}
    return {"metadata": {"name": name}, "spec": spec}


def _has_looked(obj: JSON) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(each["type"] == "ScalingActive" for each in conditions)


def _is_stored(_: JSON) -> bool:
    return True


def _apps(plural: str) -> str:
    return f"/apis/apps/v1/namespaces/{NAMESPACE}/{plural}"


DEPLOYMENTS: Final = Work(
    "deployment-controller,replicaset-controller",
    _apps("deployments"),
    lambda name, size: _selecting(name, replicas=size),
    _is_rolled,
)

STATEFUL_SETS: Final = Work(
    "statefulset-controller", _apps("statefulsets"), _stateful_set, _is_rolled_in_order
)

DAEMON_SETS: Final = Work(
    "daemonset-controller", _apps("daemonsets"), _daemon_set, _is_on_every_node
)

JOBS: Final = Work(
    "job-controller",
    f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    _job,
    _has_completed,
)

SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"

SERVICES: Final = Work(
    "endpointslice-controller",
    f"/api/v1/namespaces/{NAMESPACE}/services",
    _service,
    _is_stored,
)
"""A service selects the pods with its name as their label ``app``."""

QUOTAS: Final = Work(
    "resourcequota-controller",
    f"/api/v1/namespaces/{NAMESPACE}/resourcequotas",
    _quota,
    _is_stored,
)

BUDGETS: Final = Work(
    "disruption-controller",
    f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    _budget,
    _is_stored,
)

AUTOSCALERS: Final = Work(
    "horizontal-pod-autoscaler-controller",
    f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers",
    _autoscaler,
    _has_looked,
)
