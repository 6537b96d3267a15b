"""Controller revisions: data, names, order and writes."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    STATEFUL_SETS,
    ControllerRevision,
    StatefulSet,
)
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta, OwnerReference
from controller_manager.api.selectors import LabelSelector, compile_selector
from controller_manager.client.rest.errors import Conflict
from controller_manager.control.controller_history import (
    Collision,
    History,
    data_hash,
    find_equal,
    in_order,
    is_equal_with_defaults,
    next_number,
    oldest_unused,
    revision_name,
    template_data,
    template_of,
)
from controller_manager.control.hashes import fnv1, fnv1a, safe_encode
from controller_manager.informers.store import (
    BY_CONTROLLER,
    ORPHANS,
    ORPHANS_BY_LABEL,
    Lister,
    Store,
)
from tests.clusters import Cluster

TEMPLATE = {
    "metadata": {"labels": {"b": "<&>", "app": "web"}},
    "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "v1"}]},
}


def decoded(template: JSON) -> PodTemplateSpec:
    return msgspec.json.decode(msgspec.json.encode(template), type=PodTemplateSpec)


def revision(name: str, number: int = 1, **fields: Any) -> ControllerRevision:
    data = Raw(msgspec.json.encode(fields.pop("data", {"of": name})))
    metadata = ObjectMeta(name=name, namespace="default", **fields)
    return ControllerRevision(metadata=metadata, data=data, revision=number)


def names(revisions: Sequence[ControllerRevision]) -> list[str]:
    return [each.metadata.name for each in revisions]


# Data


def test_the_data_are_the_bytes_that_upstream_writes() -> None:
    """Sorted fields, no spaces, and the escapes of Go's encoder."""
    assert bytes(template_data(decoded(TEMPLATE))) == (
        rb'{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web",'
        rb'"b":"\u003c\u0026\u003e"}},"spec":{"containers":[{"image":"v1","name":"c"}],'
        rb'"restartPolicy":"Always"}}}}'
    )


@given(st.text(), st.text())
def test_a_template_comes_back_from_its_data_unchanged(key: str, value: str) -> None:
    wire: JSON = {"metadata": {"annotations": {key: value}}, "spec": {key: value}}
    stored = ControllerRevision(data=template_data(decoded(wire)))
    again = json.loads(msgspec.json.encode(template_of(stored)))
    assert again == wire


def test_data_are_equal_if_only_their_order_and_nulls_differ() -> None:
    """An older API server writes a creationTimestamp that is null."""
    data = template_data(decoded(TEMPLATE))
    other = json.loads(bytes(data))
    other["spec"]["template"]["metadata"]["creationTimestamp"] = None
    old = revision("old", data=dict(reversed(other.items())))
    different = revision("different", data={"spec": {"template": {}}})
    assert find_equal([old, different], data) is old
    assert find_equal([different], data) is None


def test_numbers_are_equal_if_upstream_writes_them_alike() -> None:
    """Go reads them as floating-point numbers, and rounds those above 2^53."""
    longest = 2**63 - 1
    toleration = {"operator": "Exists", "tolerationSeconds": longest}
    data = template_data(decoded({"spec": {"tolerations": [toleration]}}))
    assert str(longest).encode() in bytes(data)
    rounded = bytes(data).replace(str(longest).encode(), b"9223372036854776000")
    less = bytes(data).replace(str(longest).encode(), b"9223372036854770000")
    endless = bytes(data).replace(str(longest).encode(), b"9" * 5000)
    of_upstream, *others = (
        ControllerRevision(data=Raw(content)) for content in (rounded, less, endless)
    )
    assert find_equal([of_upstream, *others], data) is of_upstream
    assert is_equal_with_defaults(of_upstream.data, data)
    assert find_equal(others, data) is None


def test_the_last_of_equal_revisions_is_found() -> None:
    """As upstream does: it needs no new number, if it is the last of all."""
    first, last = revision("a", 1, data={"x": 1}), revision("b", 2, data={"x": 1})
    assert find_equal([first, last], Raw(b'{"x":1}')) is last


@pytest.mark.parametrize(
    ("spec", "more", "equal"),
    [
        ({}, {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}, True),
        ({}, {"securityContext": {}, "terminationGracePeriodSeconds": 30}, True),
        ({}, {"terminationGracePeriodSeconds": 60}, False),
        ({}, {"nodeSelector": {"a": "b"}}, False),
        ({"volumes": [{"name": "v"}]}, {"volumes": []}, False),
        (
            {"volumes": [{"name": "v"}]},
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            True,
        ),
        (
            {"containers": [{"resources": {"limits": {"cpu": "0.5"}}}]},
            {"containers": [{"resources": {"limits": {"cpu": "500m"}}}]},
            True,
        ),
    ],
)
def test_defaults_are_no_difference(spec: JSON, more: JSON, *, equal: bool) -> None:
    """A field with another value than the default is a change."""
    metadata: JSON = {"labels": {"app": "web"}}
    one, other = (
        template_data(decoded({"metadata": metadata, "spec": each}))
        for each in (spec, {**spec, **more})
    )
    assert is_equal_with_defaults(one, other) is equal
    assert is_equal_with_defaults(other, one) is equal


@pytest.mark.parametrize("data", [b"{}", b"1", b'{"spec":{"template":[]}}', b"null"])
def test_data_that_are_no_template_differ_by_more_than_defaults(data: bytes) -> None:
    """A user may have created a revision by hand."""
    template = template_data(decoded(TEMPLATE))
    assert not is_equal_with_defaults(Raw(data), template)
    assert find_equal([ControllerRevision(data=Raw(data))], template) is None


# Names


def test_the_hashes_are_those_of_the_published_vectors() -> None:
    texts = (b"", b"a", b"foobar")
    assert [fnv1(each) for each in texts] == [0x811C9DC5, 0x050C5D7E, 0x31F0B262]
    assert [fnv1a(each) for each in texts] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]
    # Digits 0 to 9 select every letter by the code of the digit.
    assert safe_encode(1234567890) == "56789bcdf4"


def test_a_collision_gives_another_name_and_long_owners_a_shortened_one() -> None:
    data = Raw(b"{}")
    hashes = [data_hash(data, count) for count in (None, 0, 1)]
    assert len(set(hashes)) == 3
    assert data_hash(data, 1) == safe_encode(fnv1(b"{}1"))
    assert revision_name("o" * 250, "abc") == "o" * 223 + "-abc"


# Order


def test_revisions_are_ordered_by_number_age_and_name() -> None:
    """So every manager numbers and deletes the same revisions."""
    revisions = [
        revision("c", 2),
        revision("b", 1, creation_timestamp="2026-01-01T00:00:02Z"),
        revision("z", 1, creation_timestamp="2026-01-01T00:00:01Z"),
        revision("a", 1, creation_timestamp="2026-01-01T00:00:02Z"),
    ]
    ordered = in_order(revisions)
    assert names(ordered) == ["z", "a", "b", "c"]
    assert (next_number(ordered), next_number([])) == (3, 1)


def test_only_the_oldest_unused_revisions_are_deleted() -> None:
    revisions = [revision(name) for name in "abcd"]
    assert names(oldest_unused(revisions, {"a", "c"}, 1)) == ["b"]
    assert names(oldest_unused(revisions, {"a"}, 9)) == ["b", "c", "d"]
    assert oldest_unused(revisions, (), -1) == []


# Writes


async def stateful_set(cluster: Cluster) -> StatefulSet:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "v1"}]},
    }
    labels = {"matchLabels": {"app": "web"}}
    body = {
        "metadata": {"name": "web", "annotations": {"note": "one"}},
        "spec": {"selector": labels, "serviceName": "web", "template": template},
    }
    encoded = msgspec.json.encode(body)
    return await cluster.client.create_json(STATEFUL_SETS, "default", encoded)


def history(cluster: Cluster, *cached: ControllerRevision) -> History[StatefulSet]:
    store: Store[ControllerRevision] = Store()
    for each in cached:
        store.put(each)
    indexes = (BY_CONTROLLER, ORPHANS, ORPHANS_BY_LABEL)
    lister = Lister(store, "ControllerRevision", *indexes)
    reconciler = SimpleNamespace(
        client=cluster.client,
        clock=cluster.clock,
        resource=STATEFUL_SETS,
        lister=lambda _: lister,
        recorder=None,  # a mutation would need it
        queue=None,
    )
    return History(cast("Any", reconciler))


def owned_by(owner: StatefulSet) -> tuple[OwnerReference, ...]:
    reference = OwnerReference(
        api_version="apps/v1",
        kind="StatefulSet",
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return (reference,)


@pytest.mark.looptime
async def test_a_revision_has_labels_and_an_owner(cluster: Cluster) -> None:
    owner = await stateful_set(cluster)
    writer = history(cluster)
    data = Raw(b'{"spec":{}}')
    stored = await writer.create(writer.new(owner, data, 3, "h", {"app": "web"}), owner)
    assert msgspec.structs.replace(stored, api_version="", kind="") == (
        ControllerRevision(
            metadata=ObjectMeta(
                name="web-h",
                namespace="default",
                uid=stored.metadata.uid,
                resource_version=stored.metadata.resource_version,
                creation_timestamp=stored.metadata.creation_timestamp,
                labels={"app": "web"},
                annotations={"note": "one"},
                owner_references=owned_by(owner),
            ),
            data=data,
            revision=3,
        )
    )


@pytest.mark.looptime
async def test_a_revision_with_the_same_data_is_used_again(cluster: Cluster) -> None:
    """A former leader may have stored it; the cache does not show it yet."""
    writer = history(cluster)
    owner = await stateful_set(cluster)
    first = await writer.create(writer.new(owner, Raw(b"{}"), 1, "h", {}), owner)
    assert (
        await writer.create(writer.new(owner, Raw(b"{}"), 2, "h", {}), owner) == first
    )
    with pytest.raises(Collision, match=r'^controllerrevisions\.apps "web-h" already'):
        await writer.create(writer.new(owner, Raw(b'{"a":1}'), 2, "h", {}), owner)


@pytest.mark.looptime
async def test_a_collision_is_counted_and_gives_another_name(cluster: Cluster) -> None:
    """The label with the hash stays as it is, as upstream's does."""
    writer = history(cluster)
    owner = await stateful_set(cluster)
    data = Raw(b'{"b":1}')
    for count in (0, 1):
        taken = data_hash(data, count)
        await writer.create(writer.new(owner, Raw(b"{}"), 1, taken, {}), owner)
    revision = writer.new(owner, data, 2, data_hash(data, 0), {"hash": "h"})
    created, collisions = await writer.create_renamed(revision, owner, 0)
    metadata = created.metadata
    assert (collisions, metadata.name, metadata.labels) == (
        2,
        f"web-{data_hash(data, 2)}",
        {"hash": "h"},
    )


@pytest.mark.looptime
async def test_a_renumbered_revision_keeps_its_data(cluster: Cluster) -> None:
    """A revision that has changed meanwhile is not overwritten."""
    writer = history(cluster)
    owner = await stateful_set(cluster)
    stored = await writer.create(writer.new(owner, Raw(b'{"a":1}'), 1, "h", {}), owner)
    renumbered = await writer.renumber(stored, 7)
    assert (renumbered.revision, renumbered.data) == (7, stored.data)
    with pytest.raises(Conflict):
        await writer.renumber(stored, 8)


@pytest.mark.looptime
async def test_orphans_are_adopted_and_others_released(cluster: Cluster) -> None:
    owner = await stateful_set(cluster)
    client = cluster.client
    web = {"app": "web"}
    bodies = (
        revision("orphan", 2, labels=web),
        revision("mine", 1, labels=web, owner_references=owned_by(owner)),
        revision("left", 3, labels={"app": "x"}, owner_references=owned_by(owner)),
        revision("foreign", 4, labels={"app": "x"}),
    )
    stored = [await client.create(CONTROLLER_REVISIONS, each) for each in bodies]
    selector = compile_selector(LabelSelector(match_labels=web))
    claimed = await history(cluster, *stored).claim(owner, selector)
    assert names(claimed) == ["mine", "orphan"]
    page = await client.list_page(CONTROLLER_REVISIONS, "default")
    assert {
        each.metadata.name: each.metadata.owner_references for each in page.items
    } == {
        "orphan": owned_by(owner),
        "mine": owned_by(owner),
        "left": None,
        "foreign": None,
    }


@pytest.mark.looptime
async def test_only_the_revision_that_was_chosen_is_deleted(cluster: Cluster) -> None:
    """Not a later revision of the same name; a revision that is gone is no error."""
    writer = history(cluster)
    owner = await stateful_set(cluster)
    first = await writer.create(writer.new(owner, Raw(b"{}"), 1, "h", {}), owner)
    await writer.delete(first)
    await writer.delete(first)
    await writer.create(writer.new(owner, Raw(b"{}"), 2, "h", {}), owner)
    with pytest.raises(Conflict):
        await writer.delete(first)
