"""The usage of pods."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.control.quota.evaluators import pod_evaluator
from controller_manager.control.quota.pods import missing_statements, pod_usage, tracks
from controller_manager.control.quota.resources import is_extended, printed
from controller_manager.control.quota.scopes import Requirement

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE_POD = {"count/pods": "1", "pods": "1"}


def container(
    name: str = "c",
    requests: JSON | None = None,
    *,
    limits: JSON | None = None,
    **more: str,
) -> JSON:
    resources: JSON = {"requests": {**(requests or {}), **more}}
    if limits is not None:
        resources["limits"] = limits
    return {"name": name, "resources": resources}


def sidecar(cpu: str) -> JSON:
    return {**container(cpu=cpu), "restartPolicy": "Always"}


def pod(*containers: JSON, status: JSON | None = None, **spec: Any) -> Pod:
    spec = {"containers": list(containers), **spec}
    body = {"metadata": {"name": "p"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, Pod)


def usage(subject: Pod, *, pod_level: bool = True) -> dict[str, str]:
    return printed(pod_usage(subject, NOW, pod_level=pod_level))


def charged(**amounts: str) -> dict[str, str]:
    return {**amounts, **{f"requests.{name}": each for name, each in amounts.items()}}


def cpu(amount: str) -> dict[str, str]:
    return {**ONE_POD, **charged(cpu=amount)}


DISK, HUGE = {"ephemeral-storage": "1Gi"}, {"hugepages-2Mi": "4Mi"}
WHOLE = {"requests": {"cpu": "5"}, "limits": {"cpu": "6"}}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (pod(container()), ONE_POD),
        (pod(container(cpu="100m"), container(cpu="1")), cpu("1100m")),
        (
            pod(container(limits={**DISK, "cpu": "2", "a.b/c": "1"})),
            {**ONE_POD, "limits.cpu": "2", "limits.ephemeral-storage": "1Gi"},
        ),
        (
            pod(container("c", {**DISK, "memory": "1Mi"})),
            {**ONE_POD, **charged(**DISK, memory="1Mi")},
        ),
        (pod(container("c", HUGE, limits=HUGE)), {**ONE_POD, **charged(**HUGE)}),
        (
            pod(container("c", {"example.com/gpu": "3", "kubernetes.io/x": "1"})),
            {**ONE_POD, "requests.example.com/gpu": "3"},
        ),
        (
            pod(container("c", {"deviceclass.resource.kubernetes.io/gpu": "2"})),
            {**ONE_POD, "requests.deviceclass.resource.kubernetes.io/gpu": "2"},
        ),
    ],
)
def test_containers_are_summed_up(subject: Pod, expected: dict[str, str]) -> None:
    assert usage(subject) == expected
    assert all(map(tracks, usage(subject)))


@pytest.mark.parametrize(
    ("init", "main", "expected"),
    [
        ([container(cpu="3")], "1", "3"),
        ([container(cpu="1"), container(cpu="2")], "3", "3"),
        ([sidecar("1")], "2", "3"),
        ([sidecar("1"), container(cpu="4")], "2", "5"),
        ([container(cpu="4"), sidecar("1")], "2", "4"),
        ([sidecar("1"), sidecar("2")], "1", "4"),
        ([sidecar("1"), container(cpu="5"), sidecar("2")], "1", "6"),
    ],
)
def test_init_containers_count_for_the_most_that_is_needed_at_one_time(
    init: list[JSON], main: str, expected: str
) -> None:
    """They run one after the other; a sidecar goes on beside all that come after it."""
    assert usage(pod(container(cpu=main), initContainers=init)) == cpu(expected)


def test_overhead_is_added_to_requests_and_to_limits_that_there_are() -> None:
    """A pod without a limit gets none."""
    bounded = container(cpu="1", limits={"cpu": "2"})
    subject = pod(bounded, overhead={"cpu": "250m", "memory": "10Mi"})
    expected = {**cpu("1250m"), **charged(memory="10Mi"), "limits.cpu": "2250m"}
    assert usage(subject) == expected


def test_resources_of_the_pod_as_a_whole_replace_those_of_its_containers() -> None:
    subject = pod(container(cpu="1", memory="1Gi"), resources=WHOLE)
    expected = {**cpu("5"), **charged(memory="1Gi"), "limits.cpu": "6"}
    assert usage(subject) == expected


@pytest.mark.parametrize(
    ("in_use", "allocated", "reason", "expected"),
    [
        ("1", "1", "", "2"),
        ("3", "1", "", "3"),
        ("1", "4", "", "4"),
        ("1", "1", "Deferred", "2"),
        ("1", "1", "Infeasible", "1"),
        ("1", "3", "Infeasible", "3"),
    ],
)
def test_a_pod_that_is_resized_is_charged_for_the_most(
    in_use: str, allocated: str, reason: str, expected: str
) -> None:
    """The requests of its spec do not count once the node has refused the resize."""
    resources = {"requests": {"cpu": in_use}}
    status: JSON = {"name": "c", "resources": resources}
    status["allocatedResources"] = {"cpu": allocated}
    conditions = [{**PENDING, "reason": reason}] if reason else []
    whole = {"containerStatuses": [status], "conditions": conditions}
    assert usage(pod(container(cpu="2"), status=whole)) == cpu(expected)


def resized(
    name: str,
    in_use: JSON | None = None,
    allocated: JSON | None = None,
    limits: JSON | None = None,
) -> JSON:
    given = {"requests": in_use, "limits": limits}
    resources = {key: value for key, value in given.items() if value is not None}
    status: JSON = {"name": name, "allocatedResources": allocated}
    return {**status, "resources": resources} if resources else status


PENDING = {"type": "PodResizePending", "status": "True"}
INFEASIBLE = {"conditions": [{**PENDING, "reason": "Infeasible"}]}
A_USES_4 = resized("a", {"cpu": "4"}, {"cpu": "4"})
LIMITED = {"cpu": "8", "memory": "1Gi"}


def resizing(
    *requests: str, of: list[JSON], limits: JSON | None = None, refused: bool = False
) -> Pod:
    containers = [
        container(name, cpu=amount, limits=limits)
        for name, amount in zip("ab", requests, strict=False)
    ]
    conditions = INFEASIBLE if refused else {}
    return pod(*containers, status={"containerStatuses": of, **conditions})


RESIZES: Final = {
    "the largest of three sums counts, not the sum of the largest amounts": (
        resizing("1", "3", of=[resized(n, {"cpu": "2"}, {"cpu": "2"}) for n in "ab"]),
        cpu("4"),
    ),
    "allocated resources count as in use until the node reports the use": (
        resizing("1", of=[resized("a", None, {"cpu": "3"})]),
        cpu("3"),
    ),
    "a container without a status counts as its spec says": (
        resizing("1", "2", of=[A_USES_4]),
        cpu("6"),
    ),
    "unless the node has refused the resize": (
        resizing("1", "2", of=[A_USES_4], refused=True),
        cpu("4"),
    ),
    "a refused resize leaves the limits that are in use": (
        resizing(
            "1",
            of=[resized("a", {"cpu": "1"}, {"cpu": "1"}, {"cpu": "2"})],
            limits=LIMITED,
            refused=True,
        ),
        {**cpu("1"), "limits.cpu": "2"},
    ),
    "init containers are resized, too": (
        pod(
            container("main", cpu="1"),
            initContainers=[container("setup", cpu="2")],
            status={"initContainerStatuses": [resized("setup", {"cpu": "5"})]},
        ),
        cpu("5"),
    ),
}


@pytest.mark.parametrize(("subject", "expected"), RESIZES.values(), ids=RESIZES)
def test_a_pending_resize_is_charged_as_the_api_server_charges_it(
    subject: Pod, expected: dict[str, str]
) -> None:
    assert usage(subject) == expected


def test_the_status_of_the_pod_as_a_whole_does_not_count() -> None:
    """A kubelet's numbers contain the overhead, which would be added twice."""
    status = {
        "resources": {"requests": {"cpu": "5250m"}, "limits": {"cpu": "9"}},
        "allocatedResources": {"cpu": "5250m"},
    }
    overhead = {"cpu": "250m"}
    bare = pod(container(cpu="1"), resources=WHOLE, overhead=overhead)
    subject = pod(container(cpu="1"), resources=WHOLE, overhead=overhead, status=status)
    assert usage(subject) == usage(bare) == {**cpu("5250m"), "limits.cpu": "6250m"}


def test_without_its_gate_the_resources_of_the_pod_as_a_whole_do_not_count() -> None:
    subject = pod(container("a"), container("b", cpu="1"), resources=WHOLE)
    off, on = pod_evaluator(pod_level=False), pod_evaluator(pod_level=True)
    assert printed(off.usage(subject, NOW)) == cpu("1")
    assert printed(on.usage(subject, NOW)) == {**cpu("5"), "limits.cpu": "6"}
    assert off.missing(subject, ["cpu"]) == "must specify cpu for: a"
    assert on.missing(subject, ["cpu"]) == ""


@pytest.mark.parametrize(
    ("whole", "in_container", "with_gate", "without"),
    [
        (None, {}, True, True),
        (None, {"cpu": "0"}, True, True),
        (None, {"ephemeral-storage": "1Gi"}, True, True),
        (None, {"cpu": "1"}, False, False),
        ({"requests": {"cpu": "1"}}, {}, False, True),
        ({"limits": {"memory": "1Gi"}}, {}, False, True),
        ({"requests": {"cpu": "0"}}, {"memory": "1Gi"}, True, False),
        ({}, {"memory": "1Gi"}, True, False),
    ],
)
def test_the_pod_as_a_whole_decides_whether_it_is_best_effort(
    whole: JSON | None, in_container: JSON, with_gate: bool, without: bool
) -> None:
    """With its gate; else the containers do. The status says it, if it has a class."""
    spec = {} if whole is None else {"resources": whole}
    subject = pod(container("c", in_container), **spec)
    scope = Requirement(scope_name="BestEffort", operator="Exists")
    assert pod_evaluator(pod_level=True).meets(scope, subject) is with_gate
    assert pod_evaluator(pod_level=False).meets(scope, subject) is without
    said = pod(container(cpu="1"), status={"qosClass": "BestEffort"})
    assert pod_evaluator(pod_level=True).meets(scope, said)


@pytest.mark.parametrize(
    ("phase", "deleted", "grace", "is_charged"),
    [
        ("Running", None, None, True),
        ("Succeeded", None, None, False),
        ("Failed", None, None, False),
        ("Running", "2026-01-01T11:59:40Z", 30, True),
        ("Running", "2026-01-01T11:59:30Z", 30, True),
        ("Running", "2026-01-01T11:59:30Z", 2**63 - 1, True),
        ("Running", "2026-01-01T11:59:29Z", 30, False),
        ("Pending", "2026-01-01T11:59:59Z", 0, False),
        ("Running", "2026-01-01T11:00:00Z", None, True),
    ],
)
def test_a_pod_that_has_ended_or_should_be_gone_is_only_an_object(
    phase: str, deleted: str | None, grace: int | None, is_charged: bool
) -> None:
    """Its owner must be able to replace it."""
    times = {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace}
    spec = {"containers": [container(cpu="1")]}
    body = {"metadata": times, "spec": spec, "status": {"phase": phase}}
    ended = msgspec.convert(body, Pod)
    assert usage(ended) == (cpu("1") if is_charged else {"count/pods": "1"})


@pytest.mark.parametrize(
    ("subject", "limited", "missing"),
    [
        (pod(container("a", cpu="1")), ["pods", "requests.cpu"], ""),
        (pod(container("a"), container("b")), ["cpu"], "cpu for: a,b"),
        (
            pod(container("b", cpu="1"), initContainers=[container("a")]),
            ["requests.cpu", "limits.memory"],
            "limits.memory for: a,b; requests.cpu for: a",
        ),
        (pod(container("a")), ["ephemeral-storage", "requests.a.b/gpu"], ""),
        (pod(container("a"), resources={"requests": {"cpu": "1"}}), ["cpu"], ""),
    ],
)
def test_each_container_must_state_the_cpu_and_memory_that_is_limited(
    subject: Pod, limited: list[str], missing: str
) -> None:
    """Unless its pod states them as a whole."""
    expected = f"must specify {missing}" if missing else ""
    assert missing_statements(subject, limited, pod_level=True) == expected


@pytest.mark.parametrize(
    ("name", "is_counted"),
    [
        ("limits.ephemeral-storage", True),
        ("requests.hugepages-1Gi", True),
        ("requests.example.com/gpu", True),
        ("example.com/gpu", False),
        ("limits.example.com/gpu", False),
        ("requests.storage", False),
        ("requests.kubernetes.io/x", False),
        ("count/pods", True),
        ("count/pods.example.com", False),
    ],
)
def test_pods_are_charged_for_compute_resources(name: str, is_counted: bool) -> None:
    """Extended resources only by their requests."""
    assert tracks(name) is is_counted


def test_an_extended_resource_has_the_prefix_of_somebody_else() -> None:
    assert is_extended("example.com/gpu")
    assert not is_extended("cpu")
    assert not is_extended("requests.example.com/gpu")
    assert not is_extended("node.kubernetes.io/x")


def test_the_footprint_changes_with_what_a_pod_is_charged_for_only() -> None:
    """A heartbeat or a condition calls for no recount."""
    footprint = pod_evaluator(pod_level=True).footprint
    before = footprint(pod(container(cpu="1"), status={"phase": "Pending"}), NOW)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert footprint(pod(container(cpu="1"), status=ready), NOW) == before
    for other in (
        pod(container(cpu="2")),
        pod(container(cpu="1"), activeDeadlineSeconds=1),
        pod(container(cpu="1"), status={"phase": "Failed"}),
        pod(container(cpu="1"), status=INFEASIBLE),
        pod(
            container(cpu="1"),
            status={"containerStatuses": [resized("c", None, {"cpu": "1"})]},
        ),
    ):
        assert footprint(other, NOW) != before
