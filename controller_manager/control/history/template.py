"""The data of a revision: a patch that replaces the template of its owner.

Upstream: getPatch of stateful_set_utils.go and of daemon/update.go.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

from controller_manager.api.apps.v1 import ControllerRevision
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import APIStruct

_ESCAPES: Final = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
"""What Go's encoder writes in another way; outside of strings none of it occurs."""


class _Spec(APIStruct, frozen=True):
    template: PodTemplateSpec = PodTemplateSpec()


class _Patch(APIStruct, frozen=True):
    spec: _Spec = _Spec()


def template_data(template: PodTemplateSpec) -> Raw:
    """Return the data of the revision that records a template.

    The bytes are those that upstream writes for the same template, so each manager
    recognises the revisions of the other.
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

    Raises msgspec.DecodeError if its data is no such patch.
    """
    return msgspec.json.decode(revision.data, type=_Patch).spec.template


def find_equal(
    revisions: Iterable[ControllerRevision], data: Raw
) -> ControllerRevision | None:
    """Return the last of the revisions that holds this data, `None` for none.

    The order of fields does not matter, nor does a field that is null: older API
    servers write ``creationTimestamp: null`` into templates.
    """
    canonical: Any = None
    for revision in reversed(list(revisions)):
        if revision.data == data:
            return revision
        if canonical is None:
            canonical = _without_null(msgspec.json.decode(data))
        if _without_null(msgspec.json.decode(revision.data)) == canonical:
            return revision
    return None


def _without_null(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return {
            key: _without_null(inner)
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [_without_null(inner) for inner in value]
    return value
