"""The pages /flagz and /statusz, as text and, if the client accepts them, as objects.

Upstream: apiserver pkg/endpoints/handlers/negotiation and pkg/server/{flagz,statusz} of
1.36. Upstream varies the delimiters of text on purpose; here they are fixed.
"""

import html
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import yaml
from aiohttp import web

from controller_manager.api.scalars import format_time

from .answers import json_answer, status_answer

GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
TEXT: Final = "text/plain"
_STRUCTURED: Final = ("application/json", "application/yaml")
_OFFERED: Final = (*_STRUCTURED, TEXT)
"""In the order in which upstream compares them with a clause."""


class NotAcceptable(Exception):
    """The server can return none of the accepted media types (406)."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: its media type, and the version of an object."""

    media_type: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class _Clause:
    media_type: str
    parameters: Mapping[str, str]

    def covers(self, media_type: str) -> bool:
        wanted = {media_type, f"{media_type.partition('/')[0]}/*", "*/*"}
        return self.media_type in wanted

    def rank(self) -> tuple[float, bool, bool]:
        """Return the key that sorts clauses: quality first, wildcards last."""
        try:
            quality = float(self.parameters.get("q", "1"))
        except ValueError:
            quality = 1.0
        kind, _, subtype = self.media_type.partition("/")
        return -quality, kind == "*", subtype == "*"


def accepted_form(accept: str, kind: str) -> Form:
    """Return the form of `kind` (``Flagz``) that an Accept header asks for.

    Without the header it is text. An object is returned only if ``g``, ``v`` and ``as``
    name it. Raises NotAcceptable, whose message lists the offered forms.
    """
    if not accept.strip():
        return Form(TEXT)
    for clause in sorted(_clauses(accept), key=_Clause.rank):
        for offered in _OFFERED:
            form = _form(clause, offered, kind) if clause.covers(offered) else None
            if form is not None:
                return form
    listed = [
        f"{media_type};v={version};g={GROUP};as={kind}"
        for media_type in _STRUCTURED
        for version in VERSIONS
    ]
    msg = f"only the following media types are accepted: {', '.join([TEXT, *listed])}"
    raise NotAcceptable(msg)


def preferred(accept: str, versions: Mapping[str, str]) -> str:
    """Return the media type that an Accept header ranks highest, else the first one.

    `versions` has the offered media types, and the version that is offered of each.
    """
    for clause in sorted(_clauses(accept), key=_Clause.rank):
        for media_type, version in versions.items():
            wanted = clause.parameters.get("version", version)
            if clause.covers(media_type) and wanted == version:
                return media_type
    return next(iter(versions))


def _clauses(accept: str) -> Iterator[_Clause]:
    for text in accept.split(","):
        media_type, *parameters = [part.strip() for part in text.split(";")]
        pairs = (each.partition("=") for each in parameters)
        yield _Clause(
            media_type.lower(),
            {name.strip(): value.strip() for name, _, value in pairs},
        )


def _form(clause: _Clause, media_type: str, kind: str) -> Form | None:
    """Return the form that a clause asks for in a media type, `None` for none."""
    given = {
        name: clause.parameters[name]
        for name in ("g", "v", "as")
        if name in clause.parameters
    }
    if media_type == TEXT:
        return None if given else Form(TEXT)
    version = given.get("v", "")
    if version in VERSIONS and given == {"g": GROUP, "v": version, "as": kind}:
        return Form(media_type, version)
    return None


_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)

DEPRECATED: Final = frozenset({"v1alpha1"})


def answer(
    request: web.Request,
    component: str,
    kind: str,
    lines: Callable[[], Sequence[str]],
    fields: Callable[[], Mapping[str, Any]],
) -> web.Response:
    """Return the page `kind` (``Flagz``) in the form that the client accepts.

    That is text with `lines`, or an object with `fields` in JSON or YAML; both name the
    component. An object of a version that upstream has deprecated comes with a warning
    in its header. The answer is 406 if the client accepts nothing that is offered.
    """
    try:
        form = accepted_form(request.headers.get("Accept", ""), kind)
    except NotAcceptable as error:
        return status_answer(request, HTTPStatus.NOT_ACCEPTABLE, str(error))
    if form.media_type == TEXT:
        head = ("", f"{component} {kind.lower()}", _WARNING, "")
        return web.Response(text="\n".join([*head, *lines(), ""]))
    body = {
        "kind": kind,
        "apiVersion": f"{GROUP}/{form.version}",
        "metadata": {"name": component},
        **fields(),
    }
    if form.media_type == "application/yaml":
        shown = yaml.safe_dump(body).encode()
        encoded = web.Response(body=shown, content_type=form.media_type)
    else:
        encoded = json_answer(request, body)
    if form.version in DEPRECATED:
        encoded.headers["Warning"] = (
            f'299 - "This version of the {kind.lower()} endpoint is deprecated. Please '
            'use a newer version."'
        )
    return encoded


def flagz_lines(flags: Mapping[str, str]) -> list[str]:
    """Return every flag and its value as lines."""
    return [f"{name}={value}" for name, value in sorted(flags.items())]


def flagz_fields(flags: Mapping[str, str]) -> dict[str, Any]:
    """Return every flag and its value as the fields of a Flagz object."""
    return {"flags": dict(sorted(flags.items()))}


def statusz_lines(
    started: datetime, now: datetime, paths: Sequence[str], emulated: str, version: str
) -> list[str]:
    """Return the start time, the versions and the paths of the server as lines.

    `emulated` is the version of Kubernetes that is emulated, `version` that of the
    program.
    """
    minutes, seconds = divmod(int((now - started).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    rows = {
        "Started": f"{started:%a %b %e %H:%M:%S} UTC {started:%Y}",
        "Up": f"{hours} hr {minutes:02d} min {seconds:02d} sec",
        "Python version": platform.python_version(),
        "Binary version": version,
        "Emulation version": emulated,
        "Paths": " ".join(paths),
    }
    return [f"{name}: {html.escape(value)}" for name, value in rows.items()]


def statusz_fields(
    started: datetime, now: datetime, paths: Sequence[str], emulated: str, version: str
) -> dict[str, Any]:
    """Return the same facts as the fields of a Statusz object."""
    return {
        "startTime": format_time(started),
        "uptimeSeconds": int((now - started).total_seconds()),
        "goVersion": f"python{platform.python_version()}",
        "binaryVersion": version,
        "emulationVersion": emulated,
        "paths": list(paths),
    }
