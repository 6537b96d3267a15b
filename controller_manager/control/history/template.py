"""The data of a revision: a patch that replaces the template of its owner.

Upstream: getPatch of stateful_set_utils.go and of daemon/update.go.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

from controller_manager.api.apps.v1 import ControllerRevision
from controller_manager.api.core.equality import canonical_template, without_empty
from controller_manager.api.core.pod_defaults import default_pod_spec
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.json_objects import JSON, object_at
from controller_manager.api.meta import APIStruct

_ESCAPES: Final = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
"""Characters that Go's encoder escapes; they occur only inside of strings."""

_LARGE: Final = re.compile(rb"\d{16}")
_EXACT: Final = 2**53
"""The largest number below which a floating-point number is exact."""


class _Spec(APIStruct, frozen=True):
    template: PodTemplateSpec = PodTemplateSpec()


class _Patch(APIStruct, frozen=True):
    spec: _Spec = _Spec()


def template_data(template: PodTemplateSpec) -> Raw:
    """Return the data of the revision that records a template.

    Upstream writes the same bytes for the same template, so each manager recognises the
    revisions of the other.
    """
    content: dict[str, Any] = {
        "$patch": "replace",
        "metadata": msgspec.to_builtins(template.metadata),
        "spec": msgspec.json.decode(template.spec),
    }
    encoded = msgspec.json.encode({"spec": {"template": content}}, order="sorted")
    for character, escape in _ESCAPES:
        encoded = encoded.replace(character, escape)
    return Raw(encoded)


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """Return the template that a revision records.

    Raises msgspec.DecodeError if the data of the revision is no such patch.
    """
    return msgspec.json.decode(revision.data, type=_Patch).spec.template


def find_equal(
    revisions: Iterable[ControllerRevision], data: Raw
) -> ControllerRevision | None:
    """Return the last of the revisions that holds this data, `None` for none.

    The order of fields does not matter. Fields that are null or empty are ignored:
    older API servers write ``creationTimestamp: null`` into templates. Quantities are
    compared by their amounts. Upstream compares the bytes, so there another format of a
    quantity makes another revision. Numbers above 2^53 are rounded before the
    comparison, as upstream writes them.
    """
    canonical: Any = None
    for revision in reversed(list(revisions)):
        if revision.data == data:
            return revision
        if canonical is None:
            canonical = canonical_data(data)
        if canonical_data(revision.data) == canonical:
            return revision
    return None


def is_equal_with_defaults(one: Raw, other: Raw) -> bool:
    """Tell whether the templates of two revisions differ only by defaults.

    One of them may lack fields that the API server fills in, because an older API
    server has stored it. Returns False for data that is no patch of a template.
    Upstream: setMatchesLatestExistingRevision of stateful_set_control.go.
    """
    first, second = (template_within(_decoded(each)) for each in (one, other))
    if first is None or second is None:
        return False
    return _with_defaults(first) == _with_defaults(second)


def _with_defaults(template: JSON) -> JSON:
    filled: JSON = without_empty(template)
    default_pod_spec(object_at(filled, "spec"))
    return canonical_template(filled)


def canonical_data(data: Raw) -> Any:  # noqa: ANN401 - any JSON value
    """Return the data of a revision in the form that all equal data share.

    Data that is no patch of a template is returned without its empty fields.
    """
    decoded = _decoded(data)
    template = template_within(decoded)
    if template is None:
        return without_empty(decoded)
    return {"spec": {"template": canonical_template(template)}}


def _decoded(data: Raw) -> Any:  # noqa: ANN401 - any JSON value
    """Return decoded data, with large numbers rounded as Go rounds them."""
    if _LARGE.search(data) is None:
        return msgspec.json.decode(data)
    return json.loads(bytes(data), parse_int=_as_go_reads)


def _as_go_reads(text: str) -> int | float:
    rounded = float(text)  # int refuses very long texts
    return int(text) if abs(rounded) <= _EXACT else rounded


def template_within(decoded: Any) -> JSON | None:  # noqa: ANN401 - any JSON
    """Return the template in the decoded data of a revision, `None` for other data."""
    match decoded:
        case {"spec": {"template": dict() as template, **others}, **more}:
            return None if others or more else template
    return None
