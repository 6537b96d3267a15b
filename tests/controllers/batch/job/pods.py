"""Pods of jobs, as they are cached."""

from collections.abc import Iterable
from typing import Any

import msgspec

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON


def job_pod(name: str = "p", **fields: Any) -> Pod:
    """Return a failed pod of a job; `fields` change that."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": fields.pop("uid", name),
        "creationTimestamp": fields.pop("created", "2026-01-01T00:00:00Z"),
        "annotations": _annotations(fields),
        **fields.pop("metadata", {}),
    }
    status = {
        "phase": fields.pop("phase", "Failed"),
        "conditions": fields.pop("conditions", []),
        "containerStatuses": fields.pop("containers", []),
        "initContainerStatuses": fields.pop("init_containers", []),
    }
    spec = {"initContainers": fields.pop("init_specs", [])}
    assert not fields, fields
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def _annotations(fields: JSON) -> dict[str, str]:
    prefix = "batch.kubernetes.io/job-"
    return {
        f"{prefix}{name}": str(value)
        for name, value in (
            ("completion-index", fields.pop("index", None)),
            ("index-failure-count", fields.pop("failures", None)),
            ("index-ignored-failure-count", fields.pop("ignored", None)),
        )
        if value is not None
    }


def ended(name: str = "c", code: int = 1, at: str | None = None) -> JSON:
    """Return the status of a container that has ended."""
    return {
        "name": name,
        "state": {"terminated": {"exitCode": code, "finishedAt": at}},
    }


def running(name: str = "c") -> JSON:
    """Return the status of a container that runs."""
    return {"name": name, "state": {"running": {}}}


def names(pods: Iterable[Pod]) -> list[str]:
    """Return the names of pods."""
    return [pod.metadata.name for pod in pods]
