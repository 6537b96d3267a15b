"""An autoscaler, its target, pods and metrics, on a cluster in memory."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.controllers.autoscaling.podautoscaler import AutoscalerOptions
from controller_manager.devcluster.metrics import CONFIG_MAP, KEY
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH, Cluster, make_config
from tests.controllers.stored import Stored

SYNC_PERIOD: Final = 15.0
"""Seconds until an autoscaler is synced for the first time, and between two syncs."""

PODS: Final = "test-pod"
TARGET: Final = "test-rc"
NAME: Final = "test-hpa"


def config_of(
    gates: Mapping[str, bool] | None = None,
    stabilization: float = 300.0,
    concurrent_syncs: int = 5,
    sync_period: float = SYNC_PERIOD,
    **generic: object,
) -> Config:
    """Return a config of upstream's unit tests; times are in seconds."""
    options = AutoscalerOptions(
        concurrent_syncs=concurrent_syncs,
        sync_period=sync_period,
        downscale_stabilization=stabilization,
        cpu_initialization_period=120.0,
        initial_readiness_delay=10.0,
    )
    config = make_config(controllers=("horizontalpodautoscaling",), **generic)
    return replace(
        config,
        controllers={AutoscalerOptions: options},
        features=FeatureGates(dict(gates or {})),
    )


class PodOf(Struct, frozen=True):
    """A pod of the target: its CPU, and how long ago it started, in seconds.

    `request` is that of its container, `whole` that of the pod as a whole.
    """

    cpu: str | None = None
    request: str | None = "1"
    whole: str | None = None
    is_ready: bool = True
    age: float = 180.0
    phase: str = "Running"
    is_deleting: bool = False


def ready(*usages: str, request: str = "1") -> tuple[PodOf, ...]:
    """Return pods that are ready, with their CPU usages."""
    return tuple(PodOf(cpu=usage, request=request) for usage in usages)


class Stage(Stored):
    """A cluster with a target, and a user who makes its pods and metrics."""

    def __init__(
        self,
        gates: Mapping[str, bool] | None = None,
        *,
        rbac: bool = False,
        cluster: Cluster | None = None,
    ) -> None:
        features = FeatureGates(dict(gates or {}))
        super().__init__(cluster or Cluster(features=features, rbac=rbac))

    def add_target(self, size: int | str, observed: int | None = None) -> None:
        """Create a replication controller that no controller syncs."""
        replicas = int(size)
        spec = {
            "replicas": replicas,
            "selector": {"name": PODS},
            "template": {
                "metadata": {"labels": {"name": PODS}},
                "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
            },
        }
        status = {"replicas": replicas if observed is None else observed}
        self.cluster.add("ReplicationController", TARGET, spec=spec, status=status)

    def add_pods(self, pods: tuple[PodOf, ...], at: float = SYNC_PERIOD) -> None:
        """Create the pods as they are `at` seconds after the start."""
        for number, pod in enumerate(pods):
            self._add_pod(f"{PODS}-{number}", pod, at)
        used = {
            f"{PODS}-{number}": {"c": {"cpu": pod.cpu}}
            for number, pod in enumerate(pods)
            if pod.cpu is not None
        }
        self.set_metrics(resource=used, window="60s")

    def _add_pod(self, name: str, pod: PodOf, at: float) -> None:
        started = format_time(EPOCH + timedelta(seconds=at - pod.age))
        container: JSON = {"name": "c", "image": "app:v1"}
        if pod.request is not None:
            container["resources"] = {"requests": {"cpu": pod.request}}
        condition = {"type": "Ready", "status": str(pod.is_ready)}
        condition["lastTransitionTime"] = started
        status: JSON = {"phase": pod.phase, "startTime": started}
        status["conditions"] = [condition]
        metadata: JSON = {"name": name, "labels": {"name": PODS}}
        if pod.is_deleting:
            metadata["finalizers"] = ["example.com/stays"]
        spec: JSON = {"containers": [container]}
        if pod.whole is not None:
            spec["resources"] = {"requests": {"cpu": pod.whole}}
        self.cluster.add("Pod", name, metadata=metadata, spec=spec, status=status)
        if pod.is_deleting:
            self.delete("Pod", name)

    def set_metrics(self, **answers: Any) -> None:
        """Add answers of the metrics APIs."""
        found = self.find("ConfigMap", CONFIG_MAP)
        known = json.loads(found["data"][KEY]) if found else {}
        data = {KEY: json.dumps({**known, **answers})}
        if found is None:
            self.cluster.add("ConfigMap", CONFIG_MAP, data=data)
        else:
            self.update("ConfigMap", {**found, "data": data})

    def add_autoscaler(
        self,
        metrics: list[JSON],
        minimum: int = 1,
        maximum: int = 10,
        more: JSON | None = None,
        name: str = NAME,
    ) -> None:
        """Create an autoscaler of the target; `more` is more of its spec."""
        spec = {
            "scaleTargetRef": {
                "apiVersion": "v1",
                "kind": "ReplicationController",
                "name": TARGET,
            },
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": metrics,
            **(more or {}),
        }
        self.cluster.add("HorizontalPodAutoscaler", name, "autoscaling/v2", spec=spec)

    def three(self) -> None:
        """Add a target of three pods, which use 60 % of what they request."""
        self.add_target("3")
        self.add_ready(*["600m"] * 3)

    def add_ready(self, *usages: str) -> None:
        self.add_pods(ready(*usages))

    def add_idle(self, number: str) -> None:
        """Add pods without requests."""
        self.add_pods((PodOf(cpu="1", request=None),) * int(number))

    def autoscale(self, *metrics: JSON, **more: Any) -> None:
        self.add_autoscaler(**{"metrics": list(metrics), **more})

    def bump(self) -> None:
        """Change the target without an effect."""
        found = self.get("ReplicationController", TARGET)
        seconds = found["spec"].get("minReadySeconds", 0)
        self.edit("ReplicationController", TARGET, minReadySeconds=seconds + 1)

    def queue(self, length: str) -> None:
        set_queue_length(self, int(length))

    def message(self, number: str) -> str:
        return str(self.status()["conditions"][int(number)]["message"])

    def condition(self, kind: str, name: str = NAME) -> tuple[str, str]:
        return self.conditions(name)[kind]

    def sizes(self) -> tuple[int, int]:
        status = self.status()
        return status["currentReplicas"], status["desiredReplicas"]

    def replicas(self) -> int:
        return int(self.get("ReplicationController", TARGET)["spec"]["replicas"])

    def status(self, name: str = NAME) -> JSON:
        """Return the status of the autoscaler, without times."""
        status: JSON = self.get("HorizontalPodAutoscaler", name)["status"]
        conditions = [
            {key: value for key, value in each.items() if key != "lastTransitionTime"}
            for each in status.get("conditions", [])
        ]
        kept = {key: value for key, value in status.items() if key != "lastScaleTime"}
        return {**kept, "conditions": conditions}

    def conditions(self, name: str = NAME) -> dict[str, tuple[str, str]]:
        """Return status and reason of each condition, in order."""
        return {
            each["type"]: (each["status"], each["reason"])
            for each in self.status(name)["conditions"]
        }

    def events(self, name: str = NAME) -> list[str]:
        """Return the events about an autoscaler: type, reason, message."""
        return sorted(
            f"{each['type']} {each['reason']}: {each['message']}"
            for each in self.all("Event")
            if each["involvedObject"]["name"] == name
        )


def cpu(percent: int) -> JSON:
    """Return a target of CPU in per cent of the requests."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def container_cpu(percent: int, container: str) -> JSON:
    """Return a target of one container's CPU in per cent of its request."""
    target = {"type": "Utilization", "averageUtilization": percent}
    source = {"name": "cpu", "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": source}


def of_pods(average: str, metric: str = "qps") -> JSON:
    """Return a target of a custom metric's average."""
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Pods", "pods": {"metric": {"name": metric}, "target": target}}


def of_object(metric: str = "qps", **target: str) -> JSON:
    """Return a target, value or averageValue, of a custom metric of a service."""
    service = {"apiVersion": "v1", "kind": "Service", "name": "web"}
    source = {
        "describedObject": service,
        "metric": {"name": metric},
        "target": _target(target),
    }
    return {"type": "Object", "object": source}


def external(metric: str = "qps", **target: str) -> JSON:
    """Return a target, value or averageValue, of an external metric."""
    source = {"metric": {"name": metric}, "target": _target(target)}
    return {"type": "External", "external": source}


def _target(target: Mapping[str, str]) -> JSON:
    (name,) = target
    return {"type": f"{name[0].upper()}{name[1:]}", **target}


def set_queue_length(stage: Stage, length: int) -> None:
    stage.set_metrics(external={"qps": [{"value": str(length)}]})


def observe(stage: Stage) -> None:
    """Report the replicas in the spec of the target in its status, as its owner."""
    found = stage.get("ReplicationController", TARGET)
    replicas = found["spec"]["replicas"]
    stage.set_status("ReplicationController", TARGET, replicas=replicas)
