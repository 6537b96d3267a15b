"""The changes of the slices of Endpoints, as tables."""

import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller_manager.api.core.services import Endpoints
from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.control.endpoints.slice_writes import SliceUsage
from controller_manager.controllers.network.endpointslicemirroring.controller import (
    MirroringMetrics,
)
from controller_manager.controllers.network.endpointslicemirroring.slices import (
    Plan,
    Totals,
    desired_endpoints,
    plan,
)
from tests.controllers.rows import rows

MANAGED = {
    "endpointslice.kubernetes.io/managed-by": (
        "endpointslicemirroring-controller.k8s.io"
    ),
    "kubernetes.io/service-name": "db",
}
OWNER = {
    "apiVersion": "v1",
    "kind": "Endpoints",
    "name": "db",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}
SQL = {"name": "sql", "port": 5432, "protocol": "TCP"}
WEB = {"name": "web", "port": 80, "protocol": "TCP"}


def subset(ready: str, unready: str = "", *ports: JSON) -> JSON:
    """Return a subset; addresses are separated by spaces."""
    return {
        "addresses": [{"ip": each} for each in ready.split()],
        "notReadyAddresses": [{"ip": each} for each in unready.split()],
        "ports": list(ports or (SQL,)),
    }


def endpoints(*subsets: JSON, **metadata: Any) -> Endpoints:
    metadata = {"name": "db", "namespace": "n", "uid": "u1", **metadata}
    return msgspec.convert({"metadata": metadata, "subsets": subsets}, Endpoints)


def endpoint(ip: str, *, ready: bool = True, **more: Any) -> JSON:
    return {"addresses": [ip], "conditions": {"ready": ready}, **more}


def slice_json(
    name: str, *found: JSON, ports: tuple[JSON, ...] = (SQL,), **more: Any
) -> JSON:
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": MANAGED,
        "ownerReferences": [OWNER],
        **more.pop("metadata", {}),
    }
    return {
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": list(found),
        "ports": list(ports),
        **more,
    }


def mirrored(given: Endpoints, *slices: JSON, limit: int = 1000) -> Plan:
    existing = tuple(msgspec.convert(each, EndpointSlice) for each in slices)
    return plan(given, existing, limit)


def written(found: Plan) -> str:
    """Return the changes as "new: 1 2 sql; db-1: 1 web; gone: db-0".

    Addresses begin with 10.0.0 unless they are shown whole; slices are of IPv4 unless
    another type stands before the ports.
    """

    def content(each: EndpointSlice) -> str:
        body: JSON = msgspec.json.decode(msgspec.json.encode(each))
        ips = [one["addresses"][0].removeprefix("10.0.0.") for one in body["endpoints"]]
        family = [body["addressType"]] if body["addressType"] != "IPv4" else []
        words = (*ips, *family, *(one["name"] for one in body["ports"]))
        return f"{body['metadata'].get('name', 'new')}: {' '.join(words)}"

    changes = found.changes
    gone = [f"gone: {each.metadata.name}" for each in changes.delete]
    return "; ".join([*map(content, (*changes.create, *changes.update)), *gone])


A, B = "10.0.0.1", "10.0.0.2"
BOTH = (endpoint(A), endpoint(B, ready=False))
STORED = slice_json("db-1", *BOTH)
OF_FORMER: JSON = {"ownerReferences": [{**OWNER, "uid": "former"}]}
FORMER = slice_json("db-1", *BOTH, metadata=OF_FORMER)
YOUNGER = slice_json("db-0", endpoint(A), metadata={"creationTimestamp": "2026-02-01"})
ORDERED = slice_json("db-1", endpoint(A), ports=(SQL, WEB))
SQL_3: JSON = {**SQL, "port": 5433}
SQL_4: JSON = {**SQL, "port": 5434}
ODD = "010.0.0.1 ::ffff:10.0.0.2"


@rows(
    "subsets slices expected",
    {
        "nothing": ([], (), ""),
        "a new slice": ([subset(A, B)], (), "new: 1 2 sql"),
        "equal": ([subset(A, B)], (STORED,), ""),
        "one becomes ready": ([subset(f"{A} {B}")], (STORED,), "db-1: 1 2 sql"),
        "one goes": ([subset(A)], (STORED,), "db-1: 1 sql"),
        "all go": ([], (STORED,), "gone: db-1"),
        "another port reuses it": ([subset(A, B, WEB)], (STORED,), "db-1: 1 2 web"),
        "one slice for each family": (
            [subset(f"{A} fd00::1")],
            (),
            "new: 1 sql; new: fd00::1 IPv6 sql",
        ),
        "a slice of another family is not used again": (
            [subset("fd00::1")],
            (STORED,),
            "new: fd00::1 IPv6 sql; gone: db-1",
        ),
        "one slice for each set of ports": (
            [subset(A), subset(B, "", WEB)],
            (),
            "new: 1 sql; new: 2 web",
        ),
        "subsets with the same ports": ([subset(A), subset(B)], (), "new: 1 2 sql"),
        "the order of ports": ([subset(A, "", WEB, SQL)], (ORDERED,), ""),
        "the oldest stays": ([subset(A, B)], (YOUNGER, STORED), "gone: db-0"),
        "addresses in odd forms": ([subset(ODD)], (), "new: 1 2 sql"),
        "of former Endpoints": ([subset(A, B)], (FORMER,), "new: 1 2 sql; gone: db-1"),
        "no ports": ([{"addresses": [{"ip": A}]}], (), "new: 1"),
        "two ports of one name: no slice may have both": (
            [subset(A, "", SQL, WEB), subset(A, "", SQL_3)],
            (),
            "new: 1 web sql; new: 1 sql",
        ),
        "three ports of one name": (
            [subset(A, "", SQL), subset(A, "", SQL_3, WEB), subset(A, "", SQL_4)],
            (),
            "new: 1 web sql; new: 1 sql; new: 1 sql",
        ),
    },
)
def test_slices_follow_endpoints(
    subsets: list[JSON], slices: tuple[JSON, ...], expected: str
) -> None:
    assert written(mirrored(endpoints(*subsets), *slices)) == expected


def test_a_slice_has_the_metadata_of_its_endpoints() -> None:
    given = endpoints(
        {
            "addresses": [
                {
                    "ip": A,
                    "hostname": "h",
                    "nodeName": "far",
                    "targetRef": {"kind": "Pod", "name": "p", "namespace": "n"},
                }
            ],
            "ports": [{**SQL, "appProtocol": "postgres"}],
        },
        labels={"team": "x", "endpointslice.kubernetes.io/managed-by": "me"},
        annotations={
            "note": "1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "endpoints.kubernetes.io/last-change-trigger-time": "2020-01-01T00:00:00Z",
        },
    )
    (new,) = mirrored(given).changes.create
    assert msgspec.json.decode(msgspec.json.encode(new)) == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": "db-",
            "namespace": "n",
            "labels": {"team": "x", **MANAGED},
            "annotations": {"note": "1"},
            "ownerReferences": [OWNER],
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [A],
                "conditions": {"ready": True},
                "hostname": "h",
                "nodeName": "far",
                "targetRef": {"kind": "Pod", "name": "p", "namespace": "n"},
            }
        ],
        "ports": [
            {"name": "sql", "port": 5432, "protocol": "TCP", "appProtocol": "postgres"}
        ],
    }


@pytest.mark.parametrize(
    "metadata", [{"labels": MANAGED | {"mine": "1"}}, {"annotations": {"mine": "1"}}]
)
def test_metadata_by_hand_is_corrected(metadata: JSON) -> None:
    edited = slice_json(
        "db-1", endpoint(A), metadata={**metadata, "finalizers": ["example.com/kept"]}
    )
    (update,) = mirrored(endpoints(subset(A)), edited).changes.update
    stored = edited["metadata"]
    assert msgspec.json.decode(msgspec.json.encode(update.metadata)) == {
        "name": "db-1",
        "namespace": "n",
        "uid": "uid-db-1",
        "resourceVersion": "7",
        "creationTimestamp": stored["creationTimestamp"],
        "labels": MANAGED,
        "annotations": {},
        "ownerReferences": [OWNER],
        "finalizers": ["example.com/kept"],
    }


@pytest.mark.parametrize(
    "changed",
    [
        endpoint(A, hostname="h"),
        endpoint(A, nodeName="n"),
        endpoint(A, zone="z"),
        endpoint(A, targetRef={"kind": "Pod", "name": "p"}),
        {"addresses": [A], "conditions": {"ready": True, "serving": True}},
    ],
)
def test_everything_about_an_endpoint_is_compared(changed: JSON) -> None:
    """Upstream does not notice that a hostname has changed."""
    edited = slice_json("db-1", changed)
    assert written(mirrored(endpoints(subset(A)), edited)) == "db-1: 1 sql"


@pytest.mark.parametrize(
    ("ready", "unready", "kept", "invalid", "skipped"),
    [
        ("1 2 3", "4 5", "1 2 3 4", 0, 1),
        ("1 2 3 4 5", "6", "1 2 3 4", 0, 2),
        ("1 x y 2", "3", "1 2 3", 2, 2),
        ("1 2 3 4", "x", "1 2 3 4", 0, 1),
        ("", "", "", 0, 0),
    ],
)
def test_a_subset_has_at_most_so_many_addresses(
    ready: str, unready: str, kept: str, invalid: int, skipped: int
) -> None:
    def ips(text: str) -> str:
        return " ".join(
            f"10.0.0.{each}" if each.isdecimal() else each for each in text.split()
        )

    desired = desired_endpoints(
        endpoints(subset(ips(ready), ips(unready))).subsets or (), 4
    )
    found = [
        (endpoint.addresses or ("",))[0]
        for group in desired.endpoints.values()
        for endpoint in group.values()
    ]
    assert found == ips(kept).split()
    assert (len(desired.invalid), desired.skipped) == (invalid, skipped)


def test_endpoints_are_counted() -> None:
    found = mirrored(
        endpoints(subset(f"{A} {B} 10.0.0.3 fd00::1"), subset(A, "", WEB)),
        slice_json("db-1", endpoint(A, ready=False), endpoint("10.0.0.9")),
    )
    assert found.totals == Totals(added=3 + 1, updated=1, removed=1)
    assert sorted(found.usage, key=repr) == [
        SliceUsage(endpoints=0, slices=0),
        SliceUsage(endpoints=1, slices=1),
        SliceUsage(endpoints=1, slices=1),
        SliceUsage(endpoints=3, slices=1),
    ]


Offer = tuple[str, str]
"""An address and the name of a port."""

_NUMBERS: Final = count()


def offers(slices: Sequence[EndpointSlice]) -> set[Offer]:
    return {
        (address, port.name or "")
        for each in slices
        for endpoint in each.endpoints or ()
        for address in endpoint.addresses or ()
        for port in each.ports or ()
    }


def states(
    before: Sequence[EndpointSlice], given: Endpoints
) -> Iterator[list[EndpointSlice]]:
    stored = {each.metadata.name: each for each in before}
    wire: list[JSON] = [msgspec.json.decode(msgspec.json.encode(e)) for e in before]
    changes = mirrored(given, *wire).changes
    for each in changes.create:
        name = f"db-{next(_NUMBERS)}"
        metadata = replace(each.metadata, name=name, uid=name)
        stored[name] = replace(each, metadata=metadata)
        yield list(stored.values())
    for each in changes.update:
        stored[each.metadata.name] = each
        yield list(stored.values())
    for each in changes.delete:
        del stored[each.metadata.name]
        yield list(stored.values())
    yield list(stored.values())


def port(name: str) -> JSON:
    return {"name": name, "port": ord(name), "protocol": "TCP"}


def test_an_endpoint_that_stays_exists_after_each_write() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(300):
        stored: list[EndpointSlice] = []
        for _ in range(4):
            given = endpoints(
                *(
                    subset(f"10.0.0.{number}", "", *map(port, chosen))
                    for number in range(1, 4)
                    if (chosen := [each for each in "pqrs" if rng.random() < 0.6])
                )
            )
            before = offers(stored)
            steps = list(states(stored, given))
            stays = before & offers(steps[-1])
            assert [stays - offers(each) for each in steps] == [set()] * len(steps), (
                seed
            )
            stored = steps[-1]


A, B = "10.0.0.1", "10.0.0.2"
P, Q, R, S = map(port, "pqrs")


def sync(given: Endpoints, *before: EndpointSlice) -> list[list[EndpointSlice]]:
    return list(states(before, given))


def test_a_port_gets_its_new_slice_before_it_loses_the_old_one() -> None:
    before = sync(endpoints(subset(A, "", P, Q), subset(B, "", R)))[-1]
    after = endpoints(subset(A, "", P), subset(f"{A} {B}", "", Q, R))
    steps = sync(after, *before)
    assert sorted(len(each.ports or ()) for each in before) == [1, 2]
    assert offers(steps[-1]) == {(A, "p"), (A, "q"), (B, "q"), (A, "r"), (B, "r")}
    assert all({(A, "p"), (A, "q"), (B, "r")} <= offers(each) for each in steps)
    assert len(steps) == 2 + 1


def test_a_slice_is_not_used_again_if_an_endpoint_were_missing() -> None:
    before = sync(endpoints(subset(A, "", P, Q), subset(B, "", R, S)))[-1]
    both = f"{A} {B}"
    after = endpoints(subset(both, "", P, R), subset(f"{both} 10.0.0.3", "", Q, S))
    steps = sync(after, *before)
    assert all(offers(before) <= offers(each) for each in steps)
    assert len(steps) == 2 + 2 + 1


_PREFIX = "endpoint_slice_mirroring_controller"


def test_gauges_show_what_all_endpoints_need_and_have() -> None:
    registry = CollectorRegistry()
    metrics = MirroringMetrics(registry)

    def gauges() -> tuple[float | None, ...]:
        names = ("endpoints_desired", "num_endpoint_slices", "desired_endpoint_slices")
        return tuple(registry.get_sample_value(f"{_PREFIX}_{name}") for name in names)

    assert gauges() == (0, 0, 0)
    one = mirrored(endpoints(subset("10.0.0.1 10.0.0.2 10.0.0.3")))
    metrics.mirrored("n/one", one, limit=2)
    assert gauges() == (3, 1, 2)
    two = mirrored(endpoints(subset("10.0.0.1"), subset("10.0.0.2", "", WEB)))
    metrics.mirrored("n/two", two, limit=2)
    assert gauges() == (5, 3, 4)
    surplus = mirrored(
        endpoints(subset("10.0.0.1")),
        slice_json("db-1", endpoint("10.0.0.1")),
        slice_json("db-2", endpoint("10.0.0.1")),
    )
    metrics.mirrored("n/one", surplus, limit=2)
    assert gauges() == (3, 3, 3)
    metrics.forget("n/two")
    metrics.forget("n/one")
    metrics.forget("n/one")
    assert gauges() == (0, 0, 0)


def test_histograms_and_the_counter_have_upstreams_names_and_buckets() -> None:
    registry = CollectorRegistry()
    metrics = MirroringMetrics(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"{_PREFIX}_{name}", labels)

    for operation in ("create", "update", "delete"):
        assert value("changes", operation=operation) == 0
    found = mirrored(
        endpoints(subset("10.0.0.1 10.0.0.2 10.0.0.3 x")),
        slice_json("db-1", endpoint("10.0.0.1", ready=False), endpoint("10.0.0.9")),
        limit=2,
    )
    metrics.mirrored("n/db", found, limit=2)
    metrics.wrote("update")
    metrics.duration.observe(0.003)
    assert {
        "added": value("endpoints_added_per_sync_sum"),
        "updated": value("endpoints_updated_per_sync_sum"),
        "removed": value("endpoints_removed_per_sync_sum"),
        "skipped": value("addresses_skipped_per_sync_sum"),
        "changes": value("changes", operation="update"),
        "first": value("endpoints_added_per_sync_bucket", le="2.0"),
        "last": value("endpoints_added_per_sync_bucket", le="32768.0"),
        "fast": value("endpoints_sync_duration_bucket", le="0.002"),
        "slow": value("endpoints_sync_duration_bucket", le="16.384"),
    } == {
        "added": 1,
        "updated": 1,
        "removed": 1,
        "skipped": 2,
        "changes": 1,
        "first": 1,
        "last": 1,
        "fast": 0,
        "slow": 1,
    }
