"""The promises of the binder of volumes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.volumebinder.binding import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    EXTERNAL_FINALIZER,
    IN_TREE_FINALIZER,
    MIGRATED_TO,
    STORAGE_PROVISIONER,
)
from tests.controllers.storage.volumebinder.workload import CLASS, DISKS, Binders
from tests.simulation.changes import Change, Path, only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_CLAIMS: Final = "persistentvolumeclaims"
_VOLUMES: Final = "persistentvolumes"
_ANNOTATIONS: Final = ("metadata", "annotations")


def _of_object(marks: frozenset[str], *fields: Path) -> Change:
    """Allow changes of fields and of some annotations, in any number."""
    others = only(*fields)

    def may(path: Path, before: Any, after: Any) -> bool:
        if path[:2] != _ANNOTATIONS:
            return others(path, before, after)
        if len(path) > len(_ANNOTATIONS):
            return path[2] in marks
        changed = {*(before or {}).items()} ^ {*(after or {}).items()}
        return {key for key, _ in changed} <= marks

    return may


_OF_VOLUMES: Final = _of_object(
    frozenset((BOUND_BY_CONTROLLER, MIGRATED_TO)),
    ("spec", "claimRef"),
    ("metadata", "finalizers"),
)
_OF_CLAIMS: Final = _of_object(
    frozenset(
        (
            BIND_COMPLETED,
            BOUND_BY_CONTROLLER,
            MIGRATED_TO,
            STORAGE_PROVISIONER,
            BETA_STORAGE_PROVISIONER,
        )
    ),
    ("spec", "volumeName"),
    ("spec", "storageClassName"),
)
_FINALIZERS: Final = {IN_TREE_FINALIZER, EXTERNAL_FINALIZER}


class VolumeBinderProperties(Properties):
    """No volume is bound to two claims, and no claim to two volumes."""

    controller = "persistentvolume-binder-controller"
    may_write = (
        AllowedWrite(("update",), _VOLUMES, _OF_VOLUMES),
        AllowedWrite(("update",), f"{_VOLUMES}/status", only(("status",))),
        AllowedWrite(("update",), _CLAIMS, _OF_CLAIMS),
        AllowedWrite(("update",), f"{_CLAIMS}/status", only(("status",))),
    )
    workload = Binders

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that a write takes no volume or claim from another binding."""
        before, after = write.before, write.after
        if write.controller != self.controller or before is None or after is None:
            return
        if write.target.resource == _VOLUMES:
            yield from self._of_volume(write, before, after)
        if write.target.resource == f"{_VOLUMES}/status":
            yield from self._of_status(write, after)
        if write.target.resource == _CLAIMS:
            old, new = _named(before), _named(after)
            if old and old != new:
                yield f"{write}: the claim had the volume {old}"
            if not write.is_late:
                yield from self._of_claim(write, after)
        yield from double_bindings(
            self.state.stored(_VOLUMES), self.state.stored(_CLAIMS)
        )

    def _of_volume(self, write: Write, before: JSON, after: JSON) -> Iterator[str]:
        old, new = _uid(before), _uid(after)
        if old and new and old != new:
            yield f"{write}: the volume belonged to the claim with the uid {old}"
        if old and not new and self._needs(before):
            yield f"{write}: the claim of the volume still needs it"
        changed = {*_finalizers(before)} ^ {*_finalizers(after)}
        if changed - _FINALIZERS:
            yield f"{write}: the finalizers {changed} are not the binder's"

    def _of_claim(self, write: Write, after: JSON) -> Iterator[str]:
        """Check that a claim names only a volume that already refers to the claim."""
        name = _named(after)
        volume = self.state.find(_VOLUMES, "", name) if name else None
        if volume is not None and _uid(volume) != after["metadata"]["uid"]:
            yield f"{write}: the volume {name} does not refer to the claim"

    def _of_status(self, write: Write, after: JSON) -> Iterator[str]:
        """Check that no volume is released that its claim needs."""
        if _phase(after) in ("Released", "Failed") and self._is_claimed(after):
            yield f"{write}: the claim of the volume is there"

    def _is_claimed(self, volume: JSON) -> bool:
        """Tell whether the claim of a volume has this volume, or no volume yet."""
        reference = volume["spec"].get("claimRef", {})
        claim = self.state.find(
            _CLAIMS, reference.get("namespace", ""), reference.get("name", "")
        )
        return (
            claim is not None
            and claim["metadata"]["uid"] == reference.get("uid")
            and _named(claim) in ("", volume["metadata"]["name"])
        )

    def _needs(self, volume: JSON) -> bool:
        """Tell whether the claim that a volume refers to names the volume."""
        reference = volume["spec"]["claimRef"]
        claim = self.state.find(_CLAIMS, reference["namespace"], reference["name"])
        return (
            claim is not None
            and claim["metadata"]["uid"] == reference["uid"]
            and _named(claim) == volume["metadata"]["name"]
        )

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that all possible bindings exist, and that the phases are right."""
        del managers
        claims = {each["metadata"]["uid"]: each for each in self.state.stored(_CLAIMS)}
        for volume in self.state.stored(_VOLUMES):
            yield from _wrong_phase(volume, claims)
        free = [each for each in self._of_workload() if _phase(each) == "Available"]
        for claim in self.state.stored(_CLAIMS, DISKS):
            yield from self._wrong_claim(claim, free)

    def _of_workload(self) -> list[JSON]:
        return [
            each
            for each in self.state.stored(_VOLUMES)
            if each["spec"].get("storageClassName") == CLASS
        ]

    def _wrong_claim(self, claim: JSON, free: list[JSON]) -> Iterator[str]:
        name, wanted = claim["metadata"]["name"], _named(claim)
        volume = self.state.find(_VOLUMES, "", wanted) if wanted else None
        has_it = volume is not None and _uid(volume) == claim["metadata"]["uid"]
        if _phase(claim) == "Bound" and not has_it:
            yield f"the claim {name} is Bound, and no volume refers to it"
        fits = [
            each["metadata"]["name"]
            for each in free
            if wanted in ("", each["metadata"]["name"]) and _may_have(each, claim)
        ]
        if _phase(claim) == "Pending" and fits:
            yield f"the claim {name} waits beside the volumes {fits}"


def double_bindings(volumes: list[JSON], claims: list[JSON]) -> list[str]:
    """Return the volumes that two claims have, and the claims with two volumes.

    A claim has a volume if it is Bound, or has been, and names it, and the volume
    refers to its uid.
    """
    uids = {each["metadata"]["uid"]: each for each in claims}
    holders = Counter(
        _named(each)
        for each in claims
        if _phase(each) == "Bound" and _refers_back(each, volumes)
    )
    found = [f"{name} is bound to {n} claims" for name, n in holders.items() if n > 1]
    bound = Counter(
        _uid(each)
        for each in volumes
        if _phase(each) == "Bound"
        and (claim := uids.get(_uid(each))) is not None
        and _named(claim) == each["metadata"]["name"]
    )
    return found + [f"{uid} has {n} volumes" for uid, n in bound.items() if n > 1]


def _refers_back(claim: JSON, volumes: list[JSON]) -> bool:
    name, uid = _named(claim), claim["metadata"]["uid"]
    return any(
        each["metadata"]["name"] == name and _uid(each) in ("", uid) for each in volumes
    )


def _wrong_phase(volume: JSON, claims: dict[str, JSON]) -> Iterator[str]:
    name, phase, uid = volume["metadata"]["name"], _phase(volume), _uid(volume)
    claim = claims.get(uid)
    if not uid and phase != "Available":
        yield f"the free volume {name} is {phase}"
    if uid and claim is None and phase not in ("Released", "Failed"):
        yield f"the volume {name} of a claim that is gone is {phase}"
    if claim is not None and _named(claim) == name and phase != "Bound":
        yield f"the bound volume {name} is {phase}"


def _may_have(volume: JSON, claim: JSON) -> bool:
    reference = volume["spec"].get("claimRef")
    metadata = claim["metadata"]
    if "deletionTimestamp" in volume["metadata"]:
        return False
    return reference is None or (
        (reference["namespace"], reference["name"])
        == (metadata["namespace"], metadata["name"])
    )


def _uid(volume: JSON) -> str:
    uid: str = volume["spec"].get("claimRef", {}).get("uid", "")
    return uid


def _named(claim: JSON) -> str:
    name: str = claim["spec"].get("volumeName", "")
    return name


def _phase(obj: JSON) -> str:
    phase: str = obj.get("status", {}).get("phase", "")
    return phase


def _finalizers(obj: JSON) -> list[str]:
    finalizers: list[str] = obj["metadata"].get("finalizers", [])
    return finalizers


PROPERTIES = VolumeBinderProperties
