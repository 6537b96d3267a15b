"""Long lists are decoded in slices, with the result of one call."""

import asyncio
import json
import random
from typing import Any

import msgspec
import pytest

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.client.rest import serializer
from controller_manager.client.rest.serializer import Slices, decode_list, list_decoder


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serializer, "SLICE", 2000)


def stateful_set(rng: random.Random, number: int) -> dict[str, Any]:
    """Return an object whose claims begin as the object does."""
    name = rng.choice(("web", 'a"},{"metadata":{', "\\", "é")) + str(number)
    claims = [
        {"metadata": {"name": f"claim-{each}"}, "spec": {}}
        for each in range(rng.randrange(4))
    ]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": str(number)},
        "spec": {"serviceName": "s", "volumeClaimTemplates": claims},
    }


def body_of(
    items: list[dict[str, Any]], *, is_sorted: bool = False, **spaces: Any
) -> bytes:
    document: dict[str, Any] = {"kind": "StatefulSetList", "apiVersion": "apps/v1"}
    document["metadata"] = {"resourceVersion": "7", "continue": "next"}
    document["items"] = items
    if is_sorted:  # as Go writes custom resources
        document = dict(sorted(document.items()))
    spaces.setdefault("separators", (",", ":"))
    return json.dumps(document, **spaces).encode()


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 50, 500])
async def test_slices_make_the_same_list(count: int, *, is_sorted: bool) -> None:
    for seed in range(5):
        rng = random.Random(seed)
        items = [stateful_set(rng, number) for number in range(count)]
        body = body_of(items, is_sorted=is_sorted)
        expected = list_decoder(StatefulSet).decode(body)
        found = await decode_list(StatefulSet, body)
        assert found.metadata == expected.metadata
        assert found.items == expected.items


async def test_other_tasks_get_a_turn_after_each_slice() -> None:
    items = [stateful_set(random.Random(1), number) for number in range(500)]
    body = body_of(items)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await decode_list(StatefulSet, body)
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)
    assert turns > len(body) / 4000
    longest = max(len(each) for each in Slices(StatefulSet, body))
    assert longest < 30


@pytest.mark.parametrize(
    "body",
    [
        body_of([stateful_set(random.Random(1), 1)] * 100, indent=2),
        body_of([{"spec": {}, "metadata": {"name": "a"}}] * 100),
        b'{"metadata":{},"items":null}' + b" " * 10_000,
        b'{"metadata":{},"nested":{"items":[' + b'{"metadata":{}},' * 999 + b"{}]}}",
    ],
    ids=["indented", "other order of fields", "null", "items elsewhere"],
)
async def test_a_list_of_another_form_is_decoded_as_well(body: bytes) -> None:
    """API servers write lists in two forms; aggregated APIs may have others."""
    expected = list_decoder(StatefulSet).decode(body)
    found = await decode_list(StatefulSet, body)
    assert (found.items or []) == (expected.items or [])


@pytest.mark.parametrize("damage", ["cut", "wrong type"])
async def test_a_damaged_list_is_refused(damage: str) -> None:
    items = [stateful_set(random.Random(1), number) for number in range(100)]
    items[60]["metadata"]["name"] = 3 if damage == "wrong type" else "web"
    body = body_of(items)
    with pytest.raises(msgspec.DecodeError):
        await decode_list(StatefulSet, body[:-5000] if damage == "cut" else body)


def test_a_short_list_is_decoded_in_one_call() -> None:
    assert list(Slices(StatefulSet, body_of([{"metadata": {"name": "a"}}] * 9))) == []
