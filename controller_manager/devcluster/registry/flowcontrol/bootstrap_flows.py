"""The flow schemas and priority levels that every cluster has, from a manifest.

Upstream: staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.bootstrap_manifests import (
    bootstrap_manifest,
)
from controller_manager.devcluster.registry.fixed_uids import fixed_uid

MANDATORY: Final = ("exempt", "catch-all")
"""The names of mandatory schemas and levels, which always exist with these specs."""


def _specs(kind: str) -> Mapping[str, JSON]:
    """Return the specs of a kind in the manifest, by name."""
    objects = bootstrap_manifest(__package__, "bootstrap-flows.yaml")
    return {
        each["metadata"]["name"]: each["spec"]
        for each in objects
        if each["kind"] == kind
    }


FLOW_SCHEMAS: Final = _specs("FlowSchema")
PRIORITY_LEVELS: Final = _specs("PriorityLevelConfiguration")


def with_metadata(objects: Objects, name: str, plural: str) -> JSON:
    """Return the metadata of an object that the API server creates itself.

    An object that is created again has another uid: kubectl waits until the deleted uid
    is gone.
    """
    seed = f"{plural}/{name}/{objects.storage.version}"
    metadata = {
        "name": name,
        "uid": fixed_uid(seed),
        "generation": 1,
        "creationTimestamp": format_time(objects.clock.now()),
        "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
    }
    return {"metadata": metadata}
