"""YAML in the bodies of requests and answers, as Go reads and writes it.

Upstream: sigs.k8s.io/yaml, which converts YAML to JSON. Keys become texts, and dates
stay texts. As a program, this module reads or writes the document of its standard
input (`yaml_process`).
"""

import json
import operator
import pickle
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import yaml

MOST_VALUES: Final = 1_000_000
"""The most values in a document after the expansion of its aliases."""

MOST_LEVELS: Final = 200
"""The greatest depth of a value."""

YAML_ERRORS: Final = "yaml: unmarshal errors:"
"""The first line of errors that each have a line."""

_TOO_DEEP: Final = "exceeded max depth"
_KEY: Final = operator.itemgetter(0)
_DONE: Final = b"+"
"""The first byte of the program's output; a pickled result follows."""

_FAILED: Final = b"-"
"""The first byte of the program's output before the text of a YAMLBodyError."""

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class YAMLBodyError(ValueError):
    """A body is not valid YAML; the message names the error."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads the types of JSON: dates are texts."""

    yaml_implicit_resolvers: Final = {
        letter: [each for each in resolvers if each[0] != _TIMESTAMP]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class ReadBody(bytes):
    """A document that the program has read in advance; `answer` is its output."""

    answer: bytes

    def value(self) -> Any:
        """Return the value of the document, a new one each time.

        Raises YAMLBodyError.
        """
        return result_of(self.answer)[0]

    def repeated(self) -> list[str]:
        """Return the errors of keys that the document has twice in one map."""
        found: list[str] = result_of(self.answer)[1]
        return found


def result_of(answer: bytes) -> Any:
    """Return the result in the output of the program; raises YAMLBodyError."""
    if answer[:1] == _FAILED:
        raise YAMLBodyError(answer[1:].decode())
    return pickle.loads(answer[1:])  # noqa: S301 - from our own process


def encode_yaml(json: bytes) -> bytes:
    """Return JSON as YAML."""
    text: str = yaml.dump(
        msgspec.json.decode(json),
        Dumper=_DUMPER,
        default_flow_style=False,
        allow_unicode=True,
        width=10**6,
    )
    return text.encode()


def decode_yaml(body: bytes) -> Any:
    """Return the value of a document; raises YAMLBodyError."""
    if isinstance(body, ReadBody):
        return body.value()
    try:
        _check_depth(body)
        found = yaml.load(body, _Loader)  # noqa: S506 - the loader is safe
    except yaml.YAMLError as error:
        raise YAMLBodyError(_problem(error)) from None
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
            raise YAMLBodyError(_TOO_DEEP)


def _problem(error: yaml.YAMLError) -> str:
    """Return the problem with a document, as upstream words its limit of levels.

    PyYAML has a limit of its own for lists and maps in brackets since 6.0.4.
    """
    problem = getattr(error, "problem", None) or "not valid YAML"
    return _TOO_DEEP if problem.startswith("exceeded maximum nesting") else problem


def repeated_keys(body: bytes) -> list[str]:
    """Return the errors of keys that a document has twice in one map.

    Go names the line of the second value, and the errors in that value first. Raises
    YAMLBodyError.
    """
    if isinstance(body, ReadBody):
        return body.repeated()
    try:
        return list(_Keys().errors_of(yaml.parse(body, _Loader)))
    except yaml.YAMLError as error:
        raise YAMLBodyError(str(error)) from None


class _Keys:
    """Reads the keys of maps from the events of a document."""

    def __init__(self) -> None:
        self._maps: list[set[str] | None] = []  # None: a list
        self._values: list[str] = []  # the error of each value that is open
        self._key: str | None = None

    def errors_of(self, events: Iterable[Any]) -> Iterator[str]:
        """Yield the errors of a document."""
        for event in events:
            if isinstance(event, yaml.CollectionEndEvent):
                self._maps.pop()
                error = self._values.pop()
            elif isinstance(event, yaml.CollectionStartEvent):
                self._values.append(self._error(event))
                is_map = isinstance(event, yaml.MappingStartEvent)
                self._maps.append(set() if is_map else None)
                continue
            elif isinstance(event, yaml.NodeEvent) and not self._is_key(event):
                error = self._error(event)
            else:
                continue
            if error:
                yield error

    def _is_key(self, event: Any) -> bool:
        """Take a key of a map; tell whether the event is one."""
        if self._key is not None or not self._maps or self._maps[-1] is None:
            return False
        self._key = getattr(event, "value", event.anchor)
        return True

    def _error(self, event: Any) -> str:
        """Return the error of a value whose key the map has already, or ""."""
        key, self._key = self._key, None
        keys = self._maps[-1] if self._maps else None
        if key is None or keys is None:
            return ""
        is_repeated = key in keys
        keys.add(key)
        line = event.start_mark.line + 1
        return f"line {line}: key {json.dumps(key)} already set in map" * is_repeated


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
    """Return a value of JSON: keys are sorted texts, and values are not shared."""
    if isinstance(value, dict):
        texts = sorted(((_text(key), each) for key, each in value.items()), key=_KEY)
        return {key: _with_text_keys(each) for key, each in texts}
    if isinstance(value, list):
        return [_with_text_keys(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)  # Go writes 1.0 as 1
    return value


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def _main(work: str) -> None:
    """Read or write the document of the standard input."""
    document = sys.stdin.buffer.read()
    try:
        found: Any = (
            encode_yaml(document)
            if work == "write"
            else (decode_yaml(document), repeated_keys(document))
        )
    except YAMLBodyError as error:
        answer = _FAILED + str(error).encode()
    else:
        answer = _DONE + pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    _main(sys.argv[1])
