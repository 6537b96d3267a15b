"""HTTP as a client sees it: headers, limits, connections."""

import gzip
import http.client
import json
import ssl
import uuid
from collections.abc import Iterator

import pytest

from controller_manager.devcluster import http_server
from controller_manager.devcluster.testing import DevelopmentCluster
from tests.devcluster.testing.calls import Caller

pytestmark = pytest.mark.slow

LIMIT = 3 * 1024 * 1024
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def connection(
    clients_cluster: DevelopmentCluster,
) -> Iterator[http.client.HTTPSConnection]:
    opened = Caller(clients_cluster.kubeconfig).connection(10)
    yield opened
    opened.close()


@pytest.fixture
def headers(clients_cluster: DevelopmentCluster) -> dict[str, str]:
    """Return the credentials of the administrator."""
    return Caller(clients_cluster.kubeconfig).headers("tests")


def test_each_answer_has_an_id_and_is_not_cached(
    connection: http.client.HTTPSConnection, headers: dict[str, str]
) -> None:
    found = []
    for more in ({}, {"Audit-ID": "mine"}):
        connection.request("GET", "/version", headers={**headers, **more})
        answer = connection.getresponse()
        answer.read()
        assert answer.getheader("Cache-Control") == "no-cache, private"
        found.append(answer.getheader("Audit-Id") or "")
    assert found[1] == "mine"
    assert str(uuid.UUID(found[0])) == found[0]


def test_requests_over_the_network_are_counted(
    clients_cluster: DevelopmentCluster,
) -> None:
    """So a test can see how many its controller sends."""
    caller = Caller(clients_cluster.kubeconfig)

    def counted() -> list[str]:
        lines = caller.get("/metrics").body.splitlines()
        return [each for each in lines if 'resource="leases"' in each]

    assert not [each for each in counted() if "request_total" in each]
    caller.get("/apis/coordination.k8s.io/v1/leases")
    [total] = [each for each in counted() if "request_total" in each]
    assert total.endswith(" 1.0")


def test_a_body_of_more_than_three_megabytes_is_refused(
    connection: http.client.HTTPSConnection, headers: dict[str, str]
) -> None:
    """It is refused with a header of its length and without one."""
    pieces = (b"x" * LIMIT, b"x")
    for body in (b"".join(pieces), iter(pieces)):
        connection.request(
            "POST", MAPS, body, headers, encode_chunked=not isinstance(body, bytes)
        )
        answer = connection.getresponse()
        status = json.loads(answer.read())
        assert (answer.status, status["reason"], status["message"]) == (
            413,
            "RequestEntityTooLarge",
            f"Request entity too large: limit is {LIMIT}",
        )
        connection.close()


def test_a_connection_serves_requests_that_come_together(
    clients_cluster: DevelopmentCluster, headers: dict[str, str]
) -> None:
    connection = Caller(clients_cluster.kubeconfig).connection(10)
    connection.connect()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    paths = ("/livez", "/readyz?verbose", "/healthz/ping")
    requests = [f"GET {each} HTTP/1.1\r\nHost: x\r\n{lines}\r\n" for each in paths]
    try:
        found = []
        for batch in ("".join(requests), requests[0]):
            connection.sock.sendall(batch.encode())
            for _ in range(batch.count("GET ")):
                answer = http.client.HTTPResponse(connection.sock)
                answer.begin()
                length = int(answer.getheader("Content-Length") or 0)
                found.append(answer.read(length).decode())
    finally:
        connection.close()
    assert [found[0], found[2], found[3]] == ["ok", "ok", "ok"]
    assert found[1].endswith("readyz check passed\n")


def test_a_compressed_body_is_not_read(
    connection: http.client.HTTPSConnection, headers: dict[str, str]
) -> None:
    """A real API server takes none either, and a small one could become huge."""
    body = gzip.compress(b'{"metadata":{"name":"a"}}')
    connection.request("POST", MAPS, body, {**headers, "Content-Encoding": "gzip"})
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["reason"]) == (400, "BadRequest")


def test_a_body_that_does_not_come_is_not_waited_for(
    connection: http.client.HTTPSConnection,
    headers: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "_BODY_PATIENCE", 0.05)
    connection.putrequest("POST", MAPS)
    for name, value in {**headers, "Content-Length": "10"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    status = json.loads(answer.read())
    assert (answer.status, status["reason"]) == (504, "Timeout")
    assert answer.getheader("Connection") == "close"


def test_a_selector_may_be_long(
    connection: http.client.HTTPSConnection, headers: dict[str, str]
) -> None:
    """As long as the headers of a real API server may be: a megabyte."""
    names = ",".join(f"name-{number}" for number in range(10_000))
    path = f"{MAPS}?labelSelector=app%20in%20({names})"
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["items"]) == (200, [])


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01 nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /version HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /api/v1/nodes HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /version HTTP/1.1\r\n" + b"A: " + b"b" * 2_000_000 + b"\r\n\r\n",
    ],
    ids=["binary", "version", "length", "chunks", "path", "header"],
)
def test_garbage_hurts_no_other_connection(
    garbage: bytes, clients_cluster: DevelopmentCluster
) -> None:
    """It gets an error or nothing, and the server answers others."""
    caller = Caller(clients_cluster.kubeconfig)
    connection = caller.connection(5)
    connection.connect()
    try:
        connection.sock.sendall(garbage)
        first = connection.sock.recv(1000)
    except (TimeoutError, ConnectionError, ssl.SSLError):
        first = b""
    finally:
        connection.close()
    assert not first or b" 4" in first.splitlines()[0]
    assert caller.get("/version").status == 200
