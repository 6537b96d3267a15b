"""Validation of the volumes of pods (ValidateVolumes of pkg/apis/core/validation)."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

from .container_validation import validate_descending_path

_MOST_MODE: Final = 0o777
_MODE_TEXT: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_NO_STEPS_BACK: Final = "must not contain '..'"
_HOST_PATH_TYPES: Final = (
    *("BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File"),
    *("FileOrCreate", "Socket", ""),
)
_REQUIRED: Final = {
    "configMap": ("name",),
    "csi": ("driver",),
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
}
"""The fields of a source that must not be empty."""


def validate_volumes(volumes: Sequence[JSON], field: str) -> Iterator[Cause]:
    """Yield the errors in the volumes of a pod."""
    names = set()
    for number, volume in enumerate(volumes):
        where = f"{field}[{number}]"
        yield from _validate_source(volume, where)
        if name := volume.get("name"):
            yield from validate_label(name, f"{where}.name")
            if name in names:
                yield duplicate(f"{where}.name", shown(name))
            names.add(name)
        else:
            yield required(f"{where}.name")


def _validate_source(volume: JSON, field: str) -> Iterator[Cause]:
    """Check that a volume has one source, and the fields of the source."""
    sources = [name for name in volume if name != "name"]
    for name in sources[1:]:
        why = "may not specify more than 1 volume type"
        yield forbidden_field(f"{field}.{name}", why)
    if not sources:
        yield required(field, "must specify a volume type")
        return
    name, source, where = sources[0], volume[sources[0]], f"{field}.{sources[0]}"
    for each in _REQUIRED.get(name, ()):
        if not source.get(each):
            yield required(f"{where}.{each}")
    if name == "hostPath":
        yield from _validate_host_path(source, where)
    if name == "nfs" and not source.get("path", "/").startswith("/"):
        value = shown(source["path"])
        yield invalid(f"{where}.path", value, "must be an absolute path")
    if name in ("configMap", "downwardAPI", "projected", "secret"):
        yield from _validate_files(source, where)


def _validate_host_path(source: JSON, field: str) -> Iterator[Cause]:
    path, kind = source.get("path", ""), source.get("type", "")
    if ".." in path.split("/"):
        yield invalid(f"{field}.path", shown(path), _NO_STEPS_BACK)
    if kind not in _HOST_PATH_TYPES:
        supported = sorted(_HOST_PATH_TYPES)
        yield not_supported(f"{field}.type", shown(kind), supported)


def _validate_files(source: JSON, field: str) -> Iterator[Cause]:
    mode = source.get("defaultMode", 0)
    if not 0 <= mode <= _MOST_MODE:
        yield invalid(f"{field}.defaultMode", shown(mode), _MODE_TEXT)
    needs_key = not field.endswith(".downwardAPI")
    for number, item in enumerate(source.get("items") or ()):
        where = f"{field}.items[{number}]"
        if needs_key and not item.get("key"):
            yield required(f"{where}.key")
        if path := item.get("path"):
            yield from validate_descending_path(path, f"{where}.path")
        else:
            yield required(f"{where}.path")
        mode = item.get("mode", 0)
        if not 0 <= mode <= _MOST_MODE:
            yield invalid(f"{where}.mode", shown(mode), _MODE_TEXT)
