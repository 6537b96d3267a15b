"""IngressClass: names a controller of ingresses; the cluster has none."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_path_segment,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    not_supported,
    required,
    shown,
    too_long,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.domain_paths import (
    validate_domain_prefixed_path,
)
from controller_manager.devcluster.validation.field_values import validate_unchanged

_LONGEST_CONTROLLER: Final = 250
_SCOPES: Final = ("Cluster", "Namespace")
_FIELD: Final = "spec.parameters"


class IngressClassStrategy(Strategy):
    """The controller is immutable (pkg/apis/networking/validation)."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Controller"), Column("Parameters"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in an empty spec, and the scope of the parameters."""
        spec = obj.setdefault("spec", {})
        if "parameters" in spec:
            spec["parameters"].setdefault("scope", "Cluster")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the controller and the parameters."""
        spec, field = obj["spec"], "spec.controller"
        controller, causes = spec.get("controller", ""), []
        if not controller:
            causes.append(required(field))
        else:
            if len(controller) > _LONGEST_CONTROLLER:
                causes.append(too_long(field, _LONGEST_CONTROLLER))
            causes += validate_domain_prefixed_path(controller, field)
        if "parameters" in spec:
            causes += [
                *validate_typed_reference(spec["parameters"], _FIELD),
                *_validate_scope(spec["parameters"]),
            ]
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the controller is the same."""
        return validate_unchanged(old["spec"], new["spec"], "spec", "controller")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, text = obj["spec"], NONE
        if parameters := spec.get("parameters"):
            group = parameters.get("apiGroup")
            kind = parameters.get("kind", "")
            kind = f"{kind}.{group}" if group else kind
            text = f"{kind}/{parameters.get('name', '')}"
        return [name_of(obj), spec.get("controller", ""), text, age(obj, now)]


def validate_typed_reference(reference: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors in the group, the kind and the name of a reference."""
    if (group := reference.get("apiGroup")) is not None:
        yield from validate_subdomain(group, f"{field}.apiGroup")
    for name in ("kind", "name"):
        if value := reference.get(name):
            yield from validate_path_segment(value, f"{field}.{name}")
        else:
            yield required(f"{field}.{name}")


def _validate_scope(parameters: JSON) -> Iterator[Cause]:
    scope, namespace = parameters["scope"], parameters.get("namespace")
    field = f"{_FIELD}.namespace"
    if scope not in _SCOPES:
        yield not_supported(f"{_FIELD}.scope", shown(scope), _SCOPES)
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden_field(field, "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        yield required(field, "`parameters.scope` is set to 'Namespace'")
    else:
        yield from validate_label(namespace, field)


KIND: Final = kind_of("networking.k8s.io/v1", "ingressclasses", IngressClassStrategy())
