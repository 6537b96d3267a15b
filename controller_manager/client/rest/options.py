"""The options of requests, as those of metav1: delete, list, watch and patch."""

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from .transport import Query

IDLE_TIMEOUT: Final = 75.0
"""Seconds that a watch may bring nothing: a bookmark comes about once a minute."""

BUSY_IDLE_TIMEOUT: Final = 35.0
"""The same for a resource that kubelets or leaders write often: nodes and leases.

A kubelet renews its lease every ten seconds. In a cluster where nothing changes for so
long, the watch is opened anew a little too often.
"""


class PatchType(StrEnum):
    """The kinds of patch, as media types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class PropagationPolicy(StrEnum):
    """The propagation policy: how the garbage collector treats dependents."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class DeleteOptions(Struct, frozen=True):
    """The options of a delete; `uid` and `resource_version` are preconditions."""

    grace_period_seconds: int | None = None
    propagation_policy: PropagationPolicy | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False

    def encode(self) -> bytes:
        """Return the request body."""
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if self.grace_period_seconds is not None:
            body["gracePeriodSeconds"] = self.grace_period_seconds
        if self.propagation_policy is not None:
            body["propagationPolicy"] = self.propagation_policy
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        if given := {key: value for key, value in preconditions.items() if value}:
            body["preconditions"] = given
        if self.dry_run:
            body["dryRun"] = ["All"]
        return msgspec.json.encode(body)


class ListOptions(Struct, frozen=True):
    """The options of a list: its selectors, its version, and the size of a page."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""

    def query(self) -> Query:
        """Return the query parameters that are set."""
        pairs = (
            ("labelSelector", self.label_selector),
            ("fieldSelector", self.field_selector),
            ("limit", str(self.limit) if self.limit else ""),
            ("continue", self.continue_),
            ("resourceVersion", self.resource_version),
            ("resourceVersionMatch", self.resource_version_match),
        )
        return tuple((name, value) for name, value in pairs if value)


class WatchOptions(Struct, frozen=True):
    """The options of a watch: its selectors, its version, and its duration in seconds.

    A stream that sends nothing for `idle_timeout` counts as broken. A server sends
    a bookmark about once a minute, so 75 seconds without data mean that the connection
    is dead, or that the server sends no bookmarks: to open the watch anew costs little.
    """

    resource_version: str = ""
    timeout_seconds: int = 300
    send_initial_events: bool = False
    label_selector: str = ""
    field_selector: str = ""
    idle_timeout: float = IDLE_TIMEOUT

    def query(self) -> Query:
        """Return the query parameters."""
        pairs = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(self.timeout_seconds)),
        ]
        if self.resource_version or not self.send_initial_events:
            pairs.append(("resourceVersion", self.resource_version))
        if self.send_initial_events:
            pairs += [
                ("sendInitialEvents", "true"),
                ("resourceVersionMatch", "NotOlderThan"),
            ]
        if self.label_selector:
            pairs.append(("labelSelector", self.label_selector))
        if self.field_selector:
            pairs.append(("fieldSelector", self.field_selector))
        return tuple(pairs)
