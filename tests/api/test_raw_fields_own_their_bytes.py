"""An object that is cached does not keep the message that it came in.

A part that is kept as bytes is a view of the message at first. A page of a list may
have 500 objects, so one small object would keep megabytes.
"""

import importlib
import pkgutil
import sys
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
from msgspec import Raw, Struct
from msgspec.structs import fields

from controller_manager import api
from controller_manager.api.meta import Resource


def _all_resources() -> list[Resource[Any]]:
    """Return the resources of all modules of the package of types."""
    prefix = f"{api.__name__}."
    names = [each.name for each in pkgutil.walk_packages(api.__path__, prefix)]
    found = {
        (each.group, each.version, each.plural, each.type): each
        for name in names
        for each in vars(importlib.import_module(name)).values()
        if isinstance(each, Resource)
    }
    return list(found.values())


def _filled(declared: Any, depth: int = 0) -> Any:
    """Return a JSON value of a type in which each part that is kept as bytes is set.

    `None` for a value that has no such part.
    """
    if declared is Raw:
        return {"filler": "x" * 100}
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        inner = (_filled(each, depth) for each in arguments)
        return next((each for each in inner if each is not None), None)
    if origin is tuple:
        inner = _filled(arguments[0], depth)
        return None if inner is None else [inner]
    if origin is dict:
        inner = _filled(arguments[1], depth)
        return None if inner is None else {"a": inner}
    if isinstance(declared, type) and issubclass(declared, Struct) and depth < 12:
        parts = {
            each.encode_name: _filled(each.type, depth + 1) for each in fields(declared)
        }
        return {name: part for name, part in parts.items() if part is not None} or None
    return None


WITH_BYTES = [
    (each, body)
    for each in _all_resources()
    if (body := _filled(each.type)) is not None
]


def _name(given: object) -> str:
    return given.kind if isinstance(given, Resource) else ""


def test_there_are_types_that_keep_bytes() -> None:
    kinds = {each.kind for each, _ in WITH_BYTES}
    assert {"CronJob", "PodGroup", "StorageVersion", "Deployment", "Pod"} <= kinds
    assert "Node" not in kinds


@pytest.mark.parametrize(("resource", "body"), WITH_BYTES, ids=_name)
def test_the_message_is_released(resource: Resource[Any], body: Any) -> None:
    decoder = msgspec.json.Decoder(resource.type)
    message = msgspec.json.encode(body)
    before = sys.getrefcount(message)
    obj = decoder.decode(message)
    assert sys.getrefcount(message) == before, obj
