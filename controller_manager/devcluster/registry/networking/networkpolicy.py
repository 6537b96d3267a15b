"""NetworkPolicy: the traffic that pods accept; the cluster does not enforce it."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of, selector_text

from .network_policy_validation import NETWORK_POLICY


class NetworkPolicyStrategy(Strategy):
    """Fills in the policy types."""

    new_rules: ClassVar = NETWORK_POLICY
    update_rules: ClassVar = NETWORK_POLICY
    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Pod-Selector"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the policy types and the protocols."""
        spec = obj.setdefault("spec", {})
        egress = ["Egress"] if "egress" in spec else []
        spec.setdefault("policyTypes", ["Ingress", *egress])
        for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), selector_text(obj["spec"]["podSelector"]), age(obj, now)]


KIND: Final = kind_of(
    "networking.k8s.io/v1", "networkpolicies", NetworkPolicyStrategy()
)
