"""Service: one address for the pods that it selects; nothing here proxies to them."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.core.endpoints import KIND as ENDPOINTS
from controller_manager.devcluster.scheme.names import validate_service_name
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.rest.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.rest.tables import Cells
from controller_manager.devcluster.server.storage import Storage

from .allocation import allocate_for, sync_addresses
from .columns import SERVICE_COLUMNS, service_cells
from .fields import EXTERNAL_NAME, is_externally_accessible
from .update import drop_unneeded, keep_allocated, sync_cluster_ips
from .validation import SERVICE, SERVICE_UPDATE

_AFFINITY_SECONDS: Final = 10800


class ServiceStrategy(Strategy):
    """Gives each service addresses and node ports of its own."""

    returns_deleted: ClassVar = True
    columns: ClassVar = SERVICE_COLUMNS
    rules: ClassVar = SERVICE
    update_rules: ClassVar = SERVICE_UPDATE
    selectable_fields: ClassVar = fields_by_path("spec.clusterIP", "spec.type")

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the type, the ports and the policies."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif not spec.get("sessionAffinityConfig", {}).get("clientIP"):
            seconds = {"timeoutSeconds": _AFFINITY_SECONDS}
            spec["sessionAffinityConfig"] = {"clientIP": seconds}
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if is_externally_accessible(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] != EXTERNAL_NAME:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        balancer = obj.setdefault("status", {}).setdefault("loadBalancer", {})
        for ingress in balancer.get("ingress", ()):
            if spec["type"] == "LoadBalancer" and "ip" in ingress:
                ingress.setdefault("ipMode", "VIP")

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Assign addresses and node ports; raises Refusal."""
        sync_cluster_ips(obj["spec"])
        allocate_for(obj, None, storage)

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Keep allocated values, and drop fields that the new type does not use."""
        spec = new.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        keep_allocated(old["spec"], spec)
        sync_cluster_ips(spec, old["spec"])
        drop_unneeded(old["spec"], spec)
        if spec["type"] != "LoadBalancer":
            new["status"] = {**new.get("status", {}), "loadBalancer": {}}

    def assign(self, old: JSON, new: JSON, storage: Storage) -> None:
        """Assign the addresses and node ports that an update needs; raises Refusal."""
        allocate_for(new, old, storage)

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new service."""
        return validate_service_name(name, "metadata.name")

    def label_selector(self, obj: JSON) -> JSON | None:
        """Return the LabelSelector of the service's pods."""
        selector = obj["spec"].get("selector")
        return {"matchLabels": selector} if selector else None

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return service_cells(obj, now)


KIND: Final = kind_of("v1", "services", ServiceStrategy())


def sync_dependents(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Keep the IPAddresses; delete the Endpoints of a deleted service.

    Otherwise a new service of the same name gets the old endpoints.
    """
    sync_addresses(objects, old, new)
    if new is None and old is not None:
        metadata = old["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if objects.storage.collection(ENDPOINTS.resource).get(key) is not None:
            objects.delete(ENDPOINTS, *key, Deletion())


REST_STORAGE: Final = RESTStorage(KIND.resource, after_write=sync_dependents)
