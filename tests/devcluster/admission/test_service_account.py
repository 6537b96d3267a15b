"""A pod gets a service account that exists, its token and its pull secrets."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.admission.requests import PODS, container, pod, post
from tests.devcluster.rows import parsed, rows

pytestmark = pytest.mark.looptime

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


async def test_a_pod_gets_the_default_account_and_its_token(cluster: Cluster) -> None:
    other = {"name": "v", "mountPath": PATH}
    made = await post(
        cluster,
        PODS,
        pod(
            initContainers=[container("i")],
            containers=[container("a"), container("b", volumeMounts=[other])],
            volumes=[{"name": "v", "emptyDir": {}}],
        ),
    )
    spec = made["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default",) * 2
    name = spec["volumes"][1]["name"]
    assert name.startswith("kube-api-access-")
    assert len(name) == len("kube-api-access-") + 5
    assert spec["volumes"][1] == {
        "name": name,
        "projected": parsed("""
            sources:
              - {serviceAccountToken: {expirationSeconds: 3607, path: token}}
              - configMap:
                  {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
              - downwardAPI:
                  items:
                    - path: namespace
                      fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}
            defaultMode: 420"""),
    }
    mount = {"name": name, "readOnly": True, "mountPath": PATH}
    mounts = [
        each.get("volumeMounts")
        for each in (*spec["initContainers"], *spec["containers"])
    ]
    assert mounts == [[mount], [mount], [other]]


@pytest.mark.parametrize(
    ("of_pod", "of_account", "mounted"),
    [
        (None, None, True),
        (None, False, False),
        (True, False, True),
        (False, None, False),
        (False, True, False),
    ],
)
async def test_a_pod_decides_before_its_account_whether_it_has_a_token(
    cluster: Cluster, of_pod: bool | None, of_account: bool | None, mounted: bool
) -> None:
    field = "automountServiceAccountToken"
    parts: JSON = {} if of_account is None else {field: of_account}
    secrets: JSON = {"imagePullSecrets": [{"name": "registry"}]}
    cluster.add("ServiceAccount", "robot", **parts, **secrets)
    change: JSON = {} if of_pod is None else {field: of_pod}
    made = await post(cluster, PODS, pod(serviceAccountName="robot", **change))
    assert ("volumes" in made["spec"]) is mounted
    assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]


async def test_a_missing_account_is_refused(cluster: Cluster) -> None:
    wanted = pod(serviceAccountName="robot")
    wanted["metadata"] = {"generateName": "web-"}
    answer = await post(cluster, PODS, wanted)
    assert (answer["code"], answer["message"]) == (
        403,
        (
            'pods "web-" is forbidden: error looking up service account default/robot: '
            'serviceaccount "robot" not found'
        ),
    )


async def test_a_pod_waits_for_the_default_account(cluster: Cluster) -> None:
    """A controller makes it, so a pod in a new namespace is not refused at once."""
    path = "/api/v1/namespaces/kube-system/pods"
    creating = asyncio.create_task(post(cluster, path, pod()))
    await asyncio.sleep(1)
    assert not creating.done()
    kind = cluster.server.catalogue.of("v1", "ServiceAccount")
    assert kind is not None
    account = {"metadata": {"name": "default"}}
    cluster.server.objects.create(kind, "kube-system", account)
    assert (await creating)["spec"]["serviceAccountName"] == "default"


async def test_a_pod_does_not_wait_for_ever(cluster: Cluster) -> None:
    path = "/api/v1/namespaces/kube-system/pods"
    since = cluster.clock.monotonic()
    answer = await post(cluster, path, pod())
    assert answer["message"] == (
        'pods "p" is forbidden: error looking up service account kube-system/default: '
        'serviceaccount "default" not found'
    )
    assert 1 <= cluster.clock.monotonic() - since <= 2


ENFORCING = {
    "metadata": {
        "name": "robot",
        "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"},
    },
    "secrets": [{"name": "mine"}],
}


@rows("spec", "problem")
async def test_an_account_may_limit_the_secrets_of_its_pods(
    cluster: Cluster, spec: JSON, problem: str
) -> None:
    await post(cluster, "/api/v1/namespaces/default/serviceaccounts", ENFORCING)
    answer = await post(cluster, PODS, pod(serviceAccountName="robot", **spec))
    forbidden = f'pods "p" is forbidden: {problem}'
    assert answer.get("message", "") == (forbidden if problem else "")


@rows("spec", "problem")
async def test_the_pod_of_a_manifest_on_a_node_has_no_account(
    cluster: Cluster, spec: JSON, problem: str
) -> None:
    """Its kubelet would not take a changed one."""
    wanted = pod(**spec)
    wanted["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    answer = await post(cluster, PODS, wanted)
    assert answer["message"] == f'pods "p" is forbidden: {problem}'
