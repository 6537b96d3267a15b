"""The header Accept: the encoding and the form of an answer.

Upstream: apiserver's endpoints/handlers/negotiation, and goautoneg.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from controller_manager.devcluster.scheme.protobuf import MEDIA_TYPE
from controller_manager.devcluster.scheme.statuses import not_acceptable

JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"
PROTOBUF_TYPE: Final = MEDIA_TYPE
_SERVED: Final = (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE)
_SERVED_CUSTOM: Final = (JSON_TYPE, YAML_TYPE)
_META_VERSIONS: Final = ("v1", "v1beta1")


class Form(Enum):
    """The form of the objects in an answer."""

    FULL = "the objects themselves"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"
    TABLE = "Table"


_FORMS: Final = {form.value: form for form in Form if form is not Form.FULL}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The media type of an answer, and the form of its objects."""

    media_type: str = JSON_TYPE
    form: Form = Form.FULL


_ANYTHING: Final = Accepted()
_KNOWN: dict[str, Accepted] = {
    "": _ANYTHING,
    "*/*": _ANYTHING,
    JSON_TYPE: _ANYTHING,
    f"{JSON_TYPE}, */*": _ANYTHING,
    "*/*, application/json": _ANYTHING,
}
"""The headers that most clients send, which need no parsing."""


@dataclass(frozen=True, slots=True)
class _Clause:
    """One part of an Accept header."""

    media_range: str
    parameters: dict[str, str]
    quality: float


def accepted(
    accept: str, *, has_tables: bool = True, has_protobuf: bool = True
) -> Accepted:
    """Return the first answer that an Accept header asks for and the server has.

    Clauses with a higher quality ``q`` go first. `has_tables` tells whether the objects
    can be shown as a table, `has_protobuf` whether they can be sent as protobuf: custom
    resources cannot, and neither can tables. Raises Refusal 406 if the header accepts
    no answer of the server.
    """
    if known := _KNOWN.get(accept):
        return known
    served = _SERVED if has_protobuf else _SERVED_CUSTOM
    for clause in _clauses(accept):
        for media_type in _SERVED:
            if not _is_in_range(media_type, clause.media_range):
                continue
            form = _form(clause.parameters)
            if form is None or (form is Form.TABLE and not has_tables):
                continue
            if media_type == PROTOBUF_TYPE and (
                form is Form.TABLE or (form is Form.FULL and not has_protobuf)
            ):
                continue
            return Accepted(media_type, form)
    message = f"only the following media types are accepted: {', '.join(served)}"
    raise not_acceptable(message)


def wanted_form(accept: str, *, has_protobuf: bool = True) -> Form:
    """Return the form that an Accept header asks for; raises Refusal 406."""
    return accepted(accept, has_protobuf=has_protobuf).form


def accepted_as(accept: str, group: str, version: str, kind: str) -> str:
    """Return the media type in which a header asks for this kind, if it does so first.

    The text is empty for a header that asks for another form before.
    """
    wanted = {"g": group, "v": version, "as": kind}
    for clause in _clauses(accept) if "as=" in accept else ():
        for media_type in _SERVED:
            if not _is_in_range(media_type, clause.media_range):
                continue
            given = {name: clause.parameters.get(name) for name in wanted}
            if given == wanted:
                return media_type
            if not any(given.values()):
                return ""
    return ""


def _clauses(accept: str) -> Iterator[_Clause]:
    """Return the parts of a header, the preferred ones first."""
    found = []
    for text in accept.split(","):
        media_range, *rest = (part.strip() for part in text.split(";"))
        pairs = (part.partition("=") for part in rest if part)
        parameters = {name.strip(): value.strip() for name, _, value in pairs}
        quality = _quality(parameters.pop("q", ""))
        found.append(_Clause(media_range.lower(), parameters, quality))
    yield from sorted(found, key=lambda clause: -clause.quality)


def _quality(text: str) -> float:
    """Return the value of a parameter ``q``; a text that is no number counts as 1."""
    try:
        return float(text)
    except ValueError:
        return 1.0


def _is_in_range(media_type: str, media_range: str) -> bool:
    return media_range in (media_type, "application/*", "*/*")


def _form(parameters: dict[str, str]) -> Form | None:
    """Return the form in the parameters of a clause, `None` for unknown forms."""
    if parameters.get("stream", "watch") not in ("", "watch"):
        return None
    if not parameters.keys() & {"as", "g", "v"}:
        return Form.FULL
    group, version = parameters.get("g"), parameters.get("v")
    if group != "meta.k8s.io" or version not in _META_VERSIONS:
        return None
    return _FORMS.get(parameters.get("as", ""))
