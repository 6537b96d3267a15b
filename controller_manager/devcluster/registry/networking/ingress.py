"""Ingress: services for hosts and paths; the cluster has no ingress controller."""

from collections.abc import Sequence
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
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

from .ingress_validation import INGRESS, INGRESS_STATUS

_MOST_HOSTS: Final = 3
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


class IngressStrategy(Strategy):
    """Shows hosts, addresses and ports."""

    rules: ClassVar = INGRESS
    status_rules: ClassVar = INGRESS_STATUS
    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Class"),
        Column("Hosts"),
        Column("Address"),
        Column("Ports"),
        AGE,
    )

    def validate_new(self, obj: JSON) -> Sequence[Cause]:
        """Check that the older annotation names the same class as the spec."""
        annotations = obj["metadata"].get("annotations", {})
        named, wanted = annotations.get(_CLASS_ANNOTATION), obj["spec"]
        if named in (None, wanted.get("ingressClassName", named)):
            return ()
        why = "must match `ingressClassName` when both are specified"
        return (invalid(f"annotations.{_CLASS_ANNOTATION}", shown(named), why),)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        balanced = obj["status"]["loadBalancer"].get("ingress", ())
        addresses = {each.get("ip") or each.get("hostname", "") for each in balanced}
        return [
            name_of(obj),
            spec.get("ingressClassName", "<none>"),
            _hosts_text(spec.get("rules", ())),
            ",".join(sorted(filter(None, addresses))),
            "80, 443" if spec.get("tls") else "80",
            age(obj, now),
        ]


def _hosts_text(rules: Sequence[JSON]) -> str:
    """Return the hosts of the rules, at most three of them."""
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == _MOST_HOSTS:
            more = len(rules) - _MOST_HOSTS
            return f"{','.join(hosts)} + {more} more..."
        hosts += [rule["host"]] if rule.get("host") else []
    return ",".join(hosts) or "*"


KIND: Final = kind_of("networking.k8s.io/v1", "ingresses", IngressStrategy())
