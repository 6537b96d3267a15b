"""The Endpoints that a service should have, as tables."""

import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.services import (
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    Service,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.network.endpoints.desired import (
    desired_endpoints,
    truncate,
)
from tests.controllers.rows import rows

HTTP = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}


MANAGED = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}


OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"


TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


READY_PORTS = [{"name": "http", "port": 8080, "protocol": "TCP"}]


def service(*ports: JSON, metadata: JSON | None = None, **spec: Any) -> Service:
    """Return the service "web"; without `ports` it has HTTP."""
    body = {
        "metadata": {"name": "web", "namespace": "n", **(metadata or {})},
        "spec": {
            "selector": {"app": "web"},
            "clusterIP": "10.0.0.1",
            "ipFamilies": ["IPv4"],
            "ports": list(ports or (HTTP,)),
            **spec,
        },
    }
    return msgspec.convert(body, Service)


def pod(
    name: str, *ips: str, ready: bool = True, metadata: JSON | None = None, **spec: Any
) -> Pod:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    body = {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            **(metadata or {}),
        },
        "spec": {"nodeName": "node", **spec},
        "status": {
            "phase": "Running",
            "podIP": ips[0] if ips else "",
            "podIPs": [{"ip": each} for each in ips],
            "conditions": [condition],
        },
    }
    return msgspec.convert(body, Pod)


def address(name: str, ip: str, **more: str) -> JSON:
    target = {"kind": "Pod", "namespace": "n", "name": name, "uid": f"uid-{name}"}
    return {"ip": ip, "nodeName": "node", "targetRef": target, **more}


def endpoints(*subsets: JSON, **metadata: Any) -> Endpoints:
    body = {
        "metadata": {
            "name": "web",
            "namespace": "n",
            "resourceVersion": "1",
            "labels": MANAGED,
            **metadata,
        },
        "subsets": list(subsets),
    }
    return msgspec.convert(body, Endpoints)


def wanted_of(
    backed: Service, *pods: Pod, current: Endpoints | None = None, time: str = ""
) -> Endpoints | None:
    return desired_endpoints(backed, pods, current, time)


def as_json(what: Endpoints | tuple[EndpointSubset, ...] | None) -> Any:
    """Return what would be written."""
    found: Any = msgspec.json.decode(msgspec.json.encode(what))
    return found


METRICS = {"name": "metrics", "port": 90, "targetPort": "metrics", "protocol": "TCP"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
A, B = pod("a", "10.1.0.1"), pod("b", "10.1.0.2")
UNREADY = pod("u", "10.1.0.9", ready=False)
LEAVING = pod("l", "10.1.0.8", ready=False, metadata=DELETED)


def subset(*ready: JSON, unready: tuple[JSON, ...] = (), **more: Any) -> JSON:
    lists = {"addresses": list(ready), "notReadyAddresses": list(unready)}
    found = {name: each for name, each in lists.items() if each}
    return {**found, "ports": READY_PORTS, **more}


AT_A, AT_B = address("a", "10.1.0.1"), address("b", "10.1.0.2")
DUAL = pod("a", "10.1.0.1", "fd00::1")
STORED, STORED_6 = subset(AT_A), subset(address("a", "fd00::1"))
HEADLESS = "service.kubernetes.io/headless"
H2C = [{**READY_PORTS[0], "appProtocol": "h2c"}]


@rows(
    "backed pods expected",
    {
        "no pod": (service(), (), None),
        "two pods": (service(), (B, A), [subset(AT_A, AT_B)]),
        "one is not ready": (
            service(),
            (A, UNREADY),
            [subset(AT_A, unready=(address("u", "10.1.0.9"),))],
        ),
        "a pod that is being deleted": (service(), (LEAVING,), None),
        "addresses that are not ready are published": (
            service(publishNotReadyAddresses=True),
            (LEAVING, UNREADY),
            [subset(address("l", "10.1.0.8"), address("u", "10.1.0.9"))],
        ),
        "a pod without address": (service(), (pod("x"),), None),
        "only an address of IPv6": (service(), (pod("x", "fd00::1"),), None),
        "the first family of the service": (
            service(ipFamilies=["IPv6", "IPv4"]),
            (DUAL,),
            [STORED_6],
        ),
        "the family of the cluster IP": (
            service(ipFamilies=None, clusterIP="fd00:10::1"),
            (DUAL,),
            [STORED_6],
        ),
        "the family of each pod": (
            service(ipFamilies=None, clusterIP="None"),
            (pod("a", "fd00::1", "10.1.0.1"), pod("b", "10.1.0.2", "fd00::2")),
            [subset(AT_B, address("a", "fd00::1"))],
        ),
        "an address in an old form": (service(), (pod("a", "10.01.0.1"),), [STORED]),
        "a hostname below the service": (
            service(clusterIP="None"),
            (
                pod("a", "10.1.0.1", hostname="h", subdomain="web"),
                pod("b", "10.1.0.2", hostname="h", subdomain="other"),
            ),
            [subset(address("a", "10.1.0.1", hostname="h"), AT_B)],
        ),
        "a pod that does not have the port": (service(METRICS), (A,), None),
        "a service that has no ports": (service(ports=None), (A,), None),
        "a headless service without ports": (
            service(ports=None, clusterIP="None"),
            (A,),
            [{"addresses": [AT_A]}],
        ),
        "an application protocol": (
            service({**HTTP, "appProtocol": "h2c"}),
            (A,),
            [subset(AT_A, ports=H2C)],
        ),
        "a pod without a node has an address without a node": (
            service(),
            (pod("a", "10.1.0.1", nodeName=""),),
            [subset({k: v for k, v in AT_A.items() if k != "nodeName"})],
        ),
    },
)
def test_subsets_are_those_of_the_pods(
    backed: Service, pods: tuple[Pod, ...], expected: list[JSON] | None
) -> None:
    wanted = wanted_of(backed, *pods)
    assert wanted is not None
    assert as_json(wanted.subsets) == expected


@rows(
    "backed expected",
    {
        "the labels of the service": (
            service(metadata={"labels": {"team": "x"}}),
            {"team": "x", **MANAGED},
        ),
        "headless": (service(clusterIP="None"), {HEADLESS: "", **MANAGED}),
        "a service does not set the controller's own labels": (
            service(
                metadata={"labels": {HEADLESS: "", **dict.fromkeys(MANAGED, "me")}}
            ),
            MANAGED,
        ),
    },
)
def test_labels_are_merged(backed: Service, expected: JSON) -> None:
    wanted = wanted_of(backed)
    assert wanted is not None
    assert wanted.metadata.labels == expected


@rows(
    "current is_right",
    {
        "there are none": (None, False),
        "equal": (endpoints(STORED), True),
        "empty": (endpoints(), False),
        "no label": (endpoints(STORED, labels=None), False),
        "another label": (endpoints(STORED, labels={**MANAGED, "mine": "1"}), False),
        "other annotations": (endpoints(STORED, annotations={"mine": "1"}), True),
        "an old trigger time": (
            endpoints(STORED, annotations={TRIGGER_TIME: "2020-01-01T00:00:00Z"}),
            True,
        ),
        "said to be over capacity": (
            endpoints(STORED, annotations={OVER_CAPACITY: "truncated"}),
            False,
        ),
        "with the version of the pod": (
            endpoints(
                subset(
                    {**AT_A, "targetRef": {**AT_A["targetRef"], "resourceVersion": "7"}}
                )
            ),
            True,
        ),
        "empty lists": (endpoints(subset(AT_A, unready=())), True),
        "the same subset twice": (endpoints(STORED, STORED), True),
        "a further address": (
            endpoints(STORED, subset(address("a", "10.1.0.2"))),
            False,
        ),
    },
)
def test_differences_are_written(current: Endpoints | None, is_right: bool) -> None:
    found = wanted_of(service(), A, current=current, time="2026-01-01T00:00:00Z")
    assert (found is None) == is_right


def test_addresses_in_another_order_and_split_subsets_are_no_difference() -> None:
    backed = service(HTTP, METRICS)
    wanted = wanted_of(backed, A, B, UNREADY)
    assert wanted is not None
    split = tuple(
        msgspec.structs.replace(each, addresses=addresses, not_ready_addresses=unready)
        for each in reversed(wanted.subsets or ())
        for addresses, unready in (
            (None, each.not_ready_addresses),
            (each.addresses and each.addresses[::-1], None),
        )
    )
    current = msgspec.structs.replace(wanted, subsets=split)
    assert wanted_of(backed, A, B, UNREADY, current=current) is None
    fewer = msgspec.structs.replace(wanted, subsets=split[1:])
    assert wanted_of(backed, A, B, UNREADY, current=fewer) is not None


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-01T00:00:00Z", {"mine": "1", TRIGGER_TIME: "2026-01-01T00:00:00Z"}),
        ("", {"mine": "1"}),
    ],
)
def test_a_write_has_the_trigger_time_of_its_change(time: str, expected: JSON) -> None:
    old = {"mine": "1", TRIGGER_TIME: "2020-01-01T00:00:00Z"}
    kept = {"finalizers": ["example.com/kept"], "uid": "u1"}
    current = endpoints(annotations=old, **kept)
    wanted = wanted_of(service(), A, current=current, time=time)
    assert as_json(wanted) == {
        "metadata": {
            "name": "web",
            "namespace": "n",
            "resourceVersion": "1",
            "labels": MANAGED,
            "annotations": expected,
            **kept,
        },
        "subsets": [STORED],
    }


def test_new_endpoints_have_a_name_and_nothing_of_the_services_metadata() -> None:
    metadata = {"annotations": {"x": "1"}, "labels": {"l": "1"}, "uid": "u1"}
    assert as_json(wanted_of(service(metadata=metadata))) == {
        "metadata": {"name": "web", "namespace": "n", "labels": {"l": "1", **MANAGED}}
    }


def test_too_many_addresses_are_truncated_and_written_once() -> None:
    pods = [
        pod(f"p{n:04}", f"10.1.{n // 250}.{n % 250}", ready=n < 600)
        for n in range(1200)
    ]
    wanted = wanted_of(service(), *pods)
    assert wanted is not None
    assert wanted.metadata.annotations == {OVER_CAPACITY: "truncated"}
    (kept,) = wanted.subsets or ()
    assert [len(kept.addresses or ()), len(kept.not_ready_addresses or ())] == [
        600,
        400,
    ]
    assert wanted_of(service(), *pods, current=wanted) is None
    fits = wanted_of(service(), *pods[:1000], current=wanted)
    assert fits is not None
    assert fits.metadata.annotations is None


Sizes = tuple[int, int]


def subsets(*sizes: Sizes) -> tuple[EndpointSubset, ...]:
    def addresses(number: int, count: int) -> tuple[EndpointAddress, ...] | None:
        found = (EndpointAddress(ip=f"{number}.{each}") for each in range(count))
        return tuple(found) or None

    return tuple(
        EndpointSubset(
            addresses=addresses(2 * number, ready),
            not_ready_addresses=addresses(2 * number + 1, not_ready),
        )
        for number, (ready, not_ready) in enumerate(sizes)
    )


def sizes_of(found: tuple[EndpointSubset, ...]) -> list[Sizes]:
    return [
        (len(each.addresses or ()), len(each.not_ready_addresses or ()))
        for each in found
    ]


@rows(
    "given expected",
    {
        "nothing": ([], []),
        "just enough": ([(500, 500)], [(500, 500)]),
        "too many that are ready": ([(1001, 0)], [(1000, 0)]),
        "too many that are not ready": ([(0, 1001)], [(0, 1000)]),
        "ready ones first": ([(900, 200)], [(900, 100)]),
        "no room for others": ([(1000, 200)], [(1000, 0)]),
        "not even for all ready ones": ([(1200, 200)], [(1000, 0)]),
        "shares are rounded up": ([(700, 0), (500, 0)], [(584, 0), (416, 0)]),
        "shares of those that are not ready": (
            [(400, 500), (200, 100)],
            [(400, 334), (200, 66)],
        ),
        "upstream: too many that are not ready, in five subsets": (
            [(90, 101), (110, 200), (50, 200), (10, 201), (20, 298)],
            [(90, 73), (110, 144), (50, 144), (10, 145), (20, 214)],
        ),
        "upstream: too many that are ready, in five subsets": (
            [(205, 100), (400, 200), (402, 200), (400, 200), (693, 300)],
            [(98, 0), (191, 0), (192, 0), (191, 0), (328, 0)],
        ),
        "a subset without addresses would be refused": (
            [(1200, 0), (0, 10)],
            [(1000, 0)],
        ),
        "the last subsets get nothing": ([(1, 0)] * 1001, [(1, 0)] * 1000),
    },
)
def test_surplus_addresses_go(given: list[Sizes], expected: list[Sizes]) -> None:
    before = subsets(*given)
    found, is_truncated = truncate(before)
    assert sizes_of(found) == expected
    assert is_truncated == (given != expected)


def test_a_subset_keeps_its_first_addresses() -> None:
    """They are sorted, so the same addresses stay from one sync to the next."""
    (before,) = subsets((1100, 100))
    (after,), _ = truncate((before,))
    assert after == EndpointSubset(addresses=(before.addresses or ())[:1000])


def test_the_capacity_is_used() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(200):
        given = [
            (rng.choice((0, 1, rng.randint(0, 700))), rng.randint(0, 400))
            for _ in range(rng.randint(1, 8))
        ]
        found, is_truncated = truncate(subsets(*given))
        total = sum(map(sum, given))
        kept = sum(map(sum, sizes_of(found)))
        assert kept == min(total, 1000), seed
        assert is_truncated == (total > 1000), seed
        ready = sum(size for size, _ in given)
        assert sum(size for size, _ in sizes_of(found)) == min(ready, 1000), seed


def test_shares_follow_the_sizes() -> None:
    found, _ = truncate(subsets((900, 0), (600, 0), (300, 0), (10, 0)))
    assert all(one >= other for (one, _), (other, _) in pairwise(sizes_of(found)))
