"""Imports the cluster for the plugin without pytest's rewriting of assertions."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def plain_imports(config: pytest.Config) -> Iterator[None]:
    """Import modules without pytest's import hook while entered.

    pytest rewrites the assertions of each module of a distribution that has a plugin.
    The assertions of this package are not for tests, and rewriting a thousand modules
    takes more than a second where pytest cannot store the result.
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
