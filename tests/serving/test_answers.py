"""Requests and their whole answers: ``tests/data/serving.yaml``."""

import asyncio
import io
import json
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar
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
from controller_manager.serving.answers import Pieces
from controller_manager.serving.connection import ConnectionLimits
from controller_manager.serving.health import HealthCheck
from controller_manager.serving.main_loop import MainLoopBusy
from tests.documents.facts import ROOT
from tests.serving import servers
from tests.serving.servers import get, serving, trusting

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


AnswerT = TypeVar("AnswerT")
BUSY = "the main event loop has been busy for 3.2 s"


class Main:
    """A main loop that answers at once, or not at all."""

    def __init__(self, *, is_busy: bool = False) -> None:
        self.is_busy = is_busy
        self.answers = 0

    async def ask(self, question: Callable[[], AnswerT], patience: float) -> AnswerT:
        del patience
        if self.is_busy:
            raise MainLoopBusy(BUSY)
        self.answers += 1
        return question()

    def stack(self) -> str:
        return "  in a_long_turn\n"


async def test_probes_show_the_last_answer_and_the_checks_of_their_own_thread() -> None:
    """The lease is lost meanwhile, and the main loop has stalled."""
    main = Main()
    beside: dict[str, HealthCheck] = {"a": lambda: None, "main-loop": lambda: None}
    async with serving(main=main, beside=beside) as url:
        before = await get(f"{url}/livez?verbose")
        main.is_busy = True
        during = await get(f"{url}/livez?verbose")
        beside |= {"a": lambda: "lease lost", "main-loop": lambda: "stalled"}
        failing = await get(f"{url}/livez")
        ready = await get(f"{url}/readyz?verbose")
    shown = "[+]a ok\n[+]b ok\n[+]main-loop ok\nlivez check passed\n"
    assert before == during == (200, shown)
    assert failing == (
        500,
        (
            "[-]a failed: lease lost\n[+]b ok\n[-]main-loop failed: stalled\n"
            "livez check failed\n"
        ),
    )
    # Nothing was known of readiness before.
    assert ready[0] == 500
    assert "main-loop failed: the main event loop has not answered yet" in ready[1]


async def test_metrics_are_shown_with_their_last_values() -> None:
    """A scrape that fails would hide the metric that tells of the stall."""
    main = Main()
    async with serving(main=main) as url:
        first = await get(f"{url}/metrics")
        main.is_busy = True
        second = await get(f"{url}/metrics")
    assert first == second
    assert first[0] == 200
    assert "scrapes 1.0" in first[1]


async def test_a_page_of_the_main_loop_says_that_it_is_busy() -> None:
    async with serving(main=Main(is_busy=True)) as url:
        page = await get(f"{url}/debug/controllers/some-controller/page")
        tasks = await get(f"{url}/debug/pprof/goroutine")
        settings = await get(f"{url}/configz")
    assert page == (503, f"{BUSY}\n")
    assert tasks[0] == 200
    assert tasks[1].startswith(f"{BUSY}, its stack is:\n  in a_long_turn\n")
    assert "tasks\n\ntask " in tasks[1]
    assert settings[0] == 200


async def test_a_page_is_asked_for_piece_by_piece() -> None:
    """So a long page does not keep the main loop for long."""
    main = Main()

    def page(_: Mapping[str, list[str]]):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return "text/plain", (b"piece\n" for _ in range(10))

    async with serving(main=main, debug={"c": {"page": page}}) as url:
        found = await get(f"{url}/debug/controllers/c/page")
    assert found == (200, "piece\n" * 10)
    assert main.answers > 10


KILOBYTES = b"x" * 65536


async def test_other_tasks_get_a_turn_between_two_pieces() -> None:
    """Even if the client reads them fast."""
    turns = 0
    seen: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def page(_: Mapping[str, list[str]]) -> tuple[str, Pieces]:
        def pieces() -> Pieces:
            for number in range(100):
                seen.append(turns)
                yield b"piece " if number % 2 else b""

        return "text/plain", pieces()

    async with serving(debug={"a": {"page": page}}) as url:
        task = asyncio.create_task(others())
        answer = await get(f"{url}/debug/controllers/a/page")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert answer == (200, "piece " * 50)
    assert (len(seen), seen) == (100, sorted(set(seen)))


class Endless:
    """A page without end; notes how much of it was made, and when it ended."""

    def __init__(self) -> None:
        self.made = 0
        self.ended = asyncio.Event()

    def page(self, _: Mapping[str, list[str]]) -> tuple[str, Pieces]:
        return "text/plain", self._pieces()

    def _pieces(self) -> Pieces:
        try:
            while True:
                self.made += 1
                yield KILOBYTES
        finally:
            self.ended.set()


async def test_a_client_that_reads_nothing_holds_little_and_is_cut_off() -> None:
    endless = Endless()
    limits = ConnectionLimits(stalled=0.5)
    async with serving(limits=limits, debug={"a": {"page": endless.page}}) as url:
        port = int(url.rpartition(":")[2])
        with closing(socket.socket()) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            sock.settimeout(10)
            await asyncio.to_thread(sock.connect, ("127.0.0.1", port))
            wrapped = await asyncio.to_thread(trusting().wrap_socket, sock)
            wrapped.sendall(
                b"GET /debug/controllers/a/page HTTP/1.1\r\nHost: a\r\n\r\n"
            )
            async with asyncio.timeout(10):
                await endless.ended.wait()
            wrapped.close()
    assert 1 <= endless.made <= 300  # 20 MB; the rest would be without end


async def test_a_client_that_goes_away_ends_the_page() -> None:
    endless = Endless()
    async with serving(debug={"a": {"page": endless.page}}) as url:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}/debug/controllers/a/page", ssl=trusting()) as answer,
        ):
            assert await answer.content.readexactly(10) == KILOBYTES[:10]
        async with asyncio.timeout(10):
            await endless.ended.wait()


async def test_the_connection_is_cut_if_a_page_fails() -> None:
    """So the client does not believe that the page is complete."""

    def page(_: Mapping[str, list[str]]) -> tuple[str, Pieces]:
        def pieces() -> Pieces:
            yield b"half"
            raise LookupError

        return "text/plain", pieces()

    async with serving(debug={"a": {"page": page}}) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/debug/controllers/a/page")


async def test_a_head_of_a_page_has_no_body() -> None:
    endless = Endless()
    async with (
        serving(debug={"a": {"page": endless.page}}) as url,
        aiohttp.ClientSession() as session,
        session.head(f"{url}/debug/controllers/a/page", ssl=trusting()) as answer,
    ):
        head = (answer.status, answer.content_type, await answer.read())
    assert (head, endless.made) == ((200, "text/plain", b""), 0)
