"""New objects: what the API server adds to an object that it creates.

It is only what controllers read before the manager in charge has created the object,
which replaces the one of the overlay.
"""

import random
from typing import Any, Final

from .fields import JSON
from .target import Target

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_LONGEST_BASE: Final = 63 - _SUFFIX
_WITH_GENERATION: Final = frozenset(
    ("apps", "batch", "autoscaling", "policy", "discovery.k8s.io", "networking.k8s.io")
)
_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"


def generated_name(base: str, rng: random.Random) -> str:
    """Return a name as the API server makes it from generateName."""
    return base[:_LONGEST_BASE] + "".join(rng.choices(_ALPHABET, k=_SUFFIX))


def new_uid(rng: random.Random) -> str:
    """Return a random uid."""
    digits = f"{rng.getrandbits(128):032x}"
    fourth = f"{(int(digits[16], 16) & 3) | 8:x}{digits[17:20]}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{fourth}-{digits[20:]}"


def created(target: Target, sent: JSON, *, uid: str, timestamp: str) -> JSON:
    """Return the object that the server would make of the content of a request."""
    metadata = {
        **sent.get("metadata", {}),
        "name": target.name,
        "uid": uid,
        "creationTimestamp": timestamp,
        "resourceVersion": "",
    }
    if target.namespace:
        metadata["namespace"] = target.namespace
    collection = target.collection
    if collection.group in _WITH_GENERATION or collection.plural == "pods":
        metadata["generation"] = 1
    obj = {"apiVersion": target.api_version, **sent, "metadata": metadata}
    match (collection.group, collection.plural):
        case ("", "pods"):
            return _with_phase(obj, "Pending")
        case ("", "persistentvolumeclaims" | "persistentvolumes"):
            return _with_phase(obj, "Pending")
        case ("", "namespaces"):
            obj["spec"] = {**obj.get("spec", {}), "finalizers": ["kubernetes"]}
            return _with_phase(obj, "Active")
        case ("batch", "jobs"):
            return _job(obj, uid)
    return obj


def _with_phase(obj: JSON, phase: str) -> JSON:
    return {**obj, "status": {"phase": phase, **obj.get("status", {})}}


def _job(obj: JSON, uid: str) -> JSON:
    """Return a job with the selector and the labels that the server generates."""
    spec: dict[str, Any] = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        **obj.get("spec", {}),
    }
    if not spec.get("manualSelector") and not spec.get("selector"):
        name = obj["metadata"]["name"]
        template = dict(spec.get("template", {}))
        metadata = dict(template.get("metadata", {}))
        own = {_CONTROLLER_UID: uid, "controller-uid": uid}
        own |= {_JOB_NAME: name, "job-name": name}
        metadata["labels"] = {**(metadata.get("labels") or {}), **own}
        spec["template"] = {**template, "metadata": metadata}
        spec["selector"] = {"matchLabels": {_CONTROLLER_UID: uid}}
    return {**obj, "spec": spec}
