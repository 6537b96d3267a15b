"""The bootstrap roles and bindings of a cluster.

They are those of kube-apiserver 1.36 (plugin/pkg/auth/authorizer/rbac/bootstrappolicy),
in a manifest. The role of a controller follows from the permissions in its descriptor.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.options.gates import FeatureGates
from controller_manager.runtime.permissions import Permission, controller_roles
from controller_manager.runtime.registry import Registry

from .kinds.bootstrap_manifests import bootstrap_manifest
from .kinds.rbac import reconciliation

MANAGER: Final = "system:kube-controller-manager"
"""The user that kubeadm's controller-manager.conf names, and the name of its role."""


def bootstrap_objects(
    build: Registry, features: FeatureGates | None = None
) -> list[JSON]:
    """Return roles and bindings, also for the controllers of a build.

    `features` are the gates of the API server; by default each has its default.
    """
    manifest = bootstrap_manifest(reconciliation.__package__, "bootstrap-roles.yaml")
    return [
        *map(_marked, manifest),
        _metrics_reader(),
        *_of_controllers(build, features or FeatureGates()),
    ]


def _marked(obj: JSON) -> JSON:
    """Return a bootstrap object with its marks."""
    metadata: Mapping[str, Any] = obj["metadata"]
    labels = {
        "kubernetes.io/bootstrapping": "rbac-defaults",
        **(metadata.get("labels") or {}),
    }
    marks = {"labels": labels, "annotations": {reconciliation.AUTO_UPDATE: "true"}}
    return {**obj, "metadata": {**metadata, **marks}}


def _metrics_reader() -> JSON:
    """Return the role by which users of `view` read metrics.

    metrics-server has this role; the development cluster serves the metrics instead.
    """
    aggregated = ("view", "edit", "admin")
    labels = {
        f"rbac.authorization.k8s.io/aggregate-to-{each}": "true" for each in aggregated
    }
    rule = {
        "apiGroups": ["metrics.k8s.io"],
        "resources": ["pods", "nodes"],
        "verbs": ["get", "list", "watch"],
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {"k8s-app": "metrics-server", **labels},
        },
        "rules": [rule],
    }


def _of_controllers(build: Registry, features: FeatureGates) -> Iterator[JSON]:
    accounts: dict[str, dict[Permission, None]] = {}
    for descriptor in build.descriptors:
        if descriptor.runs_first:
            continue  # It acts as the manager itself.
        # Several controllers may share an account, and so a role.
        granted = accounts.setdefault(descriptor.account, {})
        granted.update(dict.fromkeys(descriptor.permissions_with(features)))
    for account, permissions in accounts.items():
        yield from map(_marked, controller_roles(account, permissions))
