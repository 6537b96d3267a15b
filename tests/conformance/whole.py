"""The second form of recordings: whole objects, without what differs between runs.

Objects that are equal in this form are listed once, with a count.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.conformance.access import other
from tests.conformance.aliases import Aliases
from tests.conformance.endpoints import in_order, packed
from tests.conformance.objects import field, is_ready
from tests.conformance.readable import readable

_NOISE: Final = frozenset(
    (
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "generation",
        "lastUpdateTime",
        "lastTransitionTime",
        "lastProbeTime",
        "firstTimestamp",
        "lastTimestamp",
        "eventTime",
        "reportingInstance",
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
_AUTOSCALERS: Final = re.compile(r"(?<=controlled by multiple HPAs: \[)[^]]*(?=\])")
_NEVER_SETTLED: Final = ("Event", "Namespace", "Lease")

RECORDED_USER: Final = "admin"
"""The user who played the steps when upstream was recorded."""


class WholeForm:
    """Brings the objects of a cluster into the second form."""

    ready: Final = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    """Conditions that a pod gets when it becomes ready."""

    late_pods = 0.0

    def __init__(
        self,
        kinds: Sequence[str] = (),
        mask: Sequence[str] = (),
        pod_fields: Sequence[str] = (),
        ignored: Sequence[str] = (),
        also: Sequence[str] = (),
        *,
        cluster_events: bool = False,
        pack: bool = False,
    ) -> None:
        """Take the kinds that the checkpoints show besides pods and events.

        What matches a pattern of `mask` counts as the same everywhere. Pods are shown
        with `pod_fields` besides the usual fields; events that match a pattern of
        `ignored` are not shown. Shown are the objects of other namespaces that `also`
        names, and with `cluster_events` the events about cluster-scoped objects. With
        `pack`, chance decides which endpoint is in which slice.
        """
        self.kinds: tuple[str, ...] = tuple(dict.fromkeys(("Pod", "Event", *kinds)))
        self.others = tuple(map(other, also))
        self.cluster_events = cluster_events
        self.settled = tuple(each for each in self.kinds if each not in _NEVER_SETTLED)
        self.aliases = Aliases(mask)
        self.user = RECORDED_USER
        """The user who plays the steps; shown as the recorded one."""
        self._pod_fields = (*_OF_PODS, *pod_fields)
        self._ignored = ignored
        self._pack = pack

    def learn(self, objects: Iterable[JSON]) -> None:
        """Give the generated names, hashes and uids in objects their aliases."""
        self.aliases.learn(objects)

    def state(self, lists: dict[str, list[JSON]]) -> JSON:
        """Return a checkpoint's state from lists of objects by kind."""
        lists = packed(lists) if self._pack else lists
        shown: dict[str, Callable[[JSON], JSON]] = {"Pod": self._pod}
        state: JSON = {
            kind: self._counted(
                shown.get(kind, self._whole)({**each, "kind": kind.partition("@")[0]})
                for each in objects
            )
            for kind, objects in lists.items()
            if kind != "Event"
        }
        events = lists.get("Event", [])
        state["Event"] = [self.aliases.apply(_event(each)) for each in events]
        return comparable(state, self._ignored)

    def _counted(self, entries: Iterable[JSON]) -> list[JSON]:
        texts = (json.dumps(each, sort_keys=True) for each in entries)
        return [
            {**json.loads(text), **({"count": number} if number > 1 else {})}
            for text, number in Counter(map(self.aliases.apply, texts)).items()
        ]

    def _whole(self, obj: JSON) -> JSON:
        entry, spec = whole(obj), obj.get("spec")
        if isinstance(spec, dict) and spec.get("username") == self.user:
            entry["spec"]["username"] = RECORDED_USER
        return entry

    def _pod(self, pod: JSON) -> JSON:
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
                for each in status.get("conditions") or []
                if each["type"] not in _USUAL
            ),
            "images": [each["image"] for each in pod["spec"]["containers"]],
            **{path: without_noise(field(pod, path)) for path in self._pod_fields},
        }
        if isinstance(entry.get("spec.volumes"), list):
            # The claims of a stateful set come into its pods in no certain order.
            entry["spec.volumes"].sort(key=lambda each: each["name"])
        return {
            key: each
            for key, each in _without_empty(entry).items()
            if each is not False
        }


def comparable(state: JSON, ignored: Sequence[str] = ()) -> JSON:
    """Drop the parts of a state that differ between two runs of upstream.

    Also drop the events that match a pattern of `ignored`.
    """
    events = (_without_step(_without_numbers(each)) for each in state.get("Event", []))
    return {
        kind: sorted(
            {
                each
                for each in events
                if not any(re.search(pattern, each) for pattern in ignored)
            }
        )
        if kind == "Event"
        else sorted(map(_without_step, entries), key=_text)
        for kind, entries in state.items()
    }


def _text(entry: JSON) -> str:
    return json.dumps(entry, sort_keys=True)


def _name(entry: JSON) -> str:
    return str(entry.get("name", ""))


_SETS: Final[Mapping[str, Callable[[JSON], str]]] = {
    "resourceClaimStatuses": _name,
    "status.resourceClaimStatuses": _name,
    "taints": _text,
    "volumesAttached": _name,
}
"""Lists that upstream writes in no certain order, and how they are sorted."""


def _without_numbers(event: str) -> str:
    event = event.replace("(combined from similar events): ", "")
    event = re.sub(r"from \d+ to \d+", "from N to N", event)
    return re.sub(r"(requested|used|limited): pods=\d+", r"\1", event)


def _without_step(value: Any) -> Any:
    """Drop the step of a rollout that a condition reports; put sets in order."""
    if isinstance(value, str):
        return _AUTOSCALERS.sub(_words_in_order, value)
    if isinstance(value, list):
        return [_without_step(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "Progressing" and value.get("reason") in _IN_PROGRESS:
        return {**value, "reason": "(in progress)", "message": ""}
    for name, key in _SETS.items():
        if isinstance(value.get(name), list):
            value = {**value, name: sorted(value[name], key=key)}
    return {key: _without_step(each) for key, each in value.items()}


def _words_in_order(found: re.Match[str]) -> str:
    return " ".join(sorted(found[0].split()))


def without_noise(value: Any) -> Any:
    """Drop noise; keep that an object is being deleted, and sort the conditions."""
    if isinstance(value, list):
        return [without_noise(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = ((key, each) for key, each in value.items() if key not in _NOISE)
    result = {key: without_noise(each) for key, each in kept}
    if "deletionTimestamp" in value:
        result["deletionTimestamp"] = "SET"
    if isinstance(result.get("conditions"), list):
        result["conditions"].sort(key=lambda each: each.get("type", ""))
    return result


def whole(obj: JSON) -> JSON:
    """Return an object; its status says whether it is for the present spec.

    The defaults of a pod template say nothing about a controller: it is reduced to
    labels, annotations and images.
    """
    kind = obj.get("kind", "")
    result = readable(kind, in_order(kind, without_noise(obj)))
    for name in ("kind", "apiVersion"):
        result.pop(name, None)
    result["metadata"].pop("namespace", None)
    status = obj.get("status")
    if isinstance(status, dict) and "observedGeneration" in status:
        is_current = status["observedGeneration"] == obj["metadata"].get("generation")
        result["status"]["observedGeneration"] = "CURRENT" if is_current else "BEHIND"
    spec = result.get("spec")
    if isinstance(spec, dict) and field(spec, "template.spec.containers") is not None:
        spec["template"] = _template(spec["template"])
    return _without_empty(result)


def _template(template: JSON) -> JSON:
    metadata = template.get("metadata") or {}
    return {
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "images": [each["image"] for each in template["spec"]["containers"]],
    }


def _without_empty(entry: JSON) -> JSON:
    return {key: each for key, each in entry.items() if each not in (None, [], {})}


def _event(event: JSON) -> str:
    about = event["involvedObject"]
    source = event.get("source", {}).get("component") or event["reportingComponent"]
    return (
        f"{about['kind']}/{about['name']} {event['type']} {event['reason']} "
        f"[{source}]: {event['message']}"
    )
