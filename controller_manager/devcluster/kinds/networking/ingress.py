"""Ingress: which hosts and paths lead to which services; nothing here serves it."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class IngressStrategy(Strategy):
    """Shows hosts, addresses and ports."""

    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Class"),
        Column("Hosts"),
        Column("Address"),
        Column("Ports"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in an empty spec, and the status that Go always shows."""
        obj.setdefault("spec", {})
        obj.setdefault("status", {}).setdefault("loadBalancer", {})

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        hosts = [each["host"] for each in spec.get("rules", ()) if each.get("host")]
        balanced = obj["status"]["loadBalancer"].get("ingress", ())
        addresses = [each.get("ip") or each.get("hostname", "") for each in balanced]
        return [
            name_of(obj),
            spec.get("ingressClassName", "<none>"),
            ",".join(hosts) or "*",
            ",".join(addresses),
            "80, 443" if spec.get("tls") else "80",
            age(obj, now),
        ]


KIND: Final = Kind(
    "networking.k8s.io",
    "v1",
    "Ingress",
    "ingresses",
    model="V1Ingress",
    short_names=("ing",),
    subresources=(status_of("Ingress"),),
    strategy=IngressStrategy(),
)
