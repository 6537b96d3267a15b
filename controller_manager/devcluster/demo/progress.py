"""Tests of the progress of the demo's steps."""

from collections.abc import Sequence
from typing import Final

import msgspec

from controller_manager.api.core.v1 import Namespace
from controller_manager.api.json_objects import JSON

from .rows import Row, all_complete

_EVERY_KIND: Final = frozenset(
    ("cronjob", "daemonset", "deployment", "job", "statefulset")
)
"""The kinds of the samples."""


class DemoError(Exception):
    """A step did not finish; the message names the step."""


def items_of(body: bytes) -> list[JSON]:
    """Return the items of a list."""
    items: list[JSON] = msgspec.json.decode(body)["items"]
    return items


def has_started(pod: JSON) -> bool:
    """Tell whether a pod runs, or has run."""
    return bool(pod["status"]["phase"] != "Pending")


def waiting_reason(pod: JSON) -> str:
    """Return why a container cannot start, empty if it is being created."""
    for container in pod["status"].get("containerStatuses", ()):
        waiting = container["state"].get("waiting", {})
        if "message" in waiting and waiting["reason"] != "ErrImagePull":
            # The kubelet pulls the image again soon, so one line is enough.
            message = waiting["message"].partition(": ErrImagePull")[0]
            return f"{waiting['reason']}: {message}"
    return ""


def namespace_line(namespace: Namespace) -> str:
    """Return the line that shows a namespace's phase and conditions."""
    remaining = [
        each.message
        for each in namespace.status.conditions or ()
        if each.type == "NamespaceContentRemaining"
    ]
    why = remaining[0] if remaining else "about to be emptied"
    return f"{namespace.metadata.name}    {namespace.status.phase}  {why}"


def everything_runs(rows: Sequence[Row]) -> bool:
    """Tell whether all is rolled out, and the job has ended well."""
    kinds = {each.kind for each in rows}
    return kinds >= _EVERY_KIND and all_complete(rows)


def is_stuck(rows: Sequence[Row]) -> bool:
    """Tell whether web has new pods that do not start, and still all its old ones."""
    return any(each.name == "web" and each.is_stuck for each in rows)


def runs_on(rows: Sequence[Row], pods: int) -> bool:
    """Tell whether worker has so many pods, and its autoscaler wants no others."""
    about = [each for each in rows if each.name == "worker"]
    return all_complete(about) and {each.total for each in about} == {pods}


def has_caught_up(rows: Sequence[Row]) -> bool:
    """Tell whether the cron job has run, and all jobs have ended well."""
    runs = [each for each in rows if each.name.startswith("report-")]
    return bool(runs) and all_complete(rows)
