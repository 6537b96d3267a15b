"""Jobs and pods as they are cached, for tables."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.pods import (
    FINALIZER,
    Tally,
    tally_of,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return an instant."""
    return START + timedelta(seconds=seconds)


def text(seconds: int) -> str:
    """Return an instant as the API server writes it."""
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(status: JSON | None = None, restart: str = "Never", **spec: Any) -> Job:
    """Return a job; with `indexes` it is an indexed one of so many completions."""
    if (indexes := spec.pop("indexes", None)) is not None:
        spec |= {"completionMode": "Indexed", "completions": indexes}
    containers = [{"name": "c", "image": "app:v1"}]
    obj = {
        "metadata": {"name": "j", "namespace": "default", "uid": "uid-j"},
        "spec": {
            "parallelism": 2,
            "backoffLimit": 6,
            "selector": {"matchLabels": {"job": "j"}},
            "template": {
                "metadata": {"labels": {"job": "j"}},
                "spec": {"containers": containers, "restartPolicy": restart},
            },
            **spec,
        },
        "status": {"startTime": text(0), **(status or {})},
    }
    return msgspec.json.decode(msgspec.json.encode(obj), type=Job)


def pod(name: str, phase: str = "Running", **fields: Any) -> Pod:
    """Return a pod of a job with the finalizer; `fields` change that.

    `index` is its completion index; `failures` how often that had failed before.
    """
    prefix = "batch.kubernetes.io/job-"
    annotations = {
        f"{prefix}{key}": str(fields.pop(field))
        for field, key in (
            ("index", "completion-index"),
            ("failures", "index-failure-count"),
        )
        if field in fields
    }
    metadata: JSON = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": text(fields.pop("created", 0)),
        "annotations": annotations,
        "finalizers": [FINALIZER] if fields.pop("tracked", True) else [],
    }
    if fields.pop("deleting", False):
        metadata["deletionTimestamp"] = text(30)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": text(0)}
    restarts, code = fields.pop("restarts", 0), fields.pop("code", None)
    state = {"terminated": {"exitCode": code}} if code is not None else {}
    status = {
        "phase": phase,
        "conditions": [ready] if fields.pop("ready", False) else [],
        "containerStatuses": [{"name": "c", "restartCount": restarts, "state": state}],
    }
    spec = {"nodeName": fields.pop("node", "n")}
    assert not fields, fields
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def make_tally(subject: Job, pods: Iterable[Pod] = (), **more: Any) -> Tally:
    """Return the tally of a job that has these pods."""
    return tally_of(subject, tuple(pods), **more)


def running(count: int) -> list[Pod]:
    """Return running pods."""
    return [pod(f"r{number}") for number in range(count)]


def standing(condition: str, reason: str = "R", message: str = "M") -> JSON:
    """Return the status of a job with a true condition."""
    return {
        "conditions": [
            {"type": condition, "status": "True", "reason": reason, "message": message}
        ]
    }


def names(pods: Iterable[Pod]) -> list[str]:
    """Return the names of pods."""
    return [each.metadata.name for each in pods]
