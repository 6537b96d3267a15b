"""Checks that the API server answers, and that this build supports its version."""

import re
from http import HTTPStatus
from typing import Any, Final

import msgspec

from controller_manager.client.rest.client import Client
from controller_manager.version import KUBERNETES_VERSION

from .examination import Examination
from .finding import Finding, error, ok, warning

_OLDEST: Final = 33
"""The oldest minor version of an API server with which this build was seen to work."""

_THIS: Final = int(KUBERNETES_VERSION.split(".")[1])
_MINOR: Final = re.compile(r"v?1\.(\d+)")


async def check_server(examined: Examination) -> list[Finding]:
    """Check that the API server is healthy, and that it knows this identity."""
    answer = await examined.client.raw("GET", "/healthz")
    where = f"the API server at {examined.host}"
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        mend = "check the credentials, and the role system:public-info-viewer"
        return [error(f"{where} answered {answer.status} to /healthz", mend)]
    if answer.status != HTTPStatus.OK:
        return [error(f"{where} answered {answer.status} to /healthz")]
    return [ok(f"{where} is healthy")]


async def server_minor(client: Client) -> tuple[str, int | None]:
    """Return the version of the API server, and its minor version if it has one.

    Raises TransportError if there is no answer.
    """
    answer = await client.raw("GET", "/version")
    try:
        document: Any = msgspec.json.decode(answer.body)
        version = str(document["gitVersion"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"unknown, /version was answered with {answer.status}", None
    found = _MINOR.match(version)
    return version, int(found[1]) if found else None


async def check_version(examined: Examination) -> list[Finding]:
    """Check that the API server is not too old, and not too new for this build.

    Upstream's policy: a controller manager must not be newer than the API server, and
    at most one minor version older. This build was seen to work with older ones.
    """
    version, minor = await server_minor(examined.client)
    here = f"this build has {KUBERNETES_VERSION}"
    if minor is None:
        return [warning(f"the version of the API server is {version}")]
    if minor < _OLDEST:
        mend = f"upgrade the API server to 1.{_OLDEST} or later"
        return [error(f"the API server has {version}, {here}: it is too old", mend)]
    if minor > _THIS + 1:
        mend = "use a build that is at most one minor version older"
        return [error(f"the API server has {version}, {here}: it is too new", mend)]
    if minor > _THIS:
        return [warning(f"the API server has {version}, {here}: not tested")]
    emulated = int(examined.config.emulated_version.split(".")[1])
    if emulated > minor:
        return [
            warning(
                f"the API server has {version}, {here}: feature gates have defaults "
                "that the API server does not know",
                f"give --emulated-version=1.{minor}",
            )
        ]
    return [ok(f"the API server has {version}, {here}")]
