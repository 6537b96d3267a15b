"""pprof's format of a CPU profile: profile.proto of github.com/google/pprof, gzipped.

The types and units are those of Go's CPU profile, so that `go tool pprof` and
continuous profilers show the profile as that of any other component.
"""

import gzip
from collections.abc import Iterable
from typing import Final

from controller_manager.serving.sampling import (
    PERIOD_NANOSECONDS,
    Line,
    Samples,
)

_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2
_MAPPING: Final = 1
"""The id of the one mapping, which says that names and lines are known already."""


def encode(samples: Samples) -> bytes:
    """Return a gzipped profile with the number of samples and their CPU time."""
    return gzip.compress(_Encoder().profile(samples), compresslevel=5)


class _Encoder:
    """Numbers strings, functions and lines, in the order of their first use."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[Line, int] = {}

    def profile(self, samples: Samples) -> bytes:
        """Return the message Profile."""
        cpu = self._value_type("cpu", "nanoseconds")
        parts = [
            _message(1, self._value_type("samples", "count")),
            _message(1, cpu),
            *(
                _message(2, self._sample(stack.lines, stack.thread, count))
                for stack, count in samples.stacks.items()
            ),
            _message(3, self._mapping()),
            # The locations make functions, and both make strings.
            *[_message(4, each) for each in self._encoded_locations()],
            *[_message(5, each) for each in self._encoded_functions()],
            _number(9, samples.started_at),
            _number(10, samples.duration),
            _message(11, cpu),
            _number(12, PERIOD_NANOSECONDS),
        ]
        parts += [_message(6, text.encode()) for text in self._strings]
        return b"".join(parts)

    def _value_type(self, name: str, unit: str) -> bytes:
        return _number(1, self._string(name)) + _number(2, self._string(unit))

    def _sample(self, lines: tuple[Line, ...], thread: str, count: int) -> bytes:
        label = _number(1, self._string("thread")) + _number(2, self._string(thread))
        return (
            _packed(1, [self._location(each) for each in lines])
            + _packed(2, [count, count * PERIOD_NANOSECONDS])
            + _message(3, label)
        )

    def _mapping(self) -> bytes:
        """Return the mapping: functions, file names and line numbers are known."""
        known = (7, 8, 9)
        return _number(1, _MAPPING) + b"".join(_number(field, 1) for field in known)

    def _encoded_locations(self) -> Iterable[bytes]:
        for line, number in self._locations.items():
            position = _number(1, self._function(line)) + _number(2, line.number)
            yield _number(1, number) + _number(2, _MAPPING) + _message(4, position)

    def _encoded_functions(self) -> Iterable[bytes]:
        for (name, file, first_line), number in self._functions.items():
            text = self._string(name)
            yield (
                _number(1, number)
                + _number(2, text)
                + _number(3, text)
                + _number(4, self._string(file))
                + _number(5, first_line)
            )

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _location(self, line: Line) -> int:
        return self._locations.setdefault(line, len(self._locations) + 1)

    def _function(self, line: Line) -> int:
        code = line.code
        known = (line.function, code.co_filename, code.co_firstlineno)
        return self._functions.setdefault(known, len(self._functions) + 1)


def _varint(value: int) -> bytes:
    """Return a number of at most 64 bits, seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _packed(field: int, values: list[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))
