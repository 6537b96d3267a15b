"""The first form of recordings, and the state of a cluster in that form."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.conformance.access import Other
from tests.conformance.objects import is_ready

REVISION = "deployment.kubernetes.io/revision"
HASH_LABEL = "pod-template-hash"
SAME_PROGRESS = ("NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated")

KINDS = ("Deployment", "ReplicaSet", "Pod", "Event")


class GroupedForm:
    """The first form of recordings: the important fields of objects; pods in groups."""

    ready: Final = ("Ready",)
    """Conditions that a pod gets when it becomes ready."""

    late_pods = 10.0
    others: tuple[Other, ...] = ()
    cluster_events = False

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        """Take the kinds that the checkpoints show besides the usual ones."""
        self.kinds: tuple[str, ...] = (*KINDS, *kinds)
        self.settled: tuple[str, ...] = ("Deployment", "ReplicaSet", "Pod")
        self._aliases = Aliases()

    def learn(self, objects: list[JSON]) -> None:
        """Give the template hashes of replica sets their aliases."""
        found = [each for each in objects if each["kind"] == "ReplicaSet"]
        self._aliases.add_aliases(found)

    def state(self, lists: dict[str, list[JSON]]) -> JSON:
        """Return a checkpoint's state from lists of objects by kind."""
        return state_of(lists, self._aliases)


class Aliases:
    """Stable names for generated names, in the order of their first use."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}

    def add_aliases(self, replica_sets: list[JSON]) -> None:
        """Give every new template hash its alias."""
        for each in sorted(replica_sets, key=_age):
            digest = each["metadata"].get("labels", {}).get(HASH_LABEL)
            if digest and digest not in self._hashes:
                self._hashes[digest] = f"HASH{len(self._hashes) + 1}"

    def apply(self, value: Any) -> Any:
        """Replace hashes and pod suffixes wherever they occur."""
        if isinstance(value, dict):
            return {key: self.apply(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.apply(inner) for inner in value]
        if not isinstance(value, str):
            return value
        for digest, alias in self._hashes.items():
            value = value.replace(digest, alias)
        return re.sub(r"(pod: [\w-]+?)-[a-z0-9]{5}(?= x\d+$)", r"\1-xxxxx", value)


def _age(replica_set: JSON) -> tuple[str, int]:
    metadata = replica_set["metadata"]
    revision = metadata.get("annotations", {}).get(REVISION, "0")
    return metadata["creationTimestamp"], int(revision)


def state_of(lists: dict[str, list[JSON]], aliases: Aliases) -> JSON:
    """Return a checkpoint's state from lists of objects by kind."""
    aliases.add_aliases(lists["ReplicaSet"])
    state = {
        "Deployment": [_deployment(each) for each in lists["Deployment"]],
        "ReplicaSet": [_replica_set(each) for each in lists["ReplicaSet"]],
        "Pod": _pods(lists["Pod"]),
        "Event": [_event(each) for each in lists["Event"]],
        **{
            kind: [_other(each) for each in objects]
            for kind, objects in lists.items()
            if kind not in KINDS
        },
    }
    aliased = {kind: aliases.apply(entries) for kind, entries in state.items()}
    return {kind: entries for kind, entries in comparable(aliased).items() if entries}


def comparable(state: JSON) -> JSON:
    """Drop the parts of a state that differ between two runs of upstream.

    Also drop the events of the job controller and the status of jobs: what these
    recordings are about needs neither.
    """
    deployments = [
        {**each, "status": _without_step(each["status"])}
        for each in state.get("Deployment", [])
    ]
    return {
        "Deployment": _sorted(deployments),
        "ReplicaSet": _sorted(state.get("ReplicaSet", [])),
        "Pod": _counted(state.get("Pod", [])),
        "Event": sorted(
            {
                _without_numbers(each)
                for each in state.get("Event", [])
                if "[job-controller]" not in each
            }
        ),
        **{
            kind: _sorted([_without_job_status(kind, each) for each in objects])
            for kind, objects in state.items()
            if kind not in KINDS
        },
    }


def _without_job_status(kind: str, entry: JSON) -> JSON:
    if kind != "Job":
        return entry
    return {key: value for key, value in entry.items() if key != "status"}


def _without_step(status: JSON) -> JSON:
    conditions = [
        {**each, "reason": "(in progress)", "message": ""}
        if each["reason"] in SAME_PROGRESS
        else each
        for each in status.get("conditions", [])
    ]
    return {**status, "conditions": conditions}


def _without_numbers(event: str) -> str:
    event = event.replace("(combined from similar events): ", "")
    event = re.sub(r" from \d+ to \d+", "", event)
    return re.sub(r" x\d+$", "", event)


def _sorted(entries: list[JSON]) -> list[JSON]:
    return sorted(entries, key=lambda each: json.dumps(each, sort_keys=True))


def _counted(groups: list[JSON]) -> list[JSON]:
    counts: Counter[str] = Counter()
    for group in groups:
        rest = {key: value for key, value in group.items() if key != "count"}
        counts[json.dumps(rest, sort_keys=True)] += group["count"]
    return _sorted([{**json.loads(text), "count": n} for text, n in counts.items()])


def _metadata(obj: JSON, *names: str) -> JSON:
    metadata = obj["metadata"]
    names = (*names, "deletionGracePeriodSeconds", "finalizers")
    result = {
        name: metadata[name]
        for name in names
        if metadata.get(name) not in (None, "", {}, [])
    }
    if "deletionTimestamp" in metadata:
        result["deletionTimestamp"] = "SET"
    if "ownerReferences" in result:
        result["ownerReferences"] = [
            {key: value for key, value in each.items() if key != "uid"}
            for each in result["ownerReferences"]
        ]
    return result


def _conditions(status: JSON) -> JSON:
    times = ("lastUpdateTime", "lastTransitionTime", "lastProbeTime")
    status = dict(status)
    if "conditions" in status:
        status["conditions"] = sorted(
            (
                {key: value for key, value in each.items() if key not in times}
                for each in status["conditions"]
            ),
            key=lambda each: str(each["type"]),
        )
    return status


def _deployment(obj: JSON) -> JSON:
    names = ("name", "namespace", "generation", "labels", "annotations")
    return {
        "metadata": _metadata(obj, *names),
        "spec": obj["spec"],
        "status": _conditions(obj.get("status", {})),
    }


def _replica_set(obj: JSON) -> JSON:
    names = ("name", "namespace", "labels", "annotations", "ownerReferences")
    template = obj["spec"]["template"]
    spec = {
        **obj["spec"],
        "template": {
            "labels": template["metadata"].get("labels", {}),
            "images": [each["image"] for each in template["spec"]["containers"]],
        },
    }
    status = _conditions(obj.get("status", {}))
    status.pop("observedGeneration", None)
    return {"metadata": _metadata(obj, *names), "spec": spec, "status": status}


def _other(obj: JSON) -> JSON:
    metadata, status = obj["metadata"], _conditions(obj.get("status", {}))
    owners = [
        {
            "kind": each["kind"],
            "name": each["name"],
            "controller": each.get("controller"),
            "blockOwnerDeletion": each.get("blockOwnerDeletion"),
        }
        for each in metadata.get("ownerReferences", [])
    ]
    entry = {
        "name": metadata["name"],
        "finalizers": metadata.get("finalizers"),
        "terminating": "deletionTimestamp" in metadata,
        "owners": owners,
        "status": status,
        "data": sorted(obj.get("data", {})),
        "replicas": obj.get("spec", {}).get("replicas"),
    }
    return {key: value for key, value in entry.items() if value}


def _pods(pods: list[JSON]) -> list[JSON]:
    return [
        {
            "images": [each["image"] for each in pod["spec"]["containers"]],
            "labels": pod["metadata"].get("labels", {}),
            "owner": _owner(pod),
            "phase": pod.get("status", {}).get("phase"),
            "ready": is_ready(pod),
            "terminating": "deletionTimestamp" in pod["metadata"],
            "count": 1,
        }
        for pod in pods
    ]


def _owner(pod: JSON) -> str | None:
    for each in pod["metadata"].get("ownerReferences", []):
        if each.get("controller"):
            return f"{each['kind']}/{each['name']}"
    return None


def _event(obj: JSON) -> str:
    involved = obj["involvedObject"]
    source = obj.get("source", {}).get("component", "")
    return (
        f"{involved['kind']}/{involved['name']} {obj['type']} {obj['reason']} "
        f"[{source}]: {obj['message']} x{obj.get('count', 1)}"
    )
