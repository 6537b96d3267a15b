"""The settings of a namespace with all answers of the metrics APIs."""

from typing import Final

import msgspec
from msgspec import Struct

CONFIG_MAP: Final = "devcluster-metrics"
"""The name of the ConfigMap with the settings."""

KEY: Final = "answers"
"""The key of its data, whose value is JSON."""

Usage = dict[str, dict[str, str]]
"""Quantities by container and resource."""


class SettingsError(Exception):
    """The settings of a namespace cannot be read; the message says why."""


class ExternalValue(Struct, frozen=True, forbid_unknown_fields=True):
    """One value of an external metric, and the labels that select it."""

    value: str
    labels: dict[str, str] = {}


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The answers of the metrics APIs in one namespace.

    A quantity such as ``total:900m`` is divided among the pods that have the metric.
    """

    resource: dict[str, Usage | None] = {}
    """The usage of pods by name; ``*`` stands for all others. A pod without an entry,
    or with the usage null, has no metrics."""

    window: str = "30s"
    """The time over which the usage was measured."""

    age: float = 0
    """The seconds since the measurement."""

    pods: dict[str, dict[str, str | None]] = {}
    """Values of custom metrics by metric and pod; ``*`` stands for all other pods."""

    objects: dict[str, dict[str, str]] = {}
    """Values of custom metrics by object, such as ``services/web``, and metric."""

    external: dict[str, list[ExternalValue]] = {}
    """Values of external metrics by metric."""

    fail: int = 0
    """The status of all answers if they should fail."""


def parse_settings(text: str) -> Settings:
    """Return the settings that JSON describes; raises SettingsError."""
    try:
        return msgspec.json.decode(text, type=Settings)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SettingsError(str(error)) from error
