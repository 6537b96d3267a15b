"""Probes, and the paths that a server says it has."""

import json

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

VERBOSE = "[+]ping ok\n[+]log ok\n[+]etcd ok\n"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/livez/ping", 200, "ok"),
        ("/readyz/informer-sync", 200, "ok"),
        ("/livez/informer-sync", 404, "404 page not found\n"),
        ("/livez/", 404, "404 page not found\n"),
        ("/livez?verbose", 200, f"{VERBOSE}livez check passed\n"),
        (
            "/healthz?verbose=1&exclude=etcd&exclude=nope",
            200,
            (
                "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n"
                "warn: some health checks cannot be excluded: no matches for "
                '"nope"\nhealthz check passed\n'
            ),
        ),
        (
            "/readyz?verbose",
            200,
            (
                f"{VERBOSE}[+]etcd-readiness ok\n[+]informer-sync ok\n[+]shutdown ok\n"
                "readyz check passed\n"
            ),
        ),
    ],
)
async def test_probes_have_checks(
    cluster: Cluster, path: str, status: int, text: str
) -> None:
    """Clients may ask for single checks, or exclude some."""
    answer = await call(cluster, "GET", path)
    assert (answer.status, answer.body.decode()) == (status, text)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/apis", "/apis/apps", "/apis/apps/v1", "/version"]
)
async def test_documents_are_only_read(cluster: Cluster, path: str) -> None:
    """Any other method gets 405."""
    found = [
        (await call(cluster, each, path, b"{}")).status
        for each in ("POST", "PUT", "PATCH", "DELETE")
    ]
    assert found == [405] * 4


async def test_the_root_lists_paths_that_exist(cluster: Cluster) -> None:
    """Each of them answers."""
    root = json.loads((await call(cluster, "GET", "/")).body)
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/livez/ping"} <= set(
        root["paths"]
    )
    for path in root["paths"]:
        assert (await call(cluster, "GET", path)).status == 200, path
