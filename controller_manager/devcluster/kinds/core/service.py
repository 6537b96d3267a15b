"""Service: one address for the pods that it selects."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import SELECTOR, name_of, selector_text
from controller_manager.devcluster.kinds.proxy import proxy_of
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.names import validate_service_name
from controller_manager.devcluster.server.statuses import Cause, required
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)

JSON = dict[str, Any]


class ServiceStrategy(Strategy):
    """Gives each service an address of its own."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Type"),
        Column("Cluster-IP"),
        Column("External-IP"),
        Column("Port(s)"),
        AGE,
        SELECTOR,
    )
    messages: ClassVar = {
        "Service": {
            1: "metadata:ObjectMeta",
            2: "spec:ServiceSpec",
            3: "status:ServiceStatus",
        },
        "ServiceSpec": {
            1: "ports:[]ServicePort",
            2: "selector:{}str",
            3: "clusterIP:str",
            4: "type:str",
            5: "externalIPs:[]str",
            7: "sessionAffinity:str",
            8: "loadBalancerIP:str",
            10: "externalName:str",
            11: "externalTrafficPolicy:str",
            12: "healthCheckNodePort:int",
            13: "publishNotReadyAddresses:bool",
            17: "ipFamilyPolicy:str",
            18: "clusterIPs:[]str",
            19: "ipFamilies:[]str",
            22: "internalTrafficPolicy:str",
        },
        "ServicePort": {
            1: "name:str",
            2: "protocol:str",
            3: "port:int",
            4: "targetPort:IntOrString",
            5: "nodePort:int",
            6: "appProtocol:str",
        },
        "ServiceStatus": {1: "loadBalancer:LoadBalancerStatus"},
        "LoadBalancerStatus": {},
    }

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in type, ports and IP families."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        obj.setdefault("status", {}).setdefault("loadBalancer", {})

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Assign the next address, unless one is given or the service is headless."""
        spec = obj["spec"]
        if spec["type"] != "ExternalName" and "clusterIP" not in spec:
            number = storage.next_number("addresses of services")
            spec["clusterIP"] = f"10.96.{number // 250}.{number % 250 + 1}"
            spec["clusterIPs"] = [spec["clusterIP"]]

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new service."""
        return validate_service_name(name, "metadata.name")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check that a service with an address has ports."""
        spec = obj["spec"]
        has_address = spec.get("clusterIP") != "None"
        if spec.get("type") != "ExternalName" and has_address and not spec.get("ports"):
            return (required("spec.ports"),)
        return ()

    def label_selector(self, obj: JSON) -> JSON | None:
        """Return the LabelSelector of the service's pods."""
        selector = obj["spec"].get("selector")
        return {"matchLabels": selector} if selector else None

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        ports = ",".join(
            f"{each.get('port')}/{each.get('protocol')}"
            for each in spec.get("ports", [])
        )
        return [
            name_of(obj),
            spec.get("type", ""),
            spec.get("clusterIP") or NONE,
            NONE,
            ports or NONE,
            age(obj, now),
            selector_text(self.label_selector(obj)),
        ]


KIND: Final = Kind(
    "",
    "v1",
    "Service",
    "services",
    model="V1Service",
    short_names=("svc",),
    categories=("all",),
    subresources=(proxy_of("ServiceProxyOptions"), status_of("Service")),
    strategy=ServiceStrategy(),
)
