"""The properties of the resource claim controller."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.dynamicresources.v1 import POD_CLAIM_NAME
from controller_manager.api.json_objects import JSON
from tests.controllers.resource.resourceclaim.workload import (
    DEVICES,
    DeviceClaimUsers,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_NOTED: Final = ("status", "resourceClaimStatuses")
_MANAGED: Final = ("metadata", "managedFields")

_ON_THE_WAY: Final = 60.0
"""Seconds that a request may need, in which its pod may end."""


class ResourceClaimProperties(Properties):
    """Pods have their claims while they need them, and no longer."""

    controller = "resourceclaim-controller"
    may_write = (
        AllowedWrite(("create", "delete"), "resourceclaims"),
        AllowedWrite(
            ("patch",), "resourceclaims", only(("metadata", "finalizers"), _MANAGED)
        ),
        AllowedWrite(("patch",), "resourceclaims/status", only(("status",), _MANAGED)),
        AllowedWrite(("patch",), "pods/status", only(_NOTED, _MANAGED)),
    )
    bounded = ("gone.items",)
    workload = DeviceClaimUsers

    def __init__(self, state: State) -> None:
        """Start without having seen a pod."""
        super().__init__(state)
        self._seen: dict[str, float] = {}

    def before_write(self) -> None:
        """Store the last time at which each pod was running."""
        now = asyncio.get_running_loop().time()
        for pod in self.state.stored("pods"):
            if pod["spec"].get("resourceClaims") and not _has_ended(pod):
                self._seen[pod["metadata"]["uid"]] = now

    def _ended_long_ago(self, consumer: JSON) -> bool:
        now = asyncio.get_running_loop().time()
        return now - self._seen.get(consumer["uid"], -1e9) > _ON_THE_WAY

    def after_write(self, write: Write) -> Iterator[str]:
        """Check a claim that the controller creates, reserves, releases or deletes."""
        if write.controller != self.controller or write.is_late:
            return
        if write.target.resource == "resourceclaims" and write.before is None:
            yield from self._made(write)
        before, after = write.before, write.after
        if before is None or before["kind"] != "ResourceClaim":
            return
        for each in _consumers(before):
            is_kept = after is not None and each in _consumers(after)
            if not is_kept and self._is_running(before, each):
                yield f"{write}: takes it from {each['name']}, which runs"
        for each in _consumers(after or {}):
            if each not in _consumers(before) and self._ended_long_ago(each):
                yield f"{write}: reserves it for {each['name']}, which has ended"

    def _made(self, write: Write) -> Iterator[str]:
        """Yield the other claims for the same entry of the same pod."""
        made = write.answered
        for each in self.state.stored("resourceclaims", made["metadata"]["namespace"]):
            is_other = each["metadata"]["uid"] != made["metadata"]["uid"]
            if is_other and _purpose(each) == _purpose(made):
                yield f"{write}: {each['metadata']['name']} is there already"

    def _is_running(self, claim: JSON, consumer: JSON) -> bool:
        """Tell whether a consumer of a claim is a pod that needs it."""
        if consumer["resource"] != "pods":
            return True
        namespace = claim["metadata"]["namespace"]
        pod = self.state.find("pods", namespace, consumer["name"])
        if pod is None or pod["metadata"]["uid"] != consumer["uid"]:
            return False
        return not _has_ended(pod)

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Yield pods without their claims, and claims that no pod needs."""
        del managers
        for claim in self.state.stored("resourceclaims"):
            name = claim["metadata"]["name"]
            for each in _consumers(claim):
                if not self._is_running(claim, each):
                    yield f"{name} is reserved for {each['name']}, which does not run"
        for pod in self.state.stored("pods", DEVICES):
            yield from self._lacking(pod)

    def _lacking(self, pod: JSON) -> Iterator[str]:
        metadata, status = pod["metadata"], pod.get("status", {})
        if _has_ended(pod) or metadata.get("deletionTimestamp"):
            return
        status_names = {
            each["name"]: each.get("resourceClaimName")
            for each in status.get("resourceClaimStatuses", ())
        }
        for entry in pod["spec"].get("resourceClaims", ()):
            name = entry.get("resourceClaimName") or status_names.get(entry["name"])
            found = name and self.state.find(
                "resourceclaims", metadata["namespace"], name
            )
            if not found:
                yield f"{metadata['name']} has no claim {entry['name']}"
            elif _is_to_be_reserved(found, pod):
                yield f"{name} is not reserved for {metadata['name']}"

    def broken_invariants(self) -> Iterator[str]:
        """Yield entries with two claims, and reserved claims without an allocation."""
        claims = self.state.stored("resourceclaims")
        purposes = Counter(filter(None, map(_purpose, claims)))
        for purpose, number in purposes.items():
            if number > 1:
                yield f"{number} claims for {purpose[1]} of the pod {purpose[0]}"
        for claim in claims:
            if _consumers(claim) and not claim["status"].get("allocation"):
                yield f"{claim['metadata']['name']} is reserved and not allocated"

    def end_state(self) -> JSON:
        """Return nothing: the remaining pods depend on the faults."""
        return {}


def _has_ended(pod: JSON) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _consumers(claim: JSON) -> Sequence[JSON]:
    reserved: Sequence[JSON] = claim.get("status", {}).get("reservedFor") or ()
    return reserved


def _purpose(claim: JSON) -> tuple[str, str] | None:
    """Return the pod and the entry that a claim was created for, `None` for none."""
    metadata = claim["metadata"]
    entry = metadata.get("annotations", {}).get(POD_CLAIM_NAME)
    owners = [each["uid"] for each in metadata.get("ownerReferences", ())]
    if entry is None or not owners or metadata.get("deletionTimestamp"):
        return None
    return owners[0], entry


def _is_to_be_reserved(claim: JSON, pod: JSON) -> bool:
    uids = [each["uid"] for each in _consumers(claim)]
    return bool(
        pod["spec"].get("nodeName")
        and claim.get("status", {}).get("allocation")
        and not claim["metadata"].get("deletionTimestamp")
        and pod["metadata"]["uid"] not in uids
    )


PROPERTIES = ResourceClaimProperties
