"""IngressClass: names a controller of ingresses; the cluster has none."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
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
from controller_manager.devcluster.validation.text import table

TYPED_REFERENCE: Final = table(
    """
    apiGroup: subdomain pointer
    kind: required
    kind: path-segment
    name: required
    name: path-segment
    """
)
"""The group, the kind and the name of an object."""

_CLASS: Final = table(
    """
    spec:
      controller: required
      controller: longest 250
      controller: domain-path
      parameters:
        include TYPED_REFERENCE
        scope: enum Cluster Namespace
        when scope is Cluster:
          namespace: forbidden "`parameters.scope` is set to 'Cluster'"
        when scope is Namespace:
          namespace: required pointer "`parameters.scope` is set to 'Namespace'"
          namespace: label pointer
    """,
    TYPED_REFERENCE=TYPED_REFERENCE,
)
_UPDATE: Final = table(
    """
    spec change:
      controller: immutable
    """
)


class IngressClassStrategy(Strategy):
    """The controller is immutable (pkg/apis/networking/validation)."""

    rules: ClassVar = _CLASS
    update_rules: ClassVar = _UPDATE
    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Controller"), Column("Parameters"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in an empty spec, and the scope of the parameters."""
        spec = obj.setdefault("spec", {})
        if "parameters" in spec:
            spec["parameters"].setdefault("scope", "Cluster")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, text = obj["spec"], NONE
        if parameters := spec.get("parameters"):
            group = parameters.get("apiGroup")
            kind = parameters.get("kind", "")
            kind = f"{kind}.{group}" if group else kind
            text = f"{kind}/{parameters.get('name', '')}"
        return [name_of(obj), spec.get("controller", ""), text, age(obj, now)]


KIND: Final = kind_of("networking.k8s.io/v1", "ingressclasses", IngressClassStrategy())
