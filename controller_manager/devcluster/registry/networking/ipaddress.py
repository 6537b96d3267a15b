"""IPAddress: an address of a service that is in use; its name is the address."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    qualified,
    shown,
)
from controller_manager.devcluster.validation.ip_addresses import parse_address
from controller_manager.devcluster.validation.text import table

_ADDRESS: Final = table(
    """
    spec:
      parentRef: required pointer
      parentRef:
        group: subdomain
        resource: required
        resource: path-segment
        name: required
        name: path-segment
        namespace: path-segment
    """
)
_UPDATE: Final = table(
    """
    spec change:
      parentRef: immutable
    """
)


class IPAddressStrategy(Strategy):
    """Refers to the object that uses the address; the reference is immutable."""

    rules: ClassVar = _ADDRESS
    update_rules: ClassVar = _UPDATE
    columns: ClassVar = (NAME, Column("ParentRef"), AGE)

    def validate_name(self, name: str) -> list[Cause]:
        """Check that the name is an address in canonical form."""
        address = parse_address(name)
        if address is not None and str(address) == name:
            return []
        detail = "must be a canonical form IP address"
        return [invalid("metadata.name", shown(name), detail)]

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
