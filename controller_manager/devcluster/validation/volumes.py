"""The rules for the volumes of pods (ValidateVolumes of pkg/apis/core/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown

from .text import table

_MOST_MODE: Final = 0o777


def _mode(mode: int, field: str) -> Iterator[Cause]:
    if not 0 <= mode <= _MOST_MODE:
        why = "must be a number between 0 and 0777 (octal), both inclusive"
        yield statuses.invalid(field, shown(mode), why)


def _no_steps_back(path: str, field: str) -> Iterator[Cause]:
    if ".." in path.split("/"):
        yield statuses.invalid(field, shown(path), "must not contain '..'")


def _absolute(path: str, field: str) -> Iterator[Cause]:
    if not path.startswith("/"):
        yield statuses.invalid(field, shown(path), "must be an absolute path")


def _host_path_type(kind: str, field: str) -> Iterator[Cause]:
    if kind not in _HOST_PATH_TYPES:
        yield statuses.not_supported(field, shown(kind), _HOST_PATH_TYPES)


_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File"),
    *("FileOrCreate", "Socket"),
)
_FILE: Final = table(
    """
    path: required
    path: descending-path
    mode: mode
    """,
    _mode,
)
_KEYS: Final = table(
    """
    defaultMode: mode
    items[]:
      key: required
      include FILE
    """,
    _mode,
    FILE=_FILE,
)
VOLUME: Final = table(
    """
    union besides name:
      "must specify a volume type" "may not specify more than 1 volume type"
      configMap:
        name: required
        include KEYS
      csi:
        driver: required
      downwardAPI:
        defaultMode: mode
        items[]:
          include FILE
      hostPath:
        path: required
        path: no_steps_back
        type: host_path_type
      nfs:
        server, path: required
        path: absolute pointer
      persistentVolumeClaim:
        claimName: required
      projected:
        defaultMode: mode
      secret:
        secretName: required
        include KEYS
    name: required
    name: label
    name: unique
    """,
    _mode,
    _no_steps_back,
    _absolute,
    _host_path_type,
    FILE=_FILE,
    KEYS=_KEYS,
)
