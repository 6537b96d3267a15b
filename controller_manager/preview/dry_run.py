"""Dry runs: admission on the server says whether it would take a write.

The API server honours ``dryRun=All``, also for custom resources, and refuses a dry run
that a webhook with side effects would see. A server that is registered by an APIService
may ignore it, and do the write.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import object_at
from controller_manager.client.rest.errors import is_success
from controller_manager.client.rest.transport import Request, Response, Transport
from controller_manager.clock import Clock

from .answers import Refused
from .contents import controller_uid
from .fields import JSON, change_number, server_version
from .overlay import Overlay
from .target import Target

_REGISTRATION: Final = "apiregistration.k8s.io"
"""The group of APIServices, which has none itself: the API server serves it."""

_PATH: Final = f"/apis/{_REGISTRATION}/v1/apiservices"
_KNOWN_FOR: Final = 10.0
"""Seconds for which an answer holds: a group may get another server."""


class Servers:
    """Tells which group versions the API server serves itself."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._known: dict[str, tuple[float, bool]] = {}

    async def is_local(self, target: Target) -> bool:
        """Tell whether the API server itself certainly serves the group version.

        Raises TransportError if it cannot be asked. Without an APIService that can be
        read it is not certain.
        """
        group = target.collection.group
        if group == _REGISTRATION:
            return True
        name, now = f"{target.version}.{group}", self._clock.monotonic()
        until, is_local = self._known.get(name, (now, False))
        if until <= now:
            is_local = await self._ask(name)
            self._known[name] = now + _KNOWN_FOR, is_local
        return is_local

    async def _ask(self, name: str) -> bool:
        answer = await self._inner.request(
            Request("GET", f"{_PATH}/{name}", headers={"accept": "application/json"})
        )
        if answer.status != HTTPStatus.OK:
            return False
        found = msgspec.json.decode(answer.body)
        if not isinstance(found, dict) or found.get("kind") != "APIService":
            return False
        return not object_at(found, "spec").get("service")


DRY_RUN: Final = ("dryRun", "All")
_WHOLE: Final = "application/json"
"""The form of the answer to a dry run: the whole object, which the overlay keeps."""
_NO_OPINION: Final = frozenset(
    (
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.METHOD_NOT_ALLOWED,
    )
)
"""Refusals that say more about the two managers than about the write.

A webhook with side effects refuses every dry run with 400.
"""


_OF_STORED_OBJECTS: Final = frozenset(("", "status", "scale", "approval", "finalize"))
"""Subresources that the API server serves itself: it passes others on to programs."""


class DryRun:
    """Sends writes as dry runs, if the preview is to do so.

    Only the API server itself gets dry runs, since other servers may do the write.
    """

    def __init__(self, overlay: Overlay, inner: Transport) -> None:
        self._overlay = overlay
        self._inner = inner
        self._servers = Servers(inner, overlay.clock)

    async def created(
        self, target: Target, request: Request, sent: JSON
    ) -> JSON | None:
        """Return the object that the server would create; None without its opinion.

        Raises Refused if the server refuses the object. A name that the server would
        generate is left to the overlay.
        """
        if self._has_invented_owner(sent) or self._is_created_namespace(target):
            return None
        answer = await self._send(target, request, sent)
        if answer is None:
            return None
        proposed: JSON = msgspec.json.decode(answer.body)
        return proposed if proposed.get("kind") == sent.get("kind") else None

    async def changed(
        self, target: Target, request: Request, preconditions: JSON
    ) -> None:
        """Ask for the change of an object that only the server knows.

        Raises Refused if the server refuses it. An object with writes in the overlay is
        in another state on the server, so it is not asked for.
        """
        if target.key in self._overlay.entries:
            return
        body = msgspec.json.decode(request.body) if request.body else {}
        version = str(preconditions.get("resourceVersion") or "")
        if change_number(version):
            return
        if version and isinstance(body, dict):
            metadata = {**body["metadata"], "resourceVersion": server_version(version)}
            body = {**body, "metadata": metadata}
        await self._send(target, request, body)

    async def deleted(self, target: Target, request: Request, options: JSON) -> None:
        """Ask for the deletion of an object; raises Refused if it is refused."""
        if target.key in self._overlay.entries:
            return
        preconditions = dict(options.get("preconditions") or {})
        version = str(preconditions.get("resourceVersion") or "")
        if change_number(version):
            return
        if version:
            preconditions["resourceVersion"] = server_version(version)
            options = {**options, "preconditions": preconditions}
        await self._send(target, request, {**options, "dryRun": ["All"]})

    async def _send(
        self,
        target: Target,
        request: Request,
        body: Any,  # noqa: ANN401 - JSON
    ) -> Response | None:
        """Send a request as a dry run; return its answer, None without an opinion."""
        if not self._overlay.settings.dry_run:
            return None
        if target.subresource not in _OF_STORED_OBJECTS:
            return None
        if not await self._servers.is_local(target):
            return None
        query = tuple(each for each in request.query if each[0] != "dryRun")
        asked = replace(
            request,
            query=(*query, DRY_RUN),
            headers={**request.headers, "accept": _WHOLE},
            body=msgspec.json.encode(body),
        )
        answer = await self._inner.request(asked)
        if is_success(answer.status):
            return answer
        if answer.status in _NO_OPINION:
            return None
        raise Refused(answer)

    def _has_invented_owner(self, sent: JSON) -> bool:
        """Tell whether an object of the overlay owns the new object."""
        uid = controller_uid(sent)
        return any(
            each.creation is not None and each.creation.made["metadata"]["uid"] == uid
            for each in self._overlay.entries
        )

    def _is_created_namespace(self, target: Target) -> bool:
        """Tell whether only the overlay has the namespace of the new object."""
        return any(
            each.creation is not None
            and each.kind == "Namespace"
            and each.target.name == target.namespace
            for each in self._overlay.entries
        )
