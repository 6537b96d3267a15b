"""The fields of new objects: all changes against an empty object."""

import random

import pytest

from controller_manager.devcluster.apiserver.field_set import compare, fields_of_new
from controller_manager.devcluster.apiserver.field_type import DEDUCED, type_of_model
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.scheme.models import built_in
from tests.devcluster.scheme.objects import Objects

MODELS = sorted({each.type_name for each in find_kinds() if each.type_name})


@pytest.mark.parametrize("seed", range(5))
def test_fields_of_a_new_object_are_the_changes_against_an_empty_one(seed: int) -> None:
    objects = Objects(built_in(), random.Random(seed))
    found, wanted = {}, {}
    for name in MODELS:
        obj, type_ = objects.of(name), type_of_model(name)
        found[name] = fields_of_new(obj, type_)
        wanted[name] = compare({}, obj, type_).changed
    assert found == wanted


@pytest.mark.parametrize("value", [None, "", 0, {}, [], {"a": None, "b": {}}, [1]])
def test_fields_of_a_new_object_may_have_any_values(value: object) -> None:
    obj = {"spec": value, "status": value, "metadata": {"labels": value}}
    for type_ in (DEDUCED, type_of_model("io.k8s.api.core.v1.Pod")):
        assert fields_of_new(obj, type_) == compare({}, obj, type_).changed
