"""The requests of pods are added up as by upstream's calculateRequests."""

from typing import Final

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.autoscaling.podautoscaler.pods import (
    ComputationError,
    requested,
)


def container(name: str, *, sidecar: bool = False, **requests: str) -> JSON:
    """Return a container; a sidecar is an init container with restartPolicy Always."""
    made: JSON = {"name": name, "resources": {"requests": requests}}
    if sidecar:
        made["restartPolicy"] = "Always"
    return made


def pod(
    *containers: JSON,
    init: tuple[JSON, ...] = (),
    requests: JSON | None = None,
    limits: JSON | None = None,
    overhead: JSON | None = None,
) -> Pod:
    """Return a pod; `requests` and `limits` are those of the pod as a whole."""
    spec: JSON = {"containers": containers, "initContainers": init}
    if requests or limits:
        spec["resources"] = {"requests": requests, "limits": limits}
    if overhead:
        spec["overhead"] = overhead
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)


APP: Final = container("app", cpu="100m", memory="1Gi")
PROXY: Final = container("proxy", sidecar=True, cpu="50m", memory="64Mi")
SETUP: Final = container("setup", cpu="2", memory="4Gi")

SUMS: Final = {
    "all containers": (pod(APP, container("log", cpu="10m")), "", 110),
    "a sidecar runs as long as the pod": (pod(APP, init=(PROXY,)), "", 150),
    "an init container does not": (pod(APP, init=(SETUP,)), "", 100),
    "one container of several": (pod(APP, container("log", cpu="10m")), "log", 10),
    "one sidecar": (pod(APP, init=(PROXY,)), "proxy", 50),
    "one container, if another requests nothing": (
        pod(APP, container("log")),
        "app",
        100,
    ),
    "the pod as a whole": (pod(APP, requests={"cpu": "700m"}), "", 700),
    "its overhead is added": (
        pod(APP, requests={"cpu": "700m"}, overhead={"cpu": "30m"}),
        *("", 730),
    ),
    "the overhead of other pods is not": (pod(APP, overhead={"cpu": "30m"}), "", 100),
    "one container counts alone, whatever the pod requests": (
        pod(APP, requests={"cpu": "700m"}),
        *("app", 100),
    ),
    "a limit of the pod is no request": (pod(APP, limits={"cpu": "700m"}), "", 100),
    "what the pod does not request itself its containers do": (
        pod(APP, container("log"), init=(PROXY,), requests={"memory": "2Gi"}),
        *("", 150),
    ),
    "of these, an init container may need more than all others": (
        pod(APP, init=(PROXY, SETUP), requests={"memory": "2Gi"}),
        *("", 2050),
    ),
    "a request of zero is one": (pod(container("app", cpu="0")), "", 0),
    "billionths are rounded up": (pod(container("app", cpu="1n")), "", 1),
}


@pytest.mark.parametrize(("made", "name", "expected"), SUMS.values(), ids=SUMS)
def test_requests_are_added_up(made: Pod, name: str, expected: int) -> None:
    """In thousandths."""
    assert requested([made], "cpu", name, pod_level=True) == {"p": expected}


MISSING: Final = {
    "a container requests nothing": (
        pod(APP, container("log")),
        *("", "missing request for cpu in container log of Pod p"),
    ),
    "a sidecar requests nothing": (
        pod(APP, init=(container("proxy", sidecar=True),)),
        *("", "missing request for cpu in container proxy of Pod p"),
    ),
    "the container requests nothing": (
        pod(APP, container("log")),
        *("log", "missing request for cpu in container log of Pod p"),
    ),
    "there is no such container": (pod(APP), "x", "container x not found in Pod p"),
    "an init container is none": (
        pod(APP, init=(SETUP,)),
        *("setup", "container setup not found in Pod p"),
    ),
    "neither the pod nor a container requests it": (
        pod(container("app"), requests={"memory": "2Gi"}),
        *("", "missing pod-level request for cpu in Pod p"),
    ),
}


@pytest.mark.parametrize(("made", "name", "message"), MISSING.values(), ids=MISSING)
def test_a_request_that_is_missing_is_named(made: Pod, name: str, message: str) -> None:
    """In upstream's words."""
    with pytest.raises(ComputationError) as raised:
        requested([made], "cpu", name, pod_level=True)
    assert str(raised.value) == message


def test_without_its_gate_the_pod_as_a_whole_requests_nothing() -> None:
    """The requests of its containers count, and each container must have one."""
    whole = {"cpu": "700m"}
    complete = pod(APP, container("log", cpu="10m"), requests=whole)
    assert requested([complete], "cpu", pod_level=False) == {"p": 110}
    lacking = pod(APP, container("log"), requests=whole)
    assert requested([lacking], "cpu", pod_level=True) == {"p": 700}
    with pytest.raises(ComputationError) as raised:
        requested([lacking], "cpu", pod_level=False)
    message = "missing request for cpu in container log of Pod p"
    assert str(raised.value) == message
