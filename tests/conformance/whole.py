"""The second form of recordings: whole objects, without what differs between runs.

Generated names are ``PREFIX*``, hashes ``HASH1``, ``HASH2`` … in order of first
use, uids ``UID:Kind/name``, times ``TIME``; objects that are equal in this form
are listed once, with a count.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.conformance.normalise import is_ready

JSON = dict[str, Any]

_HASH_LABELS: Final = ("pod-template-hash", "controller-revision-hash")
_REVISION: Final = "deployment.kubernetes.io/revision"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NOISE: Final = frozenset(
    (
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
        "lastUpdateTime",
        "lastTransitionTime",
        "lastProbeTime",
    )
)
_OF_PODS: Final = (
    "spec.nodeName",
    "spec.hostname",
    "spec.subdomain",
    "spec.restartPolicy",
)
_USUAL: Final = frozenset(
    (
        "Ready",
        "Initialized",
        "ContainersReady",
        "PodScheduled",
        "PodReadyToStartContainers",
    )
)
"""Conditions that every pod has."""

_IN_PROGRESS: Final = (
    "NewReplicaSetCreated",
    "ReplicaSetUpdated",
    "FoundNewReplicaSet",
)


class WholeForm:
    """Brings the objects of a cluster into the second form."""

    ready: Final = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    """Conditions that a pod gets when it becomes ready."""

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        """Take the kinds that the checkpoints show besides pods and events."""
        self.kinds = tuple(dict.fromkeys(("Pod", "Event", *kinds)))
        self.settled = tuple(each for each in self.kinds if each != "Event")
        self._names: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    def add_aliases(self, objects: Iterable[JSON]) -> None:
        """Give the generated names, hashes and uids in objects their aliases."""
        for each in sorted(objects, key=_age):
            metadata = each["metadata"]
            for label in _HASH_LABELS:
                digest = metadata.get("labels", {}).get(label, "").rpartition("-")[2]
                if digest:
                    self._hashes.setdefault(digest, f"HASH{len(self._hashes) + 1}")
            prefix = metadata.get("generateName", "")
            if prefix and metadata["name"].startswith(prefix):
                self._names[metadata["name"]] = f"{prefix}*"
            self._uids[metadata["uid"]] = f"UID:{each['kind']}/{metadata['name']}"

    def state(self, lists: dict[str, list[JSON]]) -> JSON:
        """Return a checkpoint's state from lists of objects by kind."""
        for kind, objects in lists.items():
            if kind != "Event":
                self.add_aliases({**each, "kind": kind} for each in objects)
        state: JSON = {
            kind: self._counted(map(_pod if kind == "Pod" else _whole, objects))
            for kind, objects in lists.items()
            if kind != "Event"
        }
        state["Event"] = [self._alias(_event(each)) for each in lists["Event"]]
        return comparable(state)

    def _counted(self, entries: Iterable[JSON]) -> list[JSON]:
        texts = (self._alias(json.dumps(each, sort_keys=True)) for each in entries)
        return [
            {**json.loads(text), **({"count": number} if number > 1 else {})}
            for text, number in Counter(texts).items()
        ]

    def _alias(self, text: str) -> str:
        for generated, alias in (*self._uids.items(), *self._names.items()):
            text = text.replace(generated, alias)
        for digest, alias in self._hashes.items():
            text = re.sub(rf"(?<![a-z0-9]){digest}(?![a-z0-9])", alias, text)
        return _TIME.sub("TIME", text)


def comparable(state: JSON) -> JSON:
    """Drop the parts of a state that differ between two runs of upstream."""
    events = {_without_numbers(each) for each in state.get("Event", [])}
    return {
        kind: sorted(events)
        if kind == "Event"
        else sorted(map(_without_step, entries), key=_text)
        for kind, entries in state.items()
    }


def _text(entry: JSON) -> str:
    return json.dumps(entry, sort_keys=True)


def _without_numbers(event: str) -> str:
    event = event.replace("(combined from similar events): ", "")
    return re.sub(r"from \d+ to \d+", "from N to N", event)


def _without_step(value: Any) -> Any:
    """Drop the step of a rollout that a condition reports."""
    if isinstance(value, list):
        return [_without_step(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "Progressing" and value.get("reason") in _IN_PROGRESS:
        return {**value, "reason": "(in progress)", "message": ""}
    return {key: _without_step(each) for key, each in value.items()}


def _age(obj: JSON) -> tuple[str, int, str]:
    metadata = obj["metadata"]
    revision = int(metadata.get("annotations", {}).get(_REVISION, 0))
    return metadata["creationTimestamp"], revision, metadata["name"]


def _quiet(value: Any) -> Any:
    """Drop noise; keep that an object is being deleted, and sort the conditions."""
    if isinstance(value, list):
        return [_quiet(each) for each in value]
    if not isinstance(value, dict):
        return value
    result = {key: _quiet(each) for key, each in value.items() if key not in _NOISE}
    if "deletionTimestamp" in value:
        result["deletionTimestamp"] = "SET"
    if isinstance(result.get("conditions"), list):
        result["conditions"].sort(key=lambda each: each.get("type", ""))
    return result


def _whole(obj: JSON) -> JSON:
    """Return an object; its status says whether it is for the present spec."""
    result = _quiet(obj)
    for name in ("kind", "apiVersion"):
        result.pop(name, None)
    result["metadata"].pop("namespace", None)
    status = obj.get("status")
    if isinstance(status, dict) and "observedGeneration" in status:
        is_current = status["observedGeneration"] == obj["metadata"].get("generation")
        result["status"]["observedGeneration"] = "CURRENT" if is_current else "BEHIND"
    spec = result.get("spec")
    if isinstance(spec, dict) and "containers" in spec.get("template", {}).get(
        "spec", {}
    ):
        spec["template"] = _template(spec["template"])
    return _without_empty(result)


def _template(template: JSON) -> JSON:
    metadata = template.get("metadata") or {}
    return {
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "images": [each["image"] for each in template["spec"]["containers"]],
    }


def _pod(pod: JSON) -> JSON:
    metadata, status = pod["metadata"], pod.get("status", {})
    owners = metadata.get("ownerReferences", [])
    owner = next((each for each in owners if each.get("controller")), None)
    entry = {
        **{key: metadata.get(key) for key in ("name", "labels", "annotations")},
        "finalizers": metadata.get("finalizers"),
        "terminating": "deletionTimestamp" in metadata,
        "owner": f"{owner['kind']}/{owner['name']}" if owner else None,
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "ready": is_ready(pod),
        "conditions": sorted(
            f"{each['type']}={each['status']}:{each.get('reason', '')}"
            for each in status.get("conditions", [])
            if each["type"] not in _USUAL
        ),
        "images": [each["image"] for each in pod["spec"]["containers"]],
        **{path: pod["spec"].get(path.partition(".")[2]) for path in _OF_PODS},
    }
    return {key: value for key, value in _without_empty(entry).items() if value}


def _without_empty(entry: JSON) -> JSON:
    return {key: each for key, each in entry.items() if each not in (None, [], {})}


def _event(event: JSON) -> str:
    about = event["involvedObject"]
    source = event.get("source", {}).get("component") or event["reportingComponent"]
    return (
        f"{about['kind']}/{about['name']} {event['type']} {event['reason']} "
        f"[{source}]: {event['message']}"
    )
