"""The options of a DELETE, and the marks of an object that is being deleted."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.devcluster.scheme.query import (
    asks_for_dry_run,
    is_true,
    whole_number,
)
from controller_manager.devcluster.scheme.statuses import (
    bad_request,
    invalid,
    invalid_object,
    not_supported,
    shown,
)

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a DELETE."""

    grace_period: int | None = None
    policy: str = ""
    dry_run: bool = False
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def parse(cls, body: JSON, query: dict[str, str]) -> "Deletion":
        """Take the DeleteOptions of a decoded body and a query; raises Refusal."""
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        if isinstance(grace, str) and "gracePeriodSeconds" not in body:
            grace = whole_number(query, "gracePeriodSeconds", 0)
        if grace is not None and not re.fullmatch(r"-?\d{1,9}", str(grace)):
            raise bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}")
        preconditions = body.get("preconditions") or {}
        return cls(
            grace_period=int(grace) if grace is not None else None,
            policy=_policy(body, query),
            dry_run=asks_for_dry_run(body.get("dryRun")),
            uid=preconditions.get("uid", ""),
            resource_version=preconditions.get("resourceVersion", ""),
        )


def _policy(body: JSON, query: dict[str, str]) -> str:
    policy = str(body.get("propagationPolicy", query.get("propagationPolicy", "")))
    if body.get("orphanDependents") is not None or "orphanDependents" in query:
        if policy:
            detail = "orphanDependents and deletionPropagation cannot be both set"
            cause = invalid("propagationPolicy", shown(policy), detail)
            raise invalid_object("meta.k8s.io", "DeleteOptions", "", [cause])
        orphans = body.get("orphanDependents", is_true(query, "orphanDependents"))
        return "Orphan" if orphans else "Background"
    if policy not in ("", "Foreground", "Background", "Orphan"):
        supported = ("Foreground", "Background", "Orphan", "nil")
        cause = not_supported("propagationPolicy", f'"{policy}"', supported)
        raise invalid_object("meta.k8s.io", "DeleteOptions", "", [cause])
    return policy


def marked_deleted(
    obj: JSON, options: Deletion, now: datetime, period: int, *, orphans: bool
) -> JSON:
    """Return `obj` marked as deleted, with a grace period of `period` seconds.

    `orphans` says that dependents are orphaned unless the options say otherwise.
    """
    metadata = dict(obj["metadata"])
    finalizers = _finalizers(
        metadata.pop("finalizers", []), options.policy, orphans=orphans
    )
    if finalizers:
        metadata["finalizers"] = finalizers
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = format_time(now + timedelta(seconds=period))
        metadata["deletionGracePeriodSeconds"] = period
        if "generation" in metadata:
            metadata["generation"] += 1
    elif period < metadata.get("deletionGracePeriodSeconds", 0):
        # A later request with a shorter period brings the time forward.
        earlier = metadata["deletionGracePeriodSeconds"] - period
        due = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=earlier)
        metadata["deletionTimestamp"] = format_time(due)
        metadata["deletionGracePeriodSeconds"] = period
    return {**obj, "metadata": metadata}


def _finalizers(current: list[str], policy: str, *, orphans: bool) -> list[str]:
    """Return the finalizers, with the one of the policy."""
    if not policy and orphans and FOREGROUND not in current:
        policy = "Orphan"  # the default of these kinds from before propagationPolicy
    if not policy:
        return list(current)
    finalizers = [each for each in current if each not in (FOREGROUND, ORPHAN)]
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    return finalizers if wanted is None else [*finalizers, wanted]
