"""Plugins are chosen by name; the smaller ones do what upstream's do."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.plugins import (
    ON_BY_DEFAULT,
    ORDERED,
    PluginError,
    build_chain,
    chosen_plugins,
)
from controller_manager.devcluster.admission.writes import Parts
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.devcluster.admission.requests import PODS, patch, pod, post
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NOT_READY = "node.kubernetes.io/not-ready"


def test_plugins_are_added_to_the_default_and_taken_from_it() -> None:
    chosen = chosen_plugins(
        ["OwnerReferencesPermissionEnforcement,LimitRanger"],
        ["PodSecurity", "Priority"],
    )
    added = {"OwnerReferencesPermissionEnforcement"}
    assert chosen == (ON_BY_DEFAULT | added) - {"PodSecurity", "Priority"}


@rows("enabled", "disabled", "problem")
def test_a_wrong_choice_is_one_line(enabled: str, disabled: str, problem: str) -> None:
    with pytest.raises(PluginError) as raised:
        chosen_plugins([enabled], [disabled])
    assert str(raised.value) == problem


@pytest.mark.looptime
async def test_plugins_see_a_write_in_the_order_of_upstream(cluster: Cluster) -> None:
    server = cluster.server
    parts = Parts(
        server.storage,
        cluster.clock,
        cluster.rng,
        server.authorizer,
        server.catalogue.all,
        FeatureGates(),
    )
    chain = build_chain(sorted(ON_BY_DEFAULT), parts)
    names = [each.name for each in chain.plugins]
    assert names == [name for name in ORDERED if name in names]
    assert {"LimitRanger", "PodSecurity", "ResourceQuota"} <= {*names}


pytestmark = pytest.mark.looptime


@rows("spec", "problem")
async def test_a_pod_does_not_choose_its_priority(
    cluster: Cluster, spec: JSON, problem: str
) -> None:
    await post(cluster, CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    answer = await post(cluster, PODS, pod(**spec))
    assert answer["message"] == f'pods "p" is forbidden: {problem}'


@pytest.mark.parametrize(
    ("name", "priority"),
    [("high", 1000), ("system-node-critical", 2000001000), (None, 0)],
)
async def test_a_pod_has_the_priority_of_its_class(
    cluster: Cluster, name: str | None, priority: int
) -> None:
    await post(cluster, CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    spec = {} if name is None else {"priorityClassName": name}
    made = await post(cluster, PODS, pod(**spec))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (
        priority,
        "PreemptLowerPriority",
    )
    for field in ("priority", "preemptionPolicy", "tolerations"):
        del made["spec"][field]
    answer = await call(cluster, "PUT", f"{PODS}/p", json.dumps(made).encode())
    assert answer.status == 200
    assert json.loads(answer.body)["spec"]["priority"] == priority


async def test_there_is_one_default_class(cluster: Cluster) -> None:
    for name in ("a", "b"):
        obj = {"metadata": {"name": name}, "value": 1, "globalDefault": name == "a"}
        await post(cluster, CLASSES, obj)
    answers = [
        await patch(cluster, f"{CLASSES}/b", {"globalDefault": True}),
        await post(
            cluster,
            CLASSES,
            {"metadata": {"name": "b2"}, "value": 1, "globalDefault": True},
        ),
    ]
    why = "PriorityClass a is already marked as default. Only one default can exist"
    assert [each["message"] for each in answers] == [
        f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: {why}'
        for name in ("b", "b2")
    ]
    again = await patch(cluster, f"{CLASSES}/a", {"description": "x"})
    assert again["description"] == "x"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], 2),
        ([{"operator": "Exists"}], 0),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}], 1),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], 2),
    ],
)
async def test_a_pod_tolerates_for_five_minutes_that_its_node_is_silent(
    cluster: Cluster, given: list[JSON], added: int
) -> None:
    made = await post(cluster, PODS, pod(tolerations=given))
    tolerations = made["spec"].get("tolerations", [])
    assert tolerations[: len(given)] == given
    assert [each["tolerationSeconds"] for each in tolerations[len(given) :]] == (
        [300] * added
    )


async def test_a_new_node_is_tainted(cluster: Cluster) -> None:
    taint = {"key": NOT_READY, "effect": "NoSchedule"}
    for name, taints in (("a", []), ("b", [taint])):
        node = {"metadata": {"name": name}, "spec": {"taints": taints}}
        made = await post(cluster, "/api/v1/nodes", node)
        assert made["spec"]["taints"] == [taint]


RUNTIME: JSON = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    },
}


@rows("spec", "problem")
async def test_a_runtime_class_sets_the_overhead_of_its_pods(
    cluster: Cluster, spec: JSON, problem: str
) -> None:
    stored = {"kind": "RuntimeClass", "apiVersion": "node.k8s.io/v1", **RUNTIME}
    collection = cluster.server.storage.collection("runtimeclasses.node.k8s.io")
    collection.put(("", "kata"), stored)
    answer = await post(cluster, PODS, pod(**spec))
    if problem:
        assert answer["message"] == f'pods "p" is forbidden: {problem}'
        return
    made = answer["spec"]
    assert made["overhead"] == {"cpu": "250m"}
    assert made["nodeSelector"] == {"runtime": "kata"}
    assert {"key": "kata", "operator": "Exists"} in made["tolerations"]


@rows("defaults", "annotations", "named", "said")
async def test_an_ingress_gets_the_default_class(
    cluster: Cluster,
    defaults: list[str],
    annotations: JSON,
    named: str | None,
    said: str,
) -> None:
    collection = cluster.server.storage.collection("ingressclasses.networking.k8s.io")
    for name in defaults:
        marked = {"ingressclass.kubernetes.io/is-default-class": "true"}
        obj = {
            "kind": "IngressClass",
            "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": name, "annotations": marked},
        }
        collection.put(("", name), obj)
    path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    obj = {
        "metadata": {"name": "i", "annotations": annotations},
        "spec": {"defaultBackend": backend},
    }
    answer = await post(cluster, path, obj)
    assert answer.get("message", "") == said
    assert answer.get("spec", {}).get("ingressClassName") == named


async def test_the_namespaces_of_the_system_stay(cluster: Cluster) -> None:
    for name, status in (("default", 403), ("kube-system", 403)):
        answer = await call(cluster, "DELETE", f"/api/v1/namespaces/{name}")
        why = "this namespace may not be deleted"
        said = json.loads(answer.body)["message"]
        assert (answer.status, said) == (
            status,
            f'namespaces "{name}" is forbidden: {why}',
        )


async def test_a_terminating_namespace_gets_no_new_objects(cluster: Cluster) -> None:
    """Not even an eviction; upstream's cause says why."""
    cluster.add_namespace("going")
    path = "/api/v1/namespaces/going"
    answer = await call(cluster, "DELETE", path)
    assert answer.status == 200
    why = (
        "unable to create new content in namespace going because it is being terminated"
    )
    for body, where in (
        ({"metadata": {"name": "c"}}, f"{path}/configmaps"),
        ({"metadata": {"name": "p"}}, f"{path}/pods/p/eviction"),
    ):
        refused = await post(cluster, where, body)
        assert refused["message"].endswith(f"is forbidden: {why}")
        assert refused["details"]["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace going is being terminated",
                "field": "metadata.namespace",
            }
        ]


async def test_without_plugins_a_pod_stays_as_it_is() -> None:
    """Nothing is filled in but the defaults of the API."""
    cluster = Cluster(admission_plugins=())
    made = await post(cluster, PODS, pod())
    absent = {"priority", "preemptionPolicy", "tolerations", "serviceAccountName"}
    assert not absent & made["spec"].keys()


async def test_every_cluster_has_the_priorities_of_the_system(cluster: Cluster) -> None:
    """Their classes cannot be deleted."""
    name = "system-node-critical"
    answer = await call(cluster, "DELETE", f"{CLASSES}/{name}")
    why = "this is a system priority class and cannot be deleted"
    assert json.loads(answer.body)["message"] == (
        f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: {why}'
    )
    listed = json.loads((await call(cluster, "GET", CLASSES)).body)["items"]
    assert {each["metadata"]["name"]: each["value"] for each in listed} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
