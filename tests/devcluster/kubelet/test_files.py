"""Commands find variables and files, and make files, as those of upstream's e2e do."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet.commands import (
    FOREVER,
    Run,
    Surroundings,
    Write,
)
from controller_manager.devcluster.kubelet.containers import ContainerRun
from controller_manager.devcluster.kubelet.environment import Environment
from controller_manager.devcluster.kubelet.machine import Files
from controller_manager.devcluster.kubelet.programs import Program, Role
from controller_manager.devcluster.kubelet.shell import run_of
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import (
    CLAIMS,
    condition,
    create_pod,
    events,
    send,
    status_of,
)

pytestmark = pytest.mark.looptime

ODD = """
    if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then
        exit 1
    else
        exit 0
    fi
"""
ONCE = """
    if [[ -r /data/foo ]]
    then
        exit 0
    elif [[ $JOB_COMPLETION_INDEX -eq 0 ]]
    then
        touch /data/foo
        sleep 1000000
    else
        exit 1
    fi
"""


def around(*files: str, **variables: str) -> Surroundings:
    return Surroundings(variables, lambda path: path in files)


@pytest.mark.parametrize(
    ("script", "given", "end"),
    [
        (ODD, around(JOB_COMPLETION_INDEX="3"), (0, 1)),
        (ODD, around(JOB_COMPLETION_INDEX="4"), (0, 0)),
        (ODD, around(), None),
        (ONCE, around("/data/foo"), (0, 0)),
        (ONCE, around(JOB_COMPLETION_INDEX="0"), (1000000, 0)),
        (ONCE, around(JOB_COMPLETION_INDEX="1"), (0, 1)),
        ("exit $(( $RANDOM / 16384 ))", around(RANDOM="16384"), (0, 1)),
        ("exit $(( (1 + 2) * 3 ))", around(), None),
        ("exit $((2 + 3 * 4 - 10 / 3 % 2))", around(), (0, 13)),
        ("exit $((1 / 0))", around(), None),
        ("exit `expr 2 \\* 3`", around(), (0, 6)),
        ("exit '$A'", around(A="1"), None),
        ('test "$A" = "$B" && exit 3', around(A="x", B="x"), (0, 3)),
        ("[ -z $A ] || exit 4", around(A="x"), (0, 4)),
        ("[ ! -e /a ] && exit 5", around(), (0, 5)),
        ("test x -lt 2; exit 1", around(), None),
        ("touch /a; [ -f /a ] && rm /a && [ ! -f /a ] && exit 6", around(), (0, 6)),
        ("rm /a", around(), (0, 1)),
        ("rm -rf /a", around(), (0, 0)),
        ("mv -v /a /tmp/ && cat /tmp/a && ls /a || exit 7", around("/a"), (0, 7)),
        ("mv /a /b", around(), (0, 1)),
        ("cp /a /b && cat /a /b", around("/a"), (0, 0)),
        ("set -e; if false; then exit 8; fi; sleep 2", around(), (2, 0)),
        ("if sleep 3; false; then :; elif true; then exit 9; fi", around(), (3, 9)),
        ("if true; then while true; do sleep 1; done; fi", around(), (FOREVER, 0)),
        ("while true; do if true; then exit 2; fi; done", around(), (0, 2)),
        ("if true; then fi", around(), None),
        ("if true; exit 1; fi", around(), None),
        ("if true; then exit 1", around(), None),
        ("then exit 1; fi", around(), None),
        ("touch $UNKNOWN", around(), None),
        ("echo ok >/a; sleep 2 && cat /a", around(), (2, 0)),
        ("false > /a || [ -f /a ] && exit 3", around(), (0, 3)),
        ("echo ok >> /dev/null", around(), (0, 0)),
        ("echo ok > /dev/stderr", around(), None),
        ("echo ok 2> /a", around(), None),
        ("while true; do sleep 1; done > /a", around(), None),
        ("echo ok > $UNKNOWN", around(), None),
        ("echo ok >", around(), None),
    ],
)
def test_a_script_sees_variables_and_files(
    script: str, given: Surroundings, end: tuple[float, int] | None
) -> None:
    run = run_of(["/bin/sh", "-c", script], given)
    assert (None if run is None else (run.seconds, run.code)) == end


def test_a_script_that_needs_files_is_unknown_without_them() -> None:
    assert run_of(["sh", "-c", ONCE]) is None
    run = run_of(["sh", "-c", "sleep 3; touch /a"])
    assert isinstance(run, Run)
    assert [(each.after, each.path) for each in run.writes] == [(3, "/a")]


def test_the_output_that_goes_to_a_file_is_not_printed() -> None:
    """The probe of an example of upstream finds the file until it is removed."""
    run = run_of(["sh", "-c", "echo ok >/tmp/health; sleep 10; rm -rf /tmp/health"])
    assert isinstance(run, Run)
    assert run.lines == ()
    file = "/tmp/health"  # noqa: S108 - of a container
    assert list(run.writes) == [Write(0, file), Write(10, file, exists=False)]


@pytest.mark.parametrize(
    ("script", "times"),
    [
        ("while sleep 1; do echo a; sleep 2; done", [1, 4, 7]),
        ("sleep 5; while true; do echo a; echo b; sleep 2; done", [5, 5, 7]),
        ("while true; do echo a; done", []),
    ],
)
def test_a_loop_that_runs_on_prints_its_lines(script: str, times: list[int]) -> None:
    run = run_of(["sh", "-c", script])
    assert isinstance(run, Run)
    assert [after for after, _ in run.lines[:3]] == times
    assert len(run.lines) in (0, 1000)


def container(script: str, **more: Any) -> JSON:
    """Return a container with a script, and with the volume data."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    command = ["/bin/sh", "-c", script]
    given = {"name": "c", "image": "busybox:1", "command": command}
    return {**given, "volumeMounts": mounts, **more}


async def codes(cluster: Cluster, name: str) -> tuple[str, int]:
    """Return the phase of a pod, and the restarts of its container."""
    status = await status_of(cluster, name)
    return status["phase"], status["containerStatuses"][0]["restartCount"]


@pytest.mark.parametrize(
    ("volume", "second"),
    [
        ({"emptyDir": {}}, ("Failed", 0)),
        ({"hostPath": {"path": "/tmp/e2e"}}, ("Succeeded", 0)),  # noqa: S108
        ({"persistentVolumeClaim": {"claimName": "data"}}, ("Succeeded", 0)),
    ],
)
async def test_files_last_as_long_as_their_volume(
    cluster: Cluster, volume: JSON, second: tuple[str, int]
) -> None:
    """The first pod fails and leaves a file; upstream's e2e calls this failOnce."""
    script = "if [[ -r /data/foo ]]\nthen\n exit 0\nelse\n touch /data/foo\n exit 1\nfi"
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    async with cluster.nodes(count=1, start_delay=0, binds_claims=True):
        await send(cluster, "POST", CLAIMS, claim)
        for name in ("one", "two"):
            await create_pod(
                cluster,
                name,
                restartPolicy="Never",
                containers=[container(script)],
                volumes=[{"name": "data", **volume}],
            )
            await asyncio.sleep(5)
        assert await codes(cluster, "one") == ("Failed", 0)
        assert await codes(cluster, "two") == second


async def test_a_restarted_container_finds_the_files_of_its_pod(
    cluster: Cluster,
) -> None:
    data = "[ -f /data/foo ] || touch /data/foo /tmp/foo && [ -f /tmp/foo ] && exit 1"
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            restartPolicy="OnFailure",
            containers=[container(f"{data}; exit 0")],
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        await asyncio.sleep(5)
        assert await codes(cluster, "p") == ("Succeeded", 1)


async def test_an_index_decides_about_the_end_of_a_pod(cluster: Cluster) -> None:
    key = "batch.kubernetes.io/job-completion-index"
    value = {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
    env = [{"name": "JOB_COMPLETION_INDEX", "valueFrom": value}]
    async with cluster.nodes(count=1, start_delay=0):
        for index in ("0", "1"):
            await create_pod(
                cluster,
                f"p{index}",
                annotations={key: index},
                restartPolicy="Never",
                containers=[container(ODD, env=env)],
                volumes=[{"name": "data", "emptyDir": {}}],
            )
        await asyncio.sleep(5)
        assert await codes(cluster, "p0") == ("Succeeded", 0)
        assert await codes(cluster, "p1") == ("Failed", 0)


async def test_a_probe_fails_while_its_file_is_missing(cluster: Cluster) -> None:
    """The example of Kubernetes' own documentation, for liveness and readiness."""
    probe = {"exec": {"command": ["cat", "/data/healthy"]}, "periodSeconds": 5}
    script = "sleep 7; touch /data/healthy; sleep 30; rm -f /data/healthy; sleep 600"
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            containers=[container(script, readinessProbe=probe)],
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        seen = []
        for seconds in (6, 6, 20, 30):
            await asyncio.sleep(seconds)
            seen.append(condition(await status_of(cluster, "p"), "Ready")[0])
        assert seen == ["False", "True", "True", "False"]
        assert (
            "p Warning Unhealthy: Readiness probe failed: cat: can't open "
            "'/data/healthy': No such file or directory"
        ) in [each.partition(" (x")[0] for each in await events(cluster)]


async def test_the_files_of_an_unknown_program_are_unknown(cluster: Cluster) -> None:
    """It may have made the file, so that its probe passes."""
    probe = {"exec": {"command": ["test", "-f", "/data/ready"]}, "periodSeconds": 1}
    known = {"name": "c", "image": "httpd:2", "readinessProbe": probe}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "known", containers=[known])
        unknown = [{**known, "image": "app:v1"}]
        await create_pod(cluster, "unknown", containers=unknown)
        await asyncio.sleep(10)
        for name, ready in (("known", "False"), ("unknown", "True")):
            assert condition(await status_of(cluster, name), "Ready")[0] == ready


async def test_the_files_of_a_pod_that_is_gone_are_forgotten(cluster: Cluster) -> None:
    spec = {
        "name": "c",
        "volumeMounts": [
            {"name": name, "mountPath": f"/{name}"} for name in ("own", "host")
        ],
    }
    volumes = [
        {"name": "own", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/srv/e2e"}},
    ]
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "node-0", "volumes": volumes},
    }
    storage = cluster.server.storage
    files = Files(storage, Environment(storage, ("IPv4",)))
    run = ContainerRun(spec, Role.MAIN, Program())
    paths = ("/own/a", "/host/a", "/tmp/a")  # noqa: S108 - of a container
    files.record(pod, run, 0.0, [Write(0.0, each) for each in paths])
    before = [files.around(pod, run, 1.0).exists(each) for each in paths]
    files.forget(pod, is_gone=True)
    after = [files.around(pod, run, 1.0).exists(each) for each in paths]
    assert (before, after) == ([True, True, True], [False, True, False])
