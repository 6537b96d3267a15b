"""The properties of the stateful set controller."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final
from unittest import mock

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.pods import is_terminal
from controller_manager.controllers.apps.statefulset import controller
from controller_manager.controllers.apps.statefulset.identity import (
    ordinal_of,
    ordinals,
    parent_and_ordinal,
)
from controller_manager.controllers.apps.statefulset.ordering import Plan, plan_sync
from controller_manager.controllers.apps.statefulset.replicas import (
    Replicas,
    Slot,
    is_running_and_ready,
)
from controller_manager.controllers.apps.statefulset.rolling_update import (
    is_broken,
    partition,
)
from tests.controllers.apps.statefulset.workload import StatefulSetUsers
from tests.simulation.changes import Path, only
from tests.simulation.objects import controller_of, lives, path_of
from tests.simulation.properties import AllowedWrite, Properties, Violate, Write

_OWNERS: Final = ("metadata", "ownerReferences")
_SIZES: Final = (
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "currentReplicas",
    "updatedReplicas",
)


def _changes_pod(path: Path, old: Any, new: Any) -> bool:
    """Owners, and labels of the identity; no label is removed."""
    if path[:2] == ("metadata", "labels"):
        return new is not None
    return only(_OWNERS)(path, old, new)


class StatefulSetProperties(Properties):
    """Each ordinal has one pod at most; in the end the newest template runs."""

    controller = "statefulset-controller"
    may_write = (
        AllowedWrite(("create", "delete"), "pods"),
        AllowedWrite(("patch",), "pods", _changes_pod),
        AllowedWrite(("update",), "statefulsets/status", only(("status",))),
        AllowedWrite(("create", "delete"), "controllerrevisions"),
        AllowedWrite(("patch",), "controllerrevisions", only(_OWNERS)),
        AllowedWrite(("update",), "controllerrevisions", only(("revision",))),
        AllowedWrite(("create",), "persistentvolumeclaims"),
        AllowedWrite(("update",), "persistentvolumeclaims", only(_OWNERS)),
    )
    workload = StatefulSetUsers

    @contextmanager
    def watching(self, violate: Violate) -> Iterator[None]:
        """Check every plan of a sync, by the caches of the manager."""

        def checked(seen: Replicas, now: datetime) -> Plan:
            plan = plan_sync(seen, now)
            for problem in plan_problems(seen, plan, now):
                violate(f"{seen.stateful_set.metadata.name}: {problem}")
            return plan

        with mock.patch.object(controller, "plan_sync", checked):
            yield

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that a new pod has its claims, and that no status is negative."""
        if write.controller != self.controller or write.after is None:
            return
        if write.verb == "create" and write.target.plural == "pods":
            yield from self._without_claims(write.answered)
        if write.verb == "update" and write.target.plural == "persistentvolumeclaims":
            yield from self._wrong_owner(write)
        if write.target.resource == "statefulsets/status":
            for size in _SIZES:
                if write.after["status"].get(size, 0) < 0:
                    yield f"{write}: {size} is negative"

    def _wrong_owner(self, write: Write) -> Iterator[str]:
        """Yield a controller of a claim that is neither its pod nor its set."""
        none: JSON = {"metadata": {}}
        uid = controller_of(write.after or none)
        if uid in ("", controller_of(write.before or none)):
            return
        names = [
            each["metadata"]["name"]
            for plural in ("pods", "statefulsets")
            for each in self.state.stored(plural, write.target.namespace)
            if each["metadata"]["uid"] == uid
        ]
        if not any(f"-{name}" in write.target.name for name in names):
            yield f"{write}: owned by {names or 'something that is gone'}"

    def _without_claims(self, pod: JSON) -> Iterator[str]:
        namespace, name = path_of(pod).split("/")
        for volume in pod["spec"].get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and not self.state.find(
                "persistentvolumeclaims", namespace, claim
            ):
                yield f"pod {name} was created before its claim {claim}"

    def broken_invariants(self) -> Iterator[str]:
        """Yield ordinals that have more than one pod."""
        for stateful_set in self.state.stored("statefulsets"):
            numbers = Counter(
                parent_and_ordinal(pod["metadata"]["name"])
                for pod in self._pods_of(stateful_set)
            )
            for found, count in numbers.items():
                if count > 1:
                    yield f"{path_of(stateful_set)}: {count} pods are {found}"

    def wrong_at_the_end(self, managers: Any) -> Iterator[str]:
        """Yield claims of running pods whose owners differ from the policy."""
        del managers
        for stateful_set in self.state.stored("statefulsets"):
            policy = stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"]
            is_owner = policy["whenDeleted"] == "Delete"
            wanted = [stateful_set["metadata"]["uid"]] if is_owner else []
            for claim in self._claims_of(stateful_set):
                references = claim["metadata"].get("ownerReferences", [])
                if [each["uid"] for each in references] != wanted:
                    yield f"claim {path_of(claim)} has the owners {references}"

    def end_state(self) -> JSON:
        """Return the state of every stateful set as a user sees it."""
        return {
            path_of(each): self._seen_of(each)
            for each in self.state.stored("statefulsets")
        }

    def _seen_of(self, stateful_set: JSON) -> JSON:
        status = stateful_set.get("status", {})
        metadata = stateful_set["metadata"]
        return {
            "spec": stateful_set["spec"],
            "sizes": {key: status.get(key, 0) for key in _SIZES},
            "observed": status.get("observedGeneration") == metadata["generation"],
            "updated": status.get("currentRevision") == status.get("updateRevision"),
            "pods": {
                pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
                for pod in self._pods_of(stateful_set)
            },
            "claims": [
                each["metadata"]["name"] for each in self._claims_of(stateful_set)
            ],
        }

    def _pods_of(self, stateful_set: JSON) -> list[JSON]:
        uid = stateful_set["metadata"]["uid"]
        return [pod for pod in self.state.stored("pods") if lives(pod, uid)]

    def _claims_of(self, stateful_set: JSON) -> Iterator[JSON]:
        """Yield the claims of the wanted pods."""
        metadata, spec = stateful_set["metadata"], stateful_set["spec"]
        start = spec.get("ordinals", {}).get("start", 0)
        for ordinal in range(start, start + spec["replicas"]):
            for template in spec.get("volumeClaimTemplates", []):
                name = f"{template['metadata']['name']}-{metadata['name']}-{ordinal}"
                found = self.state.find(
                    "persistentvolumeclaims", metadata["namespace"], name
                )
                if found is not None:
                    yield found


def plan_problems(seen: Replicas, plan: Plan, now: datetime) -> Iterator[str]:
    """Yield how the plan of a sync breaks the order of pods."""
    yield from _wrong_replacements(seen, plan.replaced)
    if seen.is_parallel:
        return
    created = created_by(plan)
    count = len(created) + len(deleted_by(plan))
    if count > 1:
        yield f"{count} pods are created or deleted at a time"
    for new in created:
        for slot in seen.slots:
            if slot.ordinal < new.ordinal and seen.is_unavailable(slot.pod, now):
                yield f"{new.name} is created before {slot.name} is available"
    for pod in plan.condemned:
        if pod is not seen.condemned[0]:
            yield f"{pod.metadata.name} is deleted before a higher one"
    for pod in plan.replaced:
        yield from _replaced_too_early(seen, pod, now)


def created_by(plan: Plan) -> list[Slot]:
    """Return the ordinals for which a plan creates pods."""
    return [each.slot for each in plan.wanted if each.slot.pod is None]


def deleted_by(plan: Plan) -> list[Pod]:
    """Return the pods that a plan deletes."""
    pods = [each.slot.pod for each in plan.wanted if each.slot.pod is not None]
    ended = [pod for pod in pods if is_terminal(pod)]
    return [*ended, *plan.condemned, *plan.replaced]


def _wrong_replacements(seen: Replicas, replaced: Iterable[Pod]) -> Iterator[str]:
    """Yield pods that an update must not delete, but deletes."""
    first = ordinals(seen.stateful_set).start + partition(seen)
    for pod in replaced:
        name, ordinal = pod.metadata.name, ordinal_of(seen.stateful_set, pod)
        if seen.revision_of(pod) == seen.revisions.update:
            yield f"{name} is replaced though it is up to date"
        if ordinal is None or ordinal < first:
            yield f"{name} is replaced below the partition"


def _replaced_too_early(seen: Replicas, pod: Pod, now: datetime) -> Iterator[str]:
    name = pod.metadata.name
    if is_running_and_ready(pod):
        for slot in seen.slots:
            if slot.pod is not pod and seen.is_unavailable(slot.pod, now):
                yield f"{name} is replaced beside {slot.name}"
        return
    revision, current = seen.revision_of(pod), seen.revisions.current
    works = any(
        is_running_and_ready(each) and seen.revision_of(each) == current
        for each in seen.pods
    )
    may_recover = not is_broken(seen, pod, now)
    if revision == "" or may_recover or (revision == current and works):
        yield f"{name} is replaced though it may recover"


PROPERTIES = StatefulSetProperties
