"""Probes, and the paths that a server says it has."""

import json

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

HOOKS = """\
[+]poststarthook/start-apiserver-admission-initializer ok
[+]poststarthook/generic-apiserver-start-informers ok
[+]poststarthook/priority-and-fairness-config-consumer ok
[+]poststarthook/priority-and-fairness-filter ok
[+]poststarthook/storage-object-count-tracker-hook ok
[+]poststarthook/start-apiextensions-informers ok
[+]poststarthook/start-apiextensions-controllers ok
[+]poststarthook/crd-informer-synced ok
[+]poststarthook/start-system-namespaces-controller ok
[+]poststarthook/peer-endpoint-reconciler-controller ok
[+]poststarthook/start-cluster-authentication-info-controller ok
[+]poststarthook/start-kube-apiserver-identity-lease-controller ok
[+]poststarthook/start-kube-apiserver-identity-lease-garbage-collector ok
[+]poststarthook/storage-readiness ok
[+]poststarthook/start-legacy-token-tracking-controller ok
[+]poststarthook/start-service-ip-repair-controllers ok
[+]poststarthook/rbac/bootstrap-roles ok
[+]poststarthook/scheduling/bootstrap-system-priority-classes ok
[+]poststarthook/priority-and-fairness-config-producer ok
[+]poststarthook/bootstrap-controller ok
[+]poststarthook/start-kubernetes-service-cidr-controller ok
[+]poststarthook/aggregator-reload-proxy-client-cert ok
[+]poststarthook/start-kube-aggregator-informers ok
[+]poststarthook/apiservice-status-local-available-controller ok
[+]poststarthook/apiservice-status-remote-available-controller ok
[+]poststarthook/apiservice-registration-controller ok
[+]poststarthook/apiservice-discovery-controller ok
[+]poststarthook/kube-apiserver-autoregistration ok
[+]autoregister-completion ok
[+]poststarthook/apiservice-openapi-controller ok
[+]poststarthook/apiservice-openapiv3-controller ok
"""
ALIVE = (
    f"[+]ping ok\n[+]log ok\n[+]loopback-serving-certificate ok\n[+]etcd ok\n{HOOKS}"
)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/livez/ping", 200, "ok"),
        ("/readyz/informer-sync", 200, "ok"),
        ("/livez/informer-sync", 404, "404 page not found\n"),
        ("/livez/", 404, "404 page not found\n"),
        ("/livez/poststarthook/rbac/bootstrap-roles", 200, "ok"),
        ("/livez/poststarthook", 404, "404 page not found\n"),
        ("/livez?verbose", 200, f"{ALIVE}livez check passed\n"),
        (
            "/healthz?verbose=1&exclude=etcd&exclude=nope",
            200,
            ALIVE.replace("[+]etcd ok", "[+]etcd excluded: ok")
            + "warn: some health checks cannot be excluded: no matches for "
            '"nope"\nhealthz check passed\n',
        ),
        (
            "/readyz?verbose",
            200,
            (
                "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n"
                f"[+]informer-sync ok\n{HOOKS}[+]shutdown ok\nreadyz check passed\n"
            ),
        ),
    ],
)
async def test_probes_have_checks(
    cluster: Cluster, path: str, status: int, text: str
) -> None:
    answer = await call(cluster, "GET", path)
    assert (answer.status, answer.body.decode()) == (status, text)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/apis", "/apis/apps", "/apis/apps/v1", "/version"]
)
async def test_documents_are_only_read(cluster: Cluster, path: str) -> None:
    found = [
        (await call(cluster, each, path, b"{}")).status
        for each in ("POST", "PUT", "PATCH", "DELETE")
    ]
    assert found == [405] * 4


async def test_the_root_lists_paths_that_exist(cluster: Cluster) -> None:
    root = json.loads((await call(cluster, "GET", "/")).body)
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/livez/ping"} <= set(
        root["paths"]
    )
    for path in root["paths"]:
        assert (await call(cluster, "GET", path)).status == 200, path
