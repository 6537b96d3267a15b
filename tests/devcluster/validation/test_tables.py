"""The tables of rules of all kinds: they compile, and name fields of the schema."""

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Final

import pytest

from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import kinds_with
from controller_manager.devcluster.scheme.models import Type, built_in
from controller_manager.devcluster.validation.rules import Rule
from tests.client.leadership.elections import COORDINATED

KINDS: Final = [
    each
    for each in kinds_with(COORDINATED)
    if each.type_name and each.stored is each  # rules see the stored version
]
TABLES: Final = (
    "rules",
    "new_rules",
    "update_rules",
    "status_rules",
    "status_update_rules",
)
PACKAGES: Final = ("registry", "validation")


def unknown(rules: Sequence[Rule], type_: Type, path: str) -> Iterator[str]:
    """Yield the fields that rules name and the type of their objects does not have."""
    if not type_.ref:
        return
    fields = built_in().model(type_.ref).fields
    for rule in rules:
        list(rule.parts())  # compiles a text
        for name in rule.fields:
            if name not in fields:
                yield f"{path}.{name}"
                continue
            below = fields[name]
            inner = below.items or below.values or below
            yield from unknown(rule.below, inner, f"{path}.{name}")
        yield from unknown(rule.beside, type_, path)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.group}-{kind.kind}")
def test_the_tables_of_a_kind_name_fields_of_its_schema(kind: Kind) -> None:
    """A typing error in the name of a field would switch its rule off."""
    assert kind.type_name
    root = Type(ref=kind.type_name)
    for strategy in (kind.strategy, *(each for _, each in kind.gated)):
        for name in TABLES:
            found = getattr(strategy, name)
            if isinstance(found, Rule):
                assert list(unknown([found], root, kind.kind)) == []


MODULES: Final = [
    module
    for name, module in list(sys.modules.items())
    if name.startswith(
        tuple(f"controller_manager.devcluster.{each}." for each in PACKAGES)
    )
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_every_private_name_of_a_module_is_used(module: ModuleType) -> None:
    """Texts name functions and tables without ``_``, so no linter looks for them."""
    source = inspect.getsource(module)
    unused = [
        name
        for name, value in vars(module).items()
        if name.startswith("_")
        and not name.startswith("__")
        and (isinstance(value, Rule) or inspect.isfunction(value))
        and len(re.findall(rf"(?<![a-zA-Z]){name.lstrip('_')}\b", source)) < 2
    ]
    assert unused == []


def test_all_tables_compile() -> None:
    tables = [
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, Rule)
    ]
    assert len(tables) > 20
    for each in tables:
        assert list(each.parts())
