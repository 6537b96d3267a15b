"""The kind of the group apiregistration.k8s.io: group versions, and their servers.

The server's own group versions have APIServices too: for the built-in ones those of
pkg/controlplane/apiserver/aggregator.go, and for custom resources those of
pkg/controlplane/controller/crdregistration.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.kind import Catalogue, Kind
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

from .core.services import KIND as SERVICES
from .kinds import fixed_uid, kind_of, name_of

_LOCAL: Final = ("True", "Local", "Local APIServices are always available")
_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
UNREACHED: Final = "FailedDiscoveryCheck"
"""The reason of an APIService whose server does not answer."""

PASSED: Final = ("True", "Passed", "all checks passed")


def _named(service: JSON, _: str, __: JSON) -> Iterator[Cause]:
    name, spec = service["metadata"].get("name", ""), service["spec"]
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name != wanted:
        why = f'must be `spec.version+"."+spec.group`: "{wanted}"'
        yield invalid("metadata.name", shown(name), why)


def _no_bundle(bundle: str, field: str) -> list[Cause]:
    why = "local APIServices may not have a caBundle"
    return [invalid(field, shown(f"{len(bundle)} bytes"), why)]


def _availability_text(obj: JSON) -> str:
    condition = _available(obj) or {"status": "Unknown"}
    text = str(condition["status"])
    if text != "True" and condition.get("reason"):
        text = f"{text} ({condition['reason']})"
    return text


API_SERVICES: Final = kind_of(
    "apiregistration.k8s.io/v1/apiservices",
    check_name=validate_path_segment,  # the rules check the rest
    defaults={"spec": {"service": {"port": 443}}},
    rules="""
        hook named
        spec:
          group: required if version is-not v1
            "only v1 may have an empty group and it better be legacy kube"
          group: subdomain
          version: service-name default empty
          groupPriorityMinimum: range 1 20000
            "must be positive and less than 20000"
          versionPriority: range 1 1000 "must be positive and less than 1000"
          when has service:
            service:
              namespace, name: required
            when has caBundle:
              insecureSkipTLSVerify: invalid if insecureSkipTLSVerify is true
                "may not be true if caBundle is present"
          else:
            caBundle: no_bundle
            insecureSkipTLSVerify: invalid if insecureSkipTLSVerify is true
              "local APIServices may not have insecureSkipTLSVerify"
        """,
    status_rules="""
        status:
          conditions[]:
            status: enum True False Unknown default empty
        """,
    printer="""
        Name
        Service: {.spec.service.namespace}/{.spec.service.name} or Local
        Available: availability_text
        Age
        """,
)


# Availability


def set_condition(objects: Objects, obj: JSON, found: tuple[str, str, str]) -> None:
    """Store a condition Available, as status, reason and message, if it changes."""
    known = _available(obj) or {}
    if found == tuple(known.get(each, "") for each in ("status", "reason", "message")):
        return
    condition = _condition(found, format_time(objects.clock.now()))
    objects.put(
        API_SERVICES, ("", name_of(obj)), {**obj, "status": {"conditions": [condition]}}
    )


def _condition(found: tuple[str, str, str], now: str) -> JSON:
    status, reason, message = found
    return {
        "type": "Available",
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _available(obj: JSON) -> JSON | None:
    conditions = obj.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "Available"), None)


def _availability(
    objects: Objects, catalogue: Catalogue, spec: JSON
) -> tuple[str, str, str]:
    service = spec.get("service")
    if service is None:
        return _LOCAL
    group, version = spec.get("group", ""), spec.get("version", "")
    if catalogue.kinds(group, version) is not None:
        return PASSED
    namespace, name, port = service["namespace"], service["name"], service["port"]
    if not objects.has(SERVICES, namespace, name):
        message = f'service/{name} in "{namespace}" is not present'
        return "False", "ServiceNotFound", message
    address = f"https://{name}.{namespace}.svc:{port}/apis/{group}/{version}"
    message = (
        f"failing or missing response from {address}: the development cluster runs no "
        "containers, so it reaches no aggregated API server"
    )
    return "False", UNREACHED, message


def set_all_availabilities(_: Kind, objects: Objects, catalogue: Catalogue) -> None:
    """Tell which of the stored group versions are available now."""
    for stored in list(objects.storage.collection(API_SERVICES.resource)):
        found = _availability(objects, catalogue, stored.obj["spec"])
        known = _available(stored.obj) or {}
        if not found[1] == UNREACHED == known.get("reason"):
            set_condition(objects, stored.obj, found)
        # Otherwise the aggregator knows more about the reason.


REST_STORAGE: Final = RESTStorage(
    API_SERVICES.resource, after_request=set_all_availabilities
)

# The APIServices of the server's own group versions

PRIORITIES: Final = MappingProxyType(
    {
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
)
"""The priorities of groups with an APIService: discovery lists them in this order."""

_AFTER_CORE: Final = 17900


def priority(group: str) -> int:
    """Return the priority of a group; the aggregator's own comes after the core."""
    return PRIORITIES.get(group, _AFTER_CORE)


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
        is_custom = metadata.get("labels", {}).get(_MANAGED) == "true"
        if is_custom and metadata["name"] not in served:
            collection.remove(("", metadata["name"]))


def _add(
    objects: Objects, group: str, version: str, priorities: JSON, managed: str
) -> None:
    """Store the APIService of a group version that the API server serves itself.

    `managed` is the label's value: when the server creates a deleted APIService again.
    """
    name = f"{version}.{group}"
    if objects.has(API_SERVICES, "", name):
        return
    spec = {**({"group": group} if group else {}), "version": version, **priorities}
    now = format_time(objects.clock.now())
    metadata = {
        "name": name,
        "creationTimestamp": now,
        "labels": {_MANAGED: managed},
        "uid": fixed_uid(name),
    }
    status = {"conditions": [_condition(_LOCAL, now)]}
    obj = {"metadata": metadata, "spec": spec, "status": status}
    objects.put(API_SERVICES, ("", name), obj)
