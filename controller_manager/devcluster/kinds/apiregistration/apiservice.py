"""APIService: a group version, and the server that serves it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.service.strategy import KIND as SERVICES
from controller_manager.devcluster.scheme.names import (
    service_name_problems,
    validate_path_segment,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.kind import Catalogue, Kind
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

_PORT: Final = 443
_MOST_OF_GROUP: Final = 20_000
_MOST_OF_VERSION: Final = 1_000
_STATUSES: Final = ("True", "False", "Unknown")
_CORE_ONLY: Final = "only v1 may have an empty group and it better be legacy kube"
_LOCAL: Final = ("True", "Local", "Local APIServices are always available")
UNREACHED: Final = "FailedDiscoveryCheck"
"""The reason of an APIService whose server does not answer."""

PASSED: Final = ("True", "Passed", "all checks passed")


class APIServiceStrategy(Strategy):
    """Tells whether a group version is available (kube-aggregator)."""

    columns: ClassVar = (NAME, Column("Service"), Column("Available"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the port."""
        if service := obj.get("spec", {}).get("service"):
            service.setdefault("port", _PORT)

    def validate_name(self, name: str) -> list[Cause]:
        """Check that the name can be part of a path; `validate` checks the rest."""
        return validate_path_segment(name, "metadata.name")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the name, which follows from the spec, and the spec."""
        return list(_validate(obj["metadata"].get("name", ""), obj["spec"]))

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the statuses of the conditions."""
        return [
            not_supported(
                f"status.conditions[{number}].status", shown(value), _STATUSES
            )
            for number, each in enumerate(obj["status"].get("conditions") or ())
            if (value := each.get("status", "")) not in _STATUSES
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        service, text = obj["spec"].get("service"), "Unknown"
        place = f"{service['namespace']}/{service['name']}" if service else "Local"
        if condition := _available(obj):
            text = condition["status"]
            if text != "True" and condition.get("reason"):
                text = f"{text} ({condition['reason']})"
        return [name_of(obj), place, text, age(obj, now)]


def local_service(objects: Objects, name: str, spec: JSON, managed: str) -> JSON:
    """Return the APIService of a group version that the API server serves itself.

    `managed` is the label's value: when the server creates a deleted APIService again.
    """
    labels = {"kube-aggregator.kubernetes.io/automanaged": managed}
    now = format_time(objects.clock.now())
    metadata = {"name": name, "creationTimestamp": now, "labels": labels}
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"conditions": [_condition(_LOCAL, now)]},
    }


def set_availability(objects: Objects, catalogue: Catalogue, obj: JSON) -> None:
    """Store the condition Available of an APIService, if it has changed."""
    found = _availability(objects, catalogue, obj["spec"])
    known = _available(obj) or {}
    if found[1] == UNREACHED == known.get("reason"):
        return  # the aggregator knows more about the reason
    set_condition(objects, obj, found)


def set_condition(objects: Objects, obj: JSON, found: tuple[str, str, str]) -> None:
    """Store a condition Available, as status, reason and message, if it changes."""
    known = _available(obj) or {}
    if found == tuple(known.get(each, "") for each in ("status", "reason", "message")):
        return
    condition = _condition(found, format_time(objects.clock.now()))
    objects.put(
        KIND, ("", name_of(obj)), {**obj, "status": {"conditions": [condition]}}
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
    """Return the status, the reason and the message of the condition."""
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


def _validate(name: str, spec: JSON) -> Iterator[Cause]:
    group, version = spec.get("group", ""), spec.get("version", "")
    if name != (wanted := f"{version}.{group}"):
        why = f'must be `spec.version+"."+spec.group`: "{wanted}"'
        yield invalid("metadata.name", shown(name), why)
    if not group and version != "v1":
        yield required("spec.group", _CORE_ONLY)
    if group:
        yield from validate_subdomain(group, "spec.group")
    for problem in service_name_problems(version):
        yield invalid("spec.version", shown(version), problem)
    for field, most in (
        ("groupPriorityMinimum", _MOST_OF_GROUP),
        ("versionPriority", _MOST_OF_VERSION),
    ):
        if not 0 < spec[field] <= most:
            why = f"must be positive and less than {most}"
            yield invalid(f"spec.{field}", shown(spec[field]), why)
    if (service := spec.get("service")) is None:
        yield from _validate_local(spec)
    else:
        yield from _validate_remote(service, spec)


def _validate_local(spec: JSON) -> Iterator[Cause]:
    if bundle := spec.get("caBundle"):
        why = "local APIServices may not have a caBundle"
        yield invalid("spec.caBundle", shown(f"{len(bundle)} bytes"), why)
    if spec.get("insecureSkipTLSVerify"):
        why = "local APIServices may not have insecureSkipTLSVerify"
        yield invalid("spec.insecureSkipTLSVerify", "true", why)


def _validate_remote(service: JSON, spec: JSON) -> Iterator[Cause]:
    for field in ("namespace", "name"):
        if not service.get(field):
            yield required(f"spec.service.{field}")
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        why = "may not be true if caBundle is present"
        yield invalid("spec.insecureSkipTLSVerify", "true", why)


KIND: Final = kind_of("apiregistration.k8s.io/v1", "apiservices", APIServiceStrategy())


def set_all_availabilities(_: Kind, objects: Objects, catalogue: Catalogue) -> None:
    """Tell which of the stored group versions are available now."""
    for stored in list(objects.storage.collection(KIND.resource)):
        set_availability(objects, catalogue, stored.obj)


REST_STORAGE: Final = RESTStorage(KIND.resource, after_request=set_all_availabilities)
