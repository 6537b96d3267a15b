"""The bootstrap roles and bindings of a cluster.

They are those of kube-apiserver 1.36 (plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
The role of a controller follows from the permissions in its descriptor.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.options.gates import FeatureGates
from controller_manager.runtime.permissions import Permission, controller_roles
from controller_manager.runtime.registry import Registry

from .kinds.rbac.bootstrap import components
from .kinds.rbac.bootstrap.absent_controllers import roles_of_absent_controllers
from .kinds.rbac.bootstrap.components import bindings_of_components, roles_of_components
from .kinds.rbac.bootstrap.namespaces import roles_of_namespaces
from .kinds.rbac.bootstrap.nodes import bindings_of_nodes, roles_of_nodes
from .kinds.rbac.bootstrap.policy import READ, rule, with_bootstrap_metadata
from .kinds.rbac.bootstrap.users import bindings_of_users, roles_of_users

MANAGER: Final = components.MANAGER
"""The user that kubeadm's controller-manager.conf names, and the name of its role."""


def bootstrap_objects(
    build: Registry, features: FeatureGates | None = None
) -> list[JSON]:
    """Return roles and bindings, also for the controllers of a build.

    `features` are the gates of the API server; by default each has its default.
    """
    return [
        *roles_of_users(),
        *roles_of_components(),
        *roles_of_nodes(),
        *bindings_of_users(),
        *bindings_of_components(),
        *bindings_of_nodes(),
        *roles_of_namespaces(),
        *roles_of_absent_controllers(),
        _metrics_reader(),
        *_of_controllers(build, features or FeatureGates()),
    ]


def _metrics_reader() -> JSON:
    """Return the role by which users of `view` read metrics.

    metrics-server has this role; the development cluster serves the metrics instead.
    """
    aggregated = ("view", "edit", "admin")
    labels = {
        f"rbac.authorization.k8s.io/aggregate-to-{each}": "true" for each in aggregated
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {"k8s-app": "metrics-server", **labels},
        },
        "rules": [rule(READ, "metrics.k8s.io", "pods nodes")],
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
        for each in controller_roles(account, permissions):
            yield {**each, "metadata": with_bootstrap_metadata(each["metadata"])}
