"""A preview has the flags of the manager in charge on which decisions depend."""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.nodes.podgc import PodGCOptions
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config
from controller_manager.options.parsing import parse
from controller_manager.preview.in_charge import DECIDE, with_flags_in_charge
from controller_manager.registry import registry
from tests.clusters import Cluster
from tests.doctor.patients import lease, static_pod

pytestmark = pytest.mark.looptime

PAGE = Path(__file__).parents[2] / "docs" / "preview.md"
PREVIEW = {"preview": ("true",)}
LIMIT = {"wait-for-apiserver-timeout": ("10s",)}
FLAGS = (
    *("--controllers=*,-ttl", "--terminated-pod-gc-threshold=7"),
    *("--kubeconfig=/etc/kubernetes/controller-manager.conf", "--leader-elect=true"),
)


def add_pod(cluster: Cluster, node: str, *flags: str) -> None:
    pod = dict(static_pod(*flags))
    pod["metadata"] = {**pod["metadata"], "name": f"kube-controller-manager-{node}"}
    pod["spec"] = {**pod["spec"], "nodeName": node}
    kind = cluster.server.catalogue.find("", "v1", "pods")
    assert kind is not None
    cluster.server.objects.create(kind, "kube-system", pod)


def add_lease(cluster: Cluster, holder: str) -> None:
    kind = cluster.server.catalogue.find("coordination.k8s.io", "v1", "leases")
    assert kind is not None
    renewed = "2030-01-01T00:00:00.000000Z"
    cluster.server.objects.create(kind, "kube-system", lease(holder, renewed))


async def taken(
    cluster: Cluster, given: Mapping[str, tuple[str, ...]]
) -> tuple[Config, list[str]]:
    """Return the config, and the lines of the log without their header."""
    stream = io.StringIO()
    logger = make_logger(stream=stream)
    config = parse(given, registry())
    found = await with_flags_in_charge(
        config, given, cluster.client, registry(), logger
    )
    lines = stream.getvalue().splitlines()
    return found, [line.partition("] ")[2] for line in lines]


def threshold(config: Config) -> int:
    return config.of(PodGCOptions).terminated_pod_threshold


async def test_the_leaders_flags_that_decide_are_taken(cluster: Cluster) -> None:
    add_pod(cluster, "a", "--controllers=*")
    add_pod(cluster, "b", *FLAGS)
    add_lease(cluster, "b_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d")
    config, lines = await taken(cluster, PREVIEW)
    assert threshold(config) == 7
    assert config.generic.controllers == ("*", "-ttl")
    assert config.client.kubeconfig == ""
    assert config.preview.source == "kube-system/kube-controller-manager-b"
    assert config.preview.taken == FLAGS[:2]
    assert lines == [
        (
            '"Took flags of the manager in charge" '
            'pod="kube-system/kube-controller-manager-b" '
            'flags="--controllers=*,-ttl --terminated-pod-gc-threshold=7"'
        )
    ]


async def test_a_pod_that_runs_goes_before_one_that_does_not(cluster: Cluster) -> None:
    """A pod that does not run says nothing about the manager in charge."""
    kind = cluster.server.catalogue.find("", "v1", "pods")
    assert kind is not None
    for name, phase in (("a", "Pending"), ("b", "Running"), ("c", "Running")):
        pod = dict(static_pod("--controllers=*"))
        metadata = {"name": name, "finalizers": ["example.com/kept"]}
        pod["metadata"] = {**pod["metadata"], **metadata}
        cluster.server.objects.create(kind, "kube-system", pod)
        patch = {"status": {"phase": phase}}
        where = (PODS, "kube-system", name)
        await cluster.client.patch(*where, patch, PatchType.MERGE, "status")
    await cluster.client.delete(PODS, "kube-system", "b")
    config, _ = await taken(cluster, PREVIEW)
    assert config.preview.source == "kube-system/c"


async def test_a_flag_of_the_preview_itself_wins(cluster: Cluster) -> None:
    add_pod(cluster, "a", *FLAGS)
    given = {**PREVIEW, "terminated-pod-gc-threshold": ("9",)}
    config, _ = await taken(cluster, given)
    assert threshold(config) == 9
    assert config.preview.taken == ("--controllers=*,-ttl",)


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, []),
        (
            PREVIEW,
            [
                (
                    '"No pod shows the flags of the manager in charge" '
                    'labels="component=kube-controller-manager" '
                    'give="the flags that decide"'
                )
            ],
        ),
    ],
    ids=["no preview", "no pod"],
)
async def test_without_such_a_pod_the_config_stays(
    cluster: Cluster, given: Mapping[str, tuple[str, ...]], lines: list[str]
) -> None:
    assert await taken(cluster, given) == (parse(given, registry()), lines)


async def test_unknown_gates_are_left_out(cluster: Cluster) -> None:
    add_pod(cluster, "a", *FLAGS, "--feature-gates=OfTomorrow=true")
    config, lines = await taken(cluster, PREVIEW)
    assert config.preview.taken == FLAGS[:2]
    assert [line.partition('" ')[0] for line in lines] == [
        '"Cannot use all flags of the manager in charge',
        '"Took flags of the manager in charge',
    ]
    assert "OfTomorrow" in lines[0]


async def test_flags_that_this_build_refuses_are_a_warning(cluster: Cluster) -> None:
    add_pod(cluster, "a", *FLAGS, "--node-monitor-period=soon")
    config, lines = await taken(cluster, PREVIEW)
    assert config.preview.taken == ()
    assert threshold(config) == threshold(parse(PREVIEW, registry()))
    assert all("node-monitor-period" in line for line in lines[:2])


async def test_an_identity_that_lists_no_pods_is_a_warning(cluster: Cluster) -> None:
    async def refuse(_: Request) -> Any:
        body = b'{"kind":"Status","message":"no pods for you","reason":"Forbidden"}'
        return Response(403, {}, body)

    cluster.server.handle = refuse  # type: ignore[method-assign, assignment]
    config, (line,) = await taken(cluster, PREVIEW)
    assert config == parse(PREVIEW, registry())
    assert line.startswith('"Cannot read the flags of the manager in charge"')


async def test_a_lease_is_read_again_after_an_outage(cluster: Cluster) -> None:
    """It answered for the pods, and restarts before it answers for the lease."""
    add_pod(cluster, "a", "--controllers=*")
    add_pod(cluster, "b", *FLAGS)
    add_lease(cluster, "b_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d")
    handle, failures = cluster.server.handle, 2

    async def answer(request: Request) -> Any:
        nonlocal failures
        if "/leases/" in request.path and failures:
            failures -= 1
            msg = "connection reset"
            raise TransportError(msg)
        return await handle(request)

    cluster.server.handle = answer  # type: ignore[method-assign]
    assert threshold((await taken(cluster, {**PREVIEW, **LIMIT}))[0]) == 7


@pytest.mark.parametrize(
    ("failures", "limit"),
    [(3, LIMIT), (300, LIMIT), (300, {})],
    ids=["answers in time", "does not", "for ever"],
)
async def test_an_api_server_that_is_away_is_asked_as_long_as_the_daemon_waits(
    cluster: Cluster, failures: int, limit: Mapping[str, tuple[str, ...]]
) -> None:
    add_pod(cluster, "a", *FLAGS)
    handle, left = cluster.server.handle, failures

    async def answer(request: Request) -> Any:
        nonlocal left
        left -= 1
        if left >= 0:
            msg = "cannot connect"
            raise TransportError(msg)
        return await handle(request)

    cluster.server.handle = answer  # type: ignore[method-assign]
    if failures > 10 and limit:
        with pytest.raises(TransportError):
            await taken(cluster, {**PREVIEW, **limit})
    else:
        assert threshold((await taken(cluster, {**PREVIEW, **limit}))[0]) == 7


def test_every_flag_that_decides_is_a_flag_and_the_page_lists_it() -> None:
    assert set(DECIDE) <= set(registry().flags.names)
    paragraphs = PAGE.read_text().split("\n\n")
    (paragraph,) = [each for each in paragraphs if each.startswith("They are `--")]
    assert tuple(re.findall(r"`--([a-z0-9-]+)`", paragraph)) == DECIDE
