"""Pods and workloads for tests of their loads."""

from typing import Any

from controller_manager.api.json_objects import JSON


def running(name: str, *containers: str, **metadata: Any) -> JSON:
    """Return a running pod with containers of these names, ``c`` by default."""
    return {
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"containers": [{"name": each} for each in containers or ("c",)]},
        "status": {"phase": "Running"},
    }


def annotated(uid: str, annotations: dict[str, str]) -> JSON:
    metadata = {"name": uid, "uid": uid, "annotations": annotations}
    return {"kind": "Deployment", "metadata": metadata}
