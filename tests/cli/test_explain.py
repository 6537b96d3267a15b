"""``controller-manager explain``, over HTTPS."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from controller_manager.api.core.claims import CLAIMS
from controller_manager.cli import explain as command
from controller_manager.cli.command import make_command
from controller_manager.devcluster.testing.development_cluster import DevelopmentCluster
from controller_manager.devcluster.testing.settings import ClusterSettings
from controller_manager.explain import following
from controller_manager.explain.cause import Explanation
from controller_manager.explain.explainer import explain_item
from controller_manager.explain.items import Item
from controller_manager.explain.target import Target
from controller_manager.explain.view import Missing, View


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
        nodes=0,
        controllers=("serviceaccount-controller",),
        rbac=True,
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
            }
        ],
    }


def test_a_namespace_in_which_nothing_is_wrong_is_one_line(kubeconfig: str) -> None:
    result = explain("--all", "-n", "kube-public", f"--kubeconfig={kubeconfig}/admin")
    assert (result.exit_code, result.output) == (
        0,
        "Nothing is wrong in the namespace kube-public.\n",
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
        (
            ["flower/rose"],
            (
                "explain: the API server has no kind 'flower'; write it as in kubectl "
                "api-resources, or one of cj, deploy, ds, hpa, no, ns, pdb, po, pvc, "
                "rc, rs, sts, svc"
            ),
        ),
        (
            ["pod/../x"],
            "explain: 'pod/../x' is not KIND/NAME; write for example deploy/web",
        ),
        ([], "explain: name an object, for example deploy/web, or give --all"),
        (["--all", "pod/a"], "explain: give KIND/NAME or --all, not both"),
        (["pod/a", "--request-timeout=0s"], "--request-timeout: 0s is too short"),
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
