"""Decisions about the slices of one address type, on plain values."""

from collections.abc import Iterable

import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller_manager.api.core.services import Service, ServiceAnnotations
from controller_manager.api.core.v1 import Node
from controller_manager.api.discovery.v1 import Endpoint, EndpointPort, EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import OwnerReference
from controller_manager.control.endpoints.slice_writes import SliceUsage
from controller_manager.control.endpoints.slices import (
    SliceActions,
    SliceTemplate,
    joined,
    key_of_endpoint,
    recycled,
    with_trigger_time,
)
from controller_manager.controllers.network.endpointslice.controller import (
    EndpointSliceMetrics,
)
from controller_manager.controllers.network.endpointslice.slices import (
    Backend,
    Plan,
    Ports,
    ServicePorts,
    endpoint_of,
    in_order,
    pack,
    plan,
    slice_labels,
    template_of,
)
from controller_manager.observability.exposition import expose
from tests.control.endpoints.objects import (
    NAMESPACE,
    endpoint,
    endpoint_slice,
    pod,
    service,
)
from tests.controllers.rows import rows

TEMPLATE = template_of(service(), "IPv4")
HTTP = (EndpointPort(name="http", port=8080, protocol="TCP"),)
METRICS = (EndpointPort(name="metrics", port=9100, protocol="TCP"),)
LIMIT = 3


def backend(number: int, ports: Ports = HTTP, *, ready: bool = True) -> Backend:
    target = {"kind": "Pod", "namespace": "default", "name": f"p{number}"}
    made = endpoint(f"10.1.0.{number}", ready=ready, targetRef=target)
    return Backend(ports, made)


def owned(
    name: str, *backends: Backend, ports: Ports = HTTP, **metadata: object
) -> EndpointSlice:
    made = replace(TEMPLATE, ports=ports).make(tuple(b.endpoint for b in backends))
    named = replace(made.metadata, name=name, uid=f"{name}-uid", **metadata)
    return replace(made, metadata=named)


def planned(slices: list[EndpointSlice], *backends: Backend) -> Plan:
    return plan(TEMPLATE, slices, (), backends, LIMIT)


def names(slices: tuple[EndpointSlice, ...]) -> list[str]:
    return [each.metadata.name for each in slices]


def test_a_service_without_backends_has_a_placeholder() -> None:
    (made,) = planned([]).changes.create
    assert made == TEMPLATE.make(())
    assert (made.endpoints, made.ports) == ((), ())
    assert planned([]).usage == (SliceUsage(0, 1),)


def test_the_placeholder_stays() -> None:
    placeholder = owned("empty", ports=())
    changes = planned([placeholder]).changes
    assert (changes.unchanged, changes.count) == ((placeholder,), 0)


@pytest.mark.parametrize(
    "existing",
    [
        owned("s", ports=(), labels={"other": "labels"}),
        owned("s", ports=HTTP),
        owned("s", ports=(), owner_references=()),
        owned("s", backend(1)),
    ],
)
def test_only_the_placeholder_slice_stays(existing: EndpointSlice) -> None:
    changes = planned([existing]).changes
    assert (names(changes.delete), len(changes.create)) == (["s"], 1)


def test_backends_take_the_place_of_the_placeholder() -> None:
    """It has other ports, so it is deleted; the writes make an update of both."""
    changes = planned([owned("empty", ports=())], backend(1)).changes
    assert names(changes.delete) == ["empty"]
    assert [each.ports for each in changes.create] == [HTTP]


def test_the_slices_of_a_headless_service_without_ports_fill_the_placeholder() -> None:
    changes = planned([owned("empty", ports=())], backend(1, ())).changes
    assert (names(changes.update), changes.count) == (["empty"], 1)


def test_each_set_of_ports_has_slices_of_its_own() -> None:
    old = owned("old", backend(3), ports=METRICS)
    result = planned(
        [owned("s", backend(1)), old], backend(1), backend(2, (*METRICS, *HTTP))
    )
    assert names(result.changes.unchanged) == ["s"]
    assert names(result.changes.delete) == ["old"]
    assert [each.ports for each in result.changes.create] == [(*METRICS, *HTTP)]
    assert sorted(each.endpoints for each in result.usage) == [1, 1]


def test_the_order_of_ports_in_a_slice_does_not_matter() -> None:
    """Upstream writes them in another order."""
    ports = in_order((*METRICS, *HTTP))
    existing = owned("s", backend(1, ports), ports=tuple(reversed(ports)))
    assert planned([existing], backend(1, ports)).changes.count == 0


def test_slices_of_a_former_service_of_the_name_are_deleted() -> None:
    """The garbage collector would delete them soon; they are not used again."""
    foreign = endpoint_slice("old", endpoint("10.1.0.1"))
    changes = planned([foreign], backend(1)).changes
    assert (names(changes.delete), len(changes.create)) == (["old"], 1)


def test_the_numbers_of_a_plan_are_those_of_its_slices() -> None:
    result = planned(
        [owned("a", backend(1), backend(9)), owned("b", backend(2), backend(3))],
        *map(backend, range(1, 8)),
    )
    assert result.usage == (SliceUsage(7, 3),)
    assert (result.added, result.removed) == (4, 1)


def test_labels_are_those_of_the_service_and_the_reserved_ones() -> None:
    labels = {
        "app": "web",
        "kubernetes.io/service-name": "other",
        "endpointslice.kubernetes.io/managed-by": "me",
        "service.kubernetes.io/headless": "no",
    }
    mine = {
        "app": "web",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert slice_labels(service(labels=labels)) == mine
    headless = service(labels=labels, clusterIP="None")
    assert slice_labels(headless) == mine | {"service.kubernetes.io/headless": ""}


def node(**labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": "n1", "labels": labels}}, Node)


ZONED = node(**{"topology.kubernetes.io/zone": "z"})


def expected(**fields: object) -> Endpoint:
    target = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "a-uid"}
    made = endpoint("10.1.0.1", targetRef=target, nodeName="n1", zone="z")
    conditions = fields.pop("conditions", None)
    if isinstance(conditions, tuple):
        ready, serving, terminating = conditions
        changed = replace(
            made.conditions, ready=ready, serving=serving, terminating=terminating
        )
        made = replace(made, conditions=changed)
    return replace(made, **fields)


PUBLISHED = service(publishNotReadyAddresses=True)
NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("of", "pod_fields", "at", "found"),
    [
        (service(), {}, ZONED, expected()),
        (service(), {}, node(), expected(zone=None)),
        (service(), {}, None, expected(zone=None)),
        (
            service(),
            {"ready": False},
            ZONED,
            expected(conditions=(False, False, False)),
        ),
        (
            service(),
            {"deletionTimestamp": NOW},
            ZONED,
            expected(conditions=(False, True, True)),
        ),
        (PUBLISHED, {"ready": False}, ZONED, expected(conditions=(True, False, False))),
        (
            PUBLISHED,
            {"deletionTimestamp": NOW},
            ZONED,
            expected(conditions=(True, True, True)),
        ),
        (
            service(),
            {"spec": {"hostname": "db-0", "subdomain": "web"}},
            ZONED,
            expected(hostname="db-0"),
        ),
        (
            service(),
            {"spec": {"hostname": "db-0", "subdomain": "other"}},
            ZONED,
            expected(),
        ),
    ],
)
def test_an_endpoint_shows_its_pod(
    of: Service, pod_fields: JSON, at: Node | None, found: Endpoint
) -> None:
    assert endpoint_of(of, pod("a", "10.1.0.1", **pod_fields), at, "IPv4") == found


def test_a_pod_without_an_address_of_the_type_has_no_endpoint() -> None:
    """It may have an endpoint of the other type."""
    assert endpoint_of(service(), pod("a", "10.1.0.1"), ZONED, "IPv6") is None


def test_ports_that_do_not_depend_on_the_pod_are_computed_once() -> None:
    fixed = ServicePorts(service(ports=[{"name": "http", "targetPort": 8080}]))
    assert fixed.of(pod("a")) is fixed.of(pod("b"))
    named = ServicePorts(service(ports=[{"name": "http", "targetPort": "web"}]))
    ports = [{"name": "web", "containerPort": 80}]
    assert [
        named.of(pod("a")),
        named.of(pod("b", spec={"containers": [{"ports": ports}]})),
    ] == [(), (EndpointPort(name="http", port=80, protocol="TCP"),)]


OWNER = OwnerReference(api_version="v1", kind="Service", name="web", uid="web-uid")
PLAIN = SliceTemplate(NAMESPACE, OWNER, {}, "IPv4", ())


def packed(
    slices: Iterable[EndpointSlice], desired: Iterable[Endpoint], limit: int = LIMIT
) -> SliceActions:
    by_key = {key_of_endpoint(each): each for each in desired}
    return pack(list(slices), by_key, PLAIN, limit).changes


def numbered(*numbers: int) -> list[Endpoint]:
    return [endpoint(f"10.1.0.{each}") for each in numbers]


def of(*numbers: int) -> EndpointSlice:
    return endpoint_slice("-".join(map(str, numbers)) or "empty", *numbered(*numbers))


def shape(changes: SliceActions) -> str:
    """Return the changes as "new: 1 2; 3-4: 3; gone: 5; same: 6"."""

    def text(each: EndpointSlice, name: str = "new") -> str:
        last = [(one.addresses or ("",))[0][7:] for one in each.endpoints or ()]
        return f"{name}: {' '.join(last)}"

    created = list(map(text, changes.create))
    updated = [text(each, each.metadata.name) for each in changes.update]
    gone = [f"gone: {each.metadata.name}" for each in changes.delete]
    same = [f"same: {each.metadata.name}" for each in changes.unchanged]
    return "; ".join((*created, *updated, *gone, *same))


@rows(
    "slices desired expected",
    {
        "nothing to do": ([of(1, 2)], [1, 2], "same: 1-2"),
        "the first slices are filled": ([], [1, 2, 3, 4], "new: 1 2 3; new: 4"),
        "one goes where it fills best": (
            [of(1), of(2, 3)],
            [1, 2, 3, 4],
            "2-3: 2 3 4; same: 1",
        ),
        "two do not fit there": (
            [of(1), of(2, 3)],
            [1, 2, 3, 4, 5],
            "1: 1 4 5; same: 2-3",
        ),
        "a full slice's worth is new": ([of(1)], [1, 2, 3, 4], "new: 2 3 4; same: 1"),
        "those that fit together into none are not split": (
            [of(1, 2), of(3, 4)],
            [1, 2, 3, 4, 5, 6],
            "new: 5 6; same: 1-2; same: 3-4",
        ),
        "a slice that changes anyway is filled first": (
            [of(1, 2, 3), of(4)],
            [1, 2, 4, 5],
            "1-2-3: 1 2 5; same: 4",
        ),
        "never merged": ([of(1), of(2), of(3)], [1, 2, 3], "same: 1; same: 2; same: 3"),
        "one that loses all goes": ([of(1, 2), of(3)], [3], "gone: 1-2; same: 3"),
        "an empty slice is used": ([of()], [1], "empty: 1"),
        "or goes": ([of()], [], "gone: empty"),
        "or is not used": (
            [of(), of(1)],
            [1, 2, 3, 4],
            "new: 2 3 4; gone: empty; same: 1",
        ),
        "of two the first keeps it": (
            [of(1, 2), of(2, 3)],
            [1, 2, 3],
            "2-3: 3; same: 1-2",
        ),
        "above the limit they stay": ([of(1, 2, 3, 4)], [1, 2, 3, 4], "same: 1-2-3-4"),
        "but no further one comes": (
            [of(1, 2, 3, 4, 5)],
            [1, 2, 3, 4, 6],
            "new: 6; 1-2-3-4-5: 1 2 3 4",
        ),
    },
)
def test_endpoints_fill_slices_and_never_move(
    slices: list[EndpointSlice], desired: list[int], expected: str
) -> None:
    assert shape(packed(slices, numbered(*desired))) == expected


def test_a_change_apart_from_the_address_is_an_update_in_place() -> None:
    old = endpoint_slice("s", *numbered(1, 2))
    new = [endpoint("10.1.0.1", ready=False), endpoint("10.1.0.2", zone="z")]
    packing = pack([old], {key_of_endpoint(each): each for each in new}, PLAIN, LIMIT)
    assert [each.endpoints for each in packing.changes.update] == [tuple(new)]
    assert (packing.added, packing.removed) == (0, 0)


def test_the_version_of_a_target_is_no_change() -> None:
    target = {"kind": "Pod", "name": "a", "uid": "u"}
    old = endpoint("10.1.0.1", targetRef={**target, "resourceVersion": "7"})
    packing = packed(
        [endpoint_slice("s", old)], [endpoint("10.1.0.1", targetRef=target)]
    )
    assert [each.metadata.name for each in packing.unchanged] == ["s"]


def test_other_labels_are_an_update() -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"of": "others"}}
    old = endpoint_slice("s", *numbered(1), metadata=metadata)
    (update,) = packed([old], numbered(1)).update
    assert update.metadata.labels == {}
    assert update.metadata.annotations == {"of": "others"}
    assert update.endpoints == old.endpoints


def test_the_trigger_time_is_written_and_taken_away() -> None:
    old = endpoint_slice("s", metadata={"annotations": {"of": "others"}})
    key = "endpoints.kubernetes.io/last-change-trigger-time"
    dated = with_trigger_time(old, "now")
    assert dated.metadata.annotations == {"of": "others", key: "now"}
    assert with_trigger_time(dated, "") == old


def test_settled_slices_are_filled_but_not_read() -> None:
    by_key = {key_of_endpoint(each): each for each in numbered(5)}
    packing = pack([of(4)], by_key, PLAIN, LIMIT, settled=[of(1, 2), of(3)])
    assert shape(packing.changes) == "1-2: 1 2 5; gone: 4; same: 3"


def of_service(name: str, uid: str = "web-uid", **fields: str) -> EndpointSlice:
    reference = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}
    metadata = {"ownerReferences": [reference]}
    return endpoint_slice(name, *numbered(1), metadata=metadata, **fields)


def test_a_slice_is_updated_where_one_would_be_deleted_and_one_created() -> None:
    unwanted = [
        of_service("foreign", "old-uid"),
        of_service("six", addressType="IPv6"),
        of_service("s"),
    ]
    changes = joined([packed([], numbered(2))], unwanted)
    used = recycled(changes, OWNER)
    assert [each.metadata.name for each in used.update] == ["s"]
    assert used.update[0].endpoints == tuple(numbered(2))
    assert [each.metadata.name for each in used.delete] == ["foreign", "six"]
    assert (used.create, used.count) == ((), 3)


def test_generated_names_start_with_the_service_and_a_dash() -> None:
    assert PLAIN.make(()).metadata.generate_name == "web-"
    long = replace(PLAIN, owner=replace(OWNER, name="n" * 253))
    assert long.make(()).metadata.generate_name == "n" * 253


PREFIX = "endpoint_slice_controller_"
COLLECTOR = "services_count_by_traffic_distribution"


def shown(registry: CollectorRegistry, *names: str) -> dict[str, float]:
    """Return the samples of metrics, without the prefix and without buckets."""
    lines = expose(registry).decode().splitlines()
    samples = (each.rsplit(" ", 1) for each in lines if each.startswith(PREFIX))
    return {
        name.removeprefix(PREFIX): float(value)
        for name, value in samples
        if name.removeprefix(PREFIX).startswith(names)
        and "_bucket" not in name
        and "_created" not in name
    }


def test_the_gauges_are_those_of_all_services() -> None:
    """A service without endpoints has its placeholder, in each type of address."""
    registry = CollectorRegistry()
    metrics = EndpointSliceMetrics(registry)
    names = ("endpoints_desired", "num_endpoint_slices", "desired_endpoint_slices")
    metrics.uses(
        "ns/web",
        [[SliceUsage(250, 4), SliceUsage(10, 1)], [SliceUsage(0, 1)]],
        limit=100,
    )
    metrics.uses("ns/other", [[SliceUsage(5, 1)]], limit=100)
    assert shown(registry, *names) == {
        "endpoints_desired": 265,
        "num_endpoint_slices": 7,
        "desired_endpoint_slices": 6,
    }
    metrics.uses("ns/web", [[SliceUsage(0, 1)]], limit=100)
    metrics.forget("ns/other")
    metrics.forget("ns/other")
    assert shown(registry, *names) == {
        "endpoints_desired": 0,
        "num_endpoint_slices": 1,
        "desired_endpoint_slices": 1,
    }


def test_services_are_counted_by_their_traffic_distribution() -> None:
    """Values that are not known count as one, as upstream."""
    registry = CollectorRegistry()
    metrics = EndpointSliceMetrics(registry)
    metrics.distributes("ns/a", "PreferClose")
    metrics.distributes("ns/b", "PreferSameNode")
    metrics.distributes("ns/c", "")
    metrics.distributes("ns/d", "Odd")
    metrics.distributes("ns/e", "PreferSameZone")
    assert shown(registry, COLLECTOR) == {
        f'{COLLECTOR}{{traffic_distribution="PreferClose"}}': 1,
        f'{COLLECTOR}{{traffic_distribution="ImplementationSpecific"}}': 1,
        f'{COLLECTOR}{{traffic_distribution="PreferSameNode"}}': 1,
        f'{COLLECTOR}{{traffic_distribution="PreferSameZone"}}': 1,
    }
    metrics.distributes("ns/b", "PreferClose")
    metrics.forget("ns/a")
    assert shown(registry, COLLECTOR) == {
        f'{COLLECTOR}{{traffic_distribution="PreferClose"}}': 1,
        f'{COLLECTOR}{{traffic_distribution="ImplementationSpecific"}}': 1,
        f'{COLLECTOR}{{traffic_distribution="PreferSameNode"}}': 0,
        f'{COLLECTOR}{{traffic_distribution="PreferSameZone"}}': 1,
    }


def test_syncs_are_counted_with_their_results() -> None:
    registry = CollectorRegistry()
    metrics = EndpointSliceMetrics(registry)
    metrics.synced("success")
    metrics.wrote("update")
    close = service(trafficDistribution="PreferClose")
    metrics.finished(close, Plan(SliceActions(), (), 3, 1), 2)
    made = service()
    annotations = ServiceAnnotations(topology_mode="Auto")
    metadata = replace(made.metadata, annotations=annotations)
    by_topology = replace(made, metadata=metadata)
    metrics.finished(by_topology, Plan(SliceActions(), (), 2, 0), 1)
    changed = "endpointslices_changed_per_sync"
    assert shown(registry, "changes", "syncs", "endpoints_", changed) == {
        'changes{operation="create"}': 0,
        'changes{operation="update"}': 1,
        'changes{operation="delete"}': 0,
        'syncs{result="success"}': 1,
        'syncs{result="stale"}': 0,
        'syncs{result="error"}': 0,
        "endpoints_added_per_sync_count": 2,
        "endpoints_added_per_sync_sum": 5,
        "endpoints_removed_per_sync_count": 2,
        "endpoints_removed_per_sync_sum": 1,
        "endpoints_desired": 0,
        _per_sync(changed, "count", "Disabled", "PreferClose"): 1,
        _per_sync(changed, "sum", "Disabled", "PreferClose"): 2,
        _per_sync(changed, "count", "Auto", ""): 1,
        _per_sync(changed, "sum", "Auto", ""): 1,
    }


def _per_sync(name: str, what: str, topology: str, distribution: str) -> str:
    labels = f'topology="{topology}",traffic_distribution="{distribution}"'
    return f"{name}_{what}{{{labels}}}"
