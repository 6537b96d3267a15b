"""Each model has the field types that its schema states."""

import pytest

from controller_manager.devcluster.apiserver.field_type import (
    DEDUCED,
    UNTYPED,
    FieldType,
    type_of_model,
)
from controller_manager.devcluster.scheme.models import Field, Type, built_in
from tests.devcluster.scheme.packages import models_by_package

MODELS = built_in()
PACKAGES = models_by_package(each for each in MODELS if MODELS.model(each).fields)
CORE = "io.k8s.api.core.v1"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"


def shown(type_: FieldType) -> str:
    """Return a type as one word: a scalar, or how a list or map is merged."""
    if type_ is DEDUCED:
        return "deduced"
    if type_.list:
        if type_.list.is_atomic:
            return "list atomic"
        return f"list {' '.join(type_.list.keys) or 'set'}"
    if type_.map:
        return "map atomic" if type_.map.is_atomic else "map granular"
    return str(type_.scalar)


def stated(field: Type) -> str:
    """Return the same for what the schema states about a field."""
    map_type = field.map_type if isinstance(field, Field) else ""
    if field.ref:
        model = MODELS.model(field.ref)
        if model.fields:
            return f"map {map_type or model.map_type or 'granular'}"
        return "untyped" if model.type == "string" else "deduced"
    if field.items:
        list_type = field.list_type if isinstance(field, Field) else ""
        if list_type == "map" and isinstance(field, Field):
            return f"list {' '.join(sorted(field.list_map_keys))}"
        return f"list {list_type or 'atomic'}"
    if field.values:
        return f"map {map_type or 'granular'}"
    return {"integer": "numeric", "number": "numeric"}.get(field.type, field.type)


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_fields_are_merged_as_the_schema_states(package: str) -> None:
    for name in PACKAGES[package]:
        map_ = type_of_model(name).map
        assert map_ is not None, name
        found = {each: shown(type_) for each, type_ in map_.fields.items()}
        fields = MODELS.model(name).fields
        assert found == {each: stated(field) for each, field in fields.items()}, name
        items = {
            each: shown(type_.list.items)
            for each, type_ in map_.fields.items()
            if type_.list and type_ is not DEDUCED
        }
        wanted = {
            each: stated(field.items) for each, field in fields.items() if field.items
        }
        assert items == wanted, name
        is_atomic = MODELS.model(name).map_type == "atomic"
        assert (map_.others, map_.is_atomic) == (None, is_atomic), name


def test_scalars_have_the_types_of_structured_merge() -> None:
    """A time is not checked; a quantity and a number or text may have any form."""
    found = {
        f"{model}.{field}": shown(fields.fields[field])
        for model, field in (
            (f"{META}.ObjectMeta", "creationTimestamp"),
            (f"{META}.ObjectMeta", "finalizers"),
            (f"{CORE}.PersistentVolumeSpec", "claimRef"),
            (f"{CORE}.ServicePort", "targetPort"),
            (f"{CORE}.ServicePort", "port"),
            (f"{CORE}.ServiceSpec", "selector"),
        )
        if (fields := type_of_model(model).map)
    }
    assert found == {
        f"{META}.ObjectMeta.creationTimestamp": "untyped",
        f"{META}.ObjectMeta.finalizers": "list set",
        f"{CORE}.PersistentVolumeSpec.claimRef": "map granular",
        f"{CORE}.ServicePort.targetPort": "deduced",
        f"{CORE}.ServicePort.port": "numeric",
        f"{CORE}.ServiceSpec.selector": "map atomic",
    }
    assert type_of_model(f"{META}.Time") is UNTYPED


def test_keys_with_defaults_may_be_absent() -> None:
    """The protocol of a port; Go writes structs that are no pointers when empty."""
    spec, pod = type_of_model(f"{CORE}.ServiceSpec").map, type_of_model(f"{CORE}.Pod")
    assert spec is not None
    assert pod.map is not None
    ports = spec.fields["ports"].list
    assert ports is not None
    assert ports.defaults == {"protocol": "TCP"}
    assert pod.map.always == {"metadata", "spec", "status"}
    container = type_of_model(f"{CORE}.PodSpec").map
    assert container is not None
    assert container.always == {"containers"}
