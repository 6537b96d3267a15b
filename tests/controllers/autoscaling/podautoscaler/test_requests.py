"""What a pod requests, as upstream's calculateRequests counts it."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.autoscaling.podautoscaler.replicas.requests import (
    requested,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
)

JSON = dict[str, Any]


def container(name: str, cpu: str | None = None, **more: Any) -> JSON:
    requests = {} if cpu is None else {"cpu": cpu}
    return {"name": name, "resources": {"requests": requests}, **more}


def sidecar(name: str, cpu: str | None = None) -> JSON:
    return container(name, cpu, restartPolicy="Always")


def pod(*containers: JSON, **spec: Any) -> Pod:
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}
    return msgspec.convert(body, Pod)


WHOLE: JSON = {"requests": {"cpu": "1"}}
ONLY_MEMORY: JSON = {"requests": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("subject", "container_name", "milli"),
    [
        (pod(container("a", "100m"), container("b", "0.25")), "", 350),
        (pod(container("a", "100m"), initContainers=[sidecar("s", "50m")]), "", 150),
        (pod(container("a", "100m"), initContainers=[container("i", "9")]), "", 100),
        (pod(container("a", "100m"), container("b")), "a", 100),
        (pod(container("a"), initContainers=[sidecar("s", "50m")]), "s", 50),
        (pod(container("a"), resources=WHOLE), "", 1000),
        (pod(container("a", "100m"), resources=WHOLE), "", 1000),
        (pod(container("a", "100m"), resources=WHOLE), "a", 100),
        (pod(container("a"), resources=WHOLE, overhead={"cpu": "10m"}), "", 1010),
        (pod(container("a", "100m"), overhead={"cpu": "10m"}), "", 100),
        (pod(container("a", "100m"), container("b"), resources=ONLY_MEMORY), "", 100),
        (
            pod(
                container("a", "100m"),
                resources=ONLY_MEMORY,
                initContainers=[sidecar("s", "50m"), container("i", "300m")],
            ),
            "",
            350,
        ),
    ],
)
def test_a_pod_requests_what_runs_in_it(
    subject: Pod, container_name: str, milli: int
) -> None:
    """Or what it requests as a whole, with its overhead, unless a container counts.

    What it does not request as a whole is the most that its containers request at one
    time.
    """
    assert requested([subject], "cpu", container_name) == {"p": milli}


@pytest.mark.parametrize(
    ("subject", "container_name", "message"),
    [
        (
            pod(container("a", "1"), container("b")),
            "",
            "missing request for cpu in container b of Pod p",
        ),
        (
            pod(container("a", "1"), initContainers=[sidecar("s")]),
            "",
            "missing request for cpu in container s of Pod p",
        ),
        (pod(container("a", "1")), "b", "container b not found in Pod p"),
        (
            pod(container("a"), resources=ONLY_MEMORY),
            "",
            "missing pod-level request for cpu in Pod p",
        ),
    ],
)
def test_a_missing_request_is_named(
    subject: Pod, container_name: str, message: str
) -> None:
    """With the container and the pod, in upstream's words."""
    with pytest.raises(ComputationError) as caught:
        requested([subject], "cpu", container_name)
    assert str(caught.value) == message
