"""Functions for JSON patches (library/jsonpatch.go of k8s.io/apiserver)."""

from collections.abc import Callable, Mapping
from typing import Final

from controller_manager.devcluster.cel.values import Value

from .checks import expect


def _escape_key(key: Value) -> str:
    """Return a key as a step of a JSON pointer."""
    return expect(key, str).replace("~", "~0").replace("/", "~1")


GLOBALS: Final[Mapping[str, Callable[..., Value]]] = {
    "jsonpatch.escapeKey": _escape_key
}
