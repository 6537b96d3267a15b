"""An API server with the answers of a test."""

import asyncio
from dataclasses import dataclass, field

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Query, Request, Response, Stream


@dataclass
class Scripted:
    """Answers by path, and records the requests.

    A path without an answer gets the plain text of a real API server. A path in
    `hanging` gets no answer until the test sets its event.
    """

    answers: dict[str, Response] = field(default_factory=dict)
    asked: list[tuple[str, Query]] = field(default_factory=list)
    hanging: dict[str, asyncio.Event] = field(default_factory=dict)
    host: str = "test"

    def put(self, path: str, body: JSON, status: int = 200) -> None:
        self.answers[path] = Response(status, {}, msgspec.json.encode(body))

    def put_text(self, path: str, text: str, status: int) -> None:
        self.answers[path] = Response(status, {}, text.encode())

    async def request(self, request: Request) -> Response:
        self.asked.append((request.path, request.query))
        if (event := self.hanging.get(request.path)) is not None:
            await event.wait()
        unknown = Response(404, {}, b"404 page not found\n")
        return self.answers.get(request.path, unknown)

    async def stream(self, request: Request) -> Stream:
        raise AssertionError(request)

    async def close(self) -> None:
        raise AssertionError
