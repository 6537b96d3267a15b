"""Imports of many modules at once, without work that only costs time."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_AUTHORITIES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_RICH: Final = "rich"


@contextmanager
def cheap_imports() -> Iterator[None]:
    """Import modules while entered; call this while only one thread runs.

    Imported modules stay in memory: collecting garbage while they are imported took a
    sixth of the start-up time. aiohttp reads the system's certificate authorities twice
    when it is imported, for TLS contexts that this program does not use: another sixth.
    Code that needs the authorities reads them later. structlog imports rich if it is
    installed, for tracebacks in colours that this program does not print: a tenth.
    """
    gc.disable()
    named = {name: os.environ.pop(name, None) for name in _AUTHORITIES}
    os.environ.update(dict.fromkeys(_AUTHORITIES, os.devnull))
    hides_rich = "structlog" not in sys.modules and _RICH not in sys.modules
    if hides_rich:
        # As if it was not installed.
        sys.modules[_RICH] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hides_rich:
            del sys.modules[_RICH]
        for name, path in named.items():
            del os.environ[name]
            if path is not None:
                os.environ[name] = path
        gc.freeze()
        gc.enable()
