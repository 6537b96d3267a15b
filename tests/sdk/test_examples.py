"""Each exported name has an example, and each example does what it shows."""

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from controller_manager import sdk
from controller_manager.api.apiextensions import v1 as apiextensions_v1
from controller_manager.sdk import (
    APIStruct,
    ControllerContext,
    Descriptor,
    ObjectMeta,
    core_v1,
)
from controller_manager.testing import VirtualManager
from tests.documents.facts import ROOT
from tests.documents.markdown import Page
from tests.sdk import websites
from tests.sdk.examples import failures
from tests.sdk.websites import CONTROLLER, WEBSITES, Website, WebsiteReconciler

EXPORTED: dict[str, Any] = {name: getattr(sdk, name) for name in sdk.__all__}
PAGE = Page.at(ROOT / "docs" / "sdk.md")


def is_documented(value: Any) -> bool:
    """Tell whether a name is a class or a function of this project."""
    module = str(getattr(value, "__module__", ""))
    return callable(value) and module.startswith("controller_manager.")


DOCUMENTED = {name: each for name, each in EXPORTED.items() if is_documented(each)}
MADE: list[WebsiteReconciler] = []
"""The reconciler of the test that runs."""


class SeenReconciler(WebsiteReconciler):
    """Can be used by examples."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        MADE.append(self)


@pytest.fixture
def own_controllers() -> list[Descriptor]:
    return [replace(CONTROLLER, load=SeenReconciler)]


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    yield {**vars(websites), **EXPORTED}
    MADE.clear()


async def scene(manager: VirtualManager) -> dict[str, Any]:
    """Return the objects of the examples: a website, and what a controller has."""
    definition = websites.DEFINITION.manifest()
    await manager.client.apply(apiextensions_v1.CUSTOM_RESOURCE_DEFINITIONS, definition)
    settings = core_v1.ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))
    shop = Website(metadata=ObjectMeta(name="shop", namespace="default"))
    stored = await manager.client.create(WEBSITES, shop)
    await manager.start()
    (reconciler,) = MADE
    return {
        "website": stored,
        "settings": settings,
        "client": manager.client,
        "clock": manager.clock,
        "manager": manager,
        "reconciler": reconciler,
        "context": reconciler.context,
    }


@pytest.mark.parametrize("name", DOCUMENTED)
async def test_the_example_of_a_name_does_what_it_shows(
    name: str, manager: VirtualManager, names: dict[str, Any]
) -> None:
    text = DOCUMENTED[name].__doc__ or ""
    assert ">>> " in text, f"{name} has no example"
    names |= await scene(manager)
    assert [each async for each in failures(text, names)] == []


async def test_the_examples_of_the_page_do_what_they_show(
    manager: VirtualManager, names: dict[str, Any]
) -> None:
    names |= await scene(manager)
    text = "\n".join(PAGE.blocks("pycon"))
    assert [each async for each in failures(text, names)] == []


def test_a_name_without_a_docstring_is_in_an_example() -> None:
    """Constants, unions and names of other libraries; those of groups in any way."""
    texts = [PAGE.text, *(str(each.__doc__) for each in DOCUMENTED.values())]
    others = EXPORTED.keys() - DOCUMENTED.keys()
    assert [name for name in others if not any(name in text for text in texts)] == []
    modules = {name for name in others if isinstance(EXPORTED[name], ModuleType)}
    assert {"core_v1", "apps_v1"} <= modules


def test_the_page_names_all() -> None:
    assert [name for name in EXPORTED if f"`{name}`" not in PAGE.text] == []
    assert issubclass(Website, APIStruct)
