"""Requests to a cluster, by nothing but the standard library."""

import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def reason(self) -> tuple[int, str]:
        return self.status, self.body["reason"]


class Caller:
    """Sends requests as the administrator of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        about = config["clusters"][0]["cluster"]
        authority = base64.b64decode(about["certificate-authority-data"]).decode()
        self._host = about["server"].removeprefix("https://")
        self.context = ssl.create_default_context(cadata=authority)
        self._token = config["users"][0]["user"]["token"]

    def connection(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._host, context=self.context, timeout=timeout
        )

    def headers(self, agent: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "User-Agent": agent,
        }

    def send(
        self, method: str, path: str, body: Any = None, agent: str = "tests"
    ) -> Answer:
        connection = self.connection(10)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, self.headers(agent))
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            text = answer.read()
            plain = headers.get("content-type", "").startswith("text/plain")
            return Answer(
                answer.status, headers, text.decode() if plain else json.loads(text)
            )
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def add(self, kind: str, path: str, name: str, **parts: Any) -> Answer:
        version = path.split("/")[2] if path.startswith("/api/") else "apps/v1"
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        return self.send("POST", path, {**body, **parts})

    def names(self, path: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.get(path).body["items"]]

    @contextmanager
    def watch(self, path: str) -> Iterator["Events"]:
        """Open a watch; yields its events."""
        connection = self.connection(30)
        try:
            mark = "&" if "?" in path else "?"
            connection.request(
                "GET", f"{path}{mark}watch=true", headers=self.headers("tests")
            )
            answer = connection.getresponse()
            assert answer.status == 200
            yield Events(connection, answer)
        finally:
            connection.close()


class Events:
    """The events of a watch; raises IncompleteRead if the connection is cut.

    HTTPResponse.readline() does not tell that from the end.
    """

    def __init__(
        self, connection: http.client.HTTPSConnection, answer: http.client.HTTPResponse
    ) -> None:
        self._socket = connection.sock
        self._answer = answer
        self._rest = b""
        self._lines: list[bytes] = []

    def wait_at_most(self, seconds: float) -> None:
        """Raise TimeoutError if no event comes in that time, from now on."""
        self._socket.settimeout(seconds)

    def __iter__(self) -> "Events":
        return self

    def __next__(self) -> Any:
        while not self._lines:
            piece = self._answer.read1()
            if not piece:
                assert not self._rest
                raise StopIteration
            *self._lines, self._rest = (self._rest + piece).split(b"\n")
        return json.loads(self._lines.pop(0))
