"""Base64 as Go decodes it: with padding, and with the place of an error."""

from typing import Final

_ALPHABET: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
)
_NEW_LINES: Final = b"\r\n"
_PADDING: Final = ord("=")


def base64_problem(text: str) -> str:
    """Return the error in a text in base64, "" if it is valid.

    Upstream: encoding/base64, CorruptInputError of StdEncoding.
    """
    place = _wrong_place(text.encode())
    return "" if place is None else f"illegal base64 data at input byte {place}"


def _wrong_place(data: bytes) -> int | None:
    """Return the index that Go names, `None` for valid base64."""
    count = 0
    for index, each in enumerate(data):
        if each in _ALPHABET:
            count = (count + 1) % 4
        elif each == _PADDING:
            return _wrong_padding(data, index, count)
        elif each not in _NEW_LINES:
            return index
    return len(data) - count if count else None


def _wrong_padding(data: bytes, index: int, count: int) -> int | None:
    """Check the text from the first "=" on, after `count` characters of a group."""
    if count < 2:
        return index
    after = _past_new_lines(data, index + 1)
    if count == 2:
        if after == len(data):
            return len(data)
        if data[after] != _PADDING:
            return after - 1
        after = _past_new_lines(data, after + 1)
    return after if after < len(data) else None


def _past_new_lines(data: bytes, index: int) -> int:
    while index < len(data) and data[index] in _NEW_LINES:
        index += 1
    return index
