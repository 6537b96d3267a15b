"""A manager's writes in the form of the recordings, and what sets them apart."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from controller_manager.api.core.pod_templates import default_pod_spec
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.batch import JOBS
from controller_manager.devcluster.registry.core.volumes import default_claim
from controller_manager.devcluster.registry.scheduling import POD_GROUPS
from controller_manager.devcluster.scheme.models import zeros_of
from tests.clusters import Write
from tests.conformance.access import Other
from tests.conformance.aliases import Aliases
from tests.conformance.objects import path_of
from tests.conformance.whole import whole, without_noise

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_SHOWN_OPTIONS: Final = ("gracePeriodSeconds", "propagationPolicy")
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHANGES: Final = ("update", "patch")


def concerns(write: Write, namespace: str, others: Iterable[Other] = ()) -> bool:
    """Tell whether a write is to an object of a scenario, which is not an event.

    Its cluster-scoped objects have names that begin with its own name, or a spec that
    names it; `others` are its objects in other namespaces.
    """
    if any(_is_to(write, each) for each in others):
        return True
    namespaces, mine = "/namespaces/", f"/namespaces/{namespace}"
    if namespaces in write.path:
        path = write.path.partition("?")[0]
        return path.endswith(mine) or f"{mine}/" in path
    _, name, _ = _target(write.path)
    return name.startswith(namespace) or _specifies(write, namespace)


def _specifies(write: Write, namespace: str) -> bool:
    """Tell whether the spec of a written object names a scenario.

    As in the recordings, the deletion of such an object does not count.
    """
    if namespace.encode() not in write.body:
        return False
    return namespace in json.dumps(json.loads(write.body).get("spec") or {})


def _is_to(write: Write, wanted: Other) -> bool:
    base = f"{path_of(wanted.kind, wanted.namespace)}/"
    name = write.path.removeprefix(base).partition("/")[0]
    return write.path.startswith(base) and wanted.fits(name)


def normalised(writes: Iterable[Write], aliases: Aliases) -> list[JSON]:
    """Return writes in the form of the recordings: verb, resource, name, code, body."""
    return [
        json.loads(aliases.apply(json.dumps(_entry(each), sort_keys=True)))
        for each in writes
    ]


def _entry(write: Write) -> JSON:
    """Return one write, with the defaults of the server.

    Upstream's writes are from an audit log, which shows objects with their defaults.
    """
    resource, name, subresource = _target(write.path)
    body = json.loads(write.body) if write.body else {}
    if write.method == "POST" and resource in _DEFAULTS:
        _DEFAULTS[resource](body)
    verb = _VERBS.get(write.method, "delete" if name else "deletecollection")
    entry = {
        "verb": verb,
        "resource": f"{resource}/{subresource}" if subresource else resource,
        "code": write.status,
        "name": name or body.get("metadata", {}).get("name"),
        **_content(verb, subresource, body),
    }
    return {key: each for key, each in entry.items() if each is not None}


def field_managers(writes: Iterable[Write]) -> set[str]:
    """Return the managers of fields in the answers of writes, without the player's.

    The player sends no name, so the API server calls it unknown.
    """
    answers = (json.loads(each.answer) for each in writes if each.answer)
    return {
        entry["manager"]
        for answer in answers
        for entry in answer.get("metadata", {}).get("managedFields") or ()
    } - {"unknown"}


def _complete_job(job: JSON) -> None:
    """Fill in the defaults of a new job; its labels are those of its pods."""
    JOBS.strategy.apply_defaults(job)
    labels = job["spec"]["template"].get("metadata", {}).get("labels")
    if labels:
        job["metadata"].setdefault("labels", labels)


def _complete_pod(pod: JSON) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)


def _complete_replica_set(replica_set: JSON) -> None:
    """Fill in what Go writes of a new replica set's status."""
    replica_set.setdefault("status", {"replicas": 0})


def _complete_claim(claim: JSON) -> None:
    if "spec" in claim:
        default_claim(claim)


def _complete_attachment(attachment: JSON) -> None:
    """Fill in what Go writes of a new attachment's status."""
    attachment.setdefault("status", {"attached": False})


def _complete_workload(workload: JSON) -> None:
    """Fill in the null that Go writes of absent constraints."""
    if zeros := zeros_of("scheduling.k8s.io/v1alpha2", "Workload"):
        zeros.fill(workload)


_DEFAULTS: Final[Mapping[str, Callable[[JSON], None]]] = {
    "jobs": _complete_job,
    "persistentvolumeclaims": _complete_claim,
    "podgroups": POD_GROUPS.strategy.apply_defaults,
    "pods": _complete_pod,
    "replicasets": _complete_replica_set,
    "volumeattachments": _complete_attachment,
    "workloads": _complete_workload,
}


def _target(path: str) -> tuple[str, str, str]:
    """Return the resource of a path, the name and the subresource, "" for none."""
    parts = path.partition("?")[0].strip("/").split("/")
    # Without /api/v1 or /apis/GROUP/VERSION.
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 3:
        parts = parts[2:]
    elif parts[0] == "namespaces" and len(parts) == 3:
        parts = parts[2:] if parts[2] not in ("status", "finalize") else parts
    resource, name, subresource, *_ = (*parts, "", "")
    return resource, name, subresource


def _content(verb: str, subresource: str, body: JSON) -> JSON:
    if verb in ("delete", "deletecollection"):
        options = {
            key: each
            for key, each in body.items()
            if key in _SHOWN_OPTIONS and each is not None
        }
        return {"body": options or None}
    if verb == "patch":
        return {"patch": without_noise(body)}
    content = whole(body) if "metadata" in body else without_noise(body)
    if subresource == "status":
        return {"status": content.get("status")}
    return {"body": content}


def kind_of(write: JSON) -> str:
    """Return what kind of write it is, whether it is an update or a patch.

    Of a new or deleted object that includes the body. The uid of an object that was
    gone at each checkpoint has no alias.
    """
    verb = "change" if write["verb"] in _CHANGES else write["verb"]
    parts: list[Any] = [verb, write["resource"]]
    if verb != "change":
        parts.append(write.get("body"))
    return _UID.sub("UID", json.dumps(parts, sort_keys=True))


def unknown_kinds(ours: Sequence[JSON], recorded: Sequence[JSON]) -> list[str]:
    return sorted(
        {kind_of(each) for each in ours} - {kind_of(each) for each in recorded}
    )
