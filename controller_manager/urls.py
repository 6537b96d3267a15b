"""URLs that may hold a password: no log, error message or metric may show it."""

import re
from typing import Final
from urllib.parse import urlsplit

_USER: Final = re.compile(r"^((?:[^/?#@:]*:)?//|).*@", re.DOTALL)
"""All between the scheme and the last "@": a password may hold characters that should
have been escaped."""


def has_user(url: str) -> bool:
    """Tell whether a URL, or ``host:port``, holds a user name or a password.

    A URL whose host and port cannot be read holds one if it has an "@" anywhere: its
    password may have a character that ends the host.
    """
    text = url if "//" in url else f"//{url}"
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError if it is no number
    except ValueError:
        return "@" in url
    return "@" in parts.netloc


def without_user(url: str) -> str:
    """Return a URL without user name and password, to be logged or shown."""
    return _USER.sub(r"\1", url) if has_user(url) else url
