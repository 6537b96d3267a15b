"""Merges configurations into objects, and removes fields from objects."""

from typing import Any

from controller_manager.api.json_objects import JSON

from .field_set import FieldSet, is_member
from .field_type import FieldType, ListType, NoKeyError, indexed


def merged(current: JSON, config: JSON, type_: FieldType) -> JSON:
    """Return an object to which a configuration is applied (Merge)."""
    result: JSON = _merged(current, config, type_)
    return result


def _merged(current: Any, config: Any, type_: FieldType) -> Any:
    if isinstance(current, dict) and (map_ := type_.map_of(config)):
        result = dict(current)
        for name, each in config.items():
            known = result.get(name)
            merges = isinstance(each, dict | list) and known is not None
            result[name] = _merged(known, each, map_.of(name)) if merges else each
        return result
    if isinstance(current, list) and (list_ := type_.list_of(config)):
        return _merged_items(current, config, list_)
    return config


def _merged_items(current: list[Any], config: list[Any], type_: ListType) -> list[Any]:
    """Merge the items of a list by their keys.

    Items of both follow the order of the configuration, and items of the object alone
    keep their place between them.
    """
    known, wanted = indexed(current, type_), indexed(config, type_)
    shared = [step for step in wanted if step in known]
    left, right, result = list(known), list(wanted), []
    while left or right:
        if left and right and left[0] == right[0]:
            shared = shared[1:]
            left.pop(0)
        elif left and right and left[0] in wanted and left[0] not in shared[:1]:
            left.pop(0)  # The item stands at its position in the configuration.
            continue
        elif left and left[0] not in wanted:
            result += known[left.pop(0)]
            continue
        elif not right:
            left.pop(0)
            continue
        step = right.pop(0)
        shared = shared[1:] if shared[:1] == [step] else shared
        item, before = wanted[step][-1], known.get(step, [])
        # Items with the same key are not merged: they are replaced.
        is_one = len(before) == 1
        result.append(_merged(before[0], item, type_.items) if is_one else item)
    return result


def without(value: JSON, fields: FieldSet, type_: FieldType) -> JSON:
    """Return an object without these fields (RemoveItems).

    A map or list that becomes empty is removed, too.
    """
    result: JSON = _without(value, fields, type_) or {}
    return result


def _without(value: Any, fields: FieldSet, type_: FieldType) -> Any:
    if map_ := type_.map_of(value):
        found: JSON = {}
        for name, each in value.items():
            node = fields.get(f"f:{name}")
            if node is None:
                found[name] = each
            elif not is_member(node):
                inner = _without(each, node, map_.of(name))
                if inner is not None:
                    found[name] = inner
        return found or None
    if list_ := type_.list_of(value):
        return _without_items(value, fields, list_) or None
    return value


def _without_items(items: list[Any], fields: FieldSet, type_: ListType) -> list[Any]:
    found = []
    for item in items:
        try:
            node = fields.get(type_.step(item))
        except NoKeyError:
            node = None
        if node is None:
            found.append(item)
        elif not is_member(node):
            found.append(_without(item, node, type_.items))
    return found
