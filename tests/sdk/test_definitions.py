"""The definition of a custom resource is made from its class."""

import sys
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from click.testing import CliRunner
from msgspec import Raw, field

from controller_manager.api.apiextensions import v1 as apiextensions_v1
from controller_manager.api.apiextensions.schema import DefinitionError, schema_of
from controller_manager.cli import operator
from controller_manager.cli.command import make_command
from controller_manager.sdk import (
    APIError,
    APIStruct,
    Column,
    CompleteObject,
    Condition,
    Definition,
    Descriptor,
    Meta,
    ObjectMeta,
    Projection,
    Resource,
    Scale,
)
from controller_manager.testing import VirtualManager
from tests.documents.facts import ROOT
from tests.documents.markdown import Page
from tests.sdk.websites import CONTROLLER, WEBSITES

DEFINITIONS = apiextensions_v1.CUSTOM_RESOURCE_DEFINITIONS


@pytest.fixture
def own_controllers() -> list[Descriptor]:
    return [CONTROLLER]


class Color(Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Door(APIStruct, frozen=True, kw_only=True):
    """A door of a shop.

    Nobody reads this.
    """

    key: str
    width: float = 0.9


class ShopSpec(APIStruct, frozen=True, kw_only=True):
    """What a shop shall be."""

    image: Annotated[str, Meta(min_length=1, pattern="^[a-z]+$", description="Runs.")]
    replicas: Annotated[int, Meta(ge=0, lt=10)] = 1
    mode: Literal["open", "closed"] = "open"
    color: Color | None = None
    port: int | str = "http"
    limit: int | None
    shade: Literal["dark"] | None
    hue: Color | None
    doors: Annotated[tuple[Door, ...], Meta(max_length=2)] = ()
    tags: frozenset[str] = frozenset()
    labels: dict[str, str] = field(default_factory=dict)
    opened: datetime | None = None
    is_big: bool = True
    anything: Raw = Raw(b"null")
    values: dict[str, Any] | None = None


class ShopStatus(APIStruct, frozen=True):
    """What a shop is."""

    replicas: int = 0
    selector: str = ""
    conditions: tuple[Condition, ...] | None = None


class Shop(CompleteObject, frozen=True, kw_only=True):
    """A shop."""

    spec: ShopSpec
    status: ShopStatus = ShopStatus()


class OldSpec(APIStruct, frozen=True):
    """What a shop was."""

    image: str = ""
    replicas: int = 0


class OldShop(CompleteObject, frozen=True):
    """A shop of former times; its status had no subresource."""

    spec: OldSpec = OldSpec()


SHOPS: Resource[Shop] = Resource("example.com", "v2", "shops", "Shop", Shop)
OLD: Resource[OldShop] = Resource("example.com", "v1", "shops", "Shop", OldShop)
READY = '.status.conditions[?(@.type=="Ready")].status'
SET: dict[str, Any] = {"limit": 1, "shade": "dark", "hue": Color.RED}
SHOP_DEFINITION = Definition(
    SHOPS,
    columns=(Column("Replicas", ".spec.replicas"), Column("Opened", ".spec.opened")),
    short_names=("sh",),
    categories=("all",),
    scale=Scale(label_selector_path=".status.selector"),
)


def test_the_schema_has_what_the_annotations_say() -> None:
    schema = schema_of(Shop)
    assert schema["required"] == ["spec"]
    assert list(schema["properties"]) == ["spec", "status"]
    spec = schema["properties"]["spec"]
    assert spec["required"] == ["image", "limit", "shade", "hue"]
    assert spec["description"] == "What a shop shall be."
    door = {
        "type": "object",
        "description": "A door of a shop.",
        "required": ["key"],
        "properties": {
            "key": {"type": "string"},
            "width": {"type": "number", "default": 0.9},
        },
    }
    color = {"type": "string", "enum": ["red", "blue"]}
    assert spec["properties"] == {
        "image": {
            "type": "string",
            "minLength": 1,
            "pattern": "^[a-z]+$",
            "description": "Runs.",
        },
        "replicas": {
            "type": "integer",
            "minimum": 0,
            "maximum": 10,
            "exclusiveMaximum": True,
            "default": 1,
        },
        "mode": {"type": "string", "enum": ["closed", "open"], "default": "open"},
        "color": color,
        "port": {"x-kubernetes-int-or-string": True, "default": "http"},
        "limit": {"type": "integer", "nullable": True},
        "shade": {"type": "string", "enum": ["dark", None], "nullable": True},
        "hue": color | {"enum": ["red", "blue", None], "nullable": True},
        "doors": {"type": "array", "items": door, "maxItems": 2},
        "tags": {
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-list-type": "set",
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "opened": {"type": "string", "format": "date-time"},
        "isBig": {"type": "boolean", "default": True},
        "anything": {"x-kubernetes-preserve-unknown-fields": True},
        "values": {
            "type": "object",
            "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True},
        },
    }


async def test_the_cluster_takes_the_definition_and_a_shop_comes_back(
    manager: VirtualManager,
) -> None:
    """With the defaults of the class, which are those of the schema."""
    await manager.client.apply(DEFINITIONS, SHOP_DEFINITION.manifest())
    metadata = ObjectMeta(name="a", namespace="default")
    opened = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    door = Door(key="x", width=2.5)
    spec = ShopSpec(
        image="nginx",
        limit=None,
        shade=None,
        hue=None,
        color=Color.BLUE,
        opened=opened,
        doors=(door,),
        tags=frozenset({"t"}),
        labels={"a": "b"},
        values={"x": {"y": [1]}},
        anything=Raw(b'{"z":1}'),
    )
    await manager.client.create(SHOPS, Shop(metadata=metadata, spec=spec))
    stored = await manager.client.get(SHOPS, "default", "a")
    assert stored.spec == spec
    written = await manager.client.get(
        Resource("example.com", "v2", "shops", "Shop", Anything), "default", "a"
    )
    assert written.spec["replicas"] == 1
    assert written.spec["limit"] is None
    ready = Condition(type="Ready", status="True")
    config = {
        "metadata": {"name": "a", "namespace": "default"},
        "status": ShopStatus(replicas=1, conditions=(ready,)),
    }
    stored = await manager.client.apply(SHOPS, config, subresource="status")
    assert (stored.status.replicas, stored.status.conditions) == (1, (ready,))


class Anything(CompleteObject, frozen=True):
    """An object as it was written."""

    spec: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"replicas": -1}, "spec.replicas"),
        ({"replicas": 10}, "spec.replicas"),
        ({"image": "NGINX"}, "spec.image"),
        ({"image": None}, "spec.image"),
        ({"mode": "ajar"}, "spec.mode"),
        ({"color": "green"}, "spec.color"),
        ({"doors": [{"width": 1}]}, "spec.doors[0].key"),
        ({"opened": "today"}, "spec.opened"),
        ({"port": 1.5}, "spec.port"),
        ({"tags": ["a", "a"]}, "spec.tags[1]"),
    ],
)
async def test_the_schema_refuses_a_wrong_object(
    manager: VirtualManager, change: dict[str, Any], problem: str
) -> None:
    await manager.client.apply(DEFINITIONS, SHOP_DEFINITION.manifest())
    metadata = ObjectMeta(name="a", namespace="default")
    shop = Shop(metadata=metadata, spec=ShopSpec(image="nginx", **SET))
    await manager.client.create(SHOPS, shop)
    with pytest.raises(APIError, match="is invalid") as refused:
        await manager.client.patch(SHOPS, "default", "a", {"spec": change})
    assert problem in str(refused.value)


async def test_an_old_version_is_served_beside_the_stored_one(
    manager: VirtualManager,
) -> None:
    definition = Definition(SHOPS, versions=(OLD,))
    (new, old) = definition.manifest()["spec"]["versions"]
    assert (new["name"], new["storage"]) == ("v2", True)
    assert (old["name"], old["storage"], old["served"]) == ("v1", False, True)
    assert "subresources" not in old
    await manager.client.apply(DEFINITIONS, definition.manifest())
    metadata = ObjectMeta(name="a", namespace="default")
    shop = Shop(metadata=metadata, spec=ShopSpec(image="nginx", **SET, replicas=3))
    await manager.client.create(SHOPS, shop)
    found = await manager.client.get(OLD, "default", "a")
    assert (found.spec.image, found.spec.replicas) == ("nginx", 3)


async def test_the_cluster_takes_the_example_of_the_page(
    manager: VirtualManager,
) -> None:
    page = Page.at(ROOT / "docs" / "writing-a-controller.md")
    (example,) = (each for each in page.blocks("python") if "DEFINITION" in each)
    names: dict[str, Any] = {"__name__": "page"}
    exec(example, names)  # noqa: S102 - a page of this project
    await manager.client.apply(DEFINITIONS, names["DEFINITION"].manifest())


def test_columns_have_the_types_of_their_fields() -> None:
    columns = (
        Column("Replicas", ".spec.replicas", description="Wanted."),
        Column("Ready", READY, priority=1),
        Column("Opened", ".spec.opened"),
        Column("Key", ".spec.doors[0].key"),
        Column("Label", ".spec.labels.team"),
        Column("Any", ".spec.values.a.b"),
        Column("Age", ".metadata.creationTimestamp"),
        Column("Big", ".spec.isBig", type="string"),
    )
    (version,) = Definition(SHOPS, columns=columns).manifest()["spec"]["versions"]
    written = version["additionalPrinterColumns"]
    assert [each["type"] for each in written] == [
        *("integer", "string", "date", "string", "string"),
        *("string", "date", "string"),
    ]
    assert (written[0]["description"], written[1]["priority"]) == ("Wanted.", 1)


class Node(APIStruct, frozen=True):
    """Has itself."""

    inner: "Node | None" = None


class Wrong(APIStruct, frozen=True):
    """Has what no schema has."""

    a: complex = 0j


class Either(APIStruct, frozen=True):
    """Has a union."""

    a: int | dict[str, str] = 0


class Mixed(APIStruct, frozen=True):
    """Has texts and numbers."""

    a: Literal["a", 1] = 1


class Tagged(APIStruct, frozen=True, tag=True):
    """Has a tag."""


class Unknown(APIStruct, frozen=True):
    """Names a class that is not there."""

    a: "Nowhere" = 0  # type: ignore[name-defined] # noqa: F821


class Partial(Projection, frozen=True):
    """Has some fields."""


PARTIAL: Resource[Any] = Resource("example.com", "v1", "shops", "Shop", Partial)


@pytest.mark.parametrize(
    ("cls", "problem"),
    [
        (Node, "Node.inner: Node is inside of itself; use Any for the inner one"),
        (
            Wrong,
            "Wrong.a: a schema has no complex; use a Struct, a plain type, or Any",
        ),
        (Either, "Either.a: a schema has unions with None, and int | str; use Any"),
        (
            Mixed,
            "Mixed.a: the values are not all texts, or all numbers; use one type",
        ),
        (Tagged, "Tagged: Tagged is array_like or has a tag; make it plain"),
        (Unknown, "Unknown: name 'Nowhere' is not defined; repair the annotation"),
    ],
)
def test_a_class_without_a_schema_is_one_line(cls: type, problem: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        schema_of(cls)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        (
            Definition(SHOPS, columns=(Column("Ready", ".status.redy"),)),
            (
                "'Ready': Shop has no .status.redy; .status has replicas, selector, "
                "conditions"
            ),
        ),
        (
            Definition(SHOPS, columns=(Column("Key", ".spec.doors.key"),)),
            "'Key': Shop has no .spec.doors.key; .spec.doors has no fields",
        ),
        (
            Definition(SHOPS, columns=(Column("Ready", "status"),)),
            "'Ready': 'status' is no path; write one like .spec.image",
        ),
        (
            Definition(SHOPS, scale=Scale(".spec.image")),
            "specReplicasPath: .spec.image must be of the type integer; change it",
        ),
        (
            Definition(SHOPS, versions=(SHOPS,)),
            "v2 occurs twice; name each version once",
        ),
        (
            Definition(SHOPS, versions=(WEBSITES,)),
            (
                "v1 has another group, name, kind or scope than the first version; "
                "give it the same"
            ),
        ),
        (
            Definition(PARTIAL),
            "Partial has some of the fields; make it a CompleteObject",
        ),
    ],
)
def test_a_wrong_declaration_is_one_line(
    definition: Definition[Any], problem: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        definition.manifest()
    assert str(refused.value) == f"shops.example.com: {problem}"


def crds(*names: str) -> str:
    return CliRunner().invoke(make_command(), ["crds", *names]).output


def test_the_command_prints_a_definition_that_is_named_once() -> None:
    name = f"{__name__}:SHOP_DEFINITION"
    printed = list(yaml.safe_load_all(crds(name, name)))
    assert printed == [SHOP_DEFINITION.manifest()]


def test_a_module_may_be_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"from {__name__} import SHOP_DEFINITION as MINE\n"
    (tmp_path / "module_of_shops.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert yaml.safe_load(crds("module_of_shops:MINE")) == SHOP_DEFINITION.manifest()
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ttl", "there are none; name them in Descriptor.definitions"),
        ("nope", "nope"),
        ("no.such:A", "no.such:A: No module named 'no'"),
        (f"{__name__}:NONE", f"{__name__}:NONE: module {__name__!r} has no"),
        (f"{__name__}:SHOPS", f"{__name__}:SHOPS is a Resource, and no Definition"),
        (f"{__name__}:BAD", "shops.example.com: Partial has some of the fields"),
    ],
)
def test_a_name_without_a_definition_is_one_line(name: str, problem: str) -> None:
    output = crds(name)
    assert output.startswith("Error: crds: ")
    assert output.count("\n") == 1
    assert problem in output


BAD = Definition(PARTIAL)


def test_an_operator_prints_its_own() -> None:
    command = operator.make_command((CONTROLLER,))
    (definition,) = CONTROLLER.definitions
    printed = CliRunner().invoke(command, ["crds"]).output
    assert list(yaml.safe_load_all(printed)) == [definition.manifest()]
    other = operator.make_command((Descriptor("other", CONTROLLER.load),))
    refused = CliRunner().invoke(other, ["crds"])
    assert (refused.exit_code, refused.output) == (
        1,
        "Error: crds: there are none; name them in Descriptor.definitions\n",
    )
