"""The column Targets of autoscalers (formatHPAMetrics in pkg/printers)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.tables import NONE, UNKNOWN

_SHOWN: Final = 2
_RESOURCES: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_OTHERS: Final = {"External": "external", "Object": "object"}


def targets_text(metrics: list[JSON], current: list[JSON]) -> str:
    """Return the present values and the targets of an autoscaler's metrics."""
    if not metrics:
        return NONE
    padded = [*current, *({} for _ in metrics)]
    texts = [_text(spec, padded[number]) for number, spec in enumerate(metrics)]
    listed = ", ".join(texts[:_SHOWN])
    more = len(texts) - _SHOWN
    return f"{listed} + {more} more..." if more > 0 else listed


def _text(spec: JSON, status: JSON) -> str:
    kind = spec.get("type", "")
    if kind in _RESOURCES:
        return _resource_text(spec[_RESOURCES[kind]], status.get(_RESOURCES[kind]))
    if kind == "Pods":
        target = spec["pods"]["target"].get("averageValue")
        return f"{_current(status.get('pods'), 'averageValue')}/{target}"
    if kind not in _OTHERS:
        return "<unknown type>"
    target, found = spec[_OTHERS[kind]]["target"], status.get(_OTHERS[kind])
    if "averageValue" in target:
        return f"{_current(found, 'averageValue')}/{target['averageValue']} (avg)"
    return f"{_current(found, 'value')}/{target.get('value')}"


def _resource_text(spec: JSON, status: JSON | None) -> str:
    target = spec["target"]
    if "averageValue" in target:
        current, wanted = _current(status, "averageValue"), target["averageValue"]
        return f"{spec['name']}: {current}/{wanted}"
    current = _current(status, "averageUtilization", "%")
    percent = target.get("averageUtilization")
    wanted = "<auto>" if percent is None else f"{percent}%"
    return f"{spec['name']}: {current}/{wanted}"


def _current(status: JSON | None, name: str, unit: str = "") -> str:
    value = (status or {}).get("current", {}).get(name)
    return UNKNOWN if value is None else f"{value}{unit}"
