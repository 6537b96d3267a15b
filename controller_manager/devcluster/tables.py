"""Objects as rows of a table, the form that kubectl prints (printers)."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.api.times import parse_time
from controller_manager.devcluster.kinds import Kind

JSON = dict[str, Any]
Cells = list[Any]
Column = tuple[str, str, int]
"""Title, type and priority; priority 1 shows with ``-o wide`` only."""

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def human_duration(seconds: float) -> str:
    """Return an age as kubectl shows it: ``45s``, ``2m5s``, ``3h``, ``2d1h``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole // _MINUTE, "m", whole % _MINUTE, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole // _DAY, "d", whole % _DAY // _HOUR, "h")
    if whole < 2 * 365 * _DAY:
        return f"{whole // _DAY}d"
    return _two(whole // (365 * _DAY), "y", whole % (365 * _DAY) // _DAY, "d")


def _two(major: int, unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{unit}{minor}{minor_unit}" if minor else f"{major}{unit}"


def _age(obj: JSON, now: datetime) -> str:
    created = obj["metadata"].get("creationTimestamp")
    if not created:
        return _UNKNOWN
    return human_duration((now - parse_time(created)).total_seconds())


def _selector(selector: JSON | None) -> str:
    if not selector:
        return _NONE
    return format_selector(msgspec.convert(selector, LabelSelector)) or _NONE


def _containers(template: JSON) -> Cells:
    containers = template.get("spec", {}).get("containers", [])
    return [
        ",".join(each.get("name", "") for each in containers),
        ",".join(each.get("image", "") for each in containers),
    ]


def _deployment(obj: JSON, now: datetime) -> Cells:
    spec, status = obj["spec"], obj.get("status", {})
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now),
        *_containers(spec["template"]),
        _selector(spec.get("selector")),
    ]


def _replica_set(obj: JSON, now: datetime) -> Cells:
    spec, status = obj["spec"], obj.get("status", {})
    selector = spec.get("selector")
    if obj.get("kind") == "ReplicationController" and selector:
        selector = {"matchLabels": selector}
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(obj, now),
        *_containers(spec["template"]),
        _selector(selector),
    ]


def _pod(obj: JSON, now: datetime) -> Cells:
    spec, status = obj["spec"], obj.get("status", {})
    statuses = status.get("containerStatuses", [])
    ready = sum(1 for each in statuses if each.get("ready"))
    restarts = sum(each.get("restartCount", 0) for each in statuses)
    return [
        f"{ready}/{len(spec.get('containers', []))}",
        _pod_reason(obj, statuses),
        str(restarts),
        _age(obj, now),
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _NONE,
    ]


def _pod_reason(obj: JSON, statuses: Sequence[JSON]) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = obj.get("status", {})
    if status.get("reason"):
        return str(status["reason"])
    for each in statuses:
        state = each.get("state", {})
        for name in ("waiting", "terminated"):
            if reason := state.get(name, {}).get("reason"):
                return str(reason)
    return str(status.get("phase", _UNKNOWN))


def _namespace(obj: JSON, now: datetime) -> Cells:
    return [obj.get("status", {}).get("phase", ""), _age(obj, now)]


def _node(obj: JSON, now: datetime) -> Cells:
    conditions = obj.get("status", {}).get("conditions", [])
    ready = any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in conditions
    )
    status = "Ready" if ready else "NotReady"
    if obj.get("spec", {}).get("unschedulable"):
        status += ",SchedulingDisabled"
    info = obj.get("status", {}).get("nodeInfo", {})
    return [status, _NONE, _age(obj, now), info.get("kubeletVersion", "")]


def _service(obj: JSON, now: datetime) -> Cells:
    spec = obj["spec"]
    ports = ",".join(
        f"{each.get('port')}/{each.get('protocol')}" for each in spec.get("ports", [])
    )
    return [
        spec.get("type", ""),
        spec.get("clusterIP") or _NONE,
        _NONE,
        ports or _NONE,
        _age(obj, now),
        _selector({"matchLabels": spec["selector"]} if spec.get("selector") else None),
    ]


def _event(obj: JSON, now: datetime) -> Cells:
    involved = obj.get("involvedObject", {})
    last = obj.get("lastTimestamp") or obj["metadata"].get("creationTimestamp")
    seen = human_duration((now - parse_time(last)).total_seconds()) if last else ""
    return [
        seen,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{involved.get('kind', '').lower()}/{involved.get('name', '')}",
        involved.get("fieldPath", ""),
        obj.get("source", {}).get("component", ""),
        obj.get("message", "").strip(),
        seen,
        obj.get("count", 1),
        obj["metadata"]["name"],
    ]


def _data(obj: JSON, now: datetime) -> Cells:
    entries = len(obj.get("data", {})) + len(obj.get("binaryData", {}))
    return [entries, _age(obj, now)]


def _secret(obj: JSON, now: datetime) -> Cells:
    return [obj.get("type", ""), *_data(obj, now)]


def _service_account(obj: JSON, now: datetime) -> Cells:
    return [len(obj.get("secrets", [])), _age(obj, now)]


def _lease(obj: JSON, now: datetime) -> Cells:
    return [obj.get("spec", {}).get("holderIdentity", ""), _age(obj, now)]


def _quota(obj: JSON, now: datetime) -> Cells:
    hard = obj.get("spec", {}).get("hard", {})
    used = obj.get("status", {}).get("used", {})
    pairs = [f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)]
    requests = [each for each in pairs if not each.startswith("limits.")]
    limits = [each for each in pairs if each.startswith("limits.")]
    return [", ".join(requests), ", ".join(limits), _age(obj, now)]


def _job(obj: JSON, now: datetime) -> Cells:
    spec, status = obj["spec"], obj.get("status", {})
    wanted = spec.get("completions")
    done = status.get("succeeded", 0)
    began, ended = status.get("startTime"), status.get("completionTime")
    until = parse_time(ended) if ended else now
    seconds = (until - parse_time(began)).total_seconds() if began else None
    return [
        _job_status(obj),
        f"{done}/{wanted if wanted is not None else 1}",
        human_duration(seconds) if seconds is not None else "",
        _age(obj, now),
        *_containers(spec["template"]),
        _selector(spec.get("selector")),
    ]


def _job_status(obj: JSON) -> str:
    conditions = {
        each["type"]
        for each in obj.get("status", {}).get("conditions", [])
        if each["status"] == "True"
    }
    for condition in ("Complete", "Failed"):
        if condition in conditions:
            return condition
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return "Suspended" if "Suspended" in conditions else "Running"


def _cron_job(obj: JSON, now: datetime) -> Cells:
    spec, status = obj["spec"], obj.get("status", {})
    last = status.get("lastScheduleTime")
    seconds = (now - parse_time(last)).total_seconds() if last else None
    return [
        spec.get("schedule", ""),
        spec.get("timeZone") or _NONE,
        str(spec.get("suspend", False)),
        len(status.get("active", [])),
        human_duration(seconds) if seconds is not None else _NONE,
        _age(obj, now),
        *_containers(spec["jobTemplate"]["spec"]["template"]),
    ]


def _custom(obj: JSON, now: datetime) -> Cells:
    return [_age(obj, now)]


def _generic(obj: JSON, _: datetime) -> Cells:
    return [obj["metadata"].get("creationTimestamp", "")]


_NAME: Final[Column] = ("Name", "string", 0)
_AGE: Final[Column] = ("Age", "string", 0)
_WORKLOAD: Final[tuple[Column, ...]] = (
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
)
_SIZES: Final[tuple[Column, ...]] = (
    _NAME,
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    _AGE,
    *_WORKLOAD,
)

_TABLES: Final[
    dict[str, tuple[tuple[Column, ...], Callable[[JSON, datetime], Cells]]]
] = {
    "ConfigMap": ((_NAME, ("Data", "integer", 0), _AGE), _data),
    "CronJob": (
        (
            _NAME,
            ("Schedule", "string", 0),
            ("Timezone", "string", 0),
            ("Suspend", "boolean", 0),
            ("Active", "integer", 0),
            ("Last Schedule", "string", 0),
            _AGE,
            *_WORKLOAD[:2],
        ),
        _cron_job,
    ),
    "Deployment": (
        (
            _NAME,
            ("Ready", "string", 0),
            ("Up-to-date", "string", 0),
            ("Available", "string", 0),
            _AGE,
            *_WORKLOAD,
        ),
        _deployment,
    ),
    "Event": (
        (
            ("Last Seen", "string", 0),
            ("Type", "string", 0),
            ("Reason", "string", 0),
            ("Object", "string", 0),
            ("Subobject", "string", 1),
            ("Source", "string", 1),
            ("Message", "string", 0),
            ("First Seen", "string", 1),
            ("Count", "integer", 1),
            ("Name", "string", 1),
        ),
        _event,
    ),
    "Job": (
        (
            _NAME,
            ("Status", "string", 0),
            ("Completions", "string", 0),
            ("Duration", "string", 0),
            _AGE,
            *_WORKLOAD,
        ),
        _job,
    ),
    "Lease": ((_NAME, ("Holder", "string", 0), _AGE), _lease),
    "Namespace": ((_NAME, ("Status", "string", 0), _AGE), _namespace),
    "Node": (
        (
            _NAME,
            ("Status", "string", 0),
            ("Roles", "string", 0),
            _AGE,
            ("Version", "string", 0),
        ),
        _node,
    ),
    "Pod": (
        (
            _NAME,
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            _AGE,
            ("IP", "string", 1),
            ("Node", "string", 1),
            ("Nominated Node", "string", 1),
            ("Readiness Gates", "string", 1),
        ),
        _pod,
    ),
    "ReplicaSet": (_SIZES, _replica_set),
    "ReplicationController": (_SIZES, _replica_set),
    "ResourceQuota": (
        (_NAME, ("Request", "string", 0), ("Limit", "string", 0), _AGE),
        _quota,
    ),
    "Secret": (
        (_NAME, ("Type", "string", 0), ("Data", "integer", 0), _AGE),
        _secret,
    ),
    "Service": (
        (
            _NAME,
            ("Type", "string", 0),
            ("Cluster-IP", "string", 0),
            ("External-IP", "string", 0),
            ("Port(s)", "string", 0),
            _AGE,
            ("Selector", "string", 1),
        ),
        _service,
    ),
    "ServiceAccount": ((_NAME, ("Secrets", "string", 0), _AGE), _service_account),
}
_OTHER: Final = ((_NAME, ("Created At", "date", 0)), _generic)
_CUSTOM: Final = ((_NAME, _AGE), _custom)


def _table_of(
    kind: Kind,
) -> tuple[tuple[Column, ...], Callable[[JSON, datetime], Cells]]:
    return _CUSTOM if kind.is_custom else _TABLES.get(kind.kind, _OTHER)


def column_definitions(kind: Kind) -> list[JSON]:
    """Return the columns of a kind's table."""
    columns, _ = _table_of(kind)
    return [
        {
            "name": title,
            "type": type_,
            "format": "name" if title == "Name" and priority == 0 else "",
            "description": f"{title} of the {kind.kind}.",
            "priority": priority,
        }
        for title, type_, priority in columns
    ]


def row(kind: Kind, obj: JSON, now: datetime, embedded: JSON | None) -> JSON:
    """Return one object as a row; `embedded` goes along for kubectl's use."""
    columns, function = _table_of(kind)
    cells = function(obj, now)
    if columns[0] is _NAME:
        cells = [obj["metadata"]["name"], *cells]
    result: JSON = {"cells": cells}
    if embedded is not None:
        result["object"] = embedded
    return result
