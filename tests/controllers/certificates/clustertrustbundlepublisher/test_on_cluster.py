"""The API server's authority is published on a cluster in memory."""

import asyncio
from dataclasses import replace

import pytest

from controller_manager.api.certificates.v1beta1 import (
    KUBE_APISERVER_SERVING,
    SERVING_TRUST_BUNDLES,
    ClusterTrustBundle,
    ClusterTrustBundleSpec,
)
from controller_manager.controllers.certificates.clustertrustbundlepublisher.controller import (  # noqa: E501 - a long path
    bundle_name,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import ROOT_CA, make_config
from tests.controllers.hands import Hands

pytestmark = pytest.mark.looptime

NAME = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
CONFIG = make_config(controllers=(NAME, "ttl"), use_service_account_credentials=True)
ENABLED = replace(CONFIG, features=FeatureGates({"ClusterTrustBundle": True}))
API = "certificates.k8s.io/v1beta1"
CURRENT = bundle_name(KUBE_APISERVER_SERVING, ROOT_CA)
FORMER = "kubernetes.io:kube-apiserver-serving:former"


async def _bundles(cluster: Hands) -> list[ClusterTrustBundle]:
    items = (await cluster.client.list_page(SERVING_TRUST_BUNDLES)).items
    return [each for each in items if each.spec.signer_name == KUBE_APISERVER_SERVING]


def test_the_name_has_a_hash_of_the_authorities() -> None:
    """Computed by upstream's rule: 12 bytes of SHA-256, as hexadecimal digits."""
    assert bundle_name("a/b", "") == "a:b:e3b0c44298fc1c149afbf4c8"


async def test_the_current_bundle_comes_before_a_former_one_goes() -> None:
    cluster = Hands(rbac=True)
    spec = {"signerName": KUBE_APISERVER_SERVING, "trustBundle": ROOT_CA}
    cluster.add("ClusterTrustBundle", FORMER, API, spec=spec)
    cluster.add("ClusterTrustBundle", "mine", API, spec={"trustBundle": ROOT_CA})
    async with cluster.confined_manager(ENABLED) as recording:
        await asyncio.sleep(1)
        (first,) = await _bundles(cluster)
        cluster.edit(
            SERVING_TRUST_BUNDLES, CURRENT, spec={"trustBundle": ROOT_CA + ROOT_CA}
        )
        await asyncio.sleep(1)
        (second,) = await _bundles(cluster)
        cluster.remove(SERVING_TRUST_BUNDLES, CURRENT)
        await asyncio.sleep(1)
        (third,) = await _bundles(cluster)
    for each in (first, second, third):
        assert each.metadata.name == CURRENT
        assert each.spec == ClusterTrustBundleSpec(
            signer_name=KUBE_APISERVER_SERVING, trust_bundle=ROOT_CA
        )
    assert [
        (each.method, each.path.rpartition("/")[2]) for each in recording.writes
    ] == [
        ("POST", "clustertrustbundles"),
        ("DELETE", FORMER),
        ("PUT", CURRENT),
        ("POST", "clustertrustbundles"),
    ]


async def test_without_its_gate_it_does_not_run(cluster: Hands) -> None:
    """The gate is off by default."""
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
    assert await _bundles(cluster) == []
