"""Strategies and REST storages: each hook and each handler has a kind that uses it."""

from collections.abc import Iterator

from controller_manager.devcluster.apiserver.objects import CUSTOM_RESOURCES
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.registry import find_kinds, find_storages
from controller_manager.devcluster.registry.apiextensions import custom_resources


def test_every_hook_of_a_strategy_is_overridden_or_declared_by_a_kind() -> None:
    built_in = [
        strategy
        for kind in find_kinds()
        for strategy in (kind.strategy, *(each for _, each in kind.gated))
    ]
    strategies = {custom_resources.CustomResourceStrategy, *map(type, built_in)}
    used = {name for strategy in strategies for name in _overridden(strategy)}
    used |= {fact for strategy in built_in for fact in vars(strategy)}
    used |= {
        "validate",
        "validate_name",
        "validate_status",
        "with_facts",
    }  # they read facts
    hooks = {name for name in vars(Strategy) if not name.startswith("_")}
    assert hooks - used == set()


def test_every_handler_belongs_to_a_resource_or_a_subresource_of_a_kind() -> None:
    storages = find_storages()
    served = {each.resource: each for each in find_kinds()}
    resources = [each.resource for each in storages]
    assert sorted({*resources} - {*served}) == [CUSTOM_RESOURCES]
    assert len(resources) == len({*resources})
    lost = [
        (each.resource, name)
        for each in storages
        for name in each.connect
        if served[each.resource].subresource(name) is None
    ]
    assert lost == []


def _overridden(strategy: type[Strategy]) -> Iterator[str]:
    """Return the names that a strategy defines, by itself or by inheritance."""
    for each in strategy.__mro__:
        if each is Strategy:
            return
        yield from vars(each)
