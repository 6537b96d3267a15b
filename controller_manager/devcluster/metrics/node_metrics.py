"""The metrics of nodes: the sums of their pods' metrics."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import SelectorError, parse_selector
from controller_manager.api.times import format_time

from .answers import RESOURCE_METRICS, VERSIONS, Answer, failure, metrics_list
from .quantities import summed

_RESOURCES: Final = ("cpu", "memory")
_WINDOW: Final = "30s"


def node_metrics(
    nodes: Iterable[JSON],
    pods: Iterable[JSON],
    places: Mapping[tuple[str, str], str],
    query: Mapping[str, str],
    now: datetime,
    name: str = "",
) -> Answer:
    """Return the metrics of nodes, or of the only one, called `name`.

    `pods` are PodMetrics, `places` are the nodes of pods by namespace and name.
    """
    try:
        selector = parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        return failure(400, str(error))
    usages: dict[str, list[JSON]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        node = places.get((metadata["namespace"], metadata["name"]), "")
        usages.setdefault(node, []).extend(each["usage"] for each in pod["containers"])
    items = [
        _metrics_of(node, usages.get(node["metadata"]["name"], []), now)
        for node in nodes
        if selector.matches(node["metadata"].get("labels") or {})
    ]
    if not name:
        return 200, metrics_list(RESOURCE_METRICS, "NodeMetricsList", items)
    version = f"{RESOURCE_METRICS}/{VERSIONS[RESOURCE_METRICS]}"
    return 200, {"kind": "NodeMetrics", "apiVersion": version, **items[0]}


def _metrics_of(node: JSON, usages: list[JSON], now: datetime) -> JSON:
    metadata, time = node["metadata"], format_time(now)
    known = {name: metadata[name] for name in ("name", "labels") if name in metadata}
    return {
        "metadata": {**known, "creationTimestamp": time},
        "timestamp": time,
        "window": _WINDOW,
        "usage": {
            resource: summed([each[resource] for each in usages if resource in each])
            for resource in _RESOURCES
        },
    }
