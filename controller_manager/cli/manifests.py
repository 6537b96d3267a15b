"""The manifests of an operator: account, roles, deployment, and its monitoring."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.manager.permissions import permissions_by_purpose
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.runtime.admission import WebhookOptions, webhook_service
from controller_manager.runtime.permissions import (
    Permission,
    cluster_role,
    cluster_role_binding,
    in_namespace,
    rule,
    service_account,
)
from controller_manager.runtime.registry import Registry
from controller_manager.webhooks.registration import Registration

PORT: Final = 8443
"""The port of an operator's probes and metrics."""

WEBHOOKS_PORT: Final = WebhookOptions().port

_LABEL: Final = "app.kubernetes.io/name"


def operator_manifests(build: Registry, namespace: str, image: str) -> list[JSON]:
    """Return the objects that a process with the controllers of a build needs.

    It has one service account for all: for its caches, the writes of its controllers,
    the lease, and the reviews of who reads its metrics. The namespace is made, too, and
    has the component's name by default. The image is ``NAME:latest`` by default. For
    each other cluster the pod has the key ``kubeconfig`` of a secret. Of its webhooks
    there are service and configurations; it says itself whom to trust.
    """
    name = build.component
    where = namespace or name
    webhooks = Registration(build, where) if build.has_webhooks else None
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}},
        _namespaced("v1", "ServiceAccount", name, where),
        *_roles(build, name, where, webhooks),
        *_reviewer(name, where),
        _deployment(name, where, image or f"{name}:latest", build.clusters, webhooks),
        _service(name, where),
        *(_of_webhooks(name, where, webhooks) if webhooks else ()),
        _service_monitor(name, where),
    ]


def manifests_elsewhere(build: Registry, cluster: str, namespace: str) -> list[JSON]:
    """Return the objects that the process needs in another cluster.

    These are a service account and its roles, for a kubeconfig.
    """
    name = build.component
    where = namespace or name
    of_cluster = Registry(
        (each.in_cluster(cluster) for each in build.descriptors), component=name
    )
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}},
        _namespaced("v1", "ServiceAccount", name, where),
        *_roles(of_cluster, name, where, leads=False),
    ]


def _namespaced(
    version: str, kind: str, name: str, namespace: str, **parts: JSON
) -> JSON:
    metadata = {"name": name, "namespace": namespace, "labels": {_LABEL: name}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def _roles(
    build: Registry,
    name: str,
    namespace: str,
    webhooks: Registration | None = None,
    *,
    leads: bool = True,
) -> Iterator[JSON]:
    """Yield a cluster role, a role for each namespace, and all bindings."""
    election = LeaderElectionConfig(
        leader_elect=leads, resource_name=name, resource_namespace=namespace
    )
    # All controllers act as the process, as the one that runs first always does.
    descriptors = [replace(each, runs_first=True) for each in build.descriptors]
    needed = permissions_by_purpose(descriptors, election)
    own = webhooks.permissions() if webhooks else ()
    by_namespace: dict[str, dict[Permission, None]] = {}
    for permissions in (*needed.values(), own):
        for each in permissions:
            by_namespace.setdefault(each.namespace, {})[each] = None
    subjects = [service_account(name, namespace)]
    for where, allowed in by_namespace.items():
        yield in_namespace(cluster_role(name, _rules(allowed)), where)
        yield in_namespace(cluster_role_binding(name, subjects), where)


def _reviewer(name: str, namespace: str) -> Iterator[JSON]:
    """Yield bindings to roles that every API server has, see REVIEW_PERMISSIONS."""
    subjects = [service_account(name, namespace)]
    delegator = "system:auth-delegator"
    yield cluster_role_binding(f"{name}-reviews", subjects, role=delegator)
    reader = "extension-apiserver-authentication-reader"
    binding = cluster_role_binding(f"{name}-authorities", subjects, role=reader)
    yield in_namespace(binding, "kube-system")


def _rules(permissions: Iterable[Permission]) -> Iterator[JSON]:
    """Yield rules, one for each resource: its verbs come together."""
    verbs: dict[tuple[str, str, tuple[str, ...]], dict[str, None]] = {}
    for each in permissions:
        key = (each.group, each.resource, each.names)
        verbs.setdefault(key, {}).update(dict.fromkeys(each.verbs))
    for (group, resource, names), found in sorted(verbs.items()):
        yield rule(Permission(group, resource, tuple(sorted(found)), names))


def _deployment(
    name: str,
    namespace: str,
    image: str,
    clusters: Iterable[str],
    webhooks: Registration | None,
) -> JSON:
    files = {each: f"/etc/clusters/{each}" for each in clusters}
    container = _container(name, image, files)
    if webhooks:
        container["ports"].append({"name": "webhooks", "containerPort": WEBHOOKS_PORT})
        # A cache may need a conversion before the process is ready as a whole.
        container["readinessProbe"] = _probe("/readyz/webhooks", periodSeconds=5)
        # Until no API server calls this pod any more.
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": 5}}}
    pod = {
        "serviceAccountName": name,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory"}},
            *(
                {"name": each, "secret": {"secretName": f"{name}-{each}"}}
                for each in files
            ),
        ],
    }
    labels = {_LABEL: name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return _namespaced("apps/v1", "Deployment", name, namespace, spec=spec)


def _container(name: str, image: str, files: Mapping[str, str]) -> JSON:
    """Return the container; `files` has the directory of each other cluster."""
    return {
        "name": name,
        "image": image,
        "args": [
            f"--kubeconfig-{each}={path}/kubeconfig" for each, path in files.items()
        ],
        "ports": [{"name": "https", "containerPort": PORT}],
        "livenessProbe": _probe("/livez", failureThreshold=8, periodSeconds=10),
        "readinessProbe": _probe("/readyz", periodSeconds=5),
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # The ssl module takes certificates from files only.
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            *(
                {"name": each, "mountPath": path, "readOnly": True}
                for each, path in files.items()
            ),
        ],
    }


def _probe(path: str, **times: int) -> JSON:
    request = {"path": path, "port": "https", "scheme": "HTTPS"}
    return {"httpGet": request, "timeoutSeconds": 15, **times}


def _service(name: str, namespace: str) -> JSON:
    ports = [{"name": "https", "port": PORT, "targetPort": "https"}]
    spec = {"clusterIP": "None", "selector": {_LABEL: name}, "ports": ports}
    return _namespaced("v1", "Service", name, namespace, spec=spec)


def _of_webhooks(name: str, namespace: str, webhooks: Registration) -> Iterator[JSON]:
    """Yield the service of webhooks, and the configurations without authorities.

    API servers do not call a service without an address. Until the process runs, what
    the webhooks are for is refused.
    """
    ports = [{"port": 443, "targetPort": "webhooks"}]
    spec = {"selector": {_LABEL: name}, "ports": ports}
    yield _namespaced("v1", "Service", webhook_service(name), namespace, spec=spec)
    for resource, config in webhooks.configurations():
        yield {"apiVersion": resource.api_version, "kind": resource.kind, **config}


def _service_monitor(name: str, namespace: str) -> JSON:
    """Return what the Prometheus operator reads.

    The certificate is self-signed, so it is not verified; give the process
    ``--tls-cert-file`` for one that is.
    """
    endpoint = {
        "port": "https",
        "scheme": "https",
        "path": "/metrics",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {"insecureSkipVerify": True},
    }
    spec = {"selector": {"matchLabels": {_LABEL: name}}, "endpoints": [endpoint]}
    version = "monitoring.coreos.com/v1"
    return _namespaced(version, "ServiceMonitor", name, namespace, spec=spec)
