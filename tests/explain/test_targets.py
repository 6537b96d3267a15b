"""Kinds and names as kubectl takes them."""

import msgspec
import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.explain.cause import Explanation, Reference, State
from controller_manager.explain.explainer import (
    explain_all,
    explain_everywhere,
    explain_target,
)
from controller_manager.explain.target import (
    Target,
    TargetError,
    parse_target,
    parse_words,
    resource_of,
)
from controller_manager.explain.view import Unread
from tests.clusters import Cluster
from tests.devcluster.registry.test_custom_resources import define
from tests.explain.given import Given, view_of

pytestmark = pytest.mark.looptime

NAMES = {
    "plural": "widgets",
    "singular": "widget",
    "kind": "Widget",
    "shortNames": ["wd"],
}


@pytest.mark.parametrize(
    ("word", "resource"),
    [
        ("no", "nodes"),
        ("cj", "cronjobs.batch"),
        ("quota", "resourcequotas"),
        ("ResourceQuota", "resourcequotas"),
        ("resourcequotas", "resourcequotas"),
        ("horizontalpodautoscalers.v1.autoscaling", "horizontalpodautoscalers"),
        ("pods.v1.", "pods"),
        ("cm", "configmaps"),
        ("ConfigMap", "configmaps"),
        ("ep", "endpoints"),
        ("ing", "ingresses"),
        ("ingresses.networking.k8s.io", "ingresses"),
        ("ingress.v1.networking.k8s.io", "ingresses"),
        ("pv", "persistentvolumes"),
        ("crd", "customresourcedefinitions"),
        ("widgets.example.com", "widgets"),
        ("widget", "widgets"),
        ("wd", "widgets"),
    ],
)
async def test_a_kind_that_the_server_has_is_found_by_each_of_its_words(
    cluster: Cluster, word: str, resource: str
) -> None:
    await define(cluster, names=NAMES)
    found = await resource_of(view_of(cluster), word)
    assert found.plural == resource.partition(".")[0]


@pytest.mark.parametrize("word", ["flower", "pods.apps", "cm.apps", "deploy.v1", "."])
async def test_a_kind_that_the_server_has_not_is_named_in_the_words_of_kubectl(
    cluster: Cluster, word: str
) -> None:
    with pytest.raises(TargetError) as raised:
        await resource_of(view_of(cluster), word)
    assert str(raised.value) == f'the server doesn\'t have a resource type "{word}"'


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (("deploy/web",), [Target("deploy", "web")]),
        (("deploy", "web"), [Target("deploy", "web")]),
        (("deploy", "web", "api"), [Target("deploy", "web"), Target("deploy", "api")]),
        (("deploy/web", "cm/x"), [Target("deploy", "web"), Target("cm", "x")]),
        (("deploy,sts", "web"), [Target("deploy", "web"), Target("sts", "web")]),
        (("deploy",), [Target("deploy", "")]),
        (("deploy,sts",), [Target("deploy", ""), Target("sts", "")]),
    ],
)
def test_words_are_understood_as_kubectl_does(
    words: tuple[str, ...], targets: list[Target]
) -> None:
    assert list(parse_words(words)) == targets


@pytest.mark.parametrize(
    "words",
    [
        ("pod/../x",),
        ("deploy/",),
        ("/web",),
        ("deploy/web", "web"),
        ("deploy,",),
        ("",),
    ],
)
def test_other_words_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(TargetError):
        parse_words(words)


async def _add_stuck_claim(cluster: Cluster, namespace: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    body = msgspec.json.encode({"metadata": {"name": "data"}, "spec": spec})
    await cluster.client.create_json(CLAIMS, namespace, body)


async def test_all_namespaces_are_explained_at_once(cluster: Cluster) -> None:
    """A node is an object of the cluster, so it is among them."""
    cluster.add_namespace("shop")
    for namespace in ("default", "shop"):
        await _add_stuck_claim(cluster, namespace)
    cluster.add("Node", "node-0", status={})
    found = await explain_everywhere(view_of(cluster))
    assert sorted(str(each.object) for each in found) == [
        "Node node-0",
        "PersistentVolumeClaim default/data",
        "PersistentVolumeClaim shop/data",
    ]


async def test_namespaces_that_were_not_read_are_told(cluster: Cluster) -> None:
    """No answer may seem to be about all of them."""
    spaces = [{"metadata": {"name": each, "uid": each}} for each in ("a", "b")]
    server = Given(namespaces=spaces, page=1)
    found = await explain_everywhere(view_of(cluster, server))
    assert found == [
        Explanation(
            object=Reference("v1", "Namespace", "", "*"),
            state=State.HEALTHY,
            summary="nothing is wrong, as far as it can be read",
            unread=("namespaces: only the first 500 were read",),
        )
    ]


async def test_objects_of_the_cluster_need_no_namespace(cluster: Cluster) -> None:
    nodes = await resource_of(view_of(cluster), "no")
    assert await explain_all(view_of(cluster), "gone", (nodes,)) == []
    with pytest.raises(Unread, match="there is no namespaces 'gone'"):
        await explain_all(view_of(cluster), "gone")


async def test_only_some_kinds_are_explained(cluster: Cluster) -> None:
    view = view_of(cluster)
    cluster.add_namespace("shop")
    await _add_stuck_claim(cluster, "shop")
    cluster.add("Node", "node-0", status={})
    nodes = await resource_of(view, "no")
    claims = await resource_of(view, "pvc")
    for resources, names in (
        ((nodes,), ["Node node-0"]),
        ((claims,), ["PersistentVolumeClaim shop/data"]),
        ((nodes, claims), ["Node node-0", "PersistentVolumeClaim shop/data"]),
    ):
        for found in (
            await explain_all(view, "shop", resources),
            await explain_everywhere(view, resources),
        ):
            assert [str(each.object) for each in found] == names


async def test_the_first_version_that_explains_a_kind_is_read(cluster: Cluster) -> None:
    """An autoscaler of another version has other fields."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3}
    cluster.add("HorizontalPodAutoscaler", "web", "autoscaling/v2", spec=spec)
    word = "horizontalpodautoscalers.v1.autoscaling/web"
    found = await explain_target(view_of(cluster), parse_target((word,)), "default")
    assert found.object.api_version == "autoscaling/v2"
