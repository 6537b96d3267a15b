"""IPAddress: an address of a service that is in use; its name is the address."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.names import (
    validate_path_segment,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    qualified,
    required,
    shown,
)
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import validate_unchanged
from controller_manager.devcluster.validation.ip_addresses import parse_address


class IPAddressStrategy(Strategy):
    """Refers to the object that uses the address; the reference is immutable."""

    columns: ClassVar = (NAME, Column("ParentRef"), AGE)

    def validate_name(self, name: str) -> list[Cause]:
        """Check that the name is an address in canonical form."""
        address = parse_address(name)
        if address is not None and str(address) == name:
            return []
        detail = "must be a canonical form IP address"
        return [invalid("metadata.name", shown(name), detail)]

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the reference."""
        parent = obj["spec"].get("parentRef")
        if parent is None:
            return (required("spec.parentRef"),)
        field = "spec.parentRef"
        causes = []
        if group := parent.get("group"):
            causes += validate_subdomain(group, f"{field}.group")
        for name in ("resource", "name"):
            if value := parent.get(name):
                causes += validate_path_segment(value, f"{field}.{name}")
            else:
                causes.append(required(f"{field}.{name}"))
        if namespace := parent.get("namespace"):
            causes += validate_path_segment(namespace, f"{field}.namespace")
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the reference is the same."""
        return validate_unchanged(old["spec"], new["spec"], "spec", "parentRef")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        parent = obj["spec"].get("parentRef")
        return [name_of(obj), _parent_text(parent) if parent else NONE, age(obj, now)]


def _parent_text(parent: JSON) -> str:
    resource = qualified(parent.get("group", ""), parent["resource"]).lower()
    parts = (resource, parent.get("namespace"), parent["name"])
    return "/".join(each for each in parts if each)


KIND: Final = kind_of("networking.k8s.io/v1", "ipaddresses", IPAddressStrategy())


def keep_used_address(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Create the address again if it was deleted while a service has it.

    Upstream's repair loop does the same within some minutes. Otherwise a second
    service could get the address.
    """
    if new is not None or old is None:
        return
    metadata, parent = old["metadata"], old["spec"]["parentRef"]
    key = (parent.get("namespace", ""), parent["name"])
    service = objects.storage.collection(parent["resource"]).get(key)
    spec = service.obj.get("spec", {}) if service else {}
    used = spec.get("clusterIPs", ())
    if metadata["name"] in used:
        labels = metadata.get("labels", {})
        kept = {"name": metadata["name"], "labels": labels}
        objects.create(KIND, "", {"metadata": kept, "spec": old["spec"]})


REST_STORAGE: Final = RESTStorage(KIND.resource, after_write=keep_used_address)
