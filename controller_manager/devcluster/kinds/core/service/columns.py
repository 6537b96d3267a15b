"""The columns of services (printService in pkg/printers)."""

from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.columns import SELECTOR, name_of
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)

from .fields import EXTERNAL_NAME

SERVICE_COLUMNS: Final = (
    NAME,
    Column("Type"),
    Column("Cluster-IP"),
    Column("External-IP"),
    Column("Port(s)"),
    AGE,
    SELECTOR,
)


def service_cells(obj: JSON, now: datetime) -> Cells:
    """Return the row of a service."""
    spec = obj["spec"]
    selector = spec.get("selector", {})
    return [
        name_of(obj),
        spec["type"],
        next(iter(spec.get("clusterIPs", ())), NONE),
        _external(obj),
        ",".join(map(_port_text, spec.get("ports", ()))) or NONE,
        age(obj, now),
        ",".join(f"{name}={selector[name]}" for name in sorted(selector)) or NONE,
    ]


def _external(obj: JSON) -> str:
    """Return the external addresses of a service."""
    spec = obj["spec"]
    if spec["type"] == EXTERNAL_NAME:
        return str(spec["externalName"])
    addresses = list(spec.get("externalIPs", ()))
    if spec["type"] != "LoadBalancer":
        return ",".join(addresses) or NONE
    balanced = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    found = {each.get("ip") or each.get("hostname", "") for each in balanced}
    return ",".join([*sorted(filter(None, found)), *addresses]) or "<pending>"


def _port_text(port: JSON) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"
