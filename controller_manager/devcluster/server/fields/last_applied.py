"""The annotation of client-side apply, for kubectl's change to server-side apply.

Upstream: apimachinery/pkg/util/managedfields/internal: lastappliedmanager.go,
lastappliedupdater.go, lastapplied.go.
"""

from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_annotations

from .checking import faults_of
from .comparison import compare, fields_of
from .field_set import EMPTY, FieldSet, difference
from .field_type import FieldType

KUBECTL: Final = "kubectl"
"""The manager whose configurations are also in the annotation."""

_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def given_up(live: JSON, api_version: str, type_: FieldType) -> FieldSet:
    """Return the fields that client-side apply has set and no manager has changed.

    The next server-side apply may take them.
    """
    text = _annotations(live).get(_ANNOTATION)
    try:
        last = msgspec.json.decode(text or "null")
    except msgspec.DecodeError:
        return EMPTY
    if not isinstance(last, dict) or last.get("apiVersion") != api_version:
        return EMPTY
    if faults_of(last, type_):
        return EMPTY
    found = compare(last, live, type_)
    fields = fields_of(last, type_)
    for each in found:
        fields = difference(fields, each)
    return fields


def with_last_applied(obj: JSON, config: JSON) -> JSON:
    """Return an object with a new configuration in its annotation, if it has one.

    The annotation is removed if the annotations would become too large.
    """
    annotations = _annotations(obj)
    if not annotations.get(_ANNOTATION):
        return obj
    applied = _without_annotation(config)
    text = msgspec.json.encode(applied, order="sorted").decode() + "\n"
    updated = {**annotations, _ANNOTATION: text}
    if validate_annotations(updated, ""):
        del updated[_ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": updated}}


def _annotations(obj: JSON) -> JSON:
    found: JSON = obj.get("metadata", {}).get("annotations") or {}
    return found


def _without_annotation(config: JSON) -> JSON:
    annotations = dict(_annotations(config))
    if annotations.pop(_ANNOTATION, None) is None:
        return config
    metadata = {**config["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**config, "metadata": metadata}
