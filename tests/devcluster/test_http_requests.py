"""The reader takes plain requests, and leaves all others."""

import pytest

from controller_manager.client.transport import Request
from controller_manager.devcluster.http_requests import RequestReader


def raw(line: str = "GET /api HTTP/1.1", *headers: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    return "\r\n".join((line, *headers, "", "")).encode() + body


def test_a_request_is_read_with_its_query_its_headers_and_its_body() -> None:
    """The bytes after it are returned with it."""
    data = raw(
        "POST /api/v1/a%2Fb%20c/d?x=1&y=a%3D+b&x=2&z HTTP/1.1",
        "Host: x",
        "X-Two:\t one \t",
        "x-two: and more",
        "Content-Length: 4",
        "Connection: Keep-Alive",
        body=b"bodyGET",
    )
    headers = {
        "host": "x",
        "x-two": "one\nand more",
        "content-length": "4",
        "connection": "Keep-Alive",
    }
    query = (("x", "1"), ("y", "a= b"), ("x", "2"), ("z", ""))
    plain = Request("POST", "/api/v1/a/b c/d", query, headers, b"body")
    assert RequestReader().read(data) == (plain, b"GET")


def test_requests_of_one_connection_may_differ_in_each_part() -> None:
    """Also after equal headers."""
    reader = RequestReader()
    first = ("Host: x", "Content-Length: 1")
    found = []
    for data in (
        raw("PUT /a HTTP/1.1", *first, body=b"1"),
        raw("PUT /b HTTP/1.1", *first, body=b"2"),
        raw("GET /b HTTP/1.1", "Host: x"),
        raw("PATCH /c HTTP/1.1", *first, body=b"3"),
    ):
        taken = reader.read(data)
        assert taken is not None
        found.append((taken[0].method, taken[0].path, taken[0].body, taken[1]))
    assert found == [
        ("PUT", "/a", b"1", b""),
        ("PUT", "/b", b"2", b""),
        ("GET", "/b", None, b""),
        ("PATCH", "/c", b"3", b""),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET /api HTTP/1.1\r\nHost: x\r\n",
        raw("GET /api HTTP/1.1", "Content-Length: 5", body=b"four"),
        raw("GET /api HTTP/1.0"),
        raw("GET /api HTTP/1.10"),
        raw("get /api HTTP/1.1"),
        raw("HEAD /api HTTP/1.1"),
        raw("OPTIONS * HTTP/1.1"),
        raw("CONNECT x:443 HTTP/1.1"),
        raw("GET http://x/api HTTP/1.1"),
        raw("GET /api#part HTTP/1.1"),
        raw("GET  /api HTTP/1.1"),
        raw('GET /"<> HTTP/1.1'),
        raw("GET /ä HTTP/1.1"),
        raw("GET /api HTTP/1.1", "Content-Length: -1"),
        raw("GET /api HTTP/1.1", "Content-Length: +1", body=b"1"),
        raw("GET /api HTTP/1.1", "Content-Length: 1_0", body=b"1" * 10),
        raw("GET /api HTTP/1.1", "Content-Length: 99999999999999999999"),
        raw("GET /api HTTP/1.1", "Content-Length: 1", "Content-Length: 1", body=b"1"),
        raw("GET /api HTTP/1.1", "Content-Length:", body=b"1"),
        raw("GET /api HTTP/1.1", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        raw(
            "GET /api HTTP/1.1",
            "Content-Length: 5",
            "Transfer-Encoding: chunked",
            body=b"0\r\n\r\n",
        ),
        raw("GET /api HTTP/1.1", "Expect: 100-continue"),
        raw("GET /api HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"),
        raw("GET /api HTTP/1.1", "Connection: close"),
        raw("GET /api HTTP/1.1", "Host : x"),
        raw("GET /api HTTP/1.1", " Host: x"),
        raw("GET /api HTTP/1.1", "Host: x", "\tfolded"),
        raw("GET /api HTTP/1.1", "Host"),
        raw("GET /api HTTP/1.1", ": x"),
        raw("GET /api HTTP/1.1", "X: a\nb"),
        raw("GET /api HTTP/1.1", "X: a\rb"),
        raw("GET /api HTTP/1.1", "X: a\0b"),
        raw("GET /api HTTP/1.1", "X: ü"),
        b"GET /api HTTP/1.1\nHost: x\n\n",
        b"\r\nGET /api HTTP/1.1\r\n\r\n",
    ],
)
def test_all_other_bytes_are_left(data: bytes) -> None:
    """Also after a request that was plain: its headers are not those of the next."""
    reader = RequestReader()
    assert reader.read(data) is None
    assert reader.read(raw("GET /api HTTP/1.1", "Host: x")) is not None
    assert reader.read(data) is None


def test_an_unusual_request_does_not_become_usual_when_it_comes_again() -> None:
    """The reader keeps usual headers alone."""
    reader = RequestReader()
    odd = raw("GET /api HTTP/1.1", "Expect: 100-continue")
    assert [reader.read(odd), reader.read(odd)] == [None, None]
