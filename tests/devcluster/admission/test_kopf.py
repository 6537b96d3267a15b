"""The admission server of kopf, in the process of a test."""

import asyncio
from pathlib import Path
from typing import Any

import kopf
import pytest

from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.devcluster.admission.webhook_server import certificate
from tests.devcluster.rows import parsed
from tests.devcluster.testing.calls import Caller

CRD: dict[str, Any] = parsed("""
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: sites.example.com}
    spec:
      group: example.com
      scope: Namespaced
      names: {plural: sites, kind: Site, singular: site}
      versions:
        - name: v1
          served: true
          storage: true
          schema:
            openAPIV3Schema:
              {type: object, x-kubernetes-preserve-unknown-fields: true}""")
SITES = "/apis/example.com/v1/namespaces/default/sites"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SITE: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Site"}


def registry_of(directory: Path) -> kopf.OperatorRegistry:
    """Return the handlers of an operator that checks and completes sites."""
    registry = kopf.OperatorRegistry()
    names = (directory / "tls.crt", directory / "tls.key")
    names[0].write_bytes(certificate().certificate)
    names[1].write_bytes(certificate().key)

    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.admission.managed = "sites.example.com"
        settings.admission.server = kopf.WebhookServer(
            addr="127.0.0.1",
            host="127.0.0.1",
            certfile=str(names[0]),
            pkeyfile=str(names[1]),
            cadata=certificate().certificate,
        )
        settings.posting.enabled = False
        settings.queueing.exit_timeout = 0.2

    @kopf.on.validate("example.com", "v1", "sites", id="check", registry=registry)
    def check(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
        warnings.append("sites are expensive")
        if "image" not in spec:
            message = "spec.image is missing"
            raise kopf.AdmissionError(message, code=422)

    @kopf.on.mutate("example.com", "v1", "sites", id="complete", registry=registry)
    def complete(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
        if "replicas" not in spec:
            patch.spec["replicas"] = 2

    return registry


async def _wait_until_configured(caller: Caller) -> None:
    async with asyncio.timeout(20):
        while True:
            found = await asyncio.to_thread(caller.get, CONFIGURATIONS)
            hooks = [each.get("webhooks") for each in found.body["items"]]
            if any(hooks):
                return
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_kopf_checks_and_completes_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ClusterSettings(nodes=0, controllers=())
    async with DevelopmentCluster(settings) as cluster:
        caller, stop = Caller(cluster.kubeconfig), asyncio.Event()
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await asyncio.to_thread(caller.send, "POST", definitions, CRD)
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        registry = registry_of(tmp_path)
        operator = asyncio.create_task(
            kopf.operator(registry=registry, clusterwide=True, stop_flag=stop)
        )
        try:
            await _wait_until_configured(caller)
            refused = await asyncio.to_thread(
                caller.send, "POST", SITES, {**SITE, "metadata": {"name": "a"}}
            )
            site = {**SITE, "metadata": {"name": "a"}, "spec": {"image": "i"}}
            made = await asyncio.to_thread(caller.send, "POST", SITES, site)
        finally:
            stop.set()
            await operator
    assert (refused.status, refused.body["message"]) == (
        422,
        (
            'admission webhook "check.sites.example.com" denied the request: '
            "spec.image is missing"
        ),
    )
    assert refused.headers["warning"] == '299 - "sites are expensive"'
    assert (made.status, made.body["spec"]) == (201, {"image": "i", "replicas": 2})
