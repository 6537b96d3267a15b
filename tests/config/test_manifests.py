"""What config/ holds can be applied, and does what it says."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.api.meta import key_of
from controller_manager.api.times import format_time
from controller_manager.cli.flags import make_config as parsed
from controller_manager.client.builder import Connections
from controller_manager.client.inmemory import InMemoryTransport
from controller_manager.devcluster.apiserver import APIServer
from controller_manager.devcluster.server.negotiation import check_object
from controller_manager.manager.manager import ControllerManager
from controller_manager.manager.permissions import MANAGER_PERMISSIONS
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import (
    Config,
    LeaderElectionConfig,
    RateLimit,
    ServingConfig,
)
from controller_manager.registry import registry
from controller_manager.runtime.roles import rule
from tests.clusters import (
    Cluster,
    RecordingTransport,
    Write,
    make_config,
    run_manager,
)
from tests.controllers.builders import completed_job_status, deployment_json
from tests.controllers.user import User, settle

JSON = dict[str, Any]

CONFIG = Path(__file__).parents[2] / "config"
DATA = Path(__file__).parents[1] / "data"
BASE = CONFIG / "base"
BESIDE = CONFIG / "overlays" / "beside-kube-controller-manager"
KUBEADM = CONFIG.parent / "tests" / "data" / "kubeadm-kube-controller-manager.yaml"
REPLACE = CONFIG / "overlays" / "replace-kube-controller-manager"
MONITORING = CONFIG / "monitoring"

ARGUMENTS = {
    "base": BASE / "deployment.yaml",
    "beside": BESIDE / "arguments.yaml",
    "replace": REPLACE / "arguments.yaml",
}
"""Where it is said what the daemon is told."""

LEASE_OF = {
    "base": "controller-manager-system/controller-manager",
    "beside": "controller-manager-system/controller-manager",
    "replace": "kube-system/kube-controller-manager",
}

FOREIGN = ("kustomize.config.k8s.io/v1beta1", "monitoring.coreos.com/v1")
"""Kinds that no API server has by itself."""


def documents(path: Path) -> Iterator[JSON]:
    for document in yaml.safe_load_all(path.read_text()):
        if isinstance(document, dict):
            yield document


def kustomization(directory: Path) -> JSON:
    (found,) = documents(directory / "kustomization.yaml")
    return found


def every_manifest() -> list[Path]:
    return sorted(CONFIG.rglob("*.yaml"))


@pytest.mark.looptime
@pytest.mark.parametrize(
    "path", every_manifest(), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
async def test_an_api_server_takes_every_object(path: Path, cluster: Cluster) -> None:
    """With no unknown field, and nothing that validation refuses."""
    for document in documents(path):
        if document["apiVersion"] in FOREIGN or path.name == "arguments.yaml":
            continue
        kind = cluster.server.catalogue.of(document["apiVersion"], document["kind"])
        assert kind is not None, document["kind"]
        checked, unknown = check_object(document, kind, kind.version)
        assert unknown == []
        namespace = document["metadata"].get("namespace", "")
        if namespace and kind.namespaced and kind.kind != "Namespace":
            _ensure_namespace(cluster.server, namespace)
        if kind.kind == "Namespace" and checked["metadata"]["name"] == "default":
            continue
        cluster.server.objects.create(kind, namespace, checked)


def _ensure_namespace(server: APIServer, name: str) -> None:
    if server.storage.collection("namespaces").get(("", name)) is None:
        kind = server.catalogue.find("", "v1", "namespaces")
        assert kind is not None
        server.objects.create(kind, "", {"metadata": {"name": name}})


@pytest.mark.parametrize(
    "directory", [BASE, BESIDE, REPLACE, MONITORING], ids=lambda p: p.name
)
def test_a_kustomization_names_files_that_are_there(directory: Path) -> None:
    """And every file but patches of others is named."""
    found = kustomization(directory)
    named = [*found["resources"]]
    named += [each["path"] for each in found.get("patches", ())]
    named += [
        file for each in found.get("configMapGenerator", ()) for file in each["files"]
    ]
    for each in named:
        assert (directory / each).exists(), each
    files = {each.name for each in directory.iterdir()} - {"kustomization.yaml"}
    assert files - set(named) <= {"kube-controller-manager-patch.yaml"}


@pytest.mark.parametrize(
    "directory", [BASE, BESIDE, REPLACE, MONITORING], ids=lambda p: p.name
)
def test_kustomize_builds_it(directory: Path) -> None:
    """With the kustomize that is in kubectl, where there is a recent one."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl")
    version = subprocess.run(
        [kubectl, "version", "--client", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if "kustomizeVersion" not in json.loads(version):
        pytest.skip("this kubectl is older than kustomize's stable API")
    built = subprocess.run(
        [kubectl, "kustomize", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    kinds = [each["kind"] for each in yaml.safe_load_all(built.stdout)]
    if directory is MONITORING:
        return
    assert kinds.count("Deployment") == 1
    assert "image: controller-manager:0.3.0" in built.stdout
    lease = "kube-controller-manager" if directory is REPLACE else "controller-manager"
    assert f"--leader-elect-resource-name={lease}\n" in built.stdout
    # Another namespace than the base's stays what it is.
    assert ("namespace: kube-system" in built.stdout) is (directory is REPLACE)


def _container(path: Path) -> JSON:
    (document,) = documents(path)
    spec = document["spec"]
    pod = spec["template"]["spec"] if "template" in spec else spec
    container: JSON = pod["containers"][0]
    return container


def _config(arguments: list[str]) -> Config:
    flags = [argument.removeprefix("--").partition("=") for argument in arguments]
    return parsed({name: (value,) for name, _, value in flags}, [])


@pytest.mark.parametrize(
    "path",
    [*ARGUMENTS.values(), CONFIG / "static-pod" / "kube-controller-manager.yaml"],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_the_daemon_takes_the_arguments_without_a_warning(path: Path) -> None:
    """What it is told, and that it leads before it acts."""
    container = _container(path)
    arguments = container.get("args") or container["command"][1:]
    config = _config(arguments)
    assert config.warnings == ()
    assert config.generic.leader_election.leader_elect
    assert config.generic.use_service_account_credentials


def test_the_static_pod_has_the_flags_of_kubeadms_manifest() -> None:
    """But for one without an effect, and those of clusters with ranges for pods."""
    manifest = yaml.safe_load(KUBEADM.read_text())
    kubeadm = manifest["spec"]["containers"][0]["command"][1:]
    ours = _container(CONFIG / "static-pod" / "kube-controller-manager.yaml")
    assert set(ours["command"][1:]) == set(kubeadm) - {
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.244.0.0/16",
        "--cluster-name=kubernetes",
    }


def _arguments(where: str) -> set[str]:
    return set(_container(ARGUMENTS[where])["args"])


def test_the_overlays_say_all_that_the_base_says() -> None:
    """A patch replaces the list of arguments as a whole.

    Beside another manager only those controllers run that the other leaves alone.
    """
    base = _arguments("base")
    harmless = "--controllers=serviceaccount-controller,ttl-after-finished-controller"
    assert (base - _arguments("beside"), _arguments("beside") - base) == (
        {harmless},
        {"--controllers=deployment-controller,replicaset-controller"},
    )
    assert (base - _arguments("replace"), _arguments("replace") - base) == (
        {
            harmless,
            "--leader-elect-resource-name=controller-manager",
            "--leader-elect-resource-namespace=controller-manager-system",
        },
        {
            "--controllers=*",
            "--leader-elect-resource-name=kube-controller-manager",
            "--leader-elect-resource-namespace=kube-system",
        },
    )


def test_the_role_of_the_base_is_what_the_manager_says_it_needs() -> None:
    """Rule by rule; besides, it looks whether the API server is healthy."""
    roles = {
        each["metadata"]["name"]: each["rules"]
        for each in documents(BASE / "rbac.yaml")
        if each["kind"] == "ClusterRole"
    }
    assert roles["controller-manager"] == [
        *map(rule, MANAGER_PERMISSIONS),
        {"nonResourceURLs": ["/healthz"], "verbs": ["get"]},
    ]


def _in_memory(where: str) -> Config:
    """Return the config that the arguments make, without limits and endpoints."""
    config = _config(_container(ARGUMENTS[where])["args"])
    unlimited = replace(config.client, limit=RateLimit(qps=0))
    return replace(config, serving=ServingConfig(port=0), client=unlimited)


def _of_controllers(recording: RecordingTransport) -> list[Write]:
    """Return all writes but those to the lease."""
    return [each for each in recording.writes if "/leases" not in each.path]


def _by_resource(writes: Sequence[Write]) -> set[tuple[str, str]]:
    """Return methods and resources of writes."""
    found = set()
    for each in writes:
        parts = each.path.split("/")
        found.add((each.method, parts[-1] if each.method == "POST" else parts[-2]))
    return found


@pytest.mark.looptime
async def test_the_base_does_no_harm_beside_a_manager_that_runs_everything(
    cluster: Cluster,
) -> None:
    """Both act at once, and nothing is done twice or done again."""
    cluster.add_namespace("controller-manager-system")
    cluster.add_namespace("kube-node-lease")
    user = User(cluster)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {
            "ttlSecondsAfterFinished": 30,
            "template": {
                "spec": {
                    "containers": [{"name": "c", "image": "app:v1"}],
                    "restartPolicy": "Never",
                }
            },
        },
    }
    everything = make_config(controllers=("*",), leader_election=LeaderElectionConfig())
    async with (
        cluster.nodes(),
        cluster.manager(_in_memory("base")) as ours,
        cluster.manager(everything) as theirs,
    ):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        for number in range(20):
            cluster.add_namespace(f"n{number}")
        kind = cluster.server.catalogue.find("batch", "v1", "jobs")
        assert kind is not None
        created = cluster.server.objects.create(kind, "default", job).obj
        now = format_time(cluster.clock.now())
        ended = {**created, "status": completed_job_status(now)}
        cluster.server.objects.update(kind, "default", "j", ended, "status")
        await settle(600)
        done = [_of_controllers(each) for each in (ours, theirs)]
        await settle(3600)
        accounts = (await user.client.list_page(SERVICE_ACCOUNTS)).items
        assert (await user.client.list_page(JOBS)).items == []
        assert len(await user.pods()) == 2
        assert [_of_controllers(each) for each in (ours, theirs)] == done
    harmless = {("POST", "serviceaccounts"), ("DELETE", "jobs")}
    assert set() < _by_resource(done[0]) <= harmless
    refused = [each for each in done[0] if each.status not in (200, 201, 404, 409)]
    assert refused == []
    assert {each.metadata.name for each in accounts} == {"default"}
    assert len({each.metadata.namespace for each in accounts}) == len(accounts) == 24


def test_the_pods_are_as_restricted_as_their_namespace_asks() -> None:
    """Pod Security's "restricted"."""
    (namespace,) = documents(BASE / "namespace.yaml")
    labels = namespace["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": "restricted"}
    (deployment,) = documents(BASE / "deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    grace = pod["terminationGracePeriodSeconds"]
    assert grace > make_config().generic.controller_shutdown_timeout


@pytest.mark.looptime
@pytest.mark.parametrize("where", ARGUMENTS)
async def test_the_roles_are_enough_and_no_more(where: str) -> None:
    """A manager with this service account runs; it may not read secrets."""
    cluster = Cluster(rbac=True)
    files = [BASE / f"{name}.yaml" for name in ("namespace", "service-account", "rbac")]
    if where == "replace":
        files.append(REPLACE / "lease-role.yaml")
    for file in files:
        for document in documents(file):
            kind = cluster.server.catalogue.of(document["apiVersion"], document["kind"])
            assert kind is not None
            namespace = document["metadata"].get("namespace", "")
            cluster.server.objects.create(kind, namespace, document)
    account = cluster.server.storage.collection("serviceaccounts").get(
        ("controller-manager-system", "controller-manager")
    )
    assert account is not None
    now = cluster.clock.now()
    token = cluster.server.tokens.issue(
        "controller-manager-system",
        "controller-manager",
        account.obj["metadata"]["uid"],
        now.replace(year=now.year + 1),
    )
    manager = RecordingTransport(InMemoryTransport(cluster.server, token))
    controllers = RecordingTransport(InMemoryTransport(cluster.server))
    user = User(cluster)
    async with (
        cluster.nodes(),
        run_manager(
            Connections(manager, controllers),
            cluster.clock,
            cluster.rng,
            _in_memory(where),
        ),
    ):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(30)
        assert len(await user.pods()) == (0 if where == "base" else 2)
        leases = (await user.client.list_page(LEASES)).items
    assert [key_of(each) for each in leases] == [LEASE_OF[where]]
    written = manager.writes + controllers.writes
    assert [each for each in written if each.status == 403] == []


# Monitoring


def _metrics_of_the_daemon(cluster: Cluster) -> set[str]:
    prometheus = CollectorRegistry()
    ControllerManager(
        make_config(leader_election=LeaderElectionConfig()),
        Connections(cluster.transport),
        clock=cluster.clock,
        rng=cluster.rng,
        logger=silent_logger(),
        registry=prometheus,
    )
    suffixes = {
        "histogram": ("_bucket", "_count", "_sum"),
        "counter": ("_total",),
    }
    of_daemon = {
        f"{metric.name}{suffix}"
        for metric in prometheus.collect()
        for suffix in suffixes.get(metric.type, ("",))
    }
    of_controllers = {
        f"{name}{suffix}"
        for descriptor in registry().descriptors
        for name in descriptor.metrics
        for suffix in ("", *suffixes["histogram"])
    }
    return of_daemon | of_controllers


def _expressions() -> Iterator[tuple[str, str]]:
    (rule,) = documents(MONITORING / "prometheus-rule.yaml")
    for group in rule["spec"]["groups"]:
        for each in group["rules"]:
            yield each["alert"], each["expr"]
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.mark.looptime
async def test_alerts_and_panels_ask_for_metrics_that_there_are(
    cluster: Cluster,
) -> None:
    """By name; a misspelt one would be silent for ever."""
    known = _metrics_of_the_daemon(cluster) | {"up"}
    for title, expression in _expressions():
        asked = set(re.findall(r"([a-z_]+)\{", expression))
        assert asked, title
        assert asked <= known, title


def test_alerts_say_how_bad_it_is_and_what_it_is() -> None:
    """A severity and a summary each, no name twice."""
    (rule,) = documents(MONITORING / "prometheus-rule.yaml")
    rules = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    names = [each["alert"] for each in rules]
    assert len(names) == len(set(names))
    for each in rules:
        assert each["labels"]["severity"] in ("critical", "warning")
        assert each["annotations"]["summary"].endswith(".")


def test_what_is_scraped_is_what_is_served() -> None:
    """The monitor's port is the service's, the service's the pods'."""
    (monitor,) = documents(MONITORING / "service-monitor.yaml")
    (service,) = documents(MONITORING / "service.yaml")
    (port,) = service["spec"]["ports"]
    (endpoint,) = monitor["spec"]["endpoints"]
    (deployment,) = documents(BASE / "deployment.yaml")
    template = deployment["spec"]["template"]
    assert endpoint["port"] == port["name"]
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    named = {each["name"] for each in template["spec"]["containers"][0]["ports"]}
    assert port["targetPort"] in named


def test_the_patch_leaves_exactly_these_controllers_alone() -> None:
    """Those that the overlay runs."""
    (operation,) = yaml.safe_load(
        (BESIDE / "kube-controller-manager-patch.yaml").read_text()
    )
    off = operation["value"].removeprefix("--controllers=").split(",")
    (on,) = [
        each.removeprefix("--controllers=").split(",")
        for each in _arguments("beside")
        if each.startswith("--controllers=")
    ]
    assert [each.removeprefix("-") for each in off] == on
