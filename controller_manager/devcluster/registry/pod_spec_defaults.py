"""The defaults of a pod's spec (pkg/apis/core/v1/defaults.go)."""

from controller_manager.api.core.pod_templates import default_pod_spec
from controller_manager.api.json_objects import JSON


def default_template(owner_spec: JSON) -> None:
    """Fill in the pod template of a spec; add it if it is missing."""
    template = owner_spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


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
