"""The metrics show the numbers of endpoints and slices, and the results of syncs."""

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller_manager.api.core.services import ServiceAnnotations
from controller_manager.control.endpoints.slice_writes import SliceUsage
from controller_manager.control.endpoints.slices import SliceActions
from controller_manager.controllers.network.endpointslice.controller import (
    EndpointSliceMetrics,
)
from controller_manager.controllers.network.endpointslice.slices import Plan
from controller_manager.observability.exposition import expose
from tests.control.endpoints.objects import service

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
    """The series of every result and operation exist from the start."""
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
