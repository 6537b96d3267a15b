"""Versions of components, for the flags that emulate and that stay compatible.

Upstream: component-base/compatibility/registry.go and version.go of 1.36.
"""

import re
from collections.abc import Sequence
from typing import Final

from controller_manager.version import KUBERNETES_VERSION

THIS_MINOR: Final = int(KUBERNETES_VERSION.split(".")[1])
"""The minor version of Kubernetes 1 that this build reproduces."""

_COMPONENT: Final = "kube"
_OLDEST: Final = THIS_MINOR - 3
_VERSION: Final = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.0+)?")


def minor_version(entries: Sequence[str], newest: int = THIS_MINOR) -> int:
    """Return the minor version that the entries of a flag name, `newest` for none.

    An entry is a version of Kubernetes 1, with or without ``kube=`` and ``v`` before
    it. Raises ValueError for another component, for two versions, and for a version
    that is not from the oldest that can be emulated to `newest`.
    """
    minors = [_minor(entry, newest) for entry in entries]
    if len(minors) > 1:
        first, second = (f"{_COMPONENT}=1.{minor}" for minor in minors[:2])
        msg = f"duplicate version flag, {first} and {second}"
        raise ValueError(msg)
    return minors[0] if minors else newest


def _minor(entry: str, newest: int) -> int:
    component, equals, version = (part.strip() for part in entry.partition("="))
    if not equals:
        component, version = _COMPONENT, component
    if component != _COMPONENT:
        msg = f"component not registered: {component}"
        raise ValueError(msg)
    found = _VERSION.fullmatch(version)
    if found is None or found[1] != "1" or not _OLDEST <= int(found[2]) <= newest:
        msg = f"{entry!r} is not a version from 1.{_OLDEST} to 1.{newest}"
        raise ValueError(msg)
    return int(found[2])
