"""The development cluster answers as the recorded API server did."""

import json
import random
import re
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import APIServer

DATA = Path(__file__).parent.parent / "data" / "api-transcript.json"
TOKEN = "kcm-token"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

LEFT_OUT = ("description", "managedFields")
"""Fields that the recording does not show."""

AGE = re.compile(r"^\d+[smhd](\d+[smhd])?$")
DIFF = re.compile(r"(pod updates may not change fields [^\n]*)\n.*", re.DOTALL)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


class Player:
    """Plays entries in order, and remembers values that later entries refer to."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.answers: dict[str, dict[str, Any]] = {}

    def filled_in(self, text: str) -> str:
        """Replace placeholders in a request by values from earlier answers."""

        def value(match: re.Match[str]) -> str:
            what, name = match.groups()
            metadata = self.answers[name]["metadata"]
            field = {"rv": "resourceVersion"}.get(what, what)
            return str(metadata[field])

        return re.sub(r"\{(uid|rv|continue):([^}]+)\}", value, text)

    def request(
        self, method: str, url: str, body: Any, headers: Mapping[str, str] | None
    ) -> Request:
        parts = urlsplit(self.filled_in(url))
        encoded = None
        if body is not None:
            text = body if isinstance(body, str) else json.dumps(body)
            encoded = self.filled_in(text).encode()
        return Request(
            method,
            parts.path,
            query=tuple(parse_qsl(parts.query, keep_blank_values=True)),
            headers={"authorization": f"Bearer {TOKEN}", **_lower(headers)},
            body=encoded,
        )

    async def play(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return status, content type and body (or events) of an entry."""
        if entry["method"] == "WATCH":
            return await self._watch(entry)
        request = self.request(
            entry["method"], entry["path"], entry.get("body"), entry.get("headers")
        )
        answer = await self.server.handle(request)
        assert isinstance(answer, Response)
        content_type = answer.headers["content-type"]
        body: Any = answer.body.decode()
        if content_type.startswith("application/json"):
            body = json.loads(body)
            self.answers[entry["name"]] = body
        return {"status": answer.status, "contentType": content_type, "response": body}

    async def _watch(self, entry: dict[str, Any]) -> dict[str, Any]:
        request = self.request("GET", entry["path"], None, entry.get("headers"))
        answer = await self.server.handle(request)
        assert not isinstance(answer, Response)
        for method, path, body, *headers in entry["meanwhile"]:
            await self.server.handle(
                self.request(method, path, body, headers[0] if headers else None)
            )
        async with aclosing(answer.chunks()) as chunks:
            text = b"".join([chunk async for chunk in chunks])
        events = [json.loads(line) for line in text.splitlines()]
        return {"status": answer.status, "events": events}


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}


def normalised(value: Any, key: str = "") -> Any:
    """Replace values that differ between two runs, as the recording does."""
    if isinstance(value, dict):
        pairs = value.items()
        return {k: normalised(v, k) for k, v in pairs if k not in LEFT_OUT}
    if isinstance(value, list):
        return [normalised(each, key) for each in value]
    if not isinstance(value, str):
        return value
    if key in ("resourceVersion", "continue", "storageVersionHash", "token"):
        return f"<{key}>"
    if TIME.match(value) or value == "<time>":
        return "<time>"
    if key == "cells" and AGE.match(value):
        return "<age>"
    value = UUID.sub(_uid, value)
    value = re.sub(r"\b(gen|g)-[a-z0-9]{5}\b", r"\1-<rand>", value)
    # Upstream shows the changes of a pod's update in Go's order of fields and with Go's
    # line numbers; the message before them is the same.
    value = DIFF.sub(r"\1<diff>", value)
    value = re.sub(r"in record \(\d+\)", "in record (N)", value)
    return re.sub(r"resource version: .*", "resource version: N", value)


def _uid(match: re.Match[str]) -> str:
    # A uid that a request contains is part of the answer to compare.
    return match.group() if match.group().startswith("11111111") else "<uid>"


def comparable(entry: dict[str, Any]) -> dict[str, Any]:
    kept = ("status", "contentType", "response", "events")
    result = {name: normalised(entry[name]) for name in kept if name in entry}
    if entry.get("events") is not None:
        result.pop("contentType", None)
    response = result.get("response")
    if isinstance(response, dict) and "gitVersion" in response:
        # The version of the build is not compared.
        for name in ("gitCommit", "goVersion", "compiler", "buildDate"):
            response.pop(name)
    if isinstance(response, dict) and "serverAddressByClientCIDRs" in response:
        response["serverAddressByClientCIDRs"][0].pop("serverAddress")
    return result


@pytest.mark.looptime
async def test_every_recorded_answer_is_given() -> None:
    clock = LoopClock(EPOCH)
    server = APIServer(
        clock=clock,
        rng=random.Random(1),
        users={TOKEN: User("system:kube-controller-manager")},
    )
    player = Player(server)
    differing: dict[str, Any] = {}
    for entry in json.loads(DATA.read_text()):
        answer = comparable(await player.play(entry))
        expected = comparable(entry)
        if answer != expected:
            differing[entry["name"]] = {"expected": expected, "actual": answer}
    assert differing == {}
