"""Plays requests from YAML, and compares the answers.

A file of ``tests/data/devcluster/scenarios`` has scenarios by their sentences. Each has
a list of steps, or ``steps``, and besides

* ``cluster``: the arguments of its cluster, and ``users``: their groups by their names;
* ``namespaces`` that are there, the arguments of its ``nodes``, if it has any, and the
  ``controllers`` of its manager;
* ``row`` and ``rows``: it is played with each row; ``$name`` or ``${name}`` stands for
  a value of the row.

A step is a list of steps, or a request with its body, and what is expected of the
answer::

    - MERGE deployments/web/scale?dryRun=All as jane: {spec: {replicas: 3}}
      spec.replicas: 3

``NEW`` posts the minimal object of a kind with a change, ``POD p`` a pod with its spec,
its ``annotations`` and the fields of its ``container``, ``EDIT`` puts a changed object,
``STORE`` changes one in the store, without any check, and ``STORED`` reads one there;
``COMPACT`` drops the history of a resource; ``WATCH`` reads a watch to its end; ``WAIT
5`` lets seconds pass. A path is ``/whole``, or
``namespace:resource.version.group/name/subresource``. A body that is a text is sent as
it is. ``accept``, ``type``, ``agent`` and ``has`` are headers of the request: what is
accepted, the type of the body, the client, and the tag of a document that it has.
Expected are a code below 300, or ``code``; ``says``, a message, "" for none;
``causes``; ``warns``; the ``names`` and the ``rows`` of a list; the ``events`` of a
watch; ``managers`` with their fields; the ``rest``, all but the metadata; ``text``, the
body; ``header X``; ``condition X``, as status, reason and message; ``told p``, the
events of a pod; ``unwritten``, whether nothing was stored; else the value at a path,
null for none, which may begin at the first ``container`` or ``init`` container of a
status. ``keep`` names values for later steps.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.scheme.patches import merge_patch
from controller_manager.options.gates import FeatureGates
from tests.clusters import TOKEN, Cluster, make_config
from tests.devcluster.registry.minimal import minimal
from tests.devcluster.requests import call

DIRECTORY: Final = Path(__file__).parents[1] / "data" / "devcluster" / "scenarios"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
TYPES: Final = {
    "MERGE": "application/merge-patch+json",
    "STRATEGIC": "application/strategic-merge-patch+json",
    "JSONPATCH": "application/json-patch+json",
    "APPLY": "application/apply-patch+yaml",
}

HEADERS: Final = {
    "accept": "accept",
    "agent": "user_agent",
    "has": "if_none_match",
    "type": "content_type",
}


def scenarios(directory: str) -> list[Any]:
    """Return the scenarios of a directory, each with each of its rows."""
    found = []
    for file in sorted((DIRECTORY / directory).glob("*.yaml")):
        for title, given in yaml.load(file.read_text(), yaml.CSafeLoader).items():
            case = {"steps": given} if isinstance(given, list) else given
            for number, row in enumerate(case.get("rows", [[]])):
                values = dict(zip(case.get("row", ()), row, strict=True))
                name = f"{file.stem}: {title}" + (f" {number}" if values else "")
                found.append(pytest.param(case, values, id=name))
    return found


async def play(cluster: Cluster, case: JSON, values: JSON) -> None:
    """Play a scenario, on a cluster of its own if it asks for one."""
    if given := dict(case.get("cluster", {})):
        if gates := given.pop("features", None):
            given["features"] = FeatureGates(dict.fromkeys(gates, True))
        cluster = Cluster(**given)
    for name, groups in case.get("users", {}).items():
        user = User(name, groups=(*groups, "system:authenticated"))
        cluster.server.tokens.add(name, user)
    player = _Player(cluster, dict(values))
    for name in case.get("namespaces", ()):
        cluster.add_namespace(name)
    async with AsyncExitStack() as stack:
        if "nodes" in case:
            await stack.enter_async_context(cluster.nodes(**case["nodes"]))
        if "controllers" in case:
            config = make_config(controllers=tuple(case["controllers"]))
            await stack.enter_async_context(cluster.manager(config))
        for step in _flat(case["steps"]):
            await player.play(step)


def _flat(steps: list[Any]) -> Iterator[JSON]:
    for each in steps:
        if isinstance(each, list):
            yield from _flat(each)
        else:
            yield each


class _Player:
    def __init__(self, cluster: Cluster, values: JSON) -> None:
        self._cluster = cluster
        self._values = values

    async def play(self, given: JSON) -> None:
        """Send the request of a step, and compare the answer."""
        (line, body), *rest = _filled(given, self._values).items()
        expected = dict(rest)
        expected |= expected.pop("then", {})
        verb, _, target = line.partition(" ")
        if verb == "WAIT":
            await asyncio.sleep(float(target))
            return
        target, _, user = target.partition(" as ")
        if verb == "STORE":
            self._store(target, body)
            return
        if verb == "COMPACT":
            self._cluster.server.storage.collection(target).compact()
            return
        if verb == "POD":
            verb, target, body = "POST", "pods", _pod(target, body or {})
        before = self._cluster.server.storage.version
        headers = {"accept": TABLE} if "rows" in expected else {}
        for key in HEADERS.keys() & expected.keys():
            headers[HEADERS[key]] = expected.pop(key)
        answer = await self._send(verb, target, body, user or TOKEN, headers)
        found = json.loads(answer.body) if answer.body[:1] == b"{" else {}
        for name, path in expected.pop("keep", {}).items():
            self._values[name] = _value(found, path)
        is_refused = expected.get("says") or expected.get("causes")
        code = expected.pop("code", None)
        if code:
            assert answer.status == code, found
        else:
            assert (answer.status >= 300) == bool(is_refused), found
        if "unwritten" in expected:
            is_unwritten = self._cluster.server.storage.version == before
            assert is_unwritten is expected.pop("unwritten")
        shown = {name: _shown(name, answer, found) for name in expected}
        assert (line, shown) == (line, expected)

    async def _send(
        self, verb: str, target: str, body: Any, token: str, headers: dict[str, str]
    ) -> Response:
        if verb == "STORED":
            kind, key = self._stored(target)
            stored = self._cluster.server.storage.collection(kind.resource).get(key)
            return Response(200, {}, json.dumps(stored and stored.obj).encode())
        path, _, query = target.partition("?")
        if verb in TYPES:
            headers["content_type"] = TYPES[verb]
        if not path.startswith("/"):
            path, kind = self._path(path)
            if verb == "NEW":
                body = merge_patch(minimal(kind), body or {})
            if verb == "APPLY":
                body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        if verb == "EDIT":
            current = await self._send("GET", path, None, token, {})
            body = merge_patch(json.loads(current.body), body)
        if verb == "WATCH":
            return await self._watched(path, query, token, headers)
        method = {"NEW": "POST", "EDIT": "PUT", **dict.fromkeys(TYPES, "PATCH")}
        return await call(
            self._cluster,
            method.get(verb, verb),
            f"{path}?{query}" if query else path,
            _content(body),
            authorization=f"Bearer {token}",
            **headers,
        )

    async def _watched(
        self, path: str, query: str, token: str, headers: dict[str, str]
    ) -> Response:
        """Return all events of a watch as one object, or the refusal."""
        given = dict(each.partition("=")[::2] for each in query.split("&"))
        pairs = tuple({"watch": "1", **given}.items())
        sent = {"authorization": f"Bearer {token}", **headers}
        answer = await self._cluster.server.handle(Request("GET", path, pairs, sent))
        if isinstance(answer, Response):
            return answer
        lines = [line async for each in answer.chunks() for line in each.splitlines()]
        await answer.close()
        body = {"kind": "Watch", "items": list(map(json.loads, lines))}
        return Response(answer.status, answer.headers, json.dumps(body).encode())

    def _path(self, text: str) -> tuple[str, Kind]:
        namespace, _, rest = text.rpartition(":")
        resource, *names = rest.split("/")
        kind = _kind(self._cluster, resource)
        root = f"/apis/{kind.group}" if kind.group else "/api"
        scope = f"/namespaces/{namespace or 'default'}" if kind.namespaced else ""
        path = "/".join((f"{root}/{kind.version}{scope}", kind.plural, *names))
        return path, kind

    def _stored(self, target: str) -> tuple[Kind, tuple[str, str]]:
        """Return the kind and the key of an object in the store."""
        namespace, _, rest = target.rpartition(":")
        resource, name = rest.split("/")
        kind = _kind(self._cluster, resource)
        return kind, (namespace or "default" if kind.namespaced else "", name)

    def _store(self, target: str, change: JSON) -> None:
        kind, key = self._stored(target)
        stored = self._cluster.server.storage.collection(kind.resource)
        old = stored.get(key)
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        new = {**head, "metadata": {"name": key[1]}}
        stored.put(key, merge_patch(old.obj if old else new, change))


def _content(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return b"" if body is None else json.dumps(body).encode()


def _pod(name: str, given: JSON) -> JSON:
    spec = {"containers": [{"name": "c", "image": "i", **given.pop("container", {})}]}
    metadata = {"name": name, "annotations": given.pop("annotations", {})}
    return {"metadata": metadata, "spec": {**spec, **given}}


def _kind(cluster: Cluster, text: str) -> Kind:
    """Return the kind of a plural name, which may have a version and a group."""
    plural, *rest = text.split(".", 2)
    version, group = (*rest, None, None)[:2]
    if version and not re.fullmatch(r"v\d+\w*", version):
        version, group = None, ".".join(rest)
    found = [
        each
        for each in cluster.server.catalogue.all()
        if each.plural == plural
        and version in (None, each.version)
        and group in (None, each.group)
    ]
    assert found, text
    return found[0]


def _filled(value: Any, values: JSON) -> Any:
    """Return a value in which each ``$name`` stands for its value."""
    if isinstance(value, dict):
        pairs = ((_filled(k, values), _filled(v, values)) for k, v in value.items())
        return dict(pairs)
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    if value[0] == "$" and value[1:] in values:
        found = values[value[1:]]
        return found if found == value else _filled(found, values)
    text = _NAME.sub(lambda each: str(values.get(each[1] or each[2], each[0])), value)
    return text if text == value else _filled(text, values)


_NAME: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


_SHORT: Final = {
    "container": ("status", "containerStatuses", "0"),
    "init": ("status", "initContainerStatuses", "0"),
}


@cache
def _steps_of(path: str) -> tuple[str, ...]:
    first, *steps = re.findall(r"[^.\[\]]+", path) or [""]
    return (*_SHORT.get(first, (first,) if first else ()), *steps)


def _value(obj: Any, path: str) -> Any:
    for step in _steps_of(path):
        if isinstance(obj, list):
            obj = obj[int(step)] if int(step) < len(obj) else None
        else:
            obj = (obj or {}).get(step)
    return obj


def _shown(name: str, answer: Response, found: Any) -> Any:
    """Return what an answer has for an expectation."""
    match name:
        case "says":
            return found.get("message", "") if answer.status >= 300 else ""
        case "causes":
            listed = found.get("details", {}).get("causes", [])
            texts = [f"{each['field']}: {each['message']}" for each in listed]
            return [re.sub(r"Invalid value: \{.+\}: ", "", text) for text in texts]
        case "warns":
            return warnings(answer)
        case "names":
            return [each["metadata"]["name"] for each in found["items"]]
        case "events":
            return [_event(each["type"], each["object"]) for each in found["items"]]
        case "managers":
            return {
                f"{each['manager']} {each['operation']}": each["fieldsV1"]
                for each in found["metadata"].get("managedFields", ())
            }
        case "rest":
            return {key: each for key, each in found.items() if key != "metadata"}
        case "text":
            return answer.body.decode()
        case "rows":
            return [each["cells"] for each in found["rows"]]
    word, _, of = name.partition(" ")
    if word == "header":
        return answer.headers.get(of)
    if word == "condition":
        conditions = found["status"]["conditions"]
        condition: JSON = next((each for each in conditions if each["type"] == of), {})
        parts = (condition.get(part, "") for part in ("status", "reason", "message"))
        return " ".join(filter(None, parts))
    if word == "told":
        return [_told(each) for each in found["items"] if _is_about(each, of)]
    return _value(found, name)


def _event(type_: str, obj: JSON) -> str:
    """Return an event of a watch: with a name, a code, or the version of a bookmark."""
    metadata = obj["metadata"]
    if type_ == "BOOKMARK":
        is_first = "annotations" in metadata
        return f"BOOKMARK {'of the start' if is_first else metadata['resourceVersion']}"
    return f"{type_} {obj['code'] if type_ == 'ERROR' else metadata['name']}"


def _is_about(event: JSON, name: str) -> bool:
    return bool(event["involvedObject"]["name"] == name)


def _told(event: JSON) -> str:
    """Return an event as kubectl describe shows it."""
    reporter = event["source"].get("component") or event["reportingComponent"]
    place = event["involvedObject"].get("fieldPath", "-")
    words = (event["type"], event["reason"], reporter, place, event["message"])
    count = event.get("count", 1)
    return " ".join(words) + (f" (x{count})" if count > 1 else "")


def warnings(answer: Response) -> list[str]:
    """Return the texts of the Warning headers of an answer."""
    header = next((v for k, v in answer.headers.items() if k.lower() == "warning"), "")
    texts = re.findall(r'299 - "((?:[^"\\]|\\.)*)"', header)
    return [text.replace('\\"', '"') for text in texts]
