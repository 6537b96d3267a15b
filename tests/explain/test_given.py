"""The cases of ``tests/data/explain``: an object, the others around it, the answer.

A case states the fields that differ from the defaults of its file and its title. Its
answer is the code and state of each cause, their sentences as well, or the whole text.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource, PartialObject, Resource
from controller_manager.explain.cause import Cause, Explanation, Item
from controller_manager.explain.explainer import explain_item
from controller_manager.explain.report import as_text
from controller_manager.explain.target import known_kind
from tests.clusters import EPOCH, Cluster
from tests.documents.facts import ROOT
from tests.explain.given import Given, built, view_of

DATA = ROOT / "tests" / "data" / "explain"
WIDGETS: AnyResource = Resource(
    "example.com", "v1", "widgets", "Widget", PartialObject, metadata_only=True
)


def merged(given: Any, more: Any) -> Any:
    """Return a value with another over it: mappings are merged, all else replaced."""
    if not isinstance(given, dict) or not isinstance(more, dict):
        return more
    return {**given, **{key: merged(given.get(key), more[key]) for key in more}}


def cases() -> Iterator[tuple[str, JSON]]:
    for path in sorted(DATA.iterdir()):
        titles = yaml.safe_load(path.read_text())
        defaults = {"defaults": titles.pop("defaults")}
        for title, whole in titles.items():
            rows = whole.pop("cases", {"": {}})
            for name, row in rows.items():
                yield f"{title}: {name}", merged(merged(defaults, whole), row)


CASES = dict(cases())


async def explained(cluster: Cluster, case: JSON) -> Explanation:
    """Return the explanation of the object of a case, which is among the others."""
    defaults, plural = case["defaults"], case["of"]
    options: Any = {key: case[key] for key in ("refused", "page") if key in case}

    def whole(plural: str, short: JSON | str) -> JSON:
        given = {"name": short} if isinstance(short, str) else short
        return built(plural, merged(defaults.get(plural, {}), given))

    body = whole(plural, case["object"])
    objects: Any = {
        name: [whole(name, each) for each in given]
        for name, given in case.items()
        if isinstance(given, list) and name not in options
    }
    named = {each["metadata"]["name"] for each in objects.setdefault(plural, [])}
    if body["metadata"]["name"] not in named:
        objects[plural].append(body)
    resource: AnyResource | None = known_kind(plural)
    resource = resource or {"configmaps": CONFIG_MAPS, "widgets": WIDGETS}[plural]
    view = view_of(cluster, Given(**options, **objects))
    return await explain_item(view, Item(resource, body))


def codes(causes: tuple[Cause, ...]) -> str:
    """Return ``A stuck because (B stuck), C healthy``."""
    return ", ".join(
        f"{each.code} {each.state}"
        + (f" because ({codes(each.because)})" if each.because else "")
        for each in causes
    )


def sentences(causes: tuple[Cause, ...], indent: str = "") -> Iterator[str]:
    for each in causes:
        yield f"{indent}{each.code} {each.state}: {each.what}"
        yield from sentences(each.because, f"{indent}  ")


def said(found: Explanation, expected: str) -> str:
    if ": " not in expected:
        return codes(found.causes) or found.state
    unread = (f"unread: {each}" for each in found.unread)
    return "\n".join((*sentences(found.causes), *unread))


@pytest.mark.looptime
@pytest.mark.parametrize("name", CASES)
async def test_an_object_is_explained(cluster: Cluster, name: str) -> None:
    case = CASES[name]
    found = await explained(cluster, case)
    if "text" in case:
        assert as_text([found], EPOCH, 88) == case["text"]
    else:
        assert said(found, case["says"]) == case["says"].rstrip("\n")
