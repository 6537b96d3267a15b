"""YAML in the bodies of requests, as Go reads it.

Upstream: sigs.k8s.io/yaml, which makes JSON of it. Keys become texts, and what looks
like a date stays a text.
"""

from typing import Any, Final

import yaml

MOST_VALUES: Final = 1_000_000
"""How many values a document may have once its aliases are expanded."""

MOST_LEVELS: Final = 200
"""How deep a value may be in others."""

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class YAMLBodyError(ValueError):
    """A body that is not valid YAML; the message is what is wrong with it."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads what JSON has: dates are texts."""

    yaml_implicit_resolvers: Final = {
        letter: [each for each in resolvers if each[0] != _TIMESTAMP]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def decode_yaml(body: bytes) -> Any:
    """Return the value of a document; raises YAMLBodyError."""
    try:
        _check_depth(body)
        found = yaml.load(body, _Loader)  # noqa: S506 - a loader of safe values
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
    """Raise YAMLBodyError for values too deep in others: loading them recurs."""
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
    """Counts values; what an alias repeats is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, value: Any) -> int:
        if not isinstance(value, dict | list):
            return 1
        if id(value) not in self._known:
            # An alias within what it stands for has no end.
            self._known[id(value)] = MOST_VALUES + 1
            inner = value.values() if isinstance(value, dict) else value
            self._known[id(value)] = 1 + sum(self.of(each) for each in inner)
        return self._known[id(value)]


def _with_text_keys(value: Any) -> Any:
    """Return a value of JSON: keys are texts, and nothing is shared."""
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
