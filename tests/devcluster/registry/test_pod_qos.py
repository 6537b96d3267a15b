"""The quality of service of pods, by their requests and limits."""

from typing import Final

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.pod_updates import qos_class

FULL: Final[JSON] = {"cpu": "1", "memory": "1Gi"}
SAME: Final[JSON] = {"cpu": "1000m", "memory": "1073741824"}


def both(requests: JSON, limits: JSON) -> JSON:
    return {"requests": requests, "limits": limits}


def spec(*resources: JSON, init: JSON | None = None, whole: JSON | None = None) -> JSON:
    """Return the spec of a pod whose containers have these resources."""
    made: JSON = {
        "containers": [{"name": "c", "resources": each} for each in resources]
    }
    if init is not None:
        made["initContainers"] = [{"name": "i", "resources": init}]
    if whole is not None:
        made["resources"] = whole
    return made


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (spec({}), "BestEffort"),
        (spec({"requests": {"cpu": "0"}, "limits": {"memory": "0"}}), "BestEffort"),
        (spec({"requests": {"ephemeral-storage": "1Gi"}}), "BestEffort"),
        (spec({"requests": {"example.com/gpu": "1"}}), "BestEffort"),
        (spec({"requests": {"cpu": "1"}}), "Burstable"),
        (spec({"limits": {"memory": "1Gi"}}), "Burstable"),
        (spec(both(FULL, FULL)), "Guaranteed"),
        (spec(both(FULL, SAME)), "Guaranteed"),
        (spec(both({**FULL, "ephemeral-storage": "1Gi"}, FULL)), "Guaranteed"),
        (spec(both({"cpu": "1"}, {"cpu": "1"})), "Burstable"),
        (spec(both(FULL, FULL), {}), "Burstable"),
        (spec(both(FULL, FULL), init={}), "Burstable"),
        (spec(both(FULL, FULL), init=both(FULL, FULL)), "Guaranteed"),
        (spec({}, whole=both(FULL, SAME)), "Guaranteed"),
        (spec(both(FULL, FULL), whole={"requests": {"cpu": "1"}}), "Burstable"),
        (spec(both(FULL, FULL), whole={}), "BestEffort"),
    ],
)
def test_the_class_is_that_of_the_amounts(pod: JSON, expected: str) -> None:
    """Only cpu and memory count; what the pod states as a whole decides alone."""
    assert qos_class(pod) == expected
