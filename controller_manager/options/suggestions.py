"""Suggestions for misspelled names."""

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str], prefix: str = "--") -> str:
    """Return ``; did you mean …?`` for the nearest known names, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    if not close:
        return ""
    return "; did you mean " + " or ".join(f"{prefix}{each}" for each in close) + "?"
