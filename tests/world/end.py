"""The end: all objects, as they are the same with faults and without.

What a server or a node draws, or counts, is replaced by a word; what tells of the past
only is left out.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from cryptography import x509

from controller_manager.api.json_objects import JSON

from .objects import FieldPath, controller_of, differences, is_over, uid_of
from .world import World

State = dict[str, Counter[str]]
"""By plural and family of names: how many objects there are of each content."""

_LEFT_OUT: Final = (
    "events",
    "leases",
    "controllerrevisions",
    "flowschemas",
    "prioritylevelconfigurations",
    "apiservices",
    "componentstatuses",
    "ipaddresses",
)

_METADATA: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionGracePeriodSeconds",
    "generateName",
)
_ANNOTATIONS: Final = (
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "volume.kubernetes.io/selected-node",
    "volumes.kubernetes.io/controller-managed-attach-detach",
    "node.alpha.kubernetes.io/ttl",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "csi.alpha.kubernetes.io/node-id",
)
_LABELS: Final = (
    "pod-template-hash",
    "controller-revision-hash",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "pod-template-generation",
)
_STATUS: Final = (
    "observedGeneration",
    "collisionCount",
    "currentRevision",
    "updateRevision",
    "failed",
    "uncountedTerminatedPods",
    "currentMetrics",
    "volumesInUse",
    "nodeInfo",
    "images",
    "addresses",
    "lastScheduleTime",
    "lastSuccessfulTime",
    "active",
    "lastScaleTime",
    "storedVersions",
)
_FIELDS: Final[dict[str, FieldPath]] = {
    # Those of pods, which may be on any node.
    "nodes": ("status", "volumesAttached"),
    "volumeattachments": ("spec", "nodeName"),
    # A token that goes while no manager runs stays in the list.
    "serviceaccounts": ("secrets",),
    # Users have registered servers; some found the object taken away.
    "storageversions": ("status",),
}
_OF_CONDITIONS: Final = (
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "lastHeartbeatTime",
    "message",
    "observedGeneration",
)
_WORDS: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r"\b\d+\.\d+\.\d+\.\d+(/\d+)?\b", "<ip>"),
        (r"\b[0-9a-f]{40,}\b", "<hash>"),
    )
)
_ANYWHERE: Final = ("resourceVersion", *_LABELS)
"""Keys that are left out wherever they are."""

_ATTACHED_ONCE: Final = "external-attacher/devcluster"
_SECRET: Final = ("request", "token", "trustBundle", "ca.crt")


def end_state(world: World) -> State:
    """Return all objects, without what differs from run to run."""
    stored = [
        (kind.plural, each.obj)
        for kind in _kinds(world)
        for each in world.server.storage.collection(kind.resource)
    ]
    by_uid = {uid_of(obj): obj for _, obj in stored}
    families = {
        obj["metadata"]["name"]: family
        for _, obj in stored
        if (family := _family(obj, by_uid)) != obj["metadata"]["name"]
    }
    state: State = {}
    for plural, obj in stored:
        if not _is_past(plural, obj, by_uid) and not _is_unused(obj, world):
            family = families.get(obj["metadata"]["name"], obj["metadata"]["name"])
            where = f"{plural} {obj['metadata'].get('namespace', '')}/{family}"
            text = json.dumps(_normal(plural, obj, families), sort_keys=True)
            where = _worded(where)
            state.setdefault(where, Counter())[text] += 1
    return state


def changes_of(before: State, after: State) -> State:
    """Return what a run has made, changed or deleted, without what was there before."""
    none: Counter[str] = Counter()
    return {
        where: after.get(where, none)
        for where in before.keys() | after.keys()
        if before.get(where) != after.get(where)
    }


def by_object(writes: list[str]) -> str:
    """Return what was written, in order, about each object."""
    found: dict[str, list[str]] = {}
    for each in writes:
        where, _, verb = each.rpartition(": ")
        found.setdefault(_worded(where), []).append(verb)
    return json.dumps({where: ", ".join(found[where]) for where in sorted(found)})


def _kinds(world: World) -> list[Any]:
    kinds = {each.resource: each for each in reversed(world.kinds())}
    return [each for each in kinds.values() if each.plural not in _LEFT_OUT]


def _family(obj: JSON, by_uid: dict[str, JSON]) -> str:
    """Return the name of an object, with a star for what was drawn or counted."""
    metadata = obj["metadata"]
    owner = by_uid.get(controller_of(obj))
    if owner is not None and ("generateName" in metadata or _is_hashed(obj, owner)):
        return f"{_family(owner, by_uid)}-*"
    return (
        f"{metadata['generateName']}*"
        if "generateName" in metadata
        else str(metadata["name"])
    )


def _is_hashed(obj: JSON, owner: JSON) -> bool:
    return obj.get("kind") in ("ReplicaSet", "Job") and owner.get("kind") in (
        "Deployment",
        "CronJob",
    )


def _is_past(plural: str, obj: JSON, by_uid: dict[str, JSON]) -> bool:
    """Tell whether an object is only history, of which faults leave more or less."""
    owner = by_uid.get(controller_of(obj))
    match plural:
        case "replicasets":
            return owner is not None and not obj["spec"]["replicas"]
        case "jobs":
            return owner is not None
        case "pods":
            # Its owner may be gone, and have orphaned it.
            is_made = owner is not None or "generateName" in obj["metadata"]
            return is_made and is_over(obj)
    return False


def _is_unused(obj: JSON, world: World) -> bool:
    """Tell whether a claim of a stateful set, or its volume, waits for a pod.

    Whether it is kept depends on the policy at the time when its pod went.
    """
    claim: JSON | None = obj
    if obj.get("kind") == "PersistentVolume" and (
        reference := obj["spec"].get("claimRef")
    ):
        place = reference["namespace"], reference["name"]
        claim = world.find("persistentvolumeclaims", *place)
    if claim is None or claim.get("kind") != "PersistentVolumeClaim":
        return False
    if not claim["metadata"]["name"].startswith("data-"):
        return False
    return not any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName")
        == claim["metadata"]["name"]
        for pod in world.stored("pods", claim["metadata"]["namespace"])
        for volume in pod["spec"].get("volumes", ())
    )


def _normal(plural: str, obj: JSON, families: dict[str, str]) -> JSON:
    made: JSON = json.loads(json.dumps(obj))
    metadata = made["metadata"]
    for key in _METADATA:
        metadata.pop(key, None)
    for key, prefixes in (("annotations", _ANNOTATIONS), ("labels", _LABELS)):
        kept = {
            name: value
            for name, value in metadata.get(key, {}).items()
            if not name.startswith(prefixes)
        }
        metadata.pop(key, None)
        if kept:
            metadata[key] = kept
    for each in metadata.get("ownerReferences", ()):
        each.pop("uid")
    status = made.get("status") or {}
    for key in _STATUS:
        status.pop(key, None)
    if isinstance(status.get("conditions"), list):
        for each in status["conditions"]:
            for key in _OF_CONDITIONS:
                each.pop(key, None)
    if plural in _FIELDS:
        *parts, last = _FIELDS[plural]
        place = made
        for part in parts:
            place = place.get(part, {})
        place.pop(last, None)
    if plural in _SPECIAL:
        made = _SPECIAL[plural](made)
    result: JSON = _replaced(made, families)
    return result


def _replaced(value: Any, families: dict[str, str], key: str = "") -> Any:
    """Replace what was drawn, and sort lists: their order tells of the past."""
    if isinstance(value, dict):
        return {
            _worded(name): _replaced(each, families, name)
            for name, each in value.items()
            if each not in (None, {}, [], "") and name not in _ANYWHERE
        }
    if isinstance(value, list):
        items = [_replaced(each, families, key) for each in value]
        return sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
    if not isinstance(value, str):
        return value
    if key == "certificate":
        return _certified(value)
    return f"<{key}>" if key in _SECRET else _worded(families.get(value, value))


def _certified(value: str) -> str:
    """Return for whom a certificate is, and for what."""
    certificate = x509.load_pem_x509_certificate(base64.b64decode(value))
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    purposes = ", ".join(each.dotted_string for each in usages.value)
    return f"{certificate.subject.rfc4514_string()} for {purposes}"


def _worded(text: str) -> str:
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return text


def _pod(pod: JSON) -> JSON:
    """Keep what its user and its controller have decided."""
    spec, status, metadata = pod["spec"], pod.get("status", {}), pod["metadata"]
    ready = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
    owners = metadata.get("ownerReferences", ())
    of_node = any(each["kind"] == "DaemonSet" for each in owners)
    return {
        "kind": "Pod",
        "metadata": metadata,
        "images": [each["image"] for each in spec["containers"]],
        "phase": status.get("phase"),
        "ready": [each["status"] for each in ready],
        "node": spec.get("nodeName") if of_node else bool(spec.get("nodeName")),
        "volumes": [
            each for each in spec.get("volumes", ()) if "projected" not in each
        ],
        "claims": status.get("resourceClaimStatuses"),
    }


def _autoscaler(autoscaler: JSON) -> JSON:
    """Leave out why nothing is to do now."""
    status = autoscaler.get("status", {})
    status["conditions"] = [
        {"type": each["type"]} for each in status.get("conditions", ())
    ]
    return autoscaler


def _job(job: JSON) -> JSON:
    """Leave out the labels with the job's uid, and that it was once suspended."""
    status = job.get("status", {})
    status["conditions"] = [
        each for each in status.get("conditions", ()) if each["type"] != "Suspended"
    ]
    if "completions" not in job["spec"] or _has_failed(job):
        status.pop("succeeded", None)
    for each in (status, job["spec"]["template"]["metadata"]):
        each.pop("labels", None)
    return job


def _has_failed(job: JSON) -> bool:
    return any(each["type"] == "Failed" for each in job["status"]["conditions"])


def _slice(each: JSON) -> JSON:
    """Leave out on which nodes the pods are."""
    for endpoint in each.get("endpoints") or ():
        for key in ("nodeName", "hints", "zone"):
            endpoint.pop(key, None)
    return each


def _endpoints(each: JSON) -> JSON:
    for subset in each.get("subsets") or ():
        for key in ("addresses", "notReadyAddresses"):
            for address in subset.get(key) or ():
                address.pop("nodeName", None)
    return each


def _device_claim(claim: JSON) -> JSON:
    """Leave out which device of its class the scheduler has chosen."""
    allocation = claim.get("status", {}).get("allocation") or {}
    for each in allocation.get("devices", {}).get("results") or ():
        each.pop("device")
    return claim


def _volume(volume: JSON) -> JSON:
    """Leave out the attacher's finalizer: it tells that it was attached once."""
    metadata = volume["metadata"]
    metadata["finalizers"] = [
        each for each in metadata.get("finalizers", ()) if each != _ATTACHED_ONCE
    ]
    return volume


def _role(role: JSON) -> JSON:
    """Keep the order of the rules."""
    role["rules"] = {str(at): each for at, each in enumerate(role.get("rules") or ())}
    return role


_SPECIAL: Final = {
    "clusterroles": _role,
    "pods": _pod,
    "jobs": _job,
    "horizontalpodautoscalers": _autoscaler,
    "endpointslices": _slice,
    "endpoints": _endpoints,
    "persistentvolumes": _volume,
    "resourceclaims": _device_claim,
}


def compared(got: State, wanted: State) -> Iterator[str]:
    """Yield each difference of two ends: where, and which fields."""
    for where in sorted({*got, *wanted}):
        more = got.get(where, Counter()) - wanted.get(where, Counter())
        fewer = wanted.get(where, Counter()) - got.get(where, Counter())
        for one, other in zip(sorted(more), sorted(fewer), strict=False):
            for path, new, old in differences(json.loads(one), json.loads(other)):
                yield f"{where}: {'.'.join(path)} is {new}, undisturbed it is {old}"
        surplus = more.total() - fewer.total()
        if surplus > 0:
            yield f"{where}: there are {surplus} more than undisturbed"
        elif surplus < 0:
            yield f"{where}: there are {-surplus} fewer than undisturbed"
