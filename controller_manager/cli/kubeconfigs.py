"""Telling that a file given as kubeconfig is something else."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from controller_manager.client.kubeconfig import ConfigError
from controller_manager.yaml_files import UnreadableFile, read_document

_KIND: Final = "Config"
_FIELDS: Final = ("clusters", "contexts", "users", "current-context")


@contextmanager
def other_files_named(paths: str) -> Iterator[None]:
    """Turn a ConfigError into one that names the file that is no kubeconfig.

    `paths` are those that were to be read, separated as in ``$KUBECONFIG``. If
    all of them look like kubeconfigs, the ConfigError stays what it is.
    """
    try:
        yield
    except ConfigError as error:
        for text in paths.split(os.pathsep):
            if text and (why := _why_not(text)):
                msg = f"kubeconfig {text}: not a kubeconfig: {why}"
                raise ConfigError(msg) from error
        raise


def _why_not(text: str) -> str:
    """Return what shows that a file is no kubeconfig; nothing if it may be one."""
    try:
        document = read_document(Path(text).expanduser(), text)
    except (RuntimeError, UnreadableFile):
        return ""  # what was raised already says so
    if not isinstance(document, dict):
        return ""  # likewise
    if document.get("kind") not in (None, "", _KIND):
        return f"its kind is {document['kind']!r}, not {_KIND!r}"
    if not any(field in document for field in _FIELDS):
        return f"it has none of the fields {', '.join(_FIELDS)}"
    return ""
