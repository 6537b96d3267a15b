"""YAML in the bodies of requests, as Go reads it.

Upstream: sigs.k8s.io/yaml, which converts YAML to JSON. Keys become texts, and dates
stay texts.
"""

from typing import Any, Final

import yaml

MOST_VALUES: Final = 1_000_000
"""The most values in a document after the expansion of its aliases."""

MOST_LEVELS: Final = 200
"""The greatest depth of a value."""

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class YAMLBodyError(ValueError):
    """A body is not valid YAML; the message names the error."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads the types of JSON: dates are texts."""

    yaml_implicit_resolvers: Final = {
        letter: [each for each in resolvers if each[0] != _TIMESTAMP]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def decode_yaml(body: bytes) -> Any:
    """Return the value of a document; raises YAMLBodyError."""
    try:
        _check_depth(body)
        found = yaml.load(body, _Loader)  # noqa: S506 - the loader is safe
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise YAMLBodyError(problem) from None
    except ValueError as error:
        raise YAMLBodyError(str(error)) from None
    if _Sizes().of(found) > MOST_VALUES:
        problem = "document contains excessive aliasing"
        raise YAMLBodyError(problem)
    return _with_text_keys(found)


def _check_depth(body: bytes) -> None:
    """Raise YAMLBodyError for values that are too deep: the loader is recursive."""
    depth = 0
    for event in yaml.parse(body, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_LEVELS:
            problem = "exceeded max depth"
            raise YAMLBodyError(problem)


class _Sizes:
    """Counts values; it reads the value of an alias once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, value: Any) -> int:
        if not isinstance(value, dict | list):
            return 1
        if id(value) not in self._known:
            # An alias inside its own value is infinite.
            self._known[id(value)] = MOST_VALUES + 1
            inner = value.values() if isinstance(value, dict) else value
            self._known[id(value)] = 1 + sum(self.of(each) for each in inner)
        return self._known[id(value)]


def _with_text_keys(value: Any) -> Any:
    """Return a value of JSON: keys are texts, and values are not shared."""
    if isinstance(value, dict):
        return {_text(key): _with_text_keys(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
