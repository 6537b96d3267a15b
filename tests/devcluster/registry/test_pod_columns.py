"""The row of a pod, as upstream's printer fills it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.pod_columns import (
    POD_COLUMNS,
    pod_cells,
)

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
ONE = {"containers": [{"name": "c"}]}
TWO = {"containers": [{"name": "c"}, {"name": "d"}]}
RUNNING = {"running": {"startedAt": "2026-01-01T00:01:00Z"}}
READY = {"name": "c", "ready": True, "state": RUNNING}
IS_READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def init(*states: JSON, sidecar: bool = False) -> JSON:
    """Return the parts of a pod with init containers in these states."""
    policy = {"restartPolicy": "Always"} if sidecar else {}
    names = [f"i{number}" for number in range(len(states))]
    return {
        "spec": {**ONE, "initContainers": [{"name": each, **policy} for each in names]},
        "status": {
            "phase": "Pending",
            "initContainerStatuses": [
                {"name": name, **state}
                for name, state in zip(names, states, strict=True)
            ],
        },
    }


def ended(code: int = 0, **more: Any) -> JSON:
    """Return the state of a container that has ended."""
    return {"state": {"terminated": {"exitCode": code, **more}}}


def cells(parts: JSON, **metadata: Any) -> list[Any]:
    created = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    row = pod_cells({**parts, "metadata": {**created, **metadata}}, NOW)
    assert len(row) == len(POD_COLUMNS)
    return row


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"spec": ONE, "status": {"phase": "Pending"}}, ("0/1", "Pending", "0")),
        (
            {"spec": ONE, "status": {"phase": "Running", "containerStatuses": [READY]}},
            ("1/1", "Running", "0"),
        ),
        (
            {"spec": ONE, "status": {"phase": "Failed", "reason": "Evicted"}},
            ("0/1", "Evicted", "0"),
        ),
        (
            {
                "spec": ONE,
                "status": {
                    "phase": "Pending",
                    "conditions": [
                        {"type": "PodScheduled", "reason": "SchedulingGated"}
                    ],
                },
            },
            ("0/1", "SchedulingGated", "0"),
        ),
        (
            {
                "spec": ONE,
                "status": {
                    "phase": "Pending",
                    "containerStatuses": [
                        {"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}
                    ],
                },
            },
            ("0/1", "ErrImagePull", "0"),
        ),
        (
            {
                "spec": ONE,
                "status": {
                    "phase": "Succeeded",
                    "containerStatuses": [{"name": "c", **ended(reason="Completed")}],
                },
            },
            ("0/1", "Completed", "0"),
        ),
        (
            {
                "spec": ONE,
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [{"name": "c", **ended(3)}],
                },
            },
            ("0/1", "ExitCode:3", "0"),
        ),
        (
            {
                "spec": ONE,
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [{"name": "c", **ended(137, signal=9)}],
                },
            },
            ("0/1", "Signal:9", "0"),
        ),
        (
            {
                "spec": TWO,
                "status": {
                    "phase": "Running",
                    **IS_READY,
                    "containerStatuses": [
                        {"name": "d", **ended(reason="Completed")},
                        READY,
                    ],
                },
            },
            ("1/2", "Running", "0"),
        ),
        (
            {
                "spec": TWO,
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {"name": "d", **ended(reason="Completed")},
                        READY,
                    ],
                },
            },
            ("1/2", "NotReady", "0"),
        ),
        (
            {
                "spec": ONE,
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {
                            **READY,
                            "restartCount": 2,
                            "lastState": {
                                "terminated": {"finishedAt": "2026-01-01T00:05:00Z"}
                            },
                        }
                    ],
                },
            },
            ("1/1", "Running", "2 (5m ago)"),
        ),
        (init(ended(), {"state": RUNNING}), ("0/1", "Init:1/2", "0")),
        (init(ended(1, reason="Error")), ("0/1", "Init:Error", "0")),
        (
            init({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
            ("0/1", "Init:CrashLoopBackOff", "0"),
        ),
        (
            init({"state": {"waiting": {"reason": "PodInitializing"}}}),
            ("0/1", "Init:0/1", "0"),
        ),
        (
            init({"state": RUNNING, "started": True, "ready": True}, sidecar=True),
            ("1/2", "Pending", "0"),
        ),
    ],
)
def test_a_row_says_what_upstreams_says(parts: JSON, expected: tuple[str, ...]) -> None:
    """Ready containers, state and restarts."""
    assert tuple(cells(parts)[1:4]) == expected


def test_a_pod_that_is_being_deleted_says_so() -> None:
    """Unless it has ended, or its node is lost."""
    going = {"deletionTimestamp": "2026-01-01T00:00:30Z"}
    running = {"spec": ONE, "status": {"phase": "Running"}}
    assert cells(running, **going)[2] == "Terminating"
    succeeded = {"spec": ONE, "status": {"phase": "Succeeded"}}
    assert cells(succeeded, **going)[2] == "Succeeded"
    lost = {"spec": ONE, "status": {"phase": "Running", "reason": "NodeLost"}}
    assert cells(lost, **going)[2] == "Unknown"


def test_a_wide_row_says_where_a_pod_is() -> None:
    """Its address, its node, and its readiness gates."""
    gates = [{"conditionType": "a.b/c"}, {"conditionType": "a.b/d"}]
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "a.b/d", "status": "True"}],
    }
    spec = {**ONE, "nodeName": "n", "readinessGates": gates}
    assert cells({"spec": spec, "status": status})[4:] == [
        *("10m", "10.0.0.1", "n", "<none>", "1/2"),
    ]
    assert cells({"spec": ONE})[5:] == ["<none>"] * 4
