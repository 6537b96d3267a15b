"""HorizontalPodAutoscaler: scales a workload by metrics (pkg/apis/autoscaling)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import ZERO, parse_quantity
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.apiserver.kind import Conversion
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.readers import TypeMismatch
from controller_manager.devcluster.validation.rules import Rule
from controller_manager.devcluster.validation.text import table
from controller_manager.options.gates import Gate

from .kinds import kind_of

# The column Targets of autoscalers (formatHPAMetrics in pkg/printers).

_SHOWN: Final = 2
_RESOURCES: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_OTHERS: Final = {"External": "external", "Object": "object"}


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
    return strategy.UNKNOWN if value is None else f"{value}{unit}"


# The rules for autoscalers (pkg/apis/autoscaling/validation).

_FIELDS: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""The field of each type of metric, in the order in which upstream looks at them."""


# References


def _group_version(version: str, _: str) -> Iterator[str]:
    if version.count("/") > 1:
        yield f"unexpected GroupVersion string: {version}"


def _in_core_group(reference: JSON, _: JSON) -> bool:
    return not reference.get("apiVersion", "").rpartition("/")[0]


def _needs_group(spec: JSON, old: JSON) -> bool:
    """Tell whether the target cannot be in the core group.

    There only replication controllers can be scaled, but an update may keep another
    target without a group.
    """
    if old and _in_core_group(old.get("scaleTargetRef", {}), {}):
        return False
    return bool(spec.get("scaleTargetRef", {}).get("kind") != "ReplicationController")


_REFERENCE: Final = table("""
    kind: required path-segment
    name: required path-segment
    apiVersion: group_version
    """)


# Metrics


def _positive(text: str, _: str) -> Iterator[str]:
    if parse_quantity(text) <= ZERO:
        yield "must be positive"


def _only_its_source(metric: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check that a metric has the field of its type, and of no other type."""
    expected = _FIELDS.get(metric.get("type", ""))
    given = [name for name in _FIELDS.values() if name in metric]
    if expected and expected not in given:
        why = "must populate information for the given metric source"
        yield statuses.required(f"{path}{expected}", why)
    if len(given) > 1:
        for name in given:
            if name != expected:
                why = "must populate the given metric source only"
                yield statuses.forbidden_field(f"{path}{name}", why)


_TARGET: Final = table("""
    type: required "must specify a metric target type"
    type: invalid default empty if type is-not Utilization Value AverageValue
      "must be either Utilization, Value, or AverageValue"
    value, averageValue: positive
    averageUtilization: at-least 1 "must be greater than 0"
    """)
_IDENTIFIER: Final = table("""
    metric always:
      name: required "must specify a metric name"
      name: path-segment
    """)
_RESOURCE: Final = table("""
    target always:
      include TARGET
      averageUtilization: required if lacks averageUtilization averageValue
        "must set either a target raw value or a target utilization"
      averageValue: forbidden if has averageUtilization
        "may not set both a target raw value and a target utilization"
    """)
_METRIC: Final = table("""
    type: required "must specify a metric source type"
    type: enum ContainerResource External Object Pods Resource default empty
    type: enum ContainerResource External Object Pods Resource default empty
    object:
      describedObject always:
        include REFERENCE
      include IDENTIFIER
      target always:
        include TARGET
        averageValue: required if lacks value averageValue
          "must set either a target value or averageValue"
    when lacks object:
      external:
        include IDENTIFIER
        target always:
          include TARGET
          averageValue: required if lacks value averageValue
            "must set either a target value for metric or a per-pod target"
          value: forbidden if has averageValue
            "may not set both a target value for metric and a per-pod target"
    when lacks object external:
      pods:
        include IDENTIFIER
        target always:
          include TARGET
          averageValue: required "must specify a positive target averageValue"
    when lacks object external pods:
      resource:
        name: required "must specify a resource name"
        include RESOURCE
    when lacks object external pods resource:
      containerResource:
        name: required "must specify a resource name"
        container: required "must specify a container"
        container: label
        include RESOURCE
    hook only_its_source
    """)


# Spec


def _cannot_wake(spec: JSON, _: JSON) -> bool:
    """Tell whether no metric exists while there are no pods."""
    types = {each.get("type") for each in spec.get("metrics", ())}
    return spec.get("minReplicas") == 0 and not types & {"Object", "External"}


_SCALING: Final = table("""
    stabilizationWindowSeconds: not-negative "must be greater than or equal to zero"
    stabilizationWindowSeconds: at-most 3600
    selectPolicy: enum Disabled Max Min
    policies: required "must specify at least one Policy"
    policies[]:
      type: enum Percent Pods default empty
      value, periodSeconds: at-least 1 default 0 "must be greater than zero"
      periodSeconds: at-most 1800
    tolerance: matches "[^-].*" "must be greater than or equal to 0"
    """)
_SPEC: Final = table("""
    maxReplicas: at-least 1 default 0 "must be greater than 0"
    maxReplicas: invalid default 0 if minReplicas above maxReplicas
      "must be greater than or equal to `minReplicas`"
    scaleTargetRef always:
      include REFERENCE
    when needs_group:
      scaleTargetRef always:
        apiVersion: invalid default empty if in_core_group
          "apiVersion must specify API group"
    metrics[]:
      include METRIC
    metrics: forbidden if cannot_wake
      "must specify at least one Object or External metric to support scaling to zero"
      "replicas"
    behavior:
      scaleUp:
        include SCALING
      scaleDown:
        include SCALING
    """)


def _autoscaler(least: int) -> Rule:
    """Return the rules for new and changed autoscalers with at least so many pods.

    One that scales to zero may go on.
    """
    return table(f"""
        spec change:
          when outer minReplicas is 0:
            minReplicas: not-negative
          else:
            minReplicas: at-least {least}
          include SPEC
        """)


# Kinds

_RULES: Final = _autoscaler(1)
_TO_ZERO: Final = _autoscaler(0)
_SCALE_TO_ZERO: Final = Gate("HPAScaleToZero", default=False)
_PERIOD: Final = 15
_MOST_POLICY: Final = {"type": "Percent", "value": 100, "periodSeconds": _PERIOD}
_UP: Final[JSON] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": _PERIOD}, _MOST_POLICY],
}
_DOWN: Final[JSON] = {"selectPolicy": "Max", "policies": [_MOST_POLICY]}


def _default_autoscaler(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        resource = {"name": "cpu", "target": target}
        spec["metrics"] = [{"type": "Resource", "resource": resource}]
    if "behavior" in spec:
        given = spec["behavior"]
        spec["behavior"] = {
            "scaleUp": {**_UP, **given.get("scaleUp", {})},
            "scaleDown": {**_DOWN, **given.get("scaleDown", {})},
        }


def _targets(autoscaler: JSON) -> str:
    metrics = autoscaler["spec"].get("metrics", [])
    current = autoscaler["status"].get("currentMetrics") or []
    if not metrics:
        return strategy.NONE
    padded = [*current, *({} for _ in metrics)]
    texts = [_text(spec, padded[number]) for number, spec in enumerate(metrics)]
    listed = ", ".join(texts[:_SHOWN])
    more = len(texts) - _SHOWN
    return f"{listed} + {more} more..." if more > 0 else listed


AUTOSCALERS: Final = kind_of(
    "autoscaling/v2/horizontalpodautoscalers",
    apply_defaults=_default_autoscaler,
    new_rules=_RULES,
    update_rules=_RULES,
    status_rules="""
        status:
          currentReplicas, desiredReplicas: not-negative
        """,
    printer="""
        Name
        Reference: {.spec.scaleTargetRef.kind}/{.spec.scaleTargetRef.name}
        Targets: targets
        MinPods: {.spec.minReplicas} or <unset>
        MaxPods: {.spec.maxReplicas}
        Replicas: .status.currentReplicas or 0
        Age
        """,
    gated={_SCALE_TO_ZERO: {"new_rules": _TO_ZERO, "update_rules": _TO_ZERO}},
)


# Autoscalers of version v1, which knows CPU only, as those of v2, and back

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_KEPT: Final = {
    "metrics": ("spec", "metrics"),
    "behavior": ("spec", "behavior"),
    "conditions": ("status", "conditions"),
    "current-metrics": ("status", "currentMetrics"),
}
"""The annotations of version v1 for fields that it lacks, in the form of version v2."""
_MODEL: Final = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"
_PERCENT: Final = "averageUtilization"
_TARGET_CPU: Final = "targetCPUUtilizationPercentage"
_CURRENT_CPU: Final = "currentCPUUtilizationPercentage"


def _to_v1(obj: JSON) -> JSON:
    spec, status = {**obj["spec"]}, {**obj["status"]}
    shares = [_cpu(each, "target") for each in spec.get("metrics", ())]
    current = [_cpu(each, "current") for each in status.get("currentMetrics") or ()]
    others = [each for each in spec.pop("metrics", ()) if _cpu(each, "target") is None]
    kept = {"spec": {**spec, "metrics": others}, "status": status}
    annotations = {
        _PREFIX + name: msgspec.json.encode(value).decode()
        for name, (part, field) in _KEPT.items()
        if (value := kept[part].get(field))
    }
    metadata = obj["metadata"]
    if annotations:
        annotations = {**metadata.get("annotations", {}), **annotations}
        metadata = {**metadata, "annotations": annotations}
    for part, field in _KEPT.values():
        (spec if part == "spec" else status).pop(field, None)
    spec |= _first(_TARGET_CPU, shares)
    status |= _first(_CURRENT_CPU, current)
    counts = {"currentReplicas": 0, "desiredReplicas": 0}
    return {"metadata": metadata, "spec": spec, "status": {**counts, **status}}


def _first(name: str, values: list[int | None]) -> JSON:
    found = [each for each in values if each is not None]
    return {name: found[0]} if found else {}


def _from_v1(obj: JSON) -> JSON:
    """Return an autoscaler of version v1 in version v2.

    Annotations that cannot be read are dropped.
    """
    metadata = {**obj.get("metadata", {})}
    annotations = dict(metadata.pop("annotations", {}))
    parts = {"spec": {**obj.get("spec", {})}, "status": {**obj.get("status", {})}}
    for name, (part, field) in _KEPT.items():
        if text := annotations.pop(_PREFIX + name, ""):
            parts[part] |= _read(text, part, field)
    spec, status = parts["spec"], parts["status"]
    if (share := spec.pop(_TARGET_CPU, None)) is not None:
        target = {"target": {"type": "Utilization", _PERCENT: share}}
        spec["metrics"] = [_of_cpu(target), *spec.get("metrics", ())]
    share = status.pop(_CURRENT_CPU, None)
    if share is not None and "currentMetrics" not in status:
        status["currentMetrics"] = [_of_cpu({"current": {_PERCENT: share}})]
    for name in ("currentReplicas", "desiredReplicas"):
        if not status.get(name):
            status.pop(name, None)
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, **parts}


def _read(text: str, part: str, field: str) -> JSON:
    """Return the field in an annotation, nothing if the text does not fit it."""
    try:
        fields = {field: msgspec.json.decode(text)}
        found = Decoder().decode(fields, f"{_MODEL}{part.capitalize()}")
    except (msgspec.DecodeError, UnicodeError, TypeMismatch):
        return {}
    return {name: value for name, value in found.items() if value}


def _cpu(metric: JSON, part: str) -> int | None:
    """Return the CPU utilization of a metric: its ``target`` or its ``current``."""
    resource = metric.get("resource", {})
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    percent: int | None = resource.get(part, {}).get(_PERCENT)
    return percent


def _of_cpu(part: JSON) -> JSON:
    return {"type": "Resource", "resource": {"name": "cpu", **part}}


OLD_AUTOSCALERS: Final = kind_of(
    "autoscaling/v1/horizontalpodautoscalers",
    AUTOSCALERS.strategy,
    conversion=Conversion(AUTOSCALERS, to_stored=_from_v1, from_stored=_to_v1),
)
