"""The metrics of the API server at ``/metrics``: its requests and its objects.

Upstream: apiserver's endpoints/metrics and storage/etcd3/metrics.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.apiserver.rest.kind import Catalogue
from controller_manager.devcluster.storage import Storage
from controller_manager.observability.exposition import expose

from .request_info import attributes_of_request

PATH: Final = "/metrics"

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABELS: Final = (
    "code",
    "component",
    "dry_run",
    "group",
    "resource",
    "scope",
    "subresource",
    "verb",
    "version",
)
_METHODS: Final = {"create": "POST", "update": "PUT"}


class RequestMetrics(Collector):
    """Counts the requests that come over the network, and makes the metrics."""

    def __init__(self, catalogue: Catalogue, storage: Storage) -> None:
        self._catalogue = catalogue
        self._storage = storage
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, request: Request, code: int) -> None:
        """Count a request by its attributes, and by the status of its answer.

        All paths of unknown kinds share one series, so that no client can make the
        server's memory grow.
        """
        query = dict(request.query)
        found = attributes_of_request(request.method, request.path, request.query)
        segments = request.path.strip("/").split("/")
        version = "".join(segments[1:2] if segments[0] == "api" else segments[2:3])
        kind = self._catalogue.find(found.group, version, found.resource)
        labels = ("", "", "", "", "", found.verb.upper(), "")
        if kind is not None:
            known = kind.subresource(found.subresource)
            labels = (
                "All" if query.get("dryRun") else "",
                kind.group,
                kind.plural,
                _scope(found.name, found.namespace),
                found.subresource if known else "",
                _METHODS.get(found.verb, found.verb.upper()),
                kind.version,
            )
        elif request.method not in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
            labels = (*labels[:5], "other", "")
        self._requests[str(code), "apiserver", *labels] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        requests = CounterMetricFamily(
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, dry run value, "
            "group, version, resource, scope, component, and HTTP response code.",
            labels=_LABELS,
        )
        for labels, number in self._requests.items():
            requests.add_metric(labels, number)
        yield requests
        objects = GaugeMetricFamily(
            "apiserver_storage_objects",
            "Number of stored objects at the time of last check split by kind.",
            labels=("resource",),
        )
        stored = {kind.resource for kind in self._catalogue.all() if kind.is_stored}
        for resource in sorted(stored):
            objects.add_metric((resource,), len(self._storage.collection(resource)))
        yield objects

    def text(self) -> bytes:
        """Return the metrics in the text format."""
        return expose(self._registry)


def _scope(name: str, namespace: str) -> str:
    if name:
        return "resource"
    return "namespace" if namespace else "cluster"
