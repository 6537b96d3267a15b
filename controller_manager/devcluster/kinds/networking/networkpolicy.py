"""NetworkPolicy: which traffic pods accept; nothing here enforces it."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of, selector_text
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class NetworkPolicyStrategy(Strategy):
    """Fills in the policy types."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Pod-Selector"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the selector, the policy types and the protocols."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        egress = ["Egress"] if "egress" in spec else []
        spec.setdefault("policyTypes", ["Ingress", *egress])
        for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), selector_text(obj["spec"]["podSelector"]), age(obj, now)]


KIND: Final = Kind(
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies",
    model="V1NetworkPolicy",
    short_names=("netpol",),
    strategy=NetworkPolicyStrategy(),
)
