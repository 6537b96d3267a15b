"""A pod gets a service account that exists, its token and its pull secrets."""

import asyncio

import pytest

from tests.clusters import Cluster
from tests.devcluster.admission.requests import PODS, container, pod, post
from tests.devcluster.rows import parsed

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
