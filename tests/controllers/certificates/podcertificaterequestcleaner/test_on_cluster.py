"""Old requests of pods are deleted on a cluster in memory."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from controller_manager.api.certificates.v1beta1 import POD_CERTIFICATE_REQUEST_METADATA
from controller_manager.clock import LoopClock
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH, make_config
from tests.controllers.hands import Hands

pytestmark = pytest.mark.looptime

NAME = "podcertificaterequest-cleaner-controller"
CONFIG = make_config(controllers=(NAME, "ttl"), use_service_account_credentials=True)
ENABLED = replace(CONFIG, features=FeatureGates({"PodCertificateRequest": True}))
API = "certificates.k8s.io/v1beta1"


async def test_a_request_goes_after_a_quarter_of_an_hour() -> None:
    cluster = Hands(rbac=True)
    async with cluster.confined_manager(ENABLED) as recording:
        cluster.add("PodCertificateRequest", "a", API, spec={"podName": "a"})
        await asyncio.sleep(899)
        assert recording.writes == []
        await asyncio.sleep(2)
        page = await cluster.client.list_page(POD_CERTIFICATE_REQUEST_METADATA)
    assert page.items == []
    (deletion,) = recording.writes
    assert (deletion.method, deletion.status) == ("DELETE", 200)
    assert b'"preconditions":{"uid":' in deletion.body


async def test_the_clock_of_the_api_server_tells_the_age(cluster: Hands) -> None:
    ahead = LoopClock(EPOCH + timedelta(hours=1))
    async with cluster.manager(ENABLED, clock=ahead) as recording:
        cluster.add("PodCertificateRequest", "a", API, spec={"podName": "a"})
        await asyncio.sleep(890)
        assert recording.writes == []
        await asyncio.sleep(20)
    assert [each.method for each in recording.writes] == ["DELETE"]


async def test_without_its_gate_it_does_not_run(cluster: Hands) -> None:
    """The gate is off by default."""
    cluster.add("PodCertificateRequest", "a", API, spec={"podName": "a"})
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(3600)
    assert [each for each in recording.writes if "podcert" in each.path] == []
