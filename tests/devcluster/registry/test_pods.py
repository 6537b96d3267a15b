"""The quality of service of pods."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.pod_updates import qos_class
from tests.devcluster.rows import rows


@rows("pod", "expected")
def test_the_class_is_that_of_the_amounts(pod: JSON, expected: str) -> None:
    """Only cpu and memory count; what the pod states as a whole decides alone."""
    assert qos_class(pod) == expected
