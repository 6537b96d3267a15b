"""Validation of volumes (core/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.text import table

from .claim_validation import validate_access_modes

_NOT_SOURCES: Final = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)
"""The fields of the spec that are not volume sources."""


def _capacity(capacity: JSON, field: str) -> Iterator[Cause]:
    if capacity.keys() != {"storage"}:
        yield not_supported(field, shown(sorted(capacity)), ("storage",))


def _one_source(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    sources = sorted(_source(spec))
    for name in sources[1:]:
        why = "may not specify more than 1 volume type"
        yield forbidden_field(f"{path}{name}", why)
    if not sources:
        yield required(path[:-1], "must specify a volume type")


VOLUME: Final = table(
    """
    spec:
      accessModes: access_modes default empty
      capacity: required
      capacity: capacity
      capacity{}: positive-quantity
      hook one_source
      persistentVolumeReclaimPolicy: enum Delete Recycle Retain default null
      storageClassName: subdomain
      volumeMode: enum Block Filesystem default null
      when has volumeAttributesClassName:
        volumeAttributesClassName: required "an empty string is disallowed"
        volumeAttributesClassName: subdomain
        csi: required pointer
          "has to be specified when using volumeAttributesClassName"
    """,
    validate_access_modes,
    _capacity,
    _one_source,
)


def _moves(spec: JSON, old: JSON) -> bool:
    return _source(spec) != _source(old)


def _had_affinity(_: JSON, old: JSON) -> bool:
    return bool(old.get("nodeAffinity"))


VOLUME_UPDATE: Final = table(
    """
    spec change:
      self: forbidden at persistentvolumesource if moves
        "spec.persistentvolumesource is immutable after creation"
      volumeMode: immutable
      when had_affinity:
        nodeAffinity: immutable
      self: forbidden at volumeAttributesClassName
        if outer has volumeAttributesClassName and lacks volumeAttributesClassName
        "update from non-nil value to nil is forbidden"
    """,
    _moves,
    _had_affinity,
)


def _source(spec: JSON) -> JSON:
    return {name: spec[name] for name in spec if name not in _NOT_SOURCES}
