"""The attributes of a request come from its path."""

from urllib.parse import parse_qsl

import pytest

from controller_manager.devcluster.apiserver.request_info import attributes_of_request
from controller_manager.devcluster.apiserver.security import Attributes


def about(verb: str, resource: str, group: str = "", **more: str) -> Attributes:
    return Attributes(verb, group=group, resource=resource, **more)


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("GET /api/v1/pods", about("list", "pods")),
        ("GET /api/v1/pods?watch=1", about("watch", "pods")),
        (
            "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx",
            about("list", "pods", namespace="a", name="x"),
        ),
        (
            "GET /api/v1/namespaces/a/pods?watch=true&fieldSelector=metadata.name==x",
            about("watch", "pods", namespace="a", name="x"),
        ),
        ("GET /api/v1/pods?fieldSelector=metadata.name!%3Dx", about("list", "pods")),
        (
            "GET /api/v1/namespaces/a/pods/x?watch=true",
            about("get", "pods", namespace="a", name="x"),
        ),
        (
            "PUT /api/v1/namespaces/a/pods/x/status",
            about("update", "pods", namespace="a", name="x", subresource="status"),
        ),
        (
            "GET /api/v1/namespaces/a",
            about("get", "namespaces", namespace="a", name="a"),
        ),
        (
            "PUT /api/v1/namespaces/a/finalize",
            about(
                "update", "namespaces", namespace="a", name="a", subresource="finalize"
            ),
        ),
        ("POST /api/v1/namespaces", about("create", "namespaces")),
        (
            "DELETE /apis/apps/v1/namespaces/a/deployments",
            about("deletecollection", "deployments", "apps", namespace="a"),
        ),
        (
            "PATCH /apis/example.com/v9/widgets/w",
            about("patch", "widgets", "example.com", name="w"),
        ),
        (
            "GET /api/v1/namespaces/a/services/s/proxy/some/path",
            about("get", "services", namespace="a", name="s", subresource="proxy"),
        ),
        ("GET /api/v1/watch/namespaces/a/pods", about("watch", "pods", namespace="a")),
        ("GET /api/v1/proxy/nodes/n/x", about("proxy", "nodes", name="n")),
        ("GET /api", Attributes("get", path="/api")),
        ("GET /api/v1", Attributes("get", path="/api/v1")),
        ("GET /apis/apps/v1", Attributes("get", path="/apis/apps/v1")),
        ("POST /apis/apps", Attributes("post", path="/apis/apps")),
        ("GET /metrics", Attributes("get", path="/metrics")),
        ("GET /", Attributes("get", path="/")),
        ("HEAD /healthz/etcd", Attributes("head", path="/healthz/etcd")),
        ("OPTIONS /api/v1/pods", about("", "pods")),
    ],
)
def test_attributes_come_from_the_path(request_line: str, expected: Attributes) -> None:
    method, _, url = request_line.partition(" ")
    path, _, query = url.partition("?")
    assert attributes_of_request(method, path, tuple(parse_qsl(query))) == expected
