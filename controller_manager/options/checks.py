"""Checks of single values, as kube-controller-manager 1.36 has them.

Upstream: cmd/kube-controller-manager/app/options, the Validate functions.
Flags of controllers that this build lacks are checked, too: a value that upstream
refuses is a mistake here as well. Upstream allows a controller without workers; here
each needs at least one, since zero workers can only be a mistake.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from controller_manager.urls import has_user
from controller_manager.yaml_files import UnreadableFile, read_document

from .durations import parse_duration
from .gates import THIS_MINOR

Check = Callable[[Any], str]
"""Returns the problem with a value, empty if it is valid."""

_PREVIOUS: Final = f"1.{THIS_MINOR - 1}"
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def rule(is_valid: Callable[[Any], bool], problem: str) -> Check:
    """Return a check; the text of the problem may show the ``{value}``."""
    return lambda value: "" if is_valid(value) else problem.format(value=value)


def at_least(least: int) -> Check:
    """Return a check for a minimum."""
    return rule(
        lambda value: value >= least, f"must be at least {least}, it is {{value}}"
    )


def between(least: int, most: int) -> Check:
    """Return a check for a range; both limits are valid."""
    problem = f"must be from {least} to {most}, it is {{value}}"
    return rule(lambda value: least <= value <= most, problem)


at_least_a_second: Final = rule(
    lambda value: parse_duration(value) >= 1, "must be at least 1s, it is {value}"
)
not_negative: Final = rule(
    lambda value: parse_duration(value) >= 0, "must not be negative, it is {value}"
)
longer_than_nothing: Final = rule(
    lambda value: parse_duration(value) > 0, "must be longer than 0s, it is {value}"
)
at_most_two: Final = rule(
    lambda value: value.count(",") <= 1, "must not have more than two entries"
)
given: Final = rule(bool, "must be given")
no_user: Final = rule(
    lambda value: not has_user(value),
    "the URL must not hold a user name or a password; "
    "give them in the user section of a kubeconfig",
)
"""Checks a URL; the problem shows no password.

client-go 1.36 sends them as basic authentication.
"""

previous_minor: Final = rule(
    lambda value: value in ("", _PREVIOUS),
    f"must be {_PREVIOUS}, the previous minor version, it is {{value!r}}",
)
external_or_none: Final = rule(
    lambda value: value in ("", "external"),
    'must be empty or "external", not "{value}": no cloud provider is part of '
    "kube-controller-manager any more",
)
range_allocator: Final = rule(
    lambda value: value == "RangeAllocator", 'must be "RangeAllocator", not "{value}"'
)
"""Checks the type of the allocator of pod CIDRs: all others need a cloud."""


def metric_names(value: list[str]) -> str:
    """Check full names of metrics."""
    bad = [name for name in value if not _METRIC.fullmatch(name)]
    return f"{bad[0]!r} is not the full name of a metric" if bad else ""


def metric_labels(value: dict[str, str]) -> str:
    """Check ``metric,label=value``."""
    bad = [key for key in value if not all(key.partition(",")[::2])]
    return f"{bad[0]!r} must be written as metric,label=value" if bad else ""


def readable_document(value: str) -> str:
    """Check that a file of YAML can be read."""
    return _document(value)[1] if value else ""


def metric_labels_file(value: str) -> str:
    """Check a file that maps ``metric,label`` to values with commas between them."""
    if not value:
        return ""
    document, problem = _document(value)
    if problem:
        return problem
    if not isinstance(document, dict):
        return f"{value}: its top level is not a mapping"
    for key, values in document.items():
        if metric_labels({str(key): ""}):
            return f"{value}: {key!r} must be written as metric,label"
        if not isinstance(values, str):
            return (
                f"{value}: {key!r} must be a string of values with commas between them"
            )
    return ""


def _document(path: str) -> tuple[Any, str]:
    """Return the content of a file of YAML, and the problem with it."""
    try:
        return read_document(Path(path), path), ""
    except UnreadableFile as error:
        return None, str(error)
