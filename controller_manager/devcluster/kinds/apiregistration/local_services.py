"""The APIServices of the group versions that the API server serves itself.

Upstream: pkg/controlplane/apiserver/aggregator.go, and for custom resources
pkg/controlplane/controller/crdregistration.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.fixed_uids import fixed_uid
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.kind import Catalogue

from .apiservice import KIND as API_SERVICES
from .apiservice import local_service
from .group_priorities import PRIORITIES

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
        if group in PRIORITIES:
            ripe = _STABLE if version.lstrip("v").isdecimal() else _BETA
            priorities = {
                "groupPriorityMinimum": PRIORITIES[group],
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
