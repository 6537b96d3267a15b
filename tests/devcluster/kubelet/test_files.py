"""Commands find variables and files, and make files, as those of upstream's e2e do."""

import pytest

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
