"""What the API server fills in (pkg/apis/*/v1/defaults.go, admission)."""

import base64
import copy
from collections.abc import Callable
from typing import Any, Final

JSON = dict[str, Any]

_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def apply_defaults(kind: str, obj: JSON) -> None:
    """Fill in `obj`, which is of `kind`, in place."""
    if (function := _DEFAULTS.get(kind)) is not None:
        function(obj)


def _deployment(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    obj.setdefault("status", {})


def _replica_set(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)
    obj.setdefault("status", {}).setdefault("replicas", 0)


def _replication_controller(obj: JSON) -> None:
    _replica_set(obj)
    spec = obj["spec"]
    if labels := spec["template"]["metadata"].get("labels"):
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


def _stateful_set(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault(
        "persistentVolumeClaimRetentionPolicy",
        {"whenDeleted": "Retain", "whenScaled": "Retain"},
    )
    _template(spec)
    status = obj.setdefault("status", {})
    status.setdefault("replicas", 0)
    status.setdefault("availableReplicas", 0)


def _daemon_set(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    _template(spec)
    status = obj.setdefault("status", {})
    for name in (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    ):
        status.setdefault(name, 0)


def _job(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _template(spec)
    obj.setdefault("status", {})


def _cron_job(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))
    obj.setdefault("status", {})


def _custom_resource_definition(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {}).setdefault("strategy", "None")


def _pod_template(obj: JSON) -> None:
    obj.setdefault("template", {})
    _template(obj)


def _template(owner_spec: JSON) -> None:
    template = owner_spec.setdefault("template", {})
    template.setdefault("metadata", {})
    _pod_spec(template.setdefault("spec", {}))


def _pod(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    _pod_spec(spec)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if limits := resources.get("limits"):
            requests = {**limits, **resources.get("requests", {})}
            resources["requests"] = requests
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    tolerated = {each.get("key") for each in tolerations}
    for key in _TOLERATED:
        if key not in tolerated:
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )
    status = obj.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", qos_class(spec))


def qos_class(spec: JSON) -> str:
    """Return the quality-of-service class of a pod."""
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    resources = [each.get("resources", {}) for each in containers]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= each.get("limits", {}).keys()
        and all(
            each.get("requests", {}).get(name) == limit
            for name, limit in each["limits"].items()
        )
        for each in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _pod_spec(spec: JSON) -> None:
    for name in ("containers", "initContainers"):
        for container in spec.get(name, ()):
            _container(container)
    for volume in spec.get("volumes", ()):
        _volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def _container(container: JSON) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _probe(container[name])


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _probe(probe: JSON) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _volume(volume: JSON) -> None:
    if volume.keys() == {"name"}:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def _namespace(obj: JSON) -> None:
    metadata = obj["metadata"]
    name = metadata.get("name")
    if name:
        labels = metadata.setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = name
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _service(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


def _secret(obj: JSON) -> None:
    obj.setdefault("type", "Opaque")
    if given := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        for key, value in given.items():
            data[key] = base64.b64encode(value.encode()).decode()


def _event(obj: JSON) -> None:
    obj.setdefault("source", {})
    obj.setdefault("firstTimestamp", None)
    obj.setdefault("lastTimestamp", None)
    obj.setdefault("eventTime", None)
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")


_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _node(obj: JSON) -> None:
    """Fill in what no node goes without; generated clients insist on it."""
    _empty_status(obj)
    status = obj["status"]
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    given = status.get("nodeInfo") or {}
    status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **given}


def _empty_status(obj: JSON) -> None:
    obj.setdefault("spec", {})
    obj.setdefault("status", {})


_DEFAULTS: Final[dict[str, Callable[[JSON], None]]] = {
    "CronJob": _cron_job,
    "CustomResourceDefinition": _custom_resource_definition,
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "Event": _event,
    "Job": _job,
    "Namespace": _namespace,
    "Node": _node,
    "Pod": _pod,
    "PodTemplate": _pod_template,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replication_controller,
    "ResourceQuota": _empty_status,
    "Secret": _secret,
    "Service": _service,
    "StatefulSet": _stateful_set,
}

_NULL_TIMES: Final = {
    "Deployment": ("lastUpdateTime", "lastTransitionTime"),
    "Pod": ("lastProbeTime", "lastTransitionTime"),
    "ReplicaSet": ("lastTransitionTime",),
    "ReplicationController": ("lastTransitionTime",),
}


def show_null_times(kind: str, obj: JSON) -> JSON:
    """Return `obj` with the times of conditions that Go never leaves out."""
    names = _NULL_TIMES.get(kind)
    conditions = obj.get("status", {}).get("conditions")
    if names is None or not conditions:
        return obj
    complete = copy.copy(obj)
    complete["status"] = {
        **obj["status"],
        "conditions": [
            {**dict.fromkeys(names), **condition} for condition in conditions
        ],
    }
    return complete
