"""The hooks of a strategy: each one has a kind that uses it."""

from collections.abc import Iterator

from controller_manager.devcluster.kinds import find_kinds
from controller_manager.devcluster.kinds.apiextensions.custom_resource_strategy import (
    CustomResourceStrategy,
)
from controller_manager.devcluster.server.rest.strategy import Strategy


def test_every_hook_of_a_strategy_is_overridden_by_a_kind() -> None:
    """A hook without a user is a rule that no kind follows."""
    built_in = {type(each.strategy) for each in find_kinds()}
    strategies: set[type[Strategy]] = {CustomResourceStrategy, *built_in}
    used = {name for strategy in strategies for name in _overridden(strategy)}
    hooks = {name for name in vars(Strategy) if not name.startswith("_")}
    assert hooks - used == set()


def _overridden(strategy: type[Strategy]) -> Iterator[str]:
    """Return the names that a strategy defines, by itself or by inheritance."""
    for each in strategy.__mro__:
        if each is Strategy:
            return
        yield from vars(each)
