"""The manifests of config/ can be applied, and do as their comments promise."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.options.config import (
    Config,
    LeaderElectionConfig,
    RateLimit,
    ServingConfig,
)
from tests.clusters import Cluster, RecordingTransport, Write, make_config
from tests.config.manifests import (
    BASE,
    CONFIG,
    MONITORING,
    STAND_BY,
    WAYS,
    arguments_of,
    config_of,
    container_of,
    documents,
    pod_of,
    standing_by,
    taking_over,
    trial,
)
from tests.controllers.builders import completed_job_status, deployment_json
from tests.controllers.user import User, settle

PATCHES = ("serving-certificate.yaml",)
"""Parts of objects that kustomize adds to whole ones."""

FOREIGN = ("kustomize.config.k8s.io/v1beta1", "monitoring.coreos.com/v1")
"""Kinds that no API server has by itself."""


def every_manifest() -> list[Path]:
    """Return all files but those of Prometheus itself."""
    of_prometheus = CONFIG / "monitoring" / "prometheus"
    return sorted(
        path for path in CONFIG.rglob("*.yaml") if path.parent != of_prometheus
    )


@pytest.mark.looptime
@pytest.mark.parametrize(
    "path", every_manifest(), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
async def test_an_api_server_takes_every_object(path: Path, cluster: Cluster) -> None:
    for document in documents(path):
        if document["apiVersion"] in FOREIGN or path.name in PATCHES:
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


@pytest.mark.parametrize("way", WAYS)
def test_the_daemon_takes_the_arguments_without_a_warning(way: str) -> None:
    config = config_of(arguments_of(WAYS[way]()))
    assert config.warnings == ()
    assert config.generic.leader_election.leader_elect
    assert config.generic.use_service_account_credentials


def test_every_way_has_a_lease_of_its_own_but_the_one_that_replaces() -> None:
    leases = {}
    for way, document in WAYS.items():
        election = config_of(arguments_of(document())).generic.leader_election
        leases[way] = f"{election.resource_namespace}/{election.resource_name}"
    assert leases == {
        "trial": "controller-manager-system/controller-manager",
        "stand-by": "controller-manager-beside/controller-manager",
        "take-over": "controller-manager-beside/controller-manager",
        "static-pod": "kube-system/kube-controller-manager",
    }


def test_the_second_stage_differs_from_the_first_in_its_controllers_only() -> None:
    """So the rights and the image were tried before."""
    container = container_of(standing_by())
    assert container["args"][0] == "--controllers="
    second = taking_over()
    changed = container_of(second)
    assert changed["args"][0] == (
        "--controllers=deployment-controller,replicaset-controller"
    )
    changed["args"][0] = container["args"][0]
    assert second == standing_by()


def test_pods_beside_kube_controller_manager_are_those_of_the_trial() -> None:
    """Only program, place and memory differ."""
    one, other = pod_of(trial()), pod_of(standing_by())
    assert one.pop("affinity")
    assert "affinity" not in other
    assert other.pop("nodeSelector") == {"node-role.kubernetes.io/control-plane": ""}
    assert other.pop("tolerations") == [
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    ]
    assert one.pop("priorityClassName") == "system-cluster-critical"
    assert other.pop("priorityClassName") == "system-node-critical"
    for each in (*one["containers"], *other["containers"]):
        del each["args"], each["resources"]
    assert one == other


def test_no_two_pods_of_the_trial_share_a_node_and_it_can_still_be_rolled() -> None:
    """A surge would wait for a third node for ever."""
    document = trial()
    affinity = pod_of(document)["affinity"]["podAntiAffinity"]
    labels = document["spec"]["selector"]
    assert affinity == {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
        ]
    }
    assert document["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }


def test_the_network_policy_is_for_the_pods_and_their_port() -> None:
    (policy,) = documents(BASE / "network-policy.yaml")
    document = trial()
    assert policy["metadata"]["namespace"] == document["metadata"]["namespace"]
    spec = policy["spec"]
    assert spec["podSelector"] == document["spec"]["selector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (ingress,) = spec["ingress"]
    (port,) = container_of(document)["ports"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": port["name"]}]
    binding = list(documents(MONITORING / "rbac.yaml"))[1]
    (prometheus,) = binding["subjects"]
    assert ingress["from"] == [
        {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": prometheus["namespace"]}
            }
        }
    ]


def _in_memory() -> Config:
    """Return the config of the trial, without limits and endpoints."""
    config = config_of(arguments_of(trial()))
    unlimited = replace(config.client, limit=RateLimit(qps=0))
    return replace(config, serving=ServingConfig(port=0), client=unlimited)


def _of_controllers(recording: RecordingTransport) -> list[Write]:
    """Return all writes but those to the lease."""
    return [each for each in recording.writes if "/leases" not in each.path]


def _by_resource(writes: Sequence[Write]) -> set[tuple[str, str]]:
    found = set()
    for each in writes:
        parts = each.path.split("/")
        found.add((each.method, parts[-1] if each.method == "POST" else parts[-2]))
    return found


@pytest.mark.looptime
@pytest.mark.slow
async def test_the_base_does_no_harm_beside_a_manager(cluster: Cluster) -> None:
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
        cluster.manager(_in_memory()) as ours,
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


@pytest.mark.parametrize(
    ("directory", "document"), [(BASE, trial()), (STAND_BY, standing_by())]
)
def test_the_pods_are_restricted_as_asked(directory: Path, document: JSON) -> None:
    (namespace,) = documents(directory / "namespace.yaml")
    labels = namespace["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": "restricted"}
    pod = pod_of(document)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container_of(document)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    grace = pod["terminationGracePeriodSeconds"]
    assert grace > make_config().generic.controller_shutdown_timeout
