"""Endpoints are put into slices so that few slices change (reconcileByPortMapping)."""

import random
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from controller_manager.api.discovery.v1 import Endpoint, EndpointSlice
from controller_manager.api.meta import OwnerReference
from controller_manager.control.endpoints.slices import (
    SliceActions,
    SliceTemplate,
    joined,
    key_of_endpoint,
    recycled,
    with_trigger_time,
)
from controller_manager.controllers.network.endpointslice.slices import pack
from tests.control.endpoints.objects import NAMESPACE, endpoint, endpoint_slice

OWNER = OwnerReference(api_version="v1", kind="Service", name="web", uid="web-uid")
TEMPLATE = SliceTemplate(NAMESPACE, OWNER, {}, "IPv4", ())
LIMIT = 3


def packed(
    slices: Iterable[EndpointSlice], desired: Iterable[Endpoint], limit: int = LIMIT
) -> SliceActions:
    by_key = {key_of_endpoint(each): each for each in desired}
    return pack(list(slices), by_key, TEMPLATE, limit).changes


def numbered(*numbers: int) -> list[Endpoint]:
    return [endpoint(f"10.1.0.{each}") for each in numbers]


def of(*numbers: int) -> EndpointSlice:
    return endpoint_slice("-".join(map(str, numbers)) or "empty", *numbered(*numbers))


def shape(changes: SliceActions) -> dict[str, list[str]]:
    def text(each: EndpointSlice) -> str:
        last = [(one.addresses or ("",))[0][7:] for one in each.endpoints or ()]
        return f"{each.metadata.name}: {' '.join(last)}".strip()

    return {
        "create": [text(each) for each in changes.create],
        "update": [text(each) for each in changes.update],
        "delete": [each.metadata.name for each in changes.delete],
        "unchanged": [each.metadata.name for each in changes.unchanged],
    }


@pytest.mark.parametrize(
    ("slices", "desired", "expected"),
    [
        # Nothing to do.
        ([of(1, 2)], [1, 2], {"unchanged": ["1-2"]}),
        # The first slices are filled.
        ([], [1, 2, 3, 4], {"create": [": 1 2 3", ": 4"]}),
        # One more goes into the slice that it fills best.
        (
            [of(1), of(2, 3)],
            [1, 2, 3, 4],
            {"update": ["2-3: 2 3 4"], "unchanged": ["1"]},
        ),
        # Two more do not fit into the fuller one.
        (
            [of(1), of(2, 3)],
            [1, 2, 3, 4, 5],
            {"update": ["1: 1 4 5"], "unchanged": ["2-3"]},
        ),
        # A full slice's worth of endpoints goes into a new slice.
        (
            [of(1)],
            [1, 2, 3, 4],
            {"create": [": 2 3 4"], "unchanged": ["1"]},
        ),
        # Endpoints that fit into no slice together go into a new slice: they are not
        # split.
        (
            [of(1, 2), of(3, 4)],
            [1, 2, 3, 4, 5, 6],
            {"create": [": 5 6"], "unchanged": ["1-2", "3-4"]},
        ),
        # A slice that changes anyway is filled first.
        (
            [of(1, 2, 3), of(4)],
            [1, 2, 4, 5],
            {"update": ["1-2-3: 1 2 5"], "unchanged": ["4"]},
        ),
        # Slices are never merged.
        ([of(1), of(2), of(3)], [1, 2, 3], {"unchanged": ["1", "2", "3"]}),
        # A slice that loses all endpoints is deleted.
        ([of(1, 2), of(3)], [3], {"delete": ["1-2"], "unchanged": ["3"]}),
        # An empty slice is used.
        ([of()], [1], {"update": ["empty: 1"]}),
        # An empty slice that is not used is deleted.
        ([of()], [], {"delete": ["empty"]}),
        (
            [of(), of(1)],
            [1, 2, 3, 4],
            {"create": [": 2 3 4"], "delete": ["empty"], "unchanged": ["1"]},
        ),
        # An endpoint that two slices have stays in the first.
        ([of(1, 2), of(2, 3)], [1, 2, 3], {"update": ["2-3: 3"], "unchanged": ["1-2"]}),
        # Endpoints above the limit stay in their slice.
        ([of(1, 2, 3, 4)], [1, 2, 3, 4], {"unchanged": ["1-2-3-4"]}),
        (
            [of(1, 2, 3, 4, 5)],
            [1, 2, 3, 4, 6],
            {"update": ["1-2-3-4-5: 1 2 3 4"], "create": [": 6"]},
        ),
    ],
)
def test_endpoints_fill_slices_and_never_move(
    slices: list[EndpointSlice], desired: list[int], expected: dict[str, list[str]]
) -> None:
    """Each case is one sync."""
    nothing: dict[str, list[str]] = {
        "create": [],
        "update": [],
        "delete": [],
        "unchanged": [],
    }
    assert shape(packed(slices, numbered(*desired))) == nothing | expected


def test_a_change_apart_from_the_address_is_an_update_in_place() -> None:
    """Readiness, node, zone and the target's uid."""
    old = endpoint_slice("s", *numbered(1, 2))
    new = [endpoint("10.1.0.1", ready=False), endpoint("10.1.0.2", zone="z")]
    packing = pack(
        [old], {key_of_endpoint(each): each for each in new}, TEMPLATE, LIMIT
    )
    assert [each.endpoints for each in packing.changes.update] == [tuple(new)]
    assert (packing.added, packing.removed) == (0, 0)


def test_the_version_of_a_target_is_no_change() -> None:
    """Older versions of Kubernetes wrote it."""
    target = {"kind": "Pod", "name": "a", "uid": "u"}
    old = endpoint("10.1.0.1", targetRef={**target, "resourceVersion": "7"})
    packing = packed(
        [endpoint_slice("s", old)], [endpoint("10.1.0.1", targetRef=target)]
    )
    assert [each.metadata.name for each in packing.unchanged] == ["s"]


def test_other_labels_are_an_update() -> None:
    """The endpoints stay; annotations of others, too."""
    metadata = {"labels": {"a": "b"}, "annotations": {"of": "others"}}
    old = endpoint_slice("s", *numbered(1), metadata=metadata)
    (update,) = packed([old], numbered(1)).update
    assert update.metadata.labels == {}
    assert update.metadata.annotations == {"of": "others"}
    assert update.endpoints == old.endpoints


def test_the_trigger_time_is_written_and_taken_away() -> None:
    """Other annotations stay."""
    old = endpoint_slice("s", metadata={"annotations": {"of": "others"}})
    key = "endpoints.kubernetes.io/last-change-trigger-time"
    dated = with_trigger_time(old, "now")
    assert dated.metadata.annotations == {"of": "others", key: "now"}
    assert with_trigger_time(dated, "") == old


def test_settled_slices_are_filled_but_not_read() -> None:
    """Their endpoints are not desired again."""
    by_key = {key_of_endpoint(each): each for each in numbered(5)}
    packing = pack([of(4)], by_key, TEMPLATE, LIMIT, settled=[of(1, 2), of(3)])
    assert shape(packing.changes) == {
        "create": [],
        "update": ["1-2: 1 2 5"],
        "delete": ["4"],
        "unchanged": ["3"],
    }


@pytest.mark.parametrize("seed", range(20))
def test_after_any_change_every_endpoint_is_in_one_slice(seed: int) -> None:
    """No slice is too full, none is empty, and endpoints stay where they are."""
    rng = random.Random(seed)
    slices: list[EndpointSlice] = []
    for step in range(30):
        desired = numbered(*rng.sample(range(1, 40), rng.randrange(1, 30)))
        packing = packed(slices, desired, limit=5)
        before = {one: each for each in slices for one in each.endpoints or ()}
        named = [
            endpoint_slice(f"{step}-{number}", *(each.endpoints or ()))
            for number, each in enumerate(packing.create)
        ]
        slices = [*packing.unchanged, *packing.update, *named]
        held = [one for each in slices for one in each.endpoints or ()]
        assert sorted(map(str, held)) == sorted(map(str, desired))
        assert all(1 <= len(each.endpoints or ()) <= 5 for each in slices)
        for each in slices:
            for one in each.endpoints or ():
                if one in before:
                    assert before[one].metadata.name == each.metadata.name


def owned(name: str, uid: str = "web-uid", **fields: str) -> EndpointSlice:
    reference = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}
    metadata = {"ownerReferences": [reference]}
    return endpoint_slice(name, *numbered(1), metadata=metadata, **fields)


def test_a_slice_is_updated_where_one_would_be_deleted_and_one_created() -> None:
    """Only a slice of the same service and address type is used again."""
    unwanted = [
        owned("foreign", "old-uid"),
        owned("six", addressType="IPv6"),
        owned("s"),
    ]
    changes = joined([packed([], numbered(2))], unwanted)
    used = recycled(changes, OWNER)
    assert [each.metadata.name for each in used.update] == ["s"]
    assert used.update[0].endpoints == tuple(numbered(2))
    assert [each.metadata.name for each in used.delete] == ["foreign", "six"]
    assert (used.create, used.count) == ((), 3)


def test_generated_names_start_with_the_service_and_a_dash() -> None:
    """Unless the name leaves no room for it."""
    assert TEMPLATE.make(()).metadata.generate_name == "web-"
    long = replace(TEMPLATE, owner=replace(OWNER, name="n" * 253))
    assert long.make(()).metadata.generate_name == "n" * 253
