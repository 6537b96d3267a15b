"""The defaults of a pod's spec (pkg/apis/core/v1/defaults.go)."""

from typing import Any

from controller_manager.devcluster.kinds.quantities import make_canonical

JSON = dict[str, Any]


def default_template(owner_spec: JSON) -> None:
    """Fill in the pod template of a spec; add it if it is missing."""
    template = owner_spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: JSON) -> None:
    """Fill in the spec of a pod or of a pod template."""
    for name in ("containers", "initContainers"):
        for container in spec.get(name, ()):
            _container(container)
            make_canonical(container["resources"], "requests", "limits")
    make_canonical(spec, "overhead")
    if isinstance(spec.get("resources"), dict):
        make_canonical(spec["resources"], "requests", "limits")
    for volume in spec.get("volumes", ()):
        _volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def default_host_ports(spec: JSON) -> None:
    """Fill in the ports of the node, which the containers of a pod may share.

    Upstream does so in pods, and no longer in their templates.
    """
    if not spec.get("hostNetwork"):
        return
    for name in ("containers", "initContainers"):
        for container in spec.get(name, ()):
            for port in container.get("ports", ()):
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


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
