"""The pages /flagz and /statusz, as text and, on request, as objects.

Upstream: apiserver pkg/server/{flagz,statusz} of 1.36. Upstream varies the
delimiters on purpose; here they are fixed.
"""

import html
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import yaml
from aiohttp import web

from controller_manager.api.times import format_time
from controller_manager.version import COMPONENT, VERSION

from .answers import json_answer, status_answer
from .negotiation import GROUP, TEXT, NotAcceptable, accepted_form

_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)

DEPRECATED: Final = frozenset({"v1alpha1"})


def answer(
    request: web.Request,
    kind: str,
    text: Callable[[], str],
    fields: Callable[[], Mapping[str, Any]],
) -> web.Response:
    """Return the page `kind` (``Flagz``) in the form that the client accepts.

    That is `text`, or an object with `fields` in JSON or YAML. An object of a version
    that upstream has deprecated comes with a warning in its header. The answer is 406
    if the client accepts nothing that is offered.
    """
    try:
        form = accepted_form(request.headers.get("Accept", ""), kind)
    except NotAcceptable as error:
        return status_answer(request, HTTPStatus.NOT_ACCEPTABLE, str(error))
    if form.media_type == TEXT:
        return web.Response(text=text())
    body = {
        "kind": kind,
        "apiVersion": f"{GROUP}/{form.version}",
        "metadata": {"name": COMPONENT},
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


def flagz_text(flags: Mapping[str, str]) -> str:
    """Return every flag and its value as text."""
    lines = [f"{name}={value}" for name, value in sorted(flags.items())]
    return "\n".join(["", f"{COMPONENT} flagz", _WARNING, "", *lines, ""])


def flagz_fields(flags: Mapping[str, str]) -> dict[str, Any]:
    """Return every flag and its value as the fields of a Flagz object."""
    return {"flags": dict(sorted(flags.items()))}


def statusz_text(
    started: datetime, now: datetime, paths: Sequence[str], emulated: str
) -> str:
    """Return the start time, the versions and the paths of the server as text.

    `emulated` is the version of Kubernetes that is emulated.
    """
    minutes, seconds = divmod(int((now - started).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    rows = {
        "Started": f"{started:%a %b %e %H:%M:%S} UTC {started:%Y}",
        "Up": f"{hours} hr {minutes:02d} min {seconds:02d} sec",
        "Python version": platform.python_version(),
        "Binary version": VERSION,
        "Emulation version": emulated,
        "Paths": " ".join(paths),
    }
    lines = [f"{name}: {html.escape(value)}" for name, value in rows.items()]
    return "\n".join(["", f"{COMPONENT} statusz", _WARNING, "", *lines, ""])


def statusz_fields(
    started: datetime, now: datetime, paths: Sequence[str], emulated: str
) -> dict[str, Any]:
    """Return the same facts as the fields of a Statusz object."""
    return {
        "startTime": format_time(started),
        "uptimeSeconds": int((now - started).total_seconds()),
        "goVersion": f"python{platform.python_version()}",
        "binaryVersion": VERSION,
        "emulationVersion": emulated,
        "paths": list(paths),
    }
