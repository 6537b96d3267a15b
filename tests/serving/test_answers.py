"""Requests and their whole answers: ``tests/data/serving.yaml``."""

import asyncio
import io
import json
import re
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from controller_manager.observability.logs import make_logger
from controller_manager.options.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    GenericConfig,
)
from controller_manager.options.gates import FeatureGates
from controller_manager.serving.connection import ConnectionLimits
from tests.documents.facts import ROOT
from tests.serving import servers

_CHECKS = {"well": servers.WELL, "ill": servers.ILL, "none": {}}
_MADE: dict[str, Any] = {
    "authentication": AuthenticationConfig,
    "authorization": AuthorizationConfig,
    "generic": GenericConfig,
    "features": lambda **gates: FeatureGates(gates),
}
_REQUEST = re.compile(r"(\w+) (\S+)(?: (as|accept|body) (.*))?", re.DOTALL)


CASES = yaml.safe_load((ROOT / "tests" / "data" / "serving.yaml").read_text())
_SEVERAL = {"<probe>": ("healthz", "livez", "readyz"), "ANY": ("POST", "PUT", "DELETE")}


def expanded(line: str, expected: Any) -> list[tuple[str, Any]]:
    """Return a request and its answer, for each word that a part of it stands for."""
    for part, words in _SEVERAL.items():
        if part in line:
            texts = isinstance(expected, str)
            return [
                row
                for word in words
                for row in expanded(
                    line.replace(part, word),
                    expected.replace(part, word) if texts else expected,
                )
            ]
    return [(line, expected)]


async def asked(url: str, line: str) -> dict[str, Any]:
    """Return the parts of an answer."""
    found = _REQUEST.fullmatch(line)
    assert found is not None, line
    method, path, word, value = found.groups("")
    headers = {"Accept": value} if word == "accept" else {}
    if word == "as":
        headers = {"Authorization": f"Bearer {value}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(
            method,
            url + path,
            data=value.encode() if word == "body" else b"",
            ssl=servers.trusting(),
        ) as answer,
    ):
        media_type, text = answer.headers["Content-Type"], await answer.text()
        assert text.endswith("# EOF\n") == ("openmetrics" in media_type)
        assert "server" not in answer.headers
        assert "python" not in f"{answer.headers}".lower()
        return {
            "status": answer.status,
            "type": media_type,
            "warning": answer.headers.get("Warning", ""),
            "body": text,
        }


def as_expected(found: dict[str, Any], expected: Any) -> Any:
    """Return an answer in the form of the expected one."""
    if isinstance(expected, int):
        return found["status"]
    if isinstance(expected, str):
        return f"{found['status']} {found['body']}"
    shown = {key: found.get(key) for key in expected}
    if "has" in shown:
        shown["has"] = expected["has"] if expected["has"] in found["body"] else found
    if "ends" in shown:
        shown["ends"] = found["body"][-len(expected["ends"]) :]
    return shown


@pytest.mark.parametrize("name", CASES)
async def test_each_request_has_its_answer(name: str) -> None:
    case = dict(CASES[name])
    checks, answers = _CHECKS[case.pop("checks", "well")], case.pop("answers")
    reviews = case.pop("asked", None)
    config = servers.config_of(
        **{
            key: _MADE[key](**each) if key in _MADE else each
            for key, each in case.items()
        }
    )
    reviewed = servers.Reviewed()
    async with servers.serving(config, checks, reviewed.client) as url:
        for line, expected in (
            each for row in answers for item in row.items() for each in expanded(*item)
        ):
            found = as_expected(await asked(url, line), expected)
            assert (line, found) == (line, expected)
    assert reviews is None or reviewed.asked == reviews


async def test_a_body_that_does_not_arrive_ends_its_connection() -> None:
    """Else a client that stops to send keeps a connection for ever."""
    limits = ConnectionLimits(body=0.1)
    async with servers.serving(limits=limits) as url, asyncio.timeout(5):
        port = urlsplit(url).port
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=servers.trusting()
        )
        header = b"PUT /debug/flags/v HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
        writer.write(header + b"4")
        answer = await reader.read()
        writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert text == b"the body did not arrive within 0.1 s\n"


async def test_a_body_of_more_than_256_kib_is_refused() -> None:
    """A handler that reads it would hold it in memory."""
    async with servers.serving() as url:
        answers = [
            await asked(url, f"PUT /debug/flags/v body {' ' * size}")
            for size in (256 * 1024, 256 * 1024 + 1)
        ]
    assert [answer["status"] for answer in answers] == [400, 413]
    assert answers[1]["body"] == "Request Entity Too Large\n"


async def test_a_number_of_thousands_of_digits_is_out_of_range() -> None:
    """Python refuses to read it as a number."""
    async with servers.serving() as url:
        answer = await asked(url, f"PUT /debug/flags/v body {'9' * 10_000}")
    assert (answer["status"], answer["body"][-20:]) == (400, " value out of range\n")


def test_the_verbosity_is_that_of_all_loggers() -> None:
    """Of those that were bound before, too; levels of modules stay."""
    log = io.StringIO()
    root = make_logger(stream=log, vmodule=[("test_answers", 1)])
    bound = root.bind(component="a")
    bound.v(1).info("by its module")
    bound.v(4).info("too detailed")
    root.set_verbosity(4)
    bound.v(4).info("detailed")
    root.set_verbosity(0)
    bound.v(4).info("too detailed again")
    bound.v(1).info("by its module again")
    messages = [line.split('"')[1] for line in log.getvalue().splitlines()]
    assert messages == ["by its module", "detailed", "by its module again"]


def _read(media_type: str, text: str) -> Any:
    return yaml.safe_load(text) if media_type.endswith("yaml") else json.loads(text)


@pytest.mark.parametrize("media_type", ["application/json", "application/yaml"])
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_pages_are_objects_on_request(media_type: str, version: str) -> None:
    accept = f"{media_type};v={version};g=config.k8s.io;as="
    async with servers.serving(servers.config_of(flags={"v": "2", "a": ""})) as url:
        flags = await asked(url, f"GET /flagz accept {accept}Flagz")
        status = await asked(url, f"GET /statusz accept {accept}Statusz")
    warnings = [
        f'299 - "This version of the {page} endpoint is deprecated. Please use a newer '
        'version."'
        for page in ("flagz", "statusz")
    ]
    assert [
        (each["status"], each["type"], each["warning"]) for each in (flags, status)
    ] == [
        (200, media_type, warning if version == "v1alpha1" else "")
        for warning in warnings
    ]
    assert _read(media_type, flags["body"]) == {
        "kind": "Flagz",
        "apiVersion": f"config.k8s.io/{version}",
        "metadata": {"name": "kube-controller-manager"},
        "flags": {"a": "", "v": "2"},
    }
    shown = _read(media_type, status["body"])
    assert {name: shown[name] for name in ("kind", "startTime", "paths")} == {
        "kind": "Statusz",
        "startTime": "2026-01-01T00:00:00Z",
        "paths": ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"],
    }


RAW = {
    b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n": b"200",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n": b"417",
    b"garbage\r\n\r\n": b"400",
    b"GET / HTTP/1.1\r\nHost: a\r\nb\x00c: d\r\n\r\n": b"400",
    b"GET /" + 10_000 * b"a" + b" HTTP/1.1\r\nHost: a\r\n\r\n": b"400",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n": b"400",
}


@pytest.mark.parametrize("request_bytes", RAW, ids=lambda request: request[:99])
async def test_no_answer_to_odd_bytes_names_the_library(request_bytes: bytes) -> None:
    """Neither in its header, nor in its text."""
    async with servers.serving() as url:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", urlsplit(url).port, ssl=servers.trusting()
        )
        writer.write(request_bytes)
        answer = await reader.readuntil(b"\r\n\r\n")
        if b"400 Bad" in answer:
            answer += await reader.read()
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == RAW[request_bytes]
    assert b"\r\nserver:" not in head.lower()
    assert b"python" not in answer.lower()
    assert body in (b"", b"400 Bad Request")
