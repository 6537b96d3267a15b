"""The default kubeconfig of the clients in this process."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_READ_ONCE: Final = (
    "kubernetes.config.kube_config",
    "kubernetes_asyncio.config.kube_config",
)
"""Modules that read KUBECONFIG when they are imported, and not again."""

_LOCATION: Final = "KUBE_CONFIG_DEFAULT_LOCATION"


@contextmanager
def default_kubeconfig(path: Path) -> Iterator[None]:
    """Let clients use a kubeconfig by default while entered.

    So no test can change another cluster by mistake.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", os.fspath(path))
        for name in _READ_ONCE:
            if hasattr(module := sys.modules.get(name), _LOCATION):
                patch.setattr(module, _LOCATION, os.fspath(path))
        yield
