"""An operator: the controllers of an author as a process of their own."""

import asyncio
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.cli.operator import make_command, operator_build
from controller_manager.runtime.registry import RegistryError
from controller_manager.sdk import (
    Client,
    Descriptor,
    NotFound,
    ObjectMeta,
    apps_v1,
    run,
)
from controller_manager.testing import ClusterSettings, DevelopmentCluster
from tests.distributions import environment
from tests.http.test_over_http import get, token_of
from tests.ports import free_port
from tests.sdk.websites import CONTROLLER, DEFINITION, WEBSITES, Website
from tests.webhooks import hooks


def run_operator(*arguments: str, controllers: tuple[Descriptor, ...] = ()) -> Result:
    command = make_command(controllers or (CONTROLLER,))
    return CliRunner().invoke(command, list(arguments))


def manifests(*arguments: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all(run_operator("manifests", *arguments).output))


def test_the_help_has_the_flags_that_make_sense() -> None:
    text = run_operator("--help").output
    assert text.startswith("Runs website-operator for the API server of a cluster.")
    for flag in ("website-prefix", "kubeconfig", "leader-elect", "secure-port", "v"):
        assert f"--{flag} " in text or f"--{flag}\n" in text
    for flag in ("controllers", "cloud-provider", "preview", "config", "feature-gates"):
        assert f"--{flag} " not in text
        assert f"--{flag}\n" not in text
    assert '(default "website-operator")' in text
    assert "  manifests   Print what the process needs" in text


def test_requests_have_no_limit_unless_a_flag_sets_one() -> None:
    """The API server's flow control is the limit; a manager has upstream's."""
    text = run_operator("--help").output
    _, _, about = text.partition("--kube-api-qps float")
    assert "(default -1)" in about[:200]


def test_several_controllers_can_be_chosen() -> None:
    other = Descriptor("other", CONTROLLER.load)
    text = run_operator("--help", controllers=(CONTROLLER, other)).output
    assert "--controllers strings" in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--no-such"], "unknown flag: --no-such"),
        (["--preview"], "unknown flag: --preview"),
        (["--v=x"], "--v: invalid argument"),
        (["--v=1", "manifests"], "--v: manifests takes no flags of the process"),
    ],
)
def test_a_wrong_flag_is_one_line(arguments: list[str], line: str) -> None:
    result = run_operator(*arguments)
    assert result.exit_code == 1
    assert line in result.output


@pytest.mark.parametrize(
    ("controllers", "line"),
    [
        ((), "run() needs at least one controller"),
        ((Descriptor("a", "no.such:A"),), "a cannot be imported: No module named 'no'"),
        ((Descriptor("a", ".x:A"),), "relative to no package; write the whole module"),
    ],
)
def test_a_controller_that_cannot_run_is_one_line(
    controllers: tuple[Descriptor, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RegistryError):
        make_command(controllers)
    with pytest.raises(SystemExit) as ended:
        run(*controllers)
    assert ended.value.code == 1
    assert line in capsys.readouterr().err


def test_the_manifests_have_the_reads_of_the_caches_and_the_writes() -> None:
    documents = manifests("--namespace=web", "--image=registry/web:1")
    kinds = [(each["kind"], each["metadata"]["name"]) for each in documents]  # type: ignore[index]
    assert kinds[:3] == [
        ("Namespace", "web"),
        ("ServiceAccount", "website-operator"),
        ("ClusterRole", "website-operator"),
    ]
    assert {kind for kind, _ in kinds[3:]} == {
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Deployment",
        "Service",
        "ServiceMonitor",
    }
    events = ["create", "patch", "update"]
    assert [
        (each["resources"], each["verbs"])
        for each in documents[2]["rules"]  # type: ignore[attr-defined]
    ] == [
        (["events"], events),
        (["deployments"], ["create", "list", "patch", "watch"]),
        (["events"], events),
        (["websites"], ["list", "watch"]),
    ]


def test_the_version_is_that_of_the_distribution() -> None:
    """A file that is run as it is has none."""
    assert operator_build((CONTROLLER,)).user_agent.startswith(
        "website-operator/unknown controller-manager/v"
    )
    from_package = Descriptor("own", "click.core:Context")
    assert operator_build((from_package,)).version == version("click")


def test_the_manifests_of_webhooks_say_where_they_are() -> None:
    """The operator itself adds whom to trust, and may not create what it changes."""
    controllers = (hooks.CONTROLLER,)
    text = run_operator("manifests", "--namespace=web", controllers=controllers).output
    documents = {
        (each["kind"], each["metadata"]["name"]): each
        for each in yaml.safe_load_all(text)
    }
    service = documents["Service", "website-operator-webhooks"]["spec"]
    assert service["ports"] == [{"port": 443, "targetPort": "webhooks"}]
    assert "clusterIP" not in service
    pod = documents["Deployment", "website-operator"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "webhooks", "containerPort": 9443} in container["ports"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz/webhooks"
    for kind in ("Validating", "Mutating"):
        found = documents[f"{kind}WebhookConfiguration", "website-operator"]
        (client,) = (each["clientConfig"] for each in found["webhooks"])
        assert client["service"]["namespace"] == "web"
        assert "caBundle" not in client
    roles = (
        documents["ClusterRole", "website-operator"],
        documents["Role", "website-operator"],
    )
    rights = {
        rule["resources"][0]: (rule["verbs"], rule.get("resourceNames"))
        for role in roles
        for rule in role["rules"]
    }
    change = ["get", "patch", "update"]
    assert rights["validatingwebhookconfigurations"] == (change, ["website-operator"])
    assert rights["customresourcedefinitions"] == (change, ["websites.example.com"])
    assert rights["secrets"] == (["get", "update"], ["website-operator-webhooks"])


def test_a_definition_says_where_it_is_converted() -> None:
    text = run_operator("crds", controllers=(hooks.CONTROLLER,)).output
    conversion = yaml.safe_load(text)["spec"]["conversion"]
    where = {"namespace": "website-operator", "name": "website-operator-webhooks"}
    assert conversion["webhook"] == {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": where},
    }
    help_text = run_operator("--help", controllers=(hooks.CONTROLLER,)).output
    assert "--webhook-port" in help_text
    assert "--webhook-port" not in run_operator("--help").output
    wrong = run_operator("--webhook-url=http://x", controllers=(hooks.CONTROLLER,))
    assert "--webhook-url: must be like https://127.0.0.1:9443" in wrong.output


PROGRAM = """
from controller_manager.sdk import run
from tests.sdk.websites import CONTROLLER

run(CONTROLLER, namespace="web")
"""


@pytest.mark.slow
async def test_the_roles_suffice_for_the_whole_process(tmp_path: Path) -> None:
    file = tmp_path / "manifests.yaml"
    documents = [
        each
        for each in (DEFINITION.manifest(), *manifests("--namespace=web"))
        if each["kind"] not in ("ServiceMonitor", "Deployment")
    ]
    file.write_text(yaml.safe_dump_all(documents))
    settings = ClusterSettings(nodes=0, rbac=True, manifests=(file,))
    async with DevelopmentCluster(settings) as cluster, cluster.client() as client:
        account = cluster.account_kubeconfig("web", "website-operator")
        port, log = free_port(), tmp_path / "log"
        reviews = ("authentication", "authorization")
        flags = [f"--{each}-kubeconfig={account}" for each in reviews]
        flags += [f"--kubeconfig={account}", f"--secure-port={port}", "-v2"]
        with log.open("w") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", PROGRAM, *flags),
                env=environment(),
                stdout=output,
                stderr=output,
            )
        try:
            await _use(client, process)
            lease = await client.get(LEASES, "web", "website-operator")
            assert lease.spec.holder_identity
            assert get(port, "/readyz")[0] == 200
            page = get(port, "/metrics", token_of(cluster.kubeconfig))[1]
            assert 'workqueue_adds_total{name="website-operator"}' in page
            for path in ("/statusz", "/flagz"):
                page = get(port, path, token_of(cluster.kubeconfig))[1]
                assert page.splitlines()[1] == f"website-operator {path[1:]}"
        finally:
            process.terminate()
        assert await process.wait() == 0, log.read_text()
        assert "forbidden" not in log.read_text()


async def _use(client: Client, process: asyncio.subprocess.Process) -> None:
    site = Website(metadata=ObjectMeta(name="shop", namespace="default"))
    await client.create(WEBSITES, site)
    async with asyncio.timeout(60):
        while not await _is_deployed(client):
            assert process.returncode is None
            await asyncio.sleep(0.1)


async def _is_deployed(client: Client) -> bool:
    try:
        found = await client.get_json(apps_v1.DEPLOYMENTS, "default", "web-shop")
    except NotFound:
        return False
    managers = [each["manager"] for each in found["metadata"]["managedFields"]]
    assert managers[0] == "website-operator"
    return True
