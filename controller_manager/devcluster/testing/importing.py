"""How the plugin imports the cluster: as any program does."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def plain_imports(config: pytest.Config) -> Iterator[None]:
    """Let imports pass pytest by while entered.

    pytest rewrites the assertions of each module of a distribution that has a plugin.
    Those of this package are not for tests, and to rewrite a thousand modules takes
    more than a second, wherever the result cannot be stored.
    """
    hook = getattr(config.pluginmanager, "rewrite_hook", None)
    if hook not in sys.meta_path:
        yield
        return
    place = sys.meta_path.index(hook)
    sys.meta_path.remove(hook)
    try:
        yield
    finally:
        sys.meta_path.insert(place, hook)
