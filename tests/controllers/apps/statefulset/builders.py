"""Stateful sets, their pods and replicas, as tests need them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import ControllerRevision, StatefulSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta, PartialObject
from controller_manager.control.controller_history import template_data
from controller_manager.controllers.apps.statefulset.failures import start_failures
from controller_manager.controllers.apps.statefulset.replicas import (
    Replicas,
    Revisions,
    Settings,
)
from tests.controllers import builders
from tests.controllers.builders import template

SINCE: Final = "2026-01-01T00:00:00Z"
LATER: Final = "2026-01-01T00:00:01Z"
NOW: Final = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
RECENT: Final = "2026-01-01T00:00:58Z"
TEN_MINUTES_AGO: Final = "2025-12-31T23:51:00Z"
_LONG_AGO: Final = datetime(2025, 1, 1, tzinfo=UTC)


def stateful_set_json(name: str = "web", replicas: int = 3, **spec: Any) -> JSON:
    """Return a stateful set as a user would write it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": f"{name}-svc",
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            **spec,
        },
    }


def claim_template(name: str = "data", **metadata: Any) -> JSON:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def rolling(partition: int = 0, **parameters: Any) -> JSON:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": partition, **parameters},
    }


def stateful_set(
    replicas: int = 3,
    *,
    generation: int = 1,
    created: str = SINCE,
    status: JSON | None = None,
    **spec: Any,
) -> StatefulSet:
    obj = stateful_set_json(replicas=replicas, **{"updateStrategy": rolling(), **spec})
    obj["metadata"] |= {
        "uid": "web",
        "generation": generation,
        "creationTimestamp": created,
    }
    obj["status"] = status or {}
    return msgspec.json.decode(msgspec.json.encode(obj), type=StatefulSet)


def pod(ordinal: int, revision: str = "web-new", **fields: Any) -> Pod:
    """Return a pod of the set that runs and is ready; `fields` change that.

    `waiting` is the reason why its container waits; then it is not ready. With
    `unschedulable` no node takes it.
    """
    name = fields.pop("name", f"web-{ordinal}")
    waiting, unschedulable = fields.pop("waiting", ""), fields.pop("unschedulable", "")
    labels = {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": name,
        "controller-revision-hash": revision,
        **fields.pop("labels", {}),
    }
    condition = {
        "type": "Ready",
        "status": str(fields.pop("ready", not (waiting or unschedulable))),
        "lastTransitionTime": fields.pop("since", SINCE),
    }
    if unschedulable:
        condition |= {"type": "PodScheduled", "reason": unschedulable}
    state = {"waiting": {"reason": waiting}} if waiting else {}
    statuses = fields.pop("statuses", "containerStatuses")
    claims = [
        {"persistentVolumeClaim": {"claimName": each}}
        for each in fields.pop("claims", ())
    ]
    return builders.pod(
        name,
        labels=labels,
        conditions=[condition],
        containers=[],
        status={statuses: [{"name": "c", "state": state}]},
        spec={"volumes": claims},
        **{
            "created": LATER,
            "deleted": SINCE if fields.pop("terminating", False) else None,
            **fields,
        },
    )


_STATES: Final[dict[str, JSON]] = {
    "unready": {"ready": False},
    "slow": {"ready": False, "since": TEN_MINUTES_AGO},
    "stuck": {"waiting": "ImagePullBackOff", "since": TEN_MINUTES_AGO},
    "recent": {"since": RECENT},
    "terminating": {"terminating": True},
    **{each.lower(): {"phase": each} for each in ("Pending", "Failed", "Succeeded")},
    "unseen": {"phase": ""},
}


def pods_of(words: str) -> list[Pod]:
    """Return the pods of "old-0, new-1 unready": revision, ordinal and states."""
    found = []
    for name, *states in (each.split() for each in words.split(",") if each):
        revision, _, ordinal = name.partition("-")
        fields = {key: of for state in states for key, of in _STATES[state].items()}
        label = "" if revision == "bare" else f"web-{revision}"
        found.append(pod(int(ordinal), label, **fields))
    return found


def claim(name: str, *owners: JSON, **metadata: Any) -> PartialObject:
    content = {"name": name, "namespace": "default", "uid": name, **metadata}
    if owners:
        content["ownerReferences"] = list(owners)
    return msgspec.convert({"metadata": content}, PartialObject)


def owner(kind: str, name: str, uid: str = "", *, controller: bool = True) -> JSON:
    return {
        "apiVersion": "v1" if kind == "Pod" else "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid or name,
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def revision(name: str, number: int, image: str = "app:v1") -> ControllerRevision:
    obj = stateful_set_json(template=template(image))
    subject = msgspec.json.decode(msgspec.json.encode(obj), type=StatefulSet)
    return ControllerRevision(
        metadata=ObjectMeta(name=name),
        data=template_data(subject.spec.template),
        revision=number,
    )


NEW: Final = Revisions("web-new", "web-new", 0)
"""A set whose update is complete."""

UPDATING: Final = Revisions("web-old", "web-new", 0)
"""A set that is updated from web-old to web-new."""


def replicas_of(
    subject: StatefulSet,
    *pods: Pod,
    revisions: Revisions = NEW,
    claims: tuple[PartialObject, ...] = (),
    foreign: tuple[Pod, ...] = (),
    settings: Settings | None = None,
    failing_since: Mapping[str, datetime] | None = None,
) -> Replicas:
    """Return what a sync sees of a set.

    Without `failing_since`, broken pods have had their failures for a long time.
    """
    if failing_since is None:
        failing_since = {
            each.metadata.uid: _LONG_AGO for each in pods if start_failures(each)
        }
    return Replicas(
        stateful_set=subject,
        pods=pods,
        revisions=revisions,
        claims={each.metadata.name: each for each in claims},
        foreign={each.metadata.name: each for each in foreign},
        failing_since=failing_since,
        settings=settings or Settings(),
    )


def seen(
    pods: str = "",
    replicas: int = 3,
    *more: Pod,
    revisions: Revisions = UPDATING,
    settings: Settings | None = None,
    claims: tuple[PartialObject, ...] = (),
    foreign: tuple[Pod, ...] = (),
    **spec: Any,
) -> Replicas:
    """Return what a sync sees of a set that is updated, with pods in words."""
    return replicas_of(
        stateful_set(replicas, **spec),
        *pods_of(pods),
        *more,
        revisions=revisions,
        settings=settings,
        claims=claims,
        foreign=foreign,
    )
