"""The subcommand ``explain``, and ``kubectl why``."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from controller_manager.api.core.claims import CLAIMS
from controller_manager.cli import explain as command
from controller_manager.cli.command import make_command
from controller_manager.devcluster.testing import ClusterSettings
from controller_manager.devcluster.testing.cluster import DevelopmentCluster
from controller_manager.explain import following
from controller_manager.explain.cause import Explanation, Item, Reference, State
from controller_manager.explain.explainer import explain_item
from controller_manager.explain.target import Target
from controller_manager.explain.view import Missing, Unread, View
from tests.documents.facts import ROOT


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


def test_a_healthy_object_has_the_exit_code_0(kubeconfig: str) -> None:
    result = explain("ns/default", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.output) == (
        0,
        "Namespace default is healthy: nothing is wrong\n",
    )


def test_the_json_has_a_version_and_all_fields(kubeconfig: str) -> None:
    result = explain(
        "Namespace", "default", f"--kubeconfig={kubeconfig}/admin", "-ojson"
    )
    assert json.loads(result.output) == {
        "version": "explain/v1",
        "state": "healthy",
        "explanations": [
            {
                "object": {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "namespace": "",
                    "name": "default",
                },
                "state": "healthy",
                "summary": "nothing is wrong",
                "causes": [],
                "unread": [],
                "timedOut": False,
                "notLookedAt": [],
            }
        ],
    }


def test_a_namespace_in_which_nothing_is_wrong_is_one_line(kubeconfig: str) -> None:
    result = explain("--all", "-n", "kube-public", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.output) == (
        0,
        "Nothing is wrong in the namespace kube-public.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (
            ["deploy", "-n", "kube-public"],
            "with deployments.apps in the namespace kube-public",
        ),
        (["deploy,cm", "-A"], "with deployments.apps, cm in all namespaces"),
        (["no", "-A"], "with nodes of the cluster"),
        (["no"], "with nodes of the cluster"),
        (["-A"], "in all namespaces"),
        (["--all", "--all-namespaces"], "in all namespaces"),
    ],
)
def test_some_kinds_of_some_namespaces_are_explained(
    kubeconfig: str, arguments: list[str], place: str
) -> None:
    result = explain(*arguments, f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.output) == (0, f"Nothing is wrong {place}.\n")


def test_several_objects_are_explained_one_after_the_other(kubeconfig: str) -> None:
    result = explain(
        *("ns", "default", "kube-public"), f"--kubeconfig={kubeconfig}/admin"
    )
    assert (result.exit_code, result.output) == (
        0,
        (
            "Namespace default is healthy: nothing is wrong\n\n"
            "Namespace kube-public is healthy: nothing is wrong\n"
        ),
    )


def test_an_object_that_may_not_be_read_is_one_line(kubeconfig: str) -> None:
    result = explain("pod/web", f"--kubeconfig={kubeconfig}/nobody")
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith("Error: explain: pods 'web': may not be read: ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["deploy/none"],
            "explain: there is no deployments.apps 'none' in the namespace default",
        ),
        (["flower/rose"], 'explain: the server doesn\'t have a resource type "flower"'),
        (
            ["deploy/web", "-A"],
            (
                "explain: a resource cannot be retrieved by name across all "
                "namespaces; give -n, or only the kind"
            ),
        ),
        (
            ["pod/../x"],
            "explain: 'pod/../x' is not KIND/NAME; write for example deploy/web",
        ),
        ([], "explain: name an object, for example deploy/web, or give --all"),
        (["--all", "pod/a"], "explain: give KIND/NAME or --all, not both"),
        (["pod/a", "--request-timeout=0s"], "--request-timeout: 0s is too short"),
        (["pod/a", "--timeout=-1s"], "--timeout: -1s is too short"),
        (
            ["pod/a", "--watch-timeout=soon"],
            (
                "--watch-timeout: invalid argument: not a duration: 'soon'; write it "
                "as 10s, 1m30s or 12h"
            ),
        ),
    ],
)
def test_bad_input_is_one_line(
    kubeconfig: str, arguments: list[str], line: str
) -> None:
    result = explain(*arguments, f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.output) == (1, f"Error: {line}\n")


def test_watching_ends_when_the_object_is_gone(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim without a class is pending; somebody deletes it meanwhile."""
    monkeypatch.setattr(following, "PERIOD", 0.01)
    claim = {
        "metadata": {"name": "data", "namespace": "mine"},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    looks: list[int] = []

    async def then_deleted(view: View, _: Target, __: str) -> Explanation:
        looks.append(1)
        if len(looks) > 1:
            raise Missing
        item = Item(CLAIMS, claim)
        return await explain_item(view, item)

    monkeypatch.setattr(command, "explain_target", then_deleted)
    result = explain("pvc/data", "-w", f"--kubeconfig={kubeconfig}/admin")
    lines = result.output.splitlines()
    assert (result.exit_code, lines[0], lines[-1]) == (
        0,
        "PersistentVolumeClaim mine/data is stuck: its phase is unknown",
        "The object is gone.",
    )


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


_OVER = "explain: the time was over before all was read; give a longer --timeout\n"


def test_a_look_that_fails_is_one_line_on_standard_error(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line has no characters that control a terminal, and the looks go on."""
    failed = Unread("pods 'web': no\x1b[2J answer")
    _answers(monkeypatch, _STUCK, failed, failed, _HEALTHY)
    result = explain("pod/web", "-w", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "Pod mine/web is stuck: it waits\n\nPod mine/web is healthy: it runs\n\n",
        "explain: pods 'web': no\\x1b[2J answer; looking again\n",
    )


def test_a_look_that_fails_leaves_the_json_whole(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output has a document for each change, and nothing else."""
    _answers(monkeypatch, _STUCK, Unread("no answer"), Missing("there is none"))
    result = explain("pod/web", "-wojson", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, json.loads(result.stdout)["state"], result.stderr) == (
        0,
        "stuck",
        "explain: no answer; looking again\nThe object is gone.\n",
    )


def test_a_first_look_that_fails_ends_the_watching(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers(monkeypatch, Unread("no answer"))
    result = explain("pod/web", "-w", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.output) == (1, "Error: explain: no answer\n")


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
            done = subprocess.run(
                (KUBECTL, "why", *words),
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
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
