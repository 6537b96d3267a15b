"""API servers behind services, for the group versions of their APIServices.

Upstream: kube-aggregator, its proxy handler and its availability controller. A server
runs on this machine: see `forwards`.
"""

import asyncio
import json
import ssl
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from controller_manager.api.json_objects import JSON
from controller_manager.client.identity.tls import load_certificate
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.genericapiserver import GenericAPIServer
from controller_manager.devcluster.apiserver.kind import Kind, Subresource
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.registry.core.secrets import CONFIG_MAPS
from controller_manager.serving.certificates import Pair

from . import webhook
from .inmemory import StreamingResponse
from .proxying import Address, proxied, unverified
from .registry.apiregistration import API_SERVICES, PASSED, UNREACHED, set_condition
from .scheme.statuses import Refusal
from .storage import Storage

Version = tuple[str, str]
"""A group and a version."""

FRONT_PROXY: Final = "front-proxy-client"
"""The name in the certificate with which the aggregator names users."""

_AUTHORITIES: Final = "extension-apiserver-authentication"
_PERIOD: Final = 1.0
"""Seconds between two looks at the servers behind APIServices."""

_PATIENCE: Final = 5.0
"""Seconds for which a server may take to say what it serves."""


def add_authorities(objects: Objects, authority: Pair) -> None:
    """Create the config map by which other API servers authenticate requests.

    Upstream: pkg/controlplane/controller/clusterauthenticationtrust.
    """
    certificate = authority.certificate.decode()
    data = {
        "client-ca-file": certificate,
        "requestheader-allowed-names": json.dumps([FRONT_PROXY]),
        "requestheader-client-ca-file": certificate,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    body = {"metadata": {"name": _AUTHORITIES}, "data": data}
    if objects.has(CONFIG_MAPS, "kube-system", _AUTHORITIES):
        objects.update(CONFIG_MAPS, "kube-system", _AUTHORITIES, body)
    else:
        objects.create(CONFIG_MAPS, "kube-system", body)


class Aggregator:
    """Serves the group versions of other API servers, and tells whether they answer."""

    def __init__(self, server: GenericAPIServer, certificate: Pair) -> None:
        """Take the server, and the certificate of its requests to the others."""
        self._server = server
        self._services = server.storage.collection(API_SERVICES.resource)
        self._certificate = certificate
        self._remotes: dict[Version, _RemoteServer] = {}
        self._answering: set[Version] = set()

    async def run(self) -> None:
        """Look at all APIServices again and again, until cancelled."""
        watcher = self._services.watch(self._services.version)
        try:
            while True:
                watcher.take()
                remote = [
                    each.obj
                    for each in self._services
                    if each.obj["spec"].get("service") is not None
                ]
                self._forget(remote)
                for obj in remote:
                    await self._look_at(obj)
                try:
                    async with asyncio.timeout(_PERIOD if remote else None):
                        await watcher.wait()
                except TimeoutError:
                    continue
        finally:
            watcher.close()

    def _forget(self, remote: Sequence[JSON]) -> None:
        wanted = {_version_of(each) for each in remote}
        for version in [each for each in self._remotes if each not in wanted]:
            self._end(version)
            del self._remotes[version]

    async def _look_at(self, obj: JSON) -> None:
        """Ask the server of an APIService what it serves; store the condition."""
        version, service = _version_of(obj), obj["spec"]["service"]
        known = self._server.catalogue.kinds(*version)
        if known is not None and version not in self._answering:
            return  # this server serves it, as the metrics
        remote = self._remotes.get(version)
        if remote is None or remote.spec != obj["spec"]:
            remote = _RemoteServer(self._server.storage, obj["spec"], self._certificate)
            self._remotes[version] = remote
        path = "/apis/{}/{}".format(*version)
        try:
            kinds = _kinds_in(await remote.discovered(path), version)
        except Refusal as refusal:
            self._end(version)
            where = f"https://{remote.host}:{service['port']}{path}"
            message = f"failing or missing response from {where}: {refusal.message}"
            self._tell(obj, ("False", UNREACHED, message))
            return
        if kinds != remote.kinds or version not in self._answering:
            self._end(version)
            remote.kinds = kinds
            self._answering.add(version)
            self._server.aggregate(*version, remote)
        self._tell(obj, PASSED)

    def _end(self, version: Version) -> None:
        if version in self._answering:
            self._answering.remove(version)
            self._server.end_aggregation(*version)

    def _tell(self, obj: JSON, condition: tuple[str, str, str]) -> None:
        """Store the condition of an APIService, unless it or its service is gone."""
        stored = self._services.get(("", obj["metadata"]["name"]))
        service = obj["spec"]["service"]
        key = (service["namespace"], service["name"])
        has_service = self._server.storage.collection("services").get(key) is not None
        if stored is not None and has_service:
            set_condition(self._server.objects, stored.obj, condition)


class _RemoteServer:
    """The API server behind the service of an APIService."""

    def __init__(self, storage: Storage, spec: JSON, certificate: Pair) -> None:
        self.kinds: list[Kind] = []
        self.spec = spec
        self.host = "{name}.{namespace}.svc".format(**spec["service"])
        self._storage = storage
        self._certificate = certificate
        self._context: ssl.SSLContext | None = None

    async def answer(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        """Pass a request on, with the name of its user; raises Refusal."""
        host, port = self._address()
        url = URL.build(
            scheme="https", host=host, port=port, path=request.path, query=request.query
        )
        headers = _headers_of(user)
        return await proxied(
            request, url, self._tls(), headers=headers, server_name=self.host
        )

    async def discovered(self, path: str) -> bytes:
        """Return the answer to a request for a group version; raises Refusal."""
        request = Request("GET", path, headers={"accept": "application/json"})
        user = User("system:kube-aggregator", "", ("system:masters",))
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await self.answer(request, user)
                if isinstance(answer, Response):
                    body = answer.body
                else:
                    body = b"".join([chunk async for chunk in answer.chunks()])
        except (TimeoutError, aiohttp.ClientError) as error:
            why = str(error) or "context deadline exceeded"
            raise _unavailable(why) from None
        if answer.status != 200:
            raise _unavailable(f"bad status from {path}: {answer.status}")
        return body

    def _address(self) -> Address:
        service = self.spec["service"]
        place = service["namespace"], service["name"], int(service["port"])
        try:
            return webhook.addresses_of(self._storage, *place)[0]
        except webhook.UnresolvedError as error:
            raise _unavailable(str(error)) from None

    def _tls(self) -> ssl.SSLContext:
        """Return the TLS settings; raises Refusal for a wrong ``caBundle``."""
        if self._context is None:
            if self.spec.get("insecureSkipTLSVerify"):
                context = unverified()
            elif (authority := webhook.authority_of(self.spec)) is not None:
                context = webhook.new_context(authority)
            else:
                raise _unavailable(webhook.NO_AUTHORITY)
            pair = self._certificate
            load_certificate(context, pair.certificate, pair.key)
            self._context = context
        return self._context


def _unavailable(why: str) -> Refusal:
    return Refusal(503, "ServiceUnavailable", why)


def _version_of(obj: JSON) -> Version:
    spec = obj["spec"]
    return str(spec.get("group", "")), str(spec["version"])


def _headers_of(user: User) -> list[tuple[str, str]]:
    """Return the headers that name a user (requestheader of apiserver)."""
    found = [("X-Remote-User", user.name)]
    if user.uid:
        found.append(("X-Remote-Uid", user.uid))
    found += [("X-Remote-Group", each) for each in user.groups]
    for key, values in user.extra.items():
        name = f"X-Remote-Extra-{quote(key.lower(), safe='')}"
        found += [(name, value) for value in values]
    return found


def _kinds_in(body: bytes, version: Version) -> list[Kind]:
    """Return the kinds of an APIResourceList; raises Refusal for anything else."""
    try:
        found: Any = msgspec.json.decode(body)
        resources = {each["name"]: each for each in found["resources"]}
        return [
            _kind(each, version, resources)
            for name, each in resources.items()
            if "/" not in name
        ]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise _unavailable(f"the answer is no APIResourceList: {error}") from None


def _kind(resource: JSON, version: Version, resources: dict[str, JSON]) -> Kind:
    plural = resource["name"]
    parts = tuple(
        Subresource(
            name.partition("/")[2],
            each["kind"],
            tuple(each["verbs"]),
            each.get("group", ""),
            each.get("version", ""),
        )
        for name, each in resources.items()
        if name.startswith(f"{plural}/")
    )
    return Kind(
        *version,
        resource["kind"],
        plural,
        namespaced=bool(resource["namespaced"]),
        short_names=tuple(resource.get("shortNames") or ()),
        categories=tuple(resource.get("categories") or ()),
        subresources=parts,
        verbs=tuple(resource["verbs"]),
        singular_name=resource.get("singularName", ""),
    )
