"""The APIServices of the group versions that the API server serves itself.

Upstream: pkg/controlplane/apiserver/aggregator.go, and for custom resources
pkg/controlplane/controller/crdregistration.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.apiregistration.apiservice import (
    KIND as API_SERVICES,
)
from controller_manager.devcluster.kinds.apiregistration.apiservice import (
    local_service,
)
from controller_manager.devcluster.kinds.fixed_uids import fixed_uid
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.kind import Catalogue

_GROUPS: Final[Mapping[str, int]] = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000,
    "resource.k8s.io": 15900,
    "storagemigration.k8s.io": 15800,
}
"""The priorities of the built-in groups; the aggregator's own has no APIService."""

_VERSIONS: Final[Mapping[tuple[str, str], int]] = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
}
_STABLE, _BETA = 15, 9
_CUSTOM: Final = {"groupPriorityMinimum": 1000, "versionPriority": 100}


def add_local_services(objects: Objects, catalogue: Catalogue) -> None:
    """Store the APIServices of the built-in group versions."""
    for group, version in catalogue.group_versions():
        if group in _GROUPS:
            ripe = _STABLE if version.lstrip("v").isdecimal() else _BETA
            priorities = {
                "groupPriorityMinimum": _GROUPS[group],
                "versionPriority": _VERSIONS.get((group, version), ripe),
            }
            _add(objects, group, version, priorities, "onstart")


def sync_custom_services(objects: Objects, catalogue: Catalogue) -> None:
    """Store the APIServices of custom resources, and remove those of former ones."""
    collection = objects.storage.collection(API_SERVICES.resource)
    served = set()
    for group, version in catalogue.group_versions():
        kinds = catalogue.kinds(group, version) or ()
        if any(each.is_custom for each in kinds):
            served.add(f"{version}.{group}")
            _add(objects, group, version, _CUSTOM, "true")
    for stored in list(collection):
        metadata = stored.obj["metadata"]
        if metadata["name"] not in served and _is_custom(metadata):
            collection.remove(("", metadata["name"]))


def _is_custom(metadata: JSON) -> bool:
    label = "kube-aggregator.kubernetes.io/automanaged"
    return bool(metadata.get("labels", {}).get(label) == "true")


def _add(
    objects: Objects, group: str, version: str, priorities: JSON, managed: str
) -> None:
    name = f"{version}.{group}"
    if objects.has(API_SERVICES, "", name):
        return
    spec = {**({"group": group} if group else {}), "version": version, **priorities}
    obj = local_service(objects, name, spec, managed)
    obj["metadata"]["uid"] = fixed_uid(name)
    objects.put(API_SERVICES, ("", name), obj)
