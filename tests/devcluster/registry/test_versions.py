"""Versions that differ in nothing are declared once."""

import pytest

from controller_manager.devcluster.apiserver.kind import Kind, in_version, to_stored
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.storage import Stored

MODELS = built_in()


def shape(name: str, around: tuple[str, ...] = ()) -> object:
    """Return the fields of a model and of the models inside it, without versions."""
    if name in around:
        return name.rpartition(".")[2]
    return {
        field_name: (
            (field.type, field.format, field.list_type, field.list_map_keys),
            *(
                shape(of.ref, (*around, name)) if of.ref else of.type
                for of in (field, field.items, field.values)
                if of is not None
            ),
        )
        for field_name, field in MODELS.model(name).fields.items()
    }


OTHERS = [
    (kind, each)
    for kind in find_kinds()
    for each in kind.versions()
    if kind.other_versions and each is not kind
]


@pytest.mark.parametrize(("stored", "other"), OTHERS)
def test_other_versions_have_the_same_fields(stored: Kind, other: Kind) -> None:
    """So a conversion changes the version only, and loses nothing."""
    assert stored.type_name is not None
    assert other.type_name is not None
    assert stored.type_name != other.type_name
    assert shape(stored.type_name) == shape(other.type_name)
    given = {"apiVersion": other.api_version, "kind": other.kind, "spec": {"a": 1}}
    kept = to_stored(other, given)
    assert kept == {**given, "apiVersion": stored.api_version}
    assert in_version(other, Stored(kept, 1)).obj == given


def test_a_kind_of_two_equal_versions_is_served_in_both() -> None:
    older, stored = sorted(
        (each for each in find_kinds() if each.plural == "devicetaintrules"),
        key=lambda kind: kind.version,
    )
    assert (older.version, stored.version) == ("v1alpha3", "v1beta2")
    assert older.stored is stored.stored is stored
    assert older.strategy is stored.strategy
    assert older.subresources == stored.subresources
