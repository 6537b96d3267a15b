"""The subcommand ``explain``, and ``kubectl why``."""

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from controller_manager.cli import explain as command
from controller_manager.cli.command import make_command
from controller_manager.devcluster.testing import ClusterSettings
from controller_manager.devcluster.testing.cluster import DevelopmentCluster
from controller_manager.explain import following
from controller_manager.explain.cause import Explanation, Reference, State
from controller_manager.explain.view import Missing, Unread
from tests.distributions import completed
from tests.documents.facts import ROOT

CASES = yaml.safe_load(Path(__file__).with_name("explain.yaml").read_text())


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(make_command(), ["explain", *arguments])


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a cluster with roles, without controllers; yield the kubeconfigs' directory.

    ``admin`` is the administrator's. ``nobody`` is that of a service account without
    any role.
    """
    directory = tmp_path_factory.mktemp("explain")
    settings = ClusterSettings(
        nodes=0, controllers=("serviceaccount-controller",), rbac=True
    )
    with DevelopmentCluster(settings) as cluster:
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        (directory / "admin").write_text(yaml.safe_dump(config))
        with cluster.namespace("mine") as namespace:
            account = cluster.account_kubeconfig(str(namespace), "default")
            (directory / "nobody").write_text(account.read_text())
            yield str(directory)


@pytest.mark.parametrize(("arguments", "code", "output"), CASES)
def test_what_is_asked_has_its_answer_and_its_exit_code(
    kubeconfig: str, arguments: str, code: int, output: str
) -> None:
    result = explain(*arguments.split(), f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.output) == (code, f"{output}\n")


def test_the_json_has_a_version_and_all_fields(kubeconfig: str) -> None:
    result = explain(
        "Namespace", "default", f"--kubeconfig={kubeconfig}/admin", "-ojson"
    )
    of = {"apiVersion": "v1", "kind": "Namespace", "namespace": "", "name": "default"}
    assert json.loads(result.output) == {
        "version": "explain/v1",
        "state": "healthy",
        "explanations": [
            {
                "object": of,
                "state": "healthy",
                "summary": "nothing is wrong",
                "causes": [],
                "unread": [],
                "timedOut": False,
                "notLookedAt": [],
            }
        ],
    }


def test_an_object_that_may_not_be_read_is_one_line(kubeconfig: str) -> None:
    result = explain("pod/web", f"--kubeconfig={kubeconfig}/nobody")
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith("Error: explain: pods 'web': may not be read: ")


def test_watching_ends_after_its_time_with_the_last_state(kubeconfig: str) -> None:
    result = explain(
        *("svc/kubernetes", "-w", "--watch-timeout=1s"),
        f"--kubeconfig={kubeconfig}/admin",
    )
    assert result.exit_code == 0


def _answers(
    monkeypatch: pytest.MonkeyPatch, *answers: Explanation | Exception
) -> None:
    """Let the looks of the command have some answers, the last one for ever."""
    left = list(answers)
    monkeypatch.setattr(following, "PERIOD", 0.01)

    async def answer(*_: object) -> Explanation:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(command, "explain_target", answer)


_WEB = Reference("v1", "Pod", "mine", "web")
_HEALTHY = Explanation(object=_WEB, state=State.HEALTHY, summary="it runs")
_STUCK = Explanation(object=_WEB, state=State.STUCK, summary="it waits")
_FAILED = Unread("pods 'web': no\x1b[2J answer")
_STUCK_LINE = "Pod mine/web is stuck: it waits\n\n"
_HEALTHY_LINE = "Pod mine/web is healthy: it runs\n\n"
_AGAIN = "explain: pods 'web': no\\x1b[2J answer; looking again\n"
_OVER = "explain: the time was over before all was read; give a longer --timeout\n"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            [_STUCK, _FAILED, _FAILED, _HEALTHY],
            (0, _STUCK_LINE + _HEALTHY_LINE, _AGAIN),
        ),
        (
            [_STUCK, _FAILED, Missing("there is none")],
            (0, f"{_STUCK_LINE}The object is gone.\n", _AGAIN),
        ),
        ([Unread("no answer")], (1, "", "Error: explain: no answer\n")),
    ],
)
def test_only_the_first_look_that_fails_ends_watching(
    kubeconfig: str,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Explanation | Exception],
    expected: tuple[int, str, str],
) -> None:
    """Each other is one line, without characters that control a terminal."""
    _answers(monkeypatch, *answers)
    result = explain("pod/web", "-w", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.stdout, result.stderr) == expected


def test_a_look_that_fails_leaves_the_json_whole(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output has a document for each change, and nothing else."""
    _answers(monkeypatch, _STUCK, Unread("no answer"), Missing("there is none"))
    result = explain("pod/web", "-wojson", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, json.loads(result.stdout)["state"]) == (0, "stuck")
    assert result.stderr == "explain: no answer; looking again\nThe object is gone.\n"


@pytest.mark.parametrize(
    ("found", "code", "error"),
    [
        (_HEALTHY, 1, "Error: "),
        (replace(_HEALTHY, state=State.PROGRESSING), 1, "Error: "),
        (_STUCK, 4, ""),
    ],
)
@pytest.mark.parametrize("flags", [(), ("-w", "--watch-timeout=1s")])
def test_an_answer_that_is_cut_is_printed_and_is_not_healthy(
    kubeconfig: str,
    monkeypatch: pytest.MonkeyPatch,
    found: Explanation,
    code: int,
    error: str,
    flags: tuple[str, ...],
) -> None:
    """A stuck object stays stuck, although others were left out."""
    cut = replace(found, timed_out=True)
    _answers(monkeypatch, cut)
    result = explain("pod/web", *flags, f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.stderr) == (code, f"{error}{_OVER}")
    assert result.stdout.startswith("Pod mine/web is ")


def test_the_time_of_the_answer_bounds_the_first_read(kubeconfig: str) -> None:
    """It ends before the request is sent, or while it waits for its answer."""
    result = explain("--all", "--timeout=1ms", f"--kubeconfig={kubeconfig}/admin")
    assert result.exit_code == 1
    assert result.output in {
        "Error: explain: namespaces 'default': not read, because the time was over\n",
        "Error: explain: namespaces 'default': no answer in time\n",
    }


def test_a_missing_kubeconfig_is_one_line(tmp_path: Path) -> None:
    result = explain("pod/a", f"--kubeconfig={tmp_path}/none")
    assert (result.exit_code, result.output) == (
        1,
        f"Error: kubeconfig {tmp_path}/none: No such file or directory\n",
    )


def test_the_kubeconfig_of_kubectl_is_the_default(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{kubeconfig}/admin")
    assert explain("ns/default").exit_code == 0


KUBECTL = shutil.which("kubectl") or ""


def _install(directory: Path) -> None:
    """Write the script that pip makes of the entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["kubectl-why"].partition(":")
    script = directory / "kubectl-why"
    script.write_text(
        f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n"
    )
    script.chmod(0o755)


@pytest.mark.slow
@pytest.mark.skipif(not KUBECTL, reason="no kubectl on PATH")
def test_kubectl_why_explains_an_object(tmp_path: Path) -> None:
    """The plugin gets all words after its name, and kubectl returns its exit code."""
    _install(tmp_path)
    settings = ClusterSettings(nodes=0, controllers=("serviceaccount-controller",))
    with DevelopmentCluster(settings) as cluster:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(cluster.kubeconfig),
        }

        def why(*words: str) -> tuple[int, str, str]:
            done = completed(KUBECTL, "why", *words, env=environment)
            return done.returncode, done.stdout, done.stderr

        assert [why("ns", "default"), why("flower/rose"), why("cm", "-A")] == [
            (0, "Namespace default is healthy: nothing is wrong\n", ""),
            (
                1,
                "",
                'Error: explain: the server doesn\'t have a resource type "flower"\n',
            ),
            (0, "Nothing is wrong with cm in all namespaces.\n", ""),
        ]
        assert why("-h")[1].startswith("Usage: kubectl why [OPTIONS] KIND[/NAME]...\n")
