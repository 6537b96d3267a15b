"""Metrics of volumes and claims, with upstream's names (metrics/metrics.go)."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume, VolumeSpec
from controller_manager.clock import Clock

from .matching import kind_of_claim, kind_of_volume

_OPERATION: Final = ("plugin_name", "operation_name")
_OF_CLAIMS: Final = ("namespace", "storage_class", "volume_attributes_class")
NOT_KNOWN: Final = "N/A"
"""The name of an unknown plugin."""

PROVISION: Final = "provision"
DELETE: Final = "delete"
"""The names of operations."""

_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)

Series = tuple[Gauge, tuple[str, ...]]
"""A gauge and the values of its labels."""


class VolumeBinderMetrics:
    """The ``pv_collector_*``, ``volume_operation_*`` and ``retroactive_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...]) -> Gauge:
            return Gauge(f"pv_collector_{name}", text, labels, registry=registry)

        self.volumes = gauge(
            "total_pv_count", "Number of volumes", ("plugin_name", "volume_mode")
        )
        self.bound_volumes = gauge(
            "bound_pv_count", "Number of volumes that are bound", ("storage_class",)
        )
        self.unbound_volumes = gauge(
            "unbound_pv_count",
            "Number of volumes that are not bound",
            ("storage_class",),
        )
        self.bound_claims = gauge(
            "bound_pvc_count", "Number of claims that are bound", _OF_CLAIMS
        )
        self.unbound_claims = gauge(
            "unbound_pvc_count", "Number of claims that are not bound", _OF_CLAIMS
        )
        self.seconds = Histogram(
            "volume_operation_total_seconds",
            "Seconds from the request to provision or delete a volume to its end",
            _OPERATION,
            buckets=_BUCKETS,
            registry=registry,
        )
        self.errors = Counter(
            "volume_operation_errors_total",
            "Failures to provision or delete a volume",
            _OPERATION,
            registry=registry,
        )
        self.errors.labels(NOT_KNOWN, DELETE)
        self.classes = Counter(
            "retroactive_storageclass_total",
            "Claims that were given the default storage class after their creation",
            registry=registry,
        )
        self.class_errors = Counter(
            "retroactive_storageclass_errors_total",
            "Claims that could not be given the default storage class",
            registry=registry,
        )

    def default_class_given(self, *, succeeded: bool) -> None:
        """Count an attempt to give a claim the default storage class."""
        self.classes.inc()
        if not succeeded:
            self.class_errors.inc()


class Counts:
    """Counts volumes and claims with each change; a count of zero has no series.

    Counting all of them in each scrape would block the event loop.
    """

    def __init__(self, metrics: VolumeBinderMetrics) -> None:
        self._metrics = metrics
        self._of_object: dict[tuple[str, str], tuple[Series, ...]] = {}
        self._counts: dict[Series, int] = {}

    def volume(self, name: str, volume: PersistentVolume | None) -> None:
        """Count the newest version of a volume, `None` if it is gone."""
        self._count(("volume", name), () if volume is None else self._of_volume(volume))

    def claim(self, key: str, claim: PersistentVolumeClaim | None) -> None:
        """Count the newest version of a claim, `None` if it is gone."""
        self._count(("claim", key), () if claim is None else self._of_claim(claim))

    def _of_volume(self, volume: PersistentVolume) -> tuple[Series, ...]:
        metrics, kind = self._metrics, kind_of_volume(volume)
        is_bound = volume.status.phase == volumes.BOUND
        gauge = metrics.bound_volumes if is_bound else metrics.unbound_volumes
        labels = plugin_of(volume.spec), kind.volume_mode
        return (metrics.volumes, labels), (gauge, (kind.storage_class,))

    def _of_claim(self, claim: PersistentVolumeClaim) -> tuple[Series, ...]:
        metrics, kind = self._metrics, kind_of_claim(claim)
        is_bound = claim.status.phase == claims.BOUND
        gauge = metrics.bound_claims if is_bound else metrics.unbound_claims
        namespace = claim.metadata.namespace
        return ((gauge, (namespace, kind.storage_class, kind.attributes_class)),)

    def _count(self, key: tuple[str, str], series: tuple[Series, ...]) -> None:
        before = self._of_object.get(key, ())
        if before == series:
            return
        for each in before:
            self._add(each, -1)
        for each in series:
            self._add(each, 1)
        self._of_object[key] = series
        if not series:
            del self._of_object[key]

    def _add(self, series: Series, change: int) -> None:
        gauge, labels = series
        count = self._counts.get(series, 0) + change
        if count:
            self._counts[series] = count
            gauge.labels(*labels).set(count)
        else:
            del self._counts[series]
            gauge.remove(*labels)


def plugin_of(spec: VolumeSpec) -> str:
    """Return a volume's plugin in metrics (GetFullQualifiedPluginNameForVolume)."""
    if spec.csi is not None:
        return f"kubernetes.io/csi:{spec.csi.driver}"
    if spec.host_path is not None:
        return "kubernetes.io/host-path"
    if spec.nfs is not None:
        return "kubernetes.io/nfs"
    if spec.local is not None:
        return "kubernetes.io/local-volume"
    return NOT_KNOWN


class Operations:
    """Measures how long provisioners take (OperationStartTimeCache)."""

    def __init__(self, metrics: VolumeBinderMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._begun: dict[str, tuple[str, str, float]] = {}

    def begin(self, key: str, plugin: str, operation: str) -> None:
        """Note the begin of an operation, unless it has begun already."""
        self._begun.setdefault(key, (plugin, operation, self._clock.monotonic()))

    def fail(self, key: str) -> None:
        """Count a failure of an operation that continues."""
        if (begun := self._begun.get(key)) is not None:
            self._metrics.errors.labels(*begun[:2]).inc()

    def end(self, key: str) -> None:
        """Measure an operation that has succeeded."""
        if (begun := self._begun.pop(key, None)) is not None:
            plugin, operation, started = begun
            seconds = self._clock.monotonic() - started
            self._metrics.seconds.labels(plugin, operation).observe(seconds)

    def forget(self, key: str) -> None:
        """Drop an operation whose object is gone."""
        self._begun.pop(key, None)
