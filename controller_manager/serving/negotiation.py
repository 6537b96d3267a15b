"""Chooses the form of an answer that a client accepts.

/flagz and /statusz are text or an object. Upstream: apiserver
pkg/endpoints/handlers/negotiation and pkg/server/{flagz,statusz}/negotiate of 1.36.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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
