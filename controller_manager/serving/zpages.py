"""The pages /flagz and /statusz, as text and, on request, as JSON.

Upstream: apiserver pkg/server/{flagz,statusz} of 1.36. Upstream varies the
delimiters on purpose; here they are fixed.
"""

import html
import json
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.version import VERSION

COMPONENT: Final = "kube-controller-manager"
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)
_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1beta1", "v1alpha1")


class NotAcceptable(Exception):  # noqa: N818 - an answer, not an error
    """The server can return none of the accepted media types (406)."""


def accepted_version(accept: str, kind: str) -> str | None:
    """Return the requested version of the JSON form, `None` for text.

    Raises NotAcceptable, whose message lists the available media types.
    """
    if not accept.strip():
        return None
    for clause in accept.split(","):
        media_type, *parameters = [part.strip() for part in clause.split(";")]
        if media_type in ("text/plain", "text/*", "*/*"):
            return None
        wanted = dict(part.partition("=")[::2] for part in parameters)
        if (
            media_type == "application/json"
            and wanted.get("g") == _GROUP
            and wanted.get("as") == kind
            and wanted.get("v") in _VERSIONS
        ):
            return wanted["v"]
    offered = ["text/plain"] + [
        f"application/json;v={version};g={_GROUP};as={kind}" for version in _VERSIONS
    ]
    msg = f"only the following media types are accepted: {', '.join(offered)}"
    raise NotAcceptable(msg)


def flagz_text(flags: Mapping[str, str]) -> str:
    """Return every flag and its value as text."""
    lines = [f"{name}={value}" for name, value in sorted(flags.items())]
    return "\n".join(["", f"{COMPONENT} flagz", _WARNING, "", *lines, ""])


def flagz_json(flags: Mapping[str, str], version: str) -> bytes:
    """Return every flag and its value as a Flagz object."""
    return _object("Flagz", version, {"flags": dict(sorted(flags.items()))})


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


def statusz_json(
    started: datetime, now: datetime, paths: Sequence[str], emulated: str, version: str
) -> bytes:
    """Return the start time, the versions and the paths as a Statusz object."""
    return _object(
        "Statusz",
        version,
        {
            "startTime": format_time(started),
            "uptimeSeconds": int((now - started).total_seconds()),
            "goVersion": f"python{platform.python_version()}",
            "binaryVersion": VERSION,
            "emulationVersion": emulated,
            "paths": list(paths),
        },
    )


def _object(kind: str, version: str, fields: dict[str, Any]) -> bytes:
    return json.dumps(
        {
            "kind": kind,
            "apiVersion": f"{_GROUP}/{version}",
            "metadata": {"name": COMPONENT},
            **fields,
        }
    ).encode()
